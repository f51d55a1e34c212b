"""All exercises: the lab's own answer is right in any form, an open one is called open, and each slip of a table hears its own sentence."""

import importlib
import inspect
import itertools
import math
import re
from pathlib import Path

import jupytext
import numpy as np
import pytest
import scipy.stats
import torch

from privlab import metrics, models
from privlab.attacks import attribute_inference, membership_inference
from privlab.metrics import roc
from privlab.notebook import checks, kit

LABS = Path(__file__).parents[2] / "labs"
GIVEN = {"F": torch.nn.functional, "math": math, "np": np, "t": scipy.stats.t, "torch": torch}  # labs import these
GIVEN |= {"metrics": metrics, "models": models, "roc": roc}
GIVEN |= {"attribute_inference": attribute_inference, "membership_inference": membership_inference}


def solutions():
    """(exercise, answer): the cells of all notebooks with that tag, run on their own."""
    for path in sorted(LABS.rglob("[0-9][0-9]_*.py")):
        answer = None
        for cell in jupytext.read(path).cells:
            if "solution" in cell.metadata.get("tags", []):
                scope = dict(GIVEN)
                exec(cell.source, scope)
                answer = next(v for k, v in reversed(scope.items()) if k not in (*GIVEN, "__builtins__"))
            for name in re.findall(r'checks\.verify\("([^"]+)"', cell.source):
                yield name, answer


SOLUTIONS = dict(solutions())


def inside(check):
    return inspect.getclosurevars(check).nonlocals if inspect.isfunction(check) else {}


def slips(check):
    """(part of the check, answer, what it says): the tables of the kit's checks; nothing of a check that is written by hand."""
    held = inside(check)
    if "ask" in held:  # each
        right = [inside(part)["right"] for part in held["checks"]]
        for k, part in enumerate(held["checks"]):
            yield from ((check, (*right[:k], slip, *right[k + 1 :]), why) for _, slip, why in slips(part))
    elif "checks" in held:  # in turn
        yield from itertools.chain.from_iterable(map(slips, held["checks"]))
    elif "wrong" in held:  # some
        right, wrong = held["right"], held["wrong"]
        yield from ((check, set(right) - {word}, why) for word, why in right.items())
        yield from ((check, set(right) | {word}, why) for word, why in wrong.items())
    elif "slips" in held:  # the others: why -> function, or word or number -> why
        yield from ((check, b, a) if callable(b) else (check, a, b) for a, b in held["slips"].items())


def tables():
    """(name, check) of all that a lab's checks.py has, the parts of an exercise, too, and of what is answered in words."""
    for lab in sorted({name[:2] for name in SOLUTIONS}):
        there = vars(importlib.import_module(f"privlab.course.lab_{lab}.checks"))
        exercises = {name[3:]: checks.of(name) for name in SOLUTIONS if name.startswith(lab)}
        yield from ((f"{lab}.{name}", check) for name, check in (there | exercises).items())


TABLES = [
    pytest.param(check, slip, why, id=f"{name}-{n}")
    for name, whole in tables()
    for n, (check, slip, why) in enumerate(slips(whole))
]


@pytest.mark.parametrize(("check", "slip", "why"), TABLES)
def test_each_slip_is_answered_by_its_own_sentence(check, slip, why):
    assert next(check(slip), "") == why


@pytest.mark.parametrize("name", SOLUTIONS)
def test_the_solution_is_right_and_says_why_where_that_can_be_guessed_and_an_open_exercise_is_called_open(name):
    before = torch.get_rng_state()
    right, wrong = (checks.verify(name, answer) for answer in (SOLUTIONS[name], ["nothing"]))
    assert right.passed and not wrong.passed, str(right)
    assert torch.equal(torch.get_rng_state(), before)
    assert ("<details><summary>Why" in right._repr_html_()) is ("because" in checks.reply(name))
    assert {checks.verify(name, answer).why for answer in (None, ...)} == {kit.OPEN}
    given = checks.verify(name, lambda *_: None)
    assert given.why.endswith(kit.OPEN) if callable(SOLUTIONS[name]) else not given.passed


@pytest.mark.parametrize("name", SOLUTIONS)
def test_an_answer_of_another_kind_is_told_so_and_not_that_its_code_stopped(name):
    """It has no code. A string or a list may be one of words, and hears what these are."""
    for form in (7.5, True, object(), b"x", {"a": 1}, np.zeros((2, 2))):
        if not isinstance(form, type(SOLUTIONS[name])):
            why = checks.verify(name, form).why
            assert why and "stopped with" not in why
            assert not callable(SOLUTIONS[name]) or why == f"Give a function; this is a {type(form).__name__}."
