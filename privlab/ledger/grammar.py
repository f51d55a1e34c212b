"""The grammar of a claim's comparison and of its needs; nothing of them is ever evaluated as code."""

from __future__ import annotations

import ast
import functools
import keyword
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["Comparison", "number", "parse"]

Values = Mapping[str, Any]  # name -> number or array of numbers
Compiled = Callable[[Values], Any]

_COMPARE: Final[dict[type, Callable]] = {
    ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater, ast.GtE: np.greater_equal, ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}  # fmt: skip
_ARITHMETIC: Final[dict[type, Callable]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: np.divide,
}  # fmt: skip
_EXTREMES: Final[dict[str, Callable]] = {"min": np.minimum, "max": np.maximum}
_WORD = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Comparison:
    """A parsed comparison.  names: what it needs, in order of appearance.  Call it with a number or an array for each name."""

    text: str
    names: tuple[str, ...]
    tree: ast.expr
    compiled: Compiled

    def __call__(self, values: Values) -> Any:
        with np.errstate(all="ignore"):  # a division by zero gives inf or NaN, and comparisons with NaN do not hold
            return self.compiled(values)


def parse(text: str, claim: str = "given here") -> Comparison:
    """Read a comparison such as `psnr[cifar10, swin_t] > psnr[cifar10, resnet_50] + 10`; nothing of it is ever evaluated as code.

    It knows comparisons (chained too), and, or, not, + - * /, unary minus, numbers, min, max, abs, and metric[key, ...].
    claim: its id, for the message.  Raises ValueError naming the claim and the piece that is anything else.
    """
    names: dict[str, None] = {}
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(
            f"claim {claim}: compare={text[:200]!r} does not parse ({type(error).__name__}); write psnr[a] > psnr[b] + 10, or == for equal"
        ) from None
    try:
        compiled = _truth(tree.body, claim, names)
    except RecursionError:
        raise ValueError(f"claim {claim}: compare={text[:200]!r} is nested too deeply") from None
    return Comparison(text, tuple(names), tree.body, compiled)


def number(node: ast.expr) -> Compiled:
    """One side of a parsed comparison, as a function of its names' values."""
    return _number(node, "given here", {})


def _truth(node: ast.expr, claim: str, names: dict[str, None]) -> Compiled:
    match node:
        case ast.BoolOp(op=op, values=values):
            parts = [_truth(v, claim, names) for v in values]
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return lambda env: functools.reduce(join, [part(env) for part in parts])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _truth(operand, claim, names)
            return lambda env: np.logical_not(inner(env))
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
            terms = [_number(n, claim, names) for n in (left, *rest)]
            tests = [_COMPARE[type(op)] for op in ops]

            def chain(env: Values) -> Any:
                values = [term(env) for term in terms]
                return functools.reduce(np.logical_and, map(lambda test, a, b: test(a, b), tests, values, values[1:]))

            return chain
    raise _outside(node, claim, "a comparison, and, or, not")


def _number(node: ast.expr, claim: str, names: dict[str, None]) -> Compiled:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e308:
            return lambda env: float(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _number(operand, claim, names)
            return lambda env: -inner(env)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            a, b, apply = _number(left, claim, names), _number(right, claim, names), _ARITHMETIC[type(op)]
            return lambda env: apply(a(env), b(env))
        case ast.Call(func=ast.Name(id=("min" | "max") as extreme), args=[_, _, *_] as args, keywords=[]):
            parts = [_number(arg, claim, names) for arg in args]
            return lambda env: functools.reduce(_EXTREMES[extreme], [part(env) for part in parts])
        case ast.Call(func=ast.Name(id="abs"), args=[arg], keywords=[]):
            inner = _number(arg, claim, names)
            return lambda env: abs(inner(env))
        case ast.Subscript(value=ast.Name(id=metric), slice=ast.Tuple(elts=[_, *_] as keys)):
            return _name(node, claim, names, metric, keys)
        case ast.Subscript(value=ast.Name(id=metric), slice=ast.Name() as key):
            return _name(node, claim, names, metric, [key])
    raise _outside(node, claim, "a number, + - * /, min, max, abs, metric[key, ...]")


def _name(node: ast.expr, claim: str, names: dict[str, None], metric: str, keys: list[ast.expr]) -> Compiled:
    words = [metric, *(k.id if isinstance(k, ast.Name) else "" for k in keys)]
    if not all(_WORD.fullmatch(w) and not keyword.iskeyword(w) for w in words):
        raise _outside(node, claim, "snake-case names in metric[key, ...]")
    name = f"{metric}[{', '.join(words[1:])}]"
    names[name] = None
    return lambda env: env[name]


def _outside(node: ast.expr, claim: str, expected: str) -> ValueError:
    return ValueError(f"claim {claim}: {ast.unparse(node)!r} is outside of the grammar; expected {expected}")
