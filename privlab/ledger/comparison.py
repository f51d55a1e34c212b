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
from functools import cache
from typing import Any, NamedTuple

import numpy as np

NAME = re.compile(r"[a-z][a-z0-9_]*\[[a-z][a-z0-9_]*(, [a-z][a-z0-9_]*)*\]")  # of what is measured: psnr[cifar10, swin]
OPERATIONS: dict[type, np.ufunc] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide,
    ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
}  # fmt: skip
TURNED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE}


class Atom(NamedTuple):
    """left > right, left >= right or left == right, sides as `value` reads them."""

    left: str
    op: np.ufunc
    right: str


class Joined(NamedTuple):
    """Comparisons of which all have to hold (every), or one."""

    parts: list[Atom | Joined]
    every: bool


@cache
def parse(text: str) -> Atom | Joined:
    """A comparison taken apart.  Raises ValueError for a text that compares nothing."""
    return _joined(_expression(text))


@cache
def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _joined(node: ast.expr) -> Atom | Joined:
    match node:
        case ast.BoolOp(op=op, values=values):
            return Joined([*map(_joined, values)], isinstance(op, ast.And))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            chain = [_apart(a, type(op), b) for a, op, b in zip([left, *rest], ops, rest, strict=False)]
            return chain[0] if len(chain) == 1 else Joined(chain, every=True)
    raise ValueError(f"{ast.unparse(node)!r} is no comparison; join comparisons by and, or")


def _apart(left: ast.expr, op: type, right: ast.expr) -> Atom | Joined:
    if op in TURNED:
        return _apart(right, TURNED[op], left)
    for side in (left, right):
        if isinstance(side, ast.Call) and (extreme := ast.unparse(side.func)) in ("min", "max", "abs"):
            parts = side.args if extreme != "abs" else [side.args[0], ast.UnaryOp(ast.USub(), side.args[0])]
            pairs = [(part, right) if side is left else (left, part) for part in parts]
            return Joined([_apart(a, op, b) for a, b in pairs], (extreme == "min") == (side is left))
    return Atom(ast.unparse(left), OPERATIONS[op], ast.unparse(right))


def value(side: str | ast.expr, values: Mapping[str, Any]) -> Any:
    """The number that a side of an atom tells of, such as psnr[a] - psnr[b].

    values: name -> a number, or one a repeat.  Raises KeyError for a name that is not there, ValueError for what is outside of the grammar.
    """
    match node := _expression(side) if isinstance(side, str) else side:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -value(x, values)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](value(a, values), value(b, values))
        case ast.Subscript():
            return values[ast.unparse(node)]
    raise ValueError(f"{ast.unparse(node)!r} is outside of the grammar; write numbers, + - * / and metric[key, ...]")


def names(*texts: str) -> list[str]:
    """What has to be measured for these comparisons, in order of appearance."""
    return list(dict.fromkeys(found[0] for text in texts for found in NAME.finditer(text)))


def atoms(tree: Atom | Joined) -> list[Atom]:
    """All of them, in their order."""
    return [tree] if isinstance(tree, Atom) else [atom for part in tree.parts for atom in atoms(part)]


def each(tree: Atom | Joined, values: Mapping[str, Any]) -> np.ndarray:
    """Whether a comparison holds, repeat by repeat; one with NaN does not."""
    if isinstance(tree, Joined):
        parts = np.broadcast_arrays(*(each(part, values) for part in tree.parts))
        return np.all(parts, axis=0) if tree.every else np.any(parts, axis=0)
    with np.errstate(all="ignore"):
        return np.asarray(tree.op(value(tree.left, values), value(tree.right, values)))


def ranges(compare: str) -> list[tuple[str, float, float]]:
    """What a comparison is about, for the eye: numbers such as psnr[a] - psnr[b], and between which two each is wanted."""
    found: dict[str, tuple[float, float]] = {}
    for atom in atoms(parse(compare)):
        (left, more), (right, added) = map(_peeled, map(_expression, (atom.left, atom.right)))
        low, high = added - more, math.inf
        about = ast.BinOp(left, ast.Sub(), right) if left and right else left or right
        if not left:
            low, high = -high, -low
        if isinstance(about, ast.UnaryOp):  # of -x it tells x
            about, low, high = about.operand, -high, -low
        text = ast.unparse(about)
        lower, upper = found.get(text, (low, high))
        if atom.op is not np.equal:
            found[text] = max(low, lower), min(high, upper)
    return [(text, *ends) for text, ends in found.items()]


def _peeled(side: ast.expr) -> tuple[Any, float]:
    """A side without the number at its end, and that number: psnr[a] - 3 is psnr[a] and -3."""
    match side:
        case _ if not names(ast.unparse(side)):
            return None, float(value(side, {}))
        case ast.UnaryOp(operand=x):
            rest, end = _peeled(x)
            return ast.UnaryOp(ast.USub(), rest), -end
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right) if not names(ast.unparse(right)):
            return left, float(value(right, {})) * (1 if isinstance(op, ast.Add) else -1)
    return side, 0.0
