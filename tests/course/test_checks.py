"""All exercises: the lab's own answer is right in any form, an open one is called open, and each slip of a table hears its own sentence."""

import importlib.util
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
from privlab.attacks import membership_inference
from privlab.metrics import roc
from privlab.notebook import checks, kit

LABS = Path(__file__).parents[2] / "labs"
GIVEN = {
    "math": math,
    "np": np,
    "t": scipy.stats.t,
    "torch": torch,
    "metrics": metrics,
    "models": models,
}  # labs import these
GIVEN |= {"membership_inference": membership_inference, "roc": roc}


def answers(tag):
    """(exercise, answer): the cells of all notebooks with that tag, run on their own."""
    for path in sorted(LABS.rglob("[0-9][0-9]_*.py")):
        answer = None
        for cell in jupytext.read(path).cells:
            if tag in cell.metadata.get("tags", []):
                scope = dict(GIVEN)
                exec(cell.source, scope)
                answer = next(v for k, v in reversed(scope.items()) if k not in (*GIVEN, "__builtins__"))
            for name in re.findall(r'checks\.verify\("([^"]+)"', cell.source):
                yield name, answer


SOLUTIONS = dict(answers("solution"))


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


def tables(lab):
    """All checks of a lab by name, those that are a part of an exercise, too."""
    return vars(importlib.import_module(f"privlab.course.lab_{lab}.checks")) | checks.of(lab)


TABLES = [
    pytest.param(*row, id=f"{lab}.{name}-{n}")
    for lab in checks.labs()
    for name, check in tables(lab).items()
    for n, row in enumerate(slips(check))
]


@pytest.mark.parametrize(("check", "slip", "why"), TABLES)
def test_each_slip_is_answered_by_its_own_sentence(check, slip, why):
    assert next(check(slip), "") == why


def test_no_exercise_has_more_than_five_slips():
    assert max(len(inside(row.values[0]).get("slips", ())) for row in TABLES) <= 5


def test_every_exercise_of_the_labs_has_a_check_and_the_other_way_round():
    assert sorted(SOLUTIONS) == checks.names()


@pytest.mark.parametrize("name", SOLUTIONS)
def test_the_solution_is_right(name):
    before = torch.get_rng_state()
    outcome = checks.verify(name, SOLUTIONS[name])
    assert outcome.passed, str(outcome)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_an_open_exercise_is_called_open(name):
    assert {checks.verify(name, answer).why for answer in (None, ...)} == {kit.OPEN}
    given = checks.verify(name, lambda *_: None)
    assert given.why.endswith(kit.OPEN) if callable(SOLUTIONS[name]) else not given.passed


@pytest.mark.parametrize(("name", "answer"), list(answers("exercise")))
def test_the_exercise_as_it_is_given_is_not_right(name, answer):
    outcome = checks.verify(name, answer)
    assert not outcome.passed and "stopped with" not in outcome.why


@pytest.mark.parametrize("name", [name for name in SOLUTIONS if checks.because(name)])
def test_a_right_answer_is_told_why_and_a_wrong_one_is_not(name):
    right, wrong = (checks.verify(name, answer) for answer in (SOLUTIONS[name], ["nothing"]))
    assert checks.because(name) in str(right) and "<details><summary>Why" in right._repr_html_()
    assert checks.because(name) not in str(wrong) and "<details>" not in wrong._repr_html_()
