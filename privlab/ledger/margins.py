"""By how much a comparison holds, repeat by repeat: what each of its parts measures, and where the claim wants it.

`psnr[a] > psnr[b] and ssim[a] - ssim[b] < 0.1` has two parts: psnr[a] - psnr[b], wanted above 0, and ssim[a] - ssim[b], wanted below 0.1.
They are taken apart as `rule` does, which decides by them; here they are for the eye.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from privlab.ledger.figures import IN_LOGS
from privlab.ledger.grammar import Comparison
from privlab.ledger.rule import Sample, Value, names_in, number, taken_apart

__all__ = ["Margin", "margins"]


@dataclass(frozen=True)
class Margin:
    """A number that one part of a comparison is about.

    text: such as psnr[a] - psnr[b], in the grammar of claims.  names: those in it, in order of appearance.  low, high: the claim wants the
    number between them; infinite on a side without an end.  factor: whether it is the quotient of two errors, which is averaged in logs.
    value: the number, as a function of the values by name.
    """

    text: str
    names: tuple[str, ...]
    low: float
    high: float
    factor: bool
    value: Value

    def repeats(self, samples: Mapping[str, Sample]) -> np.ndarray:
        """The number in every repeat; empty where its names are not all measured together, in the same repeats of one experiment."""
        used = [samples[name] for name in self.names if name in samples]
        together = {(sample.experiment, len(sample.values)) for sample in used}
        if len(used) < len(self.names) or len(together) > 1:
            return np.array([])
        return np.asarray(self.value({name: samples[name].values for name in self.names}))


def margins(compare: Comparison) -> list[Margin]:
    """What the parts of a comparison are about, in their order; none for `==` and `!=`, which are about every repeat.

    Two parts about one number are one: 0 < a - b < 5 wants a - b between 0 and 5.
    """
    found: dict[str, Margin] = {}
    for margin in _margins(compare.tree):
        other = found.get(margin.text, margin)
        found[margin.text] = replace(margin, low=max(margin.low, other.low), high=min(margin.high, other.high))
    return list(found.values())


def _margins(node: ast.expr) -> list[Margin]:
    match node:
        case ast.BoolOp(values=parts):
            return [margin for part in parts for margin in _margins(part)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [replace(margin, low=-math.inf, high=math.inf) for margin in _margins(operand)]
        case ast.Compare(left=left, ops=ops, comparators=rest):
            sides = zip([left, *rest], ops, rest, strict=False)
            return [margin for a, op, b in sides for margin in _compared(a, op, b)]
    raise ValueError(f"{ast.unparse(node)!r} is no comparison")


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> list[Margin]:
    if isinstance(op, ast.Eq | ast.NotEq):
        return []
    match left, op:
        case ast.Call(func=ast.Name(id="abs"), args=[x]), ast.Lt() | ast.LtE() if not names_in(right):
            most, (x, added) = float(number(right)({})), _parted(x)
            return [_margin(x, -most - added, most - added)]
    return _above(left, right) if isinstance(op, ast.Gt | ast.GtE) else _above(right, left)


def _above(left: ast.expr, right: ast.expr) -> list[Margin]:
    if apart := taken_apart(left, right):
        return [margin for a, b in apart[0] for margin in _above(a, b)]
    if not names_in(right):
        return [_margin(left, low=float(number(right)({})))]
    if not names_in(left):
        return [_margin(right, high=float(number(left)({})))]
    (left, more), (right, added) = _parted(left), _parted(right)
    both = ast.BinOp(left, ast.Sub(), right)
    if (
        added == more == 0
        and all(name.partition("[")[0] in IN_LOGS for name in names_in(both))
        and not _sums(left, right)
    ):
        return [_margin(ast.BinOp(left, ast.Div(), right), low=1.0, factor=True)]
    return [_margin(both, low=added - more)]


def _parted(x: ast.expr) -> tuple[ast.expr, float]:
    """A sum without the number at its end, and that number: psnr[a] - 3 is psnr[a] and -3."""
    match x:
        case ast.BinOp(left=left, op=(ast.Add() | ast.Sub()) as op, right=right) if not names_in(right):
            return left, float(number(right)({})) * (1 if isinstance(op, ast.Add) else -1)
    return x, 0.0


def _margin(x: ast.expr, low: float = -math.inf, high: float = math.inf, factor: bool = False) -> Margin:
    return Margin(ast.unparse(x), tuple(names_in(x)), low, high, factor, number(x))


def _sums(*sides: ast.expr) -> bool:
    return any(isinstance(node, ast.Add | ast.Sub | ast.USub) for side in sides for node in ast.walk(side))
