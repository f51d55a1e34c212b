"""The kit of checks: what counts as the same answer, and what is said of another one."""

import numpy as np
import pytest
import torch

from privlab.notebook import kit

ROOT = kit.function(
    lambda x: x**0.5,
    [(4.0,), (0.0,)],
    {"squared": lambda x: x**2, "upside down": lambda x: 1 / x},
    "Look at 4.",
)
ROWS = {"a": 3.0, "b": 1.0, "c": 2.0}
LOW = kit.pick(lambda rows: {n for n in rows if rows[n] < 3}, [(ROWS,), ({},)], {"all of them": set}, "Below 3.")


def first(check, answer):
    return next(iter(check(answer)), "")


@pytest.mark.parametrize("form", [float, np.float32, torch.tensor, lambda v: [v], lambda v: np.array([v])])
def test_one_number_counts_in_any_form(form):
    assert first(ROOT, lambda x: form(x**0.5)) == ""


@pytest.mark.parametrize(
    "form", [set, list, tuple, iter, frozenset, np.array, lambda names: dict.fromkeys(names).keys()]
)
def test_names_count_in_any_collection(form):
    assert first(LOW, lambda rows: form([n for n in rows if rows[n] < 3])) == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: x * x, "squared"),
        (lambda x: x**-1, "upside down"),  # it stops where the slip stops
        (lambda x: x, "For (4) it should be 2, and yours gives 4. Look at 4."),
        (lambda x: x**0.5 if x else None, "For (0) yours gives nothing. Look at 4."),
        (lambda x: (x, x), "For (4) give one number; yours is a list of 2. Look at 4."),
        (lambda x: "2", "For (4) give one number; yours is a str. Look at 4."),
        (lambda x: x / 0, "For (4) your code stopped with ZeroDivisionError: float division by zero. Look at 4."),
        (lambda x: None, kit.OPEN),
        (2.0, "Give a function; this is a float."),
    ],
)
def test_what_is_said_of_a_function(answer, said):
    assert first(ROOT, answer) == said


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda rows: list(rows), "all of them"),
        (lambda rows: ["a", "b", "c"][1 : len(rows)] * 2, "it should be"),
        (lambda rows: {n for n in rows if n != "a"} | {"d"}, "'d' should not be among them. Below 3."),
        (lambda rows: {n for n in rows if n == "b"}, "'c' is missing. Below 3."),
        (lambda rows: None, kit.OPEN),
        ({"b", "c"}, "Give a function; this is a set."),
    ],
)
def test_what_is_said_of_names(answer, said):
    assert said in first(LOW, answer)


def test_a_function_that_changes_what_it_is_given_is_told_so_after_what_it_gives():
    check = kit.in_turn(LOW, kit.keeps(ROWS))
    low = lambda rows: [rows.pop(n) and n for n in list(rows) if rows[n] < 3]  # noqa: E731
    assert first(check, low).startswith("Your function changes what it is given")
    assert first(check, lambda rows: low(rows)[1:]) == "For ({'a': 3, 'b': 1, 'c': 2}) 'b' is missing. Below 3."
    assert ROWS == {"a": 3.0, "b": 1.0, "c": 2.0}


def test_one_of_several_numbers_that_is_off_is_named():
    check = kit.function(torch.square, [(torch.arange(12.0),)], {}, "Multiply.")
    assert "number 3, counted from 0, should be 9, and yours is 8" in first(check, lambda x: x**2 - (x == 3).float())


def test_a_set_of_numbers_is_one_of_words():
    check = kit.some({"4": "four is missing", "8": "eight is missing"}, {"6": "six is not"})
    assert first(check, [4.0, 8.0]) == first(check, np.array([8, 4])) == ""
    assert first(check, {4, 6.0, 8}) == "six is not"
