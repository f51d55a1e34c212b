"""What an answer says, in whatever form it is given: words in capitals, the keys of a dict, "60%", an array for a tensor."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Set
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

OPEN = "Nothing is written yet; replace the dots."


def collection(answer: object) -> list | None:
    """The items of a set, list, tuple, array, or of a dict's keys; None for what is none of these."""
    if isinstance(answer, np.ndarray | Tensor):
        answer = np.atleast_1d(np.asarray(answer.tolist()))
        return list(answer.tolist())
    return list(answer) if isinstance(answer, Set | list | tuple) else None


def words(answer: object) -> set[str] | None:
    """A collection of words, without regard to capitals, spaces around them, and what joins them: `Batch_size` is `batch size`."""
    items = collection(answer)
    return None if items is None else {word(item) for item in items}


def word(answer: object) -> str:
    """One such word."""
    return " ".join(str(answer).replace("_", " ").replace("-", " ").casefold().split())


def number(answer: object) -> float | None:
    """A number, also as an array or tensor of one and as text ("0.6", "60%", ".6"); None for what is none."""
    if isinstance(answer, str):
        text = answer.strip()
        with contextlib.suppress(ValueError):
            return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        return None
    if isinstance(answer, np.ndarray | np.generic | Tensor) and math.prod(answer.shape) == 1:
        answer = answer.item()
    return float(answer) if isinstance(answer, Real) and not isinstance(answer, bool) else None


def a_function(check: Callable[[Callable[..., Any]], Iterator[str]]) -> Callable[[object], Iterator[str]]:
    """The check of an answer that has to be a function."""

    @functools.wraps(check)
    def checked(answer: object) -> Iterator[str]:
        if callable(answer):
            yield from check(answer)
        else:
            yield f"Give a function; this is a {type(answer).__name__}."

    return checked


def letters(answer: object, right: Mapping[str, str], wrong: Mapping[str, str], there: str) -> Iterator[str]:
    """Why letters are not the right ones, given as a collection or as a text such as "abc".

    right: letter -> what is said where it is missing.  wrong: letter -> what is said where it is picked.  there: what letters there are.
    """
    said = words(answer) if not isinstance(answer, str) else {word(letter) for letter in answer if letter.isalpha()}
    if said is None:
        yield f'Give a set of letters, such as {{"a", "b"}}; this is a {type(answer).__name__}.'
        return
    if strangers := sorted(said - right.keys() - wrong.keys()):
        yield f"There is no {strangers[0]!r}; {there}."
    yield from (why for letter, why in wrong.items() if letter in said)
    yield from (why for letter, why in right.items() if letter not in said)


def sentences(answer: object, right: Mapping[str, str], wrong: Mapping[str, str], kind: str) -> Iterator[str]:
    """The same for sentences A, B and so on, given as a collection, or as a text of one letter.  kind: what they are called."""
    items = [answer] if isinstance(answer, str) and len(answer.strip()) == 1 else collection(answer)
    if items is None:
        yield f"Give a set of letters, such as {{'A', 'B'}}; this is a {type(answer).__name__}."
        return
    said, there = {word(item) for item in items}, right.keys() | wrong.keys()
    if strangers := sorted(said - there):
        yield f"'{strangers[0].upper()}' is none of the {kind}; they are A to {max(there).upper()}."
    yield from (f"{why}." for letter, why in wrong.items() if letter in said)
    yield from (f"{why}." for letter, why in right.items() if letter not in said)


def tensor(answer: object) -> object:
    """An array of numbers as a tensor; anything else as it is."""
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "biuf":
        return torch.as_tensor(answer.copy())
    return answer


def touched(names: tuple[str, ...], arguments: list, before: tuple) -> Iterator[str]:
    """Which of the arguments, tensors by these names, an answer has changed in place; before: what they were."""
    for name, mine, theirs in zip(names, arguments, before, strict=False):
        if not torch.equal(mine, theirs):
            yield f"Your function changes its argument `{name}`, and whoever asks next gets something else. Make a new tensor."
