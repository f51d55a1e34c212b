"""Least squares where the numbers err by a known size: by the backward pass, the float format on the wire, and a defence's noise."""

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


def relative(leak: Leak, noise: Noise) -> float:
    """Size of the errors in a leak's gradients over their own size; rounding for the wire adds eps / sqrt(12) of the number rounded."""
    if not 0 <= share(noise) < math.inf:
        raise ValueError(f"noise={noise} is no share of the gradient's size; try 0.01, or None if nothing is known")
    computed = max(torch.finfo(g.dtype).eps for g in leak.grads.values()) * BACKWARD
    return math.hypot(computed + torch.finfo(leak.precision).eps / 12**0.5, share(noise))


def share(noise: Noise) -> float:
    """Of the gradients' own size, the noise where one number is known for all of them; else 0."""
    return 0.0 if noise is None or isinstance(noise, Mapping) else noise


def deviation(noise: Noise, name: str) -> float:
    """Standard deviation of the noise in each number of one gradient, where it is known tensor by tensor; else 0."""
    return noise.get(name, 0.0) if isinstance(noise, Mapping) else 0.0


class Solved(NamedTuple):
    X: Tensor  # (unknowns, right-hand sides)
    condition: float  # largest over smallest singular value, undamped
    rank: int  # singular values above the errors


def solve(A: Tensor, B: Tensor, relative: float, error: Tensor) -> Solved:
    """Ridge least squares A X = B for X of about unit size, damped at the noise: Wiener's filter for errors in B.

    A: (equations, unknowns).  B: (equations, right-hand sides).
    relative: size of the errors in A over the size of A.  error: size of the errors in B.
    """
    norm_of_errors = relative * rms(A) * (len(A) ** 0.5 + A.shape[1] ** 0.5)  # if they are independent
    return _damped(A, B, norm_of_errors.hypot(error))


def weighed(A: Tensor, B: Tensor, relative: float, of_A: float, of_B: float) -> Solved:
    """The same where noise of a known size stands in A and in B: each row counts by what it errs (weighted least squares).

    of_A, of_B: its standard deviation in each number.  relative: errors in proportion to the size of a row, on top.
    The errors of A count by the norm of that part which its columns can take in: a square matrix of noise has 2 sqrt(unknowns).
    """
    errors_A = (relative * row_sizes(A)).hypot(A.new_tensor(of_A))  # (equations, 1)
    errors_B = (relative * row_sizes(B)).hypot(B.new_tensor(of_B))
    size = (2 * A.shape[1] ** 0.5 * errors_A).hypot(errors_B)
    return _damped(A / size, B / size, torch.ones_like(A[0, 0]))


def _damped(A: Tensor, B: Tensor, floor: Tensor) -> Solved:
    U, spectrum, Vh = torch.linalg.svd(A, full_matrices=False)
    X = Vh.T @ ((U.T @ B) * (spectrum / (spectrum**2 + floor**2))[:, None])
    return Solved(X, (spectrum[0] / spectrum[-1]).item(), int((spectrum > floor).sum()))


def row_sizes(A: Tensor) -> Tensor:
    """Root mean square of each row, (rows, 1), and 1 for a row of zeros. Floats err in proportion to a number's size, so rows of one
    size err alike: worth 4 to 28 dB.
    """
    sizes = A.square().mean(1, keepdim=True).sqrt()
    return sizes.where(sizes > 0, 1.0)


def rms(numbers: Tensor) -> Tensor:
    """Root mean square of all the numbers."""
    return numbers.square().mean().sqrt()
