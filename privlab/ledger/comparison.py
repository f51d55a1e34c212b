"""The grammar of a claim's comparison, and its atoms. Nothing of a comparison is ever evaluated as code.

`psnr[a] > psnr[b] + 1 and abs(ssim[a] - ssim[b]) < 0.1` joins atoms, each of which says that one number is above another, at least as
large, or equal. An extreme stands alone on its side, and is taken apart: min(a, b) > c and c > max(a, b) are `and`, max(a, b) > c and
c > min(a, b) are `or`; abs(x) < c is x < c and -x < c, abs(x) > c is x > c or -x > c.
"""

from __future__ import annotations

import ast
import collections
import functools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privlab.ledger.figures import IN_LOGS

__all__ = ["NAME", "Atom", "Joined", "Tree", "atoms", "each", "names", "number", "parse", "ranges", "value"]

ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: np.divide,
}  # fmt: skip
FLIPPED: Final[dict[type, str]] = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "=="}
NAME = re.compile(r"[a-z][a-z0-9_]*\[[a-z][a-z0-9_]*(, [a-z][a-z0-9_]*)*\]")


@dataclass(frozen=True)
class Atom:
    """left > right, left >= right or left == right.  op: which.  Both are sums, differences, products, quotients of names and numbers."""

    left: ast.expr
    op: str
    right: ast.expr

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names of what is measured in it, such as psnr[a, b]."""
        nodes = (node for side in (self.left, self.right) for node in ast.walk(side))
        return tuple(dict.fromkeys(ast.unparse(node) for node in nodes if isinstance(node, ast.Subscript)))

    @functools.cached_property
    def logs(self) -> bool:
        """Whether it is about errors alone, which are compared by their logarithms."""
        return bool(self.names) and all(name.partition("[")[0] in IN_LOGS for name in self.names)

    def holds(self, values: Mapping[str, Any]) -> np.ndarray:
        """Whether it does, value by value; a comparison with NaN does not hold."""
        with np.errstate(all="ignore"):
            a, b = number(self.left, values), number(self.right, values)
            return np.asarray(a == b if self.op == "==" else a >= b if self.op == ">=" else a > b)


@dataclass(frozen=True)
class Joined:
    """Comparisons of which all have to hold (every), or one."""

    parts: tuple[Tree, ...]
    every: bool


Tree = Atom | Joined


@functools.cache
def parse(text: str) -> Tree:
    """A comparison taken apart.  Raises ValueError that names the piece outside of the grammar."""
    try:
        return _tree(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"{text[:200]!r} does not parse ({type(error).__name__}); write psnr[a] > psnr[b] + 10"
        ) from None


def _tree(node: ast.expr) -> Tree:
    match node:
        case ast.BoolOp(op=op, values=values):
            return Joined(tuple(map(_tree, values)), isinstance(op, ast.And))
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in FLIPPED for op in ops):
            chain = tuple(_atom(a, op, b) for a, op, b in zip([left, *rest], ops, rest, strict=False))
            return chain[0] if len(chain) == 1 else Joined(chain, every=True)
    raise ValueError(f"{ast.unparse(node)!r} is outside of the grammar; expected a comparison, and, or")


def _atom(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Tree:
    if isinstance(op, ast.Lt | ast.LtE):
        left, right = right, left
    return _apart(left, FLIPPED[type(op)], right)


def _apart(left: ast.expr, op: str, right: ast.expr) -> Tree:
    for side, other, above in ((left, right, True), (right, left, False)):
        match side:
            case ast.Call(func=ast.Name(id="abs"), args=[x], keywords=[]):
                both = (x, ast.UnaryOp(ast.USub(), x))
                pairs, every = [(each, other) if above else (other, each) for each in both], not above
            case ast.Call(func=ast.Name(id=("min" | "max") as extreme), args=[_, _, *_] as parts, keywords=[]):
                pairs, every = [(p, other) if above else (other, p) for p in parts], (extreme == "min") == above
            case _:
                continue
        return Joined(tuple(_apart(a, op, b) for a, b in pairs), every)
    made = Atom(left, op, right)
    made.holds(collections.defaultdict(lambda: 1.0))  # whatever is outside of the grammar is found here
    return made


def number(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """One side of an atom.  values: name -> a number, or one a repeat.  Raises KeyError for a name that is not there."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e308:
            return float(value)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return -number(x, values)
        case ast.BinOp(left=a, op=op, right=b) if type(op) in ARITHMETIC:
            return ARITHMETIC[type(op)](number(a, values), number(b, values))
        case ast.Subscript() if NAME.fullmatch(name := ast.unparse(node)):
            return values[name]
    expected = "a number, + - * /, metric[key, ...], and min, max, abs alone on their side"
    raise ValueError(f"{ast.unparse(node)!r} is outside of the grammar; expected {expected}")


def atoms(tree: Tree) -> Iterator[Atom]:
    """All of them, in their order."""
    if isinstance(tree, Atom):
        yield tree
    else:
        for part in tree.parts:
            yield from atoms(part)


def names(*texts: str) -> list[str]:
    """What has to be measured for these comparisons, in order of appearance."""
    return list(dict.fromkeys(found[0] for text in texts for found in NAME.finditer(text)))


def each(tree: Tree, values: Mapping[str, Any]) -> np.ndarray:
    """Whether a comparison holds, repeat by repeat."""
    if isinstance(tree, Atom):
        return tree.holds(values)
    join = np.logical_and if tree.every else np.logical_or
    return functools.reduce(join, (each(part, values) for part in tree.parts))


def ranges(tree: Tree) -> list[tuple[str, float, float]]:
    """What the atoms of a comparison are about, for the eye: a number such as psnr[a] - psnr[b], and between which two it is wanted."""
    found: dict[str, tuple[float, float]] = {}
    for atom in atoms(tree):
        (left, more), (right, added) = _peeled(atom.left), _peeled(atom.right)
        low, high = added - more, math.inf
        if atom.op == "==" or not atom.names:
            continue
        about: ast.expr | None
        if left and right:
            about = ast.BinOp(left, ast.Sub(), right)
        elif left:
            about = left
        else:
            about, low, high = right, -math.inf, -low
        if isinstance(about, ast.UnaryOp):  # of -x it tells x
            about, low, high = about.operand, -high, -low
        text = ast.unparse(about) if about else ""
        lower, upper = found.get(text, (low, high))
        found[text] = max(low, lower), min(high, upper)
    return [(text, *ends) for text, ends in found.items()]


def value(text: str, values: Mapping[str, Any]) -> Any:
    """The number that such a text tells of."""
    return number(ast.parse(text, mode="eval").body, values)


def _peeled(side: ast.expr) -> tuple[ast.expr | None, float]:
    """A side without the number at its end, and that number: psnr[a] - 3 is psnr[a] and -3."""
    if not any(isinstance(node, ast.Subscript) for node in ast.walk(side)):
        return None, float(number(side, {}))
    match side:
        case ast.UnaryOp(operand=x):
            rest, value = _peeled(x)
            return rest and ast.UnaryOp(ast.USub(), rest), -value
        case ast.BinOp(left=left, op=(ast.Add() | ast.Sub()) as op, right=right) if _peeled(right)[0] is None:
            return left, _peeled(right)[1] * (1 if isinstance(op, ast.Add) else -1)
    return side, 0.0
