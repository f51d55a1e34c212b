"""Every check accepts the lab's own solution and turns at least three wrong answers away, each with its reason."""

import math
import re
from pathlib import Path

import jupytext
import numpy as np
import pytest
import scipy.spatial
import scipy.stats
import torch

from privlab import metrics, models
from privlab.attacks import membership_inference
from privlab.attacks.membership_inference import signals
from privlab.metrics import roc
from privlab.notebook import checks
from privlab.runner import catalogue

LABS = Path(__file__).parents[2] / "labs"


def attack(*bugs, show=lambda model, pixels: pixels, side=torch.logical_not, read=signals.margin, end=None):
    """The mended attack of lab 02, with some of the four bugs left in it, or with others."""

    def odds(logits, labels):
        p = logits.softmax(1)[torch.arange(len(labels)), labels]
        return (p / (1 - p)).log()

    def score(victim, models, keep, pixels, labels):
        def ask(model):
            with torch.no_grad():
                model.train("mode" in bugs)
                shift = torch.randint(-1, 2, (1,)).item() if "question" in bugs else 0
                logits = model(show(model, pixels).roll(shift, -1))
                return odds(logits, labels) if "float32" in bugs else read(logits, labels)

        said = torch.stack([ask(model) for model in models])
        compared = [said[column, i] for i, column in enumerate(side(keep).T)]
        mean, std = (torch.stack([f(each) for each in compared]) for f in (torch.mean, torch.std))
        if end is not None:
            return end(ask(victim), mean, std)
        return (mean - ask(victim)) / std if "sign" in bugs else (ask(victim) - mean) / std

    return score


def least(rows, level, holds=lambda row, level: row[1] <= level, pick=min, by=lambda row: row, none=None):
    """The name of the cheapest defence that holds, and the slips on the way to it."""
    names = [name for name, row in rows.items() if holds(row, level)]
    return pick(names, key=lambda name: by(rows[name])) if names else none


def adjusted(p, level=0.05):
    """By adjusted p-values, as statistics packages do it."""
    names, raw = list(p), np.array(list(p.values()))
    order = raw.argsort()
    steps = np.maximum.accumulate(raw[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return {names[i] for i, step in zip(order, steps, strict=True) if step <= level}


WRONG = {}


RIGHT = {  # other ways than the lab's own
}


def answers(tag):
    """(exercise, the lab's own answer): the cells of every lab, and of what goes deeper, with that tag, run on their own."""
    given = {"math": math, "np": np, "t": scipy.stats.t, "torch": torch}  # and what labs take from privlab
    given |= {"membership_inference": membership_inference, "metrics": metrics, "models": models, "roc": roc}
    for lab in catalogue.everything(LABS):
        answer = None
        for cell in jupytext.read(lab.path).cells:
            if tag in cell.metadata.get("tags", []):
                scope = dict(given)
                exec(cell.source, scope)
                answer = next(v for k, v in reversed(scope.items()) if k not in (*given, "__builtins__"))
            for name in re.findall(r'checks\.verify\("([^"]+)"', cell.source):
                yield name, answer


def test_every_exercise_of_the_labs_has_a_check_and_the_other_way_round():
    assert sorted(name for name, _ in answers("solution")) == checks.names()


@pytest.mark.parametrize(("name", "answer"), list(answers("solution")))
def test_the_solution_is_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)
    assert "right" in outcome._repr_html_()


@pytest.mark.parametrize(("name", "answer"), list(answers("exercise")))
def test_the_exercise_as_it_is_given_is_not_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert not outcome.passed
    assert "stopped with" not in outcome.why


@pytest.mark.parametrize(("name", "answer"), [(n, answer) for n, answers in RIGHT.items() for answer in answers])
def test_other_right_answers_are_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)


@pytest.mark.parametrize(("name", "wrong", "why"), [(n, w, why) for n, rows in WRONG.items() for w, why in rows])
def test_wrong_answers_are_told_why(name, wrong, why):
    outcome = checks.verify(name, wrong)
    assert not outcome.passed
    assert why in outcome.why, outcome.why


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("08.label", {"head.bias"}, "p - y"),
        ("08.fewest", {"pos_embed", "patch_embed.proj.weight"}, "dL/dW = G^T X"),
        ("08.safe", "acdf", "show ways that need no stem"),
        ("13.weigh", lambda a, s, b, t: (a * t**2 + b * s**2) / (s**2 + t**2), "Its derivative is zero"),
        ("13.brochure", "abde", "a mean over rounds"),
    ],
)
def test_a_right_answer_that_can_be_guessed_is_told_why_it_is_right(name, answer, why):
    right, wrong = checks.verify(name, answer), checks.verify(name, ["nothing"])
    assert right.passed and why in str(right) and "<details><summary>Why" in right._repr_html_()
    assert why not in str(wrong) and "<details>" not in wrong._repr_html_()


@pytest.mark.parametrize("name", checks.names())
@pytest.mark.parametrize("unwritten", [None, ..., lambda *_: None])
def test_an_open_exercise_is_no_error(name, unwritten):
    outcome = checks.verify(name, unwritten)
    assert not outcome.passed and "Traceback" not in outcome.why


def test_the_readers_own_error_is_shown():
    assert "stopped with ZeroDivisionError" in checks.verify("05.noise", lambda g, r: 1 / 0).why


def test_every_check_turns_at_least_three_wrong_answers_away():
    assert min(map(len, WRONG.values())) >= 3


def test_strict_runs_raise(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)


def test_unknown_exercises_are_named():
    with pytest.raises(ValueError, match="'05.wide' is no exercise; try one of 00"):
        checks.verify("05.wide", 1)


def test_messages_are_escaped():
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
