"""Every check accepts the lab's own solution and turns at least three wrong answers away, each with its reason."""

import re
from pathlib import Path

import jupytext
import pytest
import torch

from privlab import checks

LABS = Path(__file__).parents[1] / "labs"

WRONG = {
    "00.threat": [
        ({"architecture", "weights", "gradients", "batch size", "preprocessing", "images"}, "Take out 'images'"),
        ({"architecture", "gradients", "batch size", "preprocessing"}, "'weights' is missing"),
        ({"gradient"}, "'gradient' is not on the list"),
        (set(), "The set is empty"),
        ("gradients", "Give a set of words"),
    ],
    "00.psnr": [
        (lambda a, b: 10 * (a - b).square().mean().log10(), "sign"),
        (lambda a, b: -10 * (a - b).square().mean().log(), "base 10"),
        (lambda a, b: -10 * (a - b).square().sum().log10(), "takes their mean"),
        (lambda a, b: -20 * (a - b).abs().mean().log10(), "average the squares"),
        (lambda a, b: -10 * (a - b).square().log10(), "Give one number"),
        (lambda a, b: -10 * (a - b).abs().mean().log10(), "Square the differences"),
    ],
    "00.enough": [
        ({"pos_embed"}, "no gradient named 'patch_embed.proj.weight'"),
        ({"pos_embed", "patch_embed.proj.weight", "head.bias"}, "'head.bias' is not needed"),
        ({"pos_embed", "patch_embed.weight"}, "no gradient named 'patch_embed.weight'"),
        ("pos_embed", "Give the set"),
    ],
    "05.theorem": [
        (lambda w, g: g.T @ w, "transpose"),
        (lambda w, g: w[:3].T @ g[:3], "the part of q alone"),
        (lambda w, g: w[:6].T @ g[:6], "The part of v is missing"),
        (lambda w, g: sum(w[i : i + 3] @ g[i : i + 3] for i in (0, 3, 6)), "Transpose the weight"),
        (lambda w, g: w @ g.T, "yours is (9, 9)"),
    ],
    "05.noise": [
        (lambda g, r: r * g.norm(), "ten times too large"),
        (lambda g, r: r * g.norm() / g.numel(), "sqrt(n)"),
        (lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2, "variance"),
        (lambda g, r: r * g.std(), "norm, not the standard deviation"),
    ],
    "05.width": [
        (lambda w, s, p: max(0, (s // p) ** 2 - w), "LayerNorm"),
        (lambda w, s, p: (s // p) ** 2 - (w - 1), "fewer than no directions"),
        (lambda w, s, p: w <= (s // p) ** 2, "how many directions"),
        (lambda w, s, p: max(0, s // p - (w - 1)), "it should be"),
    ],
    "05.rank": [
        (lambda n, p: (n - 1) ** 2, "3 p^2"),
        (lambda n, p: 2 * n - 1, "what the embedding shows"),
        (lambda n, p: n * n - 1, "no embedding at all"),
        (lambda n, p: 0, "hides nothing"),
    ],
    "05.design": [
        (lambda n, k: n - k, "column of ones"),
        (lambda n, k: 1, "is safe, but"),
        (lambda n, k: n, "at the largest rank"),
        (lambda n, k: None, "Nothing is written yet"),
    ],
}


def solutions():
    """(exercise, the lab's own answer): the solution cells of every lab, run on their own."""
    for path in sorted(LABS.glob("[0-9]*.py")):
        answer = None
        for cell in jupytext.read(path).cells:
            if "solution" in cell.metadata.get("tags", []):
                scope = {"torch": torch}
                exec(cell.source, scope)
                answer = next(v for k, v in reversed(scope.items()) if k not in ("torch", "__builtins__"))
            for name in re.findall(r'checks\.verify\("([^"]+)"', cell.source):
                yield name, answer


def test_every_exercise_of_the_labs_has_a_check_and_the_other_way_round():
    assert sorted(name for name, _ in solutions()) == checks.names() == sorted(WRONG)


def test_every_lab_has_three_exercises():
    for path in LABS.glob("[0-9]*.py"):
        assert sum(name.startswith(path.name[:2]) for name in checks.names()) >= 3


@pytest.mark.parametrize(("name", "answer"), list(solutions()))
def test_the_solution_is_accepted(name, answer):
    outcome = checks.verify(name, answer)
    assert outcome.passed, str(outcome)
    assert "right" in outcome._repr_html_()


@pytest.mark.parametrize(("name", "wrong", "why"), [(n, w, why) for n, rows in WRONG.items() for w, why in rows])
def test_wrong_answers_are_told_why(name, wrong, why):
    outcome = checks.verify(name, wrong)
    assert not outcome.passed
    assert why in outcome.why, outcome.why


@pytest.mark.parametrize("name", checks.names())
@pytest.mark.parametrize("unwritten", [None, ..., lambda *_: None])
def test_an_open_exercise_is_no_error(name, unwritten):
    outcome = checks.verify(name, unwritten)
    assert not outcome.passed and "Traceback" not in outcome.why


def test_the_readers_own_error_is_shown():
    assert "stopped with ZeroDivisionError" in checks.verify("05.noise", lambda g, r: 1 / 0).why


def test_strict_runs_raise(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)


def test_unknown_exercises_are_named():
    with pytest.raises(ValueError, match="'05.wide' is no exercise; try one of 00"):
        checks.verify("05.wide", 1)


def test_messages_are_escaped():
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
