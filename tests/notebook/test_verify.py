"""What `verify` says beside what a check finds: the reader's own error, an exercise that is none."""

import pytest

from privlab.notebook import checks


def test_the_readers_own_error_is_shown():
    assert "stopped with ZeroDivisionError" in checks.verify("06.twin", lambda image: 1 / 0).why


def test_strict_runs_raise(monkeypatch):
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)


def test_unknown_exercises_are_named():
    with pytest.raises(ValueError, match="'05.wide' is no exercise; try one of 00"):
        checks.verify("05.wide", 1)


def test_messages_are_escaped():
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
