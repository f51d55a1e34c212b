"""Least squares where the numbers are known to be off, and by how much: damped at the noise, with the rank that stands above it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Solved(NamedTuple):
    X: Tensor  # (unknowns, right-hand sides)
    condition: float
    rank: int


def solve(A: Tensor, B: Tensor, relative: float, error: Tensor) -> Solved:
    """Ridge least squares A X = B for X of about unit size, damped at the noise.

    A: (equations, unknowns).  B: (equations, right-hand sides).
    relative: size of the errors in A over the size of A.  error: size of the errors in B.
    Below the norm of its errors a singular value of A says nothing about the unknowns; for errors in B, damping by their size is
    Wiener's filter.
    """
    U, spectrum, Vh = torch.linalg.svd(A, full_matrices=False)
    floor = norm_of_errors(A, relative).hypot(error)
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
