"""An answer counts for what it says and not for its form: the solution of every exercise, in other forms, and spoilt."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from privlab.notebook import checks
from privlab.runner import catalogue, pairing
from privlab.teaching import collect

LABS = Path(__file__).parents[2] / "labs"


def is_number(v):
    return (isinstance(v, (int, float, np.number)) and not isinstance(v, bool)) or (
        isinstance(v, Tensor) and v.numel() == 1
    )


def numbers(form):
    return lambda v: form(float(v)) if is_number(v) else v


def tensors(form):
    return lambda v: form(v.detach()) if isinstance(v, Tensor) and v.is_floating_point() else v


def sets(form):
    return lambda v: form(v) if isinstance(v, (set, frozenset)) else v


FORMS = {  # what says the same; what is none of its kind stays as it is
    "float": numbers(float),
    "float64": numbers(np.float64),
    "float32": numbers(np.float32),
    "whole": lambda v: int(v) if is_number(v) and math.isfinite(v) and float(v).is_integer() else v,
    "int64": lambda v: np.int64(v) if isinstance(v, int) and not isinstance(v, bool) else v,
    "tensor": numbers(lambda v: torch.tensor(v, dtype=torch.float64)),
    "tensor of float32": numbers(torch.tensor),
    "array": numbers(np.array),
    "with a graph": lambda v: torch.tensor(float(v), requires_grad=True) if is_number(v) else v,
    "double": lambda v: v.double() if isinstance(v, Tensor) and v.is_floating_point() else v,
    "numpy": tensors(Tensor.numpy),
    "tuple": lambda v: tuple(v) if isinstance(v, (list, set, frozenset)) else v,
    "list": lambda v: list(v) if isinstance(v, (tuple, set, frozenset)) else v,
    "frozenset": sets(frozenset),
    "keys": sets(lambda v: dict.fromkeys(v).keys()),
    "array of numbers": lambda v: np.array(v) if isinstance(v, list) and v and all(map(is_number, v)) else v,
    "list of tensors": lambda v: [torch.tensor(x) for x in v] if isinstance(v, list) and v and all(map(is_number, v)) else v,
    "dict of tensors": lambda v: (
        {k: torch.tensor(x) for k, x in v.items()} if isinstance(v, dict) and all(map(is_number, v.values())) else v),
}  # fmt: skip
NOT_THE_SAME = {  # where the form is part of what is asked
    *((name, "numpy") for name in ("03.entering", "07.registration", "11.convince", "11.fold", "04.cosine")),
    *(("11.delta", form) for form in ("float", "float64", "float32", "whole", "tensor", "tensor of float32", "array", "with a graph")),
    ("12.delta", "whole"),  # an infinite ratio is no whole number
}  # fmt: skip
WORDS = [  # an exercise, and an answer in other words or of another kind
    ("00.threat", ["Architecture", "WEIGHTS", " gradients ", "Batch_size", "pre-processing".replace("-", "")]),
    ("00.threat", dict.fromkeys(["architecture", "weights", "gradients", "batch size", "preprocessing"]).keys()),
    ("00.threat", np.array(["architecture", "weights", "gradients", "batch-size", "preprocessing"])),
    ("00.enough", ("pos_embed ", "patch_embed.proj.weight")),
    ("01.gap_attack", 60),
    ("01.gap_attack", "60%"),
    ("01.gap_attack", " 60 % "),
    ("01.gap_attack", "0.6"),
    ("01.gap_attack", np.array([0.6])),
    ("04.eval_scale", np.float64((1 + 1e-5) ** -0.5)),
    ("04.eval_scale", "0.999995000"),
    ("09.moved", np.array([4, 8])),
    ("09.moved", [4.0, 8.0]),
    ("10.confounded", ("Overlap", "weights", "MAXIMA ")),
]


def spoilt(change):
    def of(v):
        if isinstance(v, (list, tuple)) and v and not all(isinstance(x, str) for x in v):
            return type(v)(of(x) for x in v)
        if isinstance(v, dict):
            return {k: of(x) for k, x in v.items()}
        if isinstance(v, (Tensor, np.ndarray)) or is_number(v):
            return change(v)
        return v

    return of


SPOILT = {  # what says something else
    "negated": spoilt(lambda v: -v),
    "doubled": spoilt(lambda v: 2 * v),
    "plus one": spoilt(lambda v: v + 1),
    "NaN": spoilt(lambda v: v * math.nan),
    "zero": spoilt(lambda v: v * 0),
    "infinite": spoilt(lambda v: v + math.inf),
    "less one": lambda v: (
        v[:-1] if isinstance(v, (list, tuple)) else set(sorted(v)[1:]) if isinstance(v, (set, frozenset)) and v else v),
    "with another": lambda v: {*v, "other"} if isinstance(v, (set, frozenset)) else v,
    "turned": lambda v: not v if isinstance(v, bool) else f"no {v}" if isinstance(v, str) else v,
    "true": lambda v: v is not True,
}  # fmt: skip
STILL_RIGHT = {  # what is asked for is the order, or any picture that a norm hides
    *(("02.four_bugs", form) for form in ("doubled", "plus one")),
    *(("04.batchnorm", form) for form in ("doubled", "plus one")),
}


@cache
def solution(name):
    path = next(lab.path for lab in catalogue.everything(LABS) if f'checks.verify("{name}"' in lab.path.read_text())
    cells = [c for c in pairing.notebook(path).cells if "exercise" not in c.metadata.get("tags", [])]
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    (last,) = [k for k, source in enumerate(code) if f'checks.verify("{name}"' in source]
    asked, scope = collect.argument(code[last], name), {"__name__": "__main__"}
    for source in collect.needed(code[:last], collect.names_of(asked)[1], set()):
        exec(source, scope)
    return eval(asked, scope)


def same(new, value):
    """Whether a form has left a value as it was."""
    return new is value or (type(new) is type(value) and isinstance(new, (list, tuple, dict, str)) and new == value)


def outcomes(name, forms, without):
    """The outcome of each form that the solution can take."""
    answer = solution(name)
    for what, form in forms.items():
        changed = []

        def other(*args, form=form, changed=changed, **kwargs):
            value = answer(*args, **kwargs)
            new = form(value)
            changed.append(not same(new, value))
            return new

        given = other if callable(answer) else form(answer)
        if (name, what) in without or same(given, answer):
            continue
        outcome = checks.verify(name, given)
        if not callable(answer) or any(changed):
            yield what, outcome


@pytest.mark.parametrize("name", checks.names())
def test_a_right_answer_is_right_in_any_form(name):
    assert {what: outcome.why for what, outcome in outcomes(name, FORMS, NOT_THE_SAME) if not outcome.passed} == {}


@pytest.mark.parametrize("name", checks.names())
def test_no_answer_that_is_spoilt_is_right(name):
    spoilt = dict(outcomes(name, SPOILT, STILL_RIGHT))
    assert [what for what, outcome in spoilt.items() if outcome.passed] == []
    assert len(spoilt) >= 1


@pytest.mark.parametrize(("name", "answer"), WORDS)
def test_other_words_for_a_right_answer_are_right(name, answer):
    assert checks.verify(name, answer).passed
