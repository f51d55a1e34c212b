"""What `verify` says beside what a check finds: why it is right, the reader's own error, an exercise that is none."""

import pytest

from privlab.notebook import checks


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


@pytest.mark.parametrize("name", ["05.noise", "14.repeats"])  # on the kit, and by hand
def test_the_readers_own_error_is_shown(name):
    assert "stopped with ZeroDivisionError" in checks.verify(name, lambda *_: 1 / 0).why


def test_strict_runs_raise(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)


def test_unknown_exercises_are_named():
    with pytest.raises(ValueError, match="'05.wide' is no exercise; try one of 00"):
        checks.verify("05.wide", 1)


def test_messages_are_escaped():
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
