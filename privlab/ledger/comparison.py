"""The grammar of a claim's comparison. Nothing of it is ever run as code.

`psnr[a] > psnr[b] + 1 and abs(ssim[a] - ssim[b]) < 0.1` joins atoms, each of which says that one number is above another, at least as
large, or equal. An extreme stands alone on its side, and is taken apart: min(a, b) > c and c > max(a, b) are `and`, max(a, b) > c and
c > min(a, b) are `or`; c > abs(x) is c > x and x > 0 - c.
"""

import ast
import math
import re
from collections.abc import Mapping
from functools import cache, reduce
from typing import Any

import numpy as np

NAME = re.compile(r"[a-z][a-z0-9_]*\[[a-z][a-z0-9_]*(, [a-z][a-z0-9_]*)*\]")  # of what is measured: psnr[cifar10, swin]
OPERATIONS: dict[type, np.ufunc] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.And: np.logical_and, ast.Or: np.logical_or,
    ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
}  # fmt: skip


def names(*of: str | ast.expr) -> list[str]:
    """What has to be measured for these comparisons, or sides of them, in order of appearance."""
    texts = (one if isinstance(one, str) else ast.unparse(one) for one in of)
    return list(dict.fromkeys(found[0] for text in texts for found in NAME.finditer(text)))


@cache
def parse(text: str) -> ast.expr:
    """A comparison taken apart: atoms (ast.Compare, two sides, the left one larger) joined by ast.BoolOp; a side alone as it is."""
    return _apart(ast.parse(text, mode="eval").body)


def _apart(node: ast.expr) -> ast.expr:
    def joined(joint: ast.boolop, *triples: Any) -> ast.expr:
        return ast.BoolOp(joint, [_apart(ast.Compare(a, [op], [b])) for a, op, b in triples])

    match node:
        case ast.BoolOp(op, parts):
            return ast.BoolOp(op, [*map(_apart, parts)])
        case ast.Compare(left, [_, _, *_] as ops, rest):
            return joined(ast.And(), *zip([left, *rest], ops, rest, strict=False))
        case ast.Compare(left, [ast.Lt() | ast.LtE() as op], [right]):
            return _apart(ast.Compare(right, [ast.Gt() if isinstance(op, ast.Lt) else ast.GtE()], [left]))
        case ast.Compare(ast.Call(ast.Name("min" | "max" as extreme), parts), [op], [right]):
            return joined(ast.And() if extreme == "min" else ast.Or(), *((part, op, right) for part in parts))
        case ast.Compare(left, [op], [ast.Call(ast.Name("min" | "max" as extreme), parts)]):
            return joined(ast.And() if extreme == "max" else ast.Or(), *((left, op, part) for part in parts))
        case ast.Compare(left, [op], [ast.Call(ast.Name("abs"), [x])]):
            return joined(ast.And(), (left, op, x), (x, op, ast.BinOp(ast.Constant(0.0), ast.Sub(), left)))
    return node


def atoms(tree: ast.expr) -> list[ast.Compare]:
    """Those of a parsed comparison, in their order."""
    parts = tree.values if isinstance(tree, ast.BoolOp) else []
    return [tree] if isinstance(tree, ast.Compare) else [atom for part in parts for atom in atoms(part)]


@np.errstate(all="ignore")
def value(of: str | ast.expr, values: Mapping[str, Any]) -> Any:
    """The number that a text such as psnr[a] - psnr[b] tells of, or whether a comparison holds.  values: by name, one or one a repeat."""
    match node := parse(of) if isinstance(of, str) else of:
        case ast.Constant(int() | float() as number):
            return float(number)
        case ast.Subscript():
            return values[ast.unparse(node)]
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](value(left, values), value(right, values))
        case ast.BoolOp(op, parts):
            return reduce(OPERATIONS[type(op)], [value(part, values) for part in parts])
    raise ValueError(f"{ast.unparse(node)!r} is outside of the grammar; write numbers, + - * / and metric[key, ...]")


def bar(atom: ast.Compare) -> tuple[str, float, float]:
    """A number in words, and between which two an atom wants it: psnr[a] above 20; or psnr[a] - psnr[b] above 0."""
    left, right = atom.left, atom.comparators[0]
    if not names(right):
        return ast.unparse(left), value(right, {}), math.inf
    if not names(left):
        return ast.unparse(right), -math.inf, value(left, {})
    return ast.unparse(ast.BinOp(left, ast.Sub(), right)), 0.0, math.inf
