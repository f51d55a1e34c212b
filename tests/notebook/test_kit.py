"""The kit of checks: what is said of an answer that is another one, and what `verify` says beside that."""

import numpy as np
import pytest
import torch

from privlab.notebook import checks, kit

SLIPS = {"squared": lambda x: x**2, "upside down": lambda x: 1 / x}
ROOT = kit.function(lambda x: x**0.5, [(4.0,), (0.0,)], SLIPS, "Look at 4.")
SQUARE = kit.function(torch.square, [(torch.arange(12.0),)], {}, "Multiply.")
ROWS = {"a": 3.0, "b": 1.0, "c": 2.0}
LOW = kit.function(lambda rows: {n for n in rows if rows[n] < 3}, [(ROWS,), ({},)], {"all of them": set}, "Below 3.")
ORDERLY = kit.function(lambda kind, rows: [kind(name) for name in rows], [(str, ROWS)], {}, "Any order.", then=sorted)
KEPT = kit.in_turn(LOW, kit.keeps(ROWS, torch.ones(2)))


@pytest.mark.parametrize(
    ("check", "answer", "said"),
    [
        *((LOW, lambda rows, form=form: form([n for n in rows if rows[n] < 3]), "") for form in (list, iter, np.array)),
        (LOW, lambda rows: dict.fromkeys(n for n in rows if rows[n] < 3).keys(), ""),
        (ROOT, lambda x: torch.tensor([x**0.5], requires_grad=True), ""),
        (ROOT, lambda x: x * x, "squared"),
        (ROOT, lambda x: x**-1, "upside down"),  # it stops where the slip stops
        (ROOT, lambda x: x**0.5 if x else None, "For (0) it should be 0, and yours gives None. Look at 4."),
        (ROOT, lambda x: x / 0, "For (4) your code stopped with ZeroDivisionError: float division by zero. Look at 4."),
        (ROOT, lambda x: None, kit.OPEN),
        (SQUARE, lambda x: x**2 - (x == 3).float(), "number 3, counted from 0, should be 9, and yours is 8"),
        (SQUARE, lambda x: x.square().view(3, 4), "a tensor (12,)) the shape should be (12,), and yours is (3, 4)"),
        (LOW, lambda rows: ["b", "c", "c"][: len(rows)], "it should be ['b', 'c'], and yours gives ['b', 'c', 'c']"),
        (LOW, lambda rows: {n for n in rows if n != "a"} | {"d"}, "'d' should not be among them. Below 3."),
        (LOW, lambda rows: {n for n in rows if n == "b"}, "'c' is missing. Below 3."),
        (ORDERLY, lambda kind, rows: "bca", ""),
        (ORDERLY, lambda kind, rows: "abd", "For (str, {'a': 3.0, 'b': 1.0, 'c': 2.0}) 'd' should not be among them. Any order."),
        (ORDERLY, lambda kind, rows: None, kit.OPEN),
        (KEPT, lambda rows, *_: [n for n in rows if rows[n] < 3], ""),
        (KEPT, lambda rows, *x: [n for n in rows if rows[n] < 3] if not x else x[0].zero_(), "Your function changes"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_function(check, answer, said):
    told = next(iter(check(answer)), "")
    assert said in told and bool(said) == bool(told)


def test_verify_shows_the_readers_own_error_and_raises_in_a_strict_run(monkeypatch):
    assert "stopped with ZeroDivisionError" in checks.verify("06.twin", lambda image: 1 / 0).why
    assert "<b>" not in checks.Outcome("x", "<b>bold</b>")._repr_html_()
    monkeypatch.setenv("PRIVLAB_STRICT", "1")
    with pytest.raises(AssertionError, match=r"05\.noise: not yet\. .*variance"):
        checks.verify("05.noise", lambda g, r: (r * g.norm() / g.numel() ** 0.5) ** 2)
