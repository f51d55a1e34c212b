"""The grammar of a claim's comparison. Nothing of it is ever run as code.

`psnr[a] > psnr[b] + 1 and abs(ssim[a] - ssim[b]) < 0.1` joins atoms, each of which says that one number is above another, at least as
large, or equal. An extreme stands alone on its side, and is taken apart: min(a, b) > c and c > max(a, b) are `and`, max(a, b) > c and
c > min(a, b) are `or`; abs(x) is max(x, -x).
"""

from __future__ import annotations

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


def names(*texts: str) -> list[str]:
    """What has to be measured for these comparisons, in order of appearance."""
    return list(dict.fromkeys(found[0] for text in texts for found in NAME.finditer(text)))


@cache
def parse(text: str) -> ast.expr:
    """A comparison taken apart: atoms (ast.Compare, two sides, the left one larger) joined by ast.BoolOp; a side alone as it is."""
    return _apart(ast.parse(text, mode="eval").body)


def _apart(node: ast.expr) -> ast.expr:
    match node:
        case ast.BoolOp(op, parts):
            return ast.BoolOp(op, [*map(_apart, parts)])
        case ast.Compare(left, ops, rest):
            chain = [_compared(a, op, b) for a, op, b in zip([left, *rest], ops, rest, strict=False)]
            return chain[0] if len(chain) == 1 else ast.BoolOp(ast.And(), chain)
    return node


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> ast.expr:
    match left, op, right:
        case _, ast.Lt() | ast.LtE(), _:
            return _compared(right, ast.Gt() if isinstance(op, ast.Lt) else ast.GtE(), left)
        case ast.Call(ast.Name("min" | "max" as extreme), parts), _, _:
            joint = ast.And() if extreme == "min" else ast.Or()
            return ast.BoolOp(joint, [_compared(part, op, right) for part in parts])
        case _, _, ast.Call(ast.Name("min" | "max" as extreme), parts):
            joint = ast.And() if extreme == "max" else ast.Or()
            return ast.BoolOp(joint, [_compared(left, op, part) for part in parts])
        case ast.Call(ast.Name("abs"), [x]), _, _:  # -x > c is 0 > x + c
            below = ast.Compare(ast.Constant(0.0), [op], [ast.BinOp(x, ast.Add(), right)])
            return ast.BoolOp(ast.Or(), [_compared(x, op, right), below])
        case _, _, ast.Call(ast.Name("abs"), [x]):
            above = ast.Compare(ast.BinOp(x, ast.Add(), left), [op], [ast.Constant(0.0)])
            return ast.BoolOp(ast.And(), [_compared(left, op, x), above])
    return ast.Compare(left, [op], [right])


def atoms(tree: ast.expr) -> list[ast.Compare]:
    """Those of a parsed comparison, in their order."""
    parts = tree.values if isinstance(tree, ast.BoolOp) else ()
    return [tree] if isinstance(tree, ast.Compare) else [atom for part in parts for atom in atoms(part)]


@np.errstate(all="ignore")
def value(of: str | ast.expr, values: Mapping[str, Any]) -> Any:
    """The number that a text such as psnr[a] - psnr[b] tells of, or whether a comparison holds; one with NaN does not.

    values: name -> a number, or one a repeat.  Raises KeyError for a name that is not there, ValueError for what is outside of the grammar.
    """
    match node := parse(of) if isinstance(of, str) else of:
        case ast.Constant(int() | float() as number):
            return float(number)
        case ast.Subscript():
            return values[ast.unparse(node)]
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]) if type(op) in OPERATIONS:
            parts = [left, right]
        case ast.BoolOp(op, parts):
            pass
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is outside of the grammar; write numbers, + - * / and metric[key, ...]")
    return reduce(OPERATIONS[type(op)], [value(part, values) for part in parts])


def ranges(compare: str) -> list[tuple[str, float, float]]:
    """What a comparison is about, for the eye: numbers such as psnr[a] - psnr[b], and between which two each is wanted."""
    found: dict[str, tuple[float, float]] = {}
    for atom in atoms(parse(compare)):
        (left, more), (right, less) = map(_peeled, (atom.left, *atom.comparators))
        about = ast.unparse(ast.BinOp(left, ast.Sub(), right) if left and right else left or right)
        low, high = found.get(about, (-math.inf, math.inf))
        found[about] = (max(low, less - more), high) if left else (low, min(high, more - less))
    return [(about, *ends) for about, ends in found.items()]


def _peeled(side: ast.expr) -> tuple[Any, float]:
    """A side without the numbers at its end, and what they add: psnr[a] - 3 is psnr[a] and -3."""
    match side:
        case _ if not names(ast.unparse(side)):
            return None, value(side, {})
        case ast.BinOp(left, ast.Add() | ast.Sub() as op, right) if not names(ast.unparse(right)):
            rest, end = _peeled(left)
            return rest, OPERATIONS[type(op)](end, value(right, {}))
    return side, 0.0
