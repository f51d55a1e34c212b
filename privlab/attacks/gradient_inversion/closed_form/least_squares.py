"""Least squares where the numbers are known to be off, and by how much: damped at the noise, with the rank that stands above it.

A gradient errs by the backward pass, by the float format on the wire, and by a defence's noise, as far as the attacker knows of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from privlab.leak import Leak

# Over the gradients' size, the same for all; or parameter name -> standard deviation in each number of its gradient
Noise = float | Mapping[str, float] | None

# Error of a backward pass in units of its float format's eps; measured at 7 to 30 on ViTs of 4 to 12 blocks.
BACKWARD = 8


def relative(leak: Leak, noise: Noise, backward: int = BACKWARD) -> float:
    """Size of the errors in a leak's gradients over their own size; rounding for the wire adds eps / sqrt(12) of the number rounded."""
    share = 0.0 if noise is None or isinstance(noise, Mapping) else noise
    if not 0 <= share < math.inf:
        raise ValueError(f"noise={noise} is no share of the gradient's size; try 0.01, or None if nothing is known")
    computed = max(torch.finfo(g.dtype).eps for g in leak.grads.values()) * backward
    return math.hypot(computed + torch.finfo(leak.precision).eps / 12**0.5, share)


def deviation(leak: Leak, noise: Noise, name: str, rows: Tensor | None = None) -> float:
    """Standard deviation of the errors in each number of one gradient that do not shrink with it; 0 where there are none to speak of.

    Noise that is known tensor by tensor; and the float format's last step, where a row's numbers lie below its smallest normal one: there
    rounding errs by a share of that step (2^-24 in float16), however small the number.
    rows: (rows, numbers), those of the gradient that are used, a row for each token; if not given, one small row is enough.
    """
    size = noise.get(name, 0.0) if isinstance(noise, Mapping) else 0.0
    gradient = leak[name]
    sent, computed = torch.finfo(leak.precision), torch.finfo(gradient.dtype)
    sizes = (gradient.double().flatten(1) if rows is None else rows).square().mean(1).sqrt()
    small = sizes < max(sent.smallest_normal, computed.smallest_normal)
    if not small.any():
        return size
    last = sent.smallest_normal * sent.eps / 12**0.5 + BACKWARD * computed.smallest_normal * computed.eps
    return math.hypot(size, last if rows is None else last * small.double().mean().sqrt().item())


class Solved(NamedTuple):
    X: Tensor  # (unknowns, right-hand sides)
    condition: float  # largest over smallest singular value, undamped
    rank: int  # singular values above the errors


def solve(A: Tensor, B: Tensor, relative: float, error: Tensor) -> Solved:
    """Ridge least squares A X = B for X of about unit size, damped at the noise.

    A: (equations, unknowns).  B: (equations, right-hand sides).
    relative: size of the errors in A over the size of A.  error: size of the errors in B.
    Below the norm of its errors a singular value of A says nothing about the unknowns; for errors in B, damping by their size is
    Wiener's filter.
    """
    U, spectrum, Vh = torch.linalg.svd(A, full_matrices=False)
    floor = (relative * rms(A) * (len(A) ** 0.5 + A.shape[1] ** 0.5)).hypot(
        error
    )  # the norm of independent errors in A
    X = Vh.T @ ((U.T @ B) * (spectrum / (spectrum**2 + floor**2))[:, None])
    return Solved(X, (spectrum[0] / spectrum[-1]).item(), int((spectrum > floor).sum()))


def weighed(A: Tensor, B: Tensor, relative: float, of_A: Tensor | float, of_B: Tensor | float) -> Solved:
    """Ridge least squares A X = B for X of about unit size, where noise of a known size stands in A and in B.

    of_A, of_B: standard deviation of the noise in each number, or one for each row, (equations, 1).
    relative: errors in proportion to the size of a row, on top.
    Each row is divided by what it errs by at the true X, so that exact rows count more (weighted least squares), and then damped by 1. The
    errors of A count by the norm of that part which its columns can take in: a square matrix of noise has the norm 2 sqrt(unknowns).
    """
    errors = (relative * row_sizes(A)).hypot(torch.as_tensor(of_A).to(A))  # (equations, 1)
    size = (2 * A.shape[1] ** 0.5 * errors).hypot((relative * row_sizes(B)).hypot(torch.as_tensor(of_B).to(B)))
    U, spectrum, Vh = torch.linalg.svd(A / size, full_matrices=False)
    X = Vh.T @ ((U.T @ (B / size)) * (spectrum / (spectrum**2 + 1))[:, None])
    return Solved(X, (spectrum[0] / spectrum[-1]).item(), int((spectrum > 1).sum()))


def row_sizes(A: Tensor) -> Tensor:
    """Root mean square of each row, (rows, 1), and 1 for a row of zeros. Floats err in proportion to a number's size, so rows of one
    size err alike: worth 4 to 28 dB.
    """
    sizes = A.square().mean(1, keepdim=True).sqrt()
    return sizes.where(sizes > 0, 1.0)


def rms(numbers: Tensor) -> Tensor:
    """Root mean square of all the numbers."""
    return numbers.square().mean().sqrt()
