"""Check of a deeper notebook of lab 04: the Jacobian times a vector, by two passes backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import OPEN, a_function


@a_function
def push(answer: Callable[..., Any]) -> Iterator[str]:
    draw = torch.Generator().manual_seed(11)
    first, second = (torch.randn(6, 6, generator=draw, dtype=torch.float64) for _ in range(2))
    start, v = (torch.randn(2, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    x = start.requires_grad_()
    r = (first @ x.flatten()).tanh() * (second @ x.flatten())  # (6,): as many as x has numbers, a transpose fits too
    whole = torch.stack([torch.autograd.grad(part, x, retain_graph=True)[0].flatten() for part in r])  # J
    passes: list[int] = []  # backward, through r
    r.register_hook(lambda gradient: passes.append(1))
    value = answers.tensor(answer(r, x, v.clone()))
    if value is None:
        yield OPEN
        return
    if not isinstance(value, Tensor):
        yield f"Yours returns a {type(value).__name__}; `torch.autograd.grad` returns a tuple, and its first part is the tensor."
        return
    right, flat = whole @ v.flatten(), v.flatten()
    if value.shape != r.shape:
        half = "J^T u, the gradient towards x, is the halfway house: ask how its product with v changes with u."
        hint = half if value.shape == x.shape else ""
        yield f"J v has one number for each of the {len(r)} differences, as r has; yours is {tuple(value.shape)}. {hint}"
        return
    slips = {
        "That is J^T v, in the shape of r. J^T takes a u like r, and you gave it v.": whole.T @ flat,
        "That is J^T J v: one product too many.": whole.T @ right,
        "That is J times x. The direction is v.": whole @ x.detach().flatten(),
        "The sign is wrong: r grows along v where J v is above 0.": -right,
    }
    value = value.detach().to(right)
    if torch.allclose(value, right, rtol=1e-7):
        if len(passes) >= len(r):
            yield f"Right numbers, but {len(passes)} times backward through r, once a row: that builds J. Differentiate J^T u by u."
        return
    if torch.allclose(value, right, rtol=1e-2, atol=1e-3):
        yield "Near, as finite differences are. The same number to the last digit costs two backward passes."
        return
    for why, slip in slips.items():
        if torch.allclose(value, slip):
            yield why
            return
    yield f"Here J v begins with {right[0]:.3f}, and yours with {value.flatten()[0]:.3f}. Compare with J, row by row, on a small r."
