"""Linear systems: what they read and give back, and least squares where numbers err by a known size: by the backward pass, the float
format on the wire, and a defence's noise."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from privlab.leak import Leak

Noise = float | Mapping[str, float] | None  # see `closed_form`
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


@dataclass(frozen=True)
class Recovery:
    """What a linear system gave back.

    images: (1, channels, height, width), in pixels but not clamped: a value outside [0, 1] says that something was lost.
    condition: largest over smallest singular value of the system, undamped.  unknowns: of the system.  names: of the gradients it reads.
    count: the way to `rank`, the directions that stand above the noise: counted when it is asked for, so it keeps the model and the leak.
    """

    images: Tensor
    condition: float
    unknowns: int
    names: tuple[str, ...]
    count: Callable[[], int] = field(repr=False, compare=False)

    @cached_property
    def rank(self) -> int:
        return self.count()

    @property
    def hidden(self) -> int:
        """Directions that the system leaves undetermined."""
        return self.unknowns - self.rank

    @property
    def clamped(self) -> Tensor:
        return self.images.clamp(0, 1)


def gradient(leak: Leak, model: nn.Module, name: str) -> Tensor:
    """One gradient in float64, on the model's device; ValueError where it is missing, broken, zero, or of another model."""
    gradient, parameter = leak[name], model.get_parameter(name)
    if gradient.shape != parameter.shape:
        raise ValueError(f"leak: {name!r} is of another shape there; give the model that the client trained")
    if not gradient.any():
        raise ValueError(f"leak: the gradient of {name!r} is zero everywhere, so it says nothing about the image")
    return gradient.to(parameter.device, torch.float64)


def require_one(leak: Leak) -> None:
    if leak.batch_size != 1:
        raise ValueError(f"leak: it averages {leak.batch_size} images, whose tokens mix; give a leak of one image")


def warn(why: str) -> None:
    warnings.warn(f"{why}, so the image is one of many solutions", stacklevel=3)


def pixel_size(leak: Leak) -> float:
    """Standard deviation of a normalised pixel, if pixels of natural images have one of 1/4."""
    return 0.25 * len(leak.normalise.std) / sum(leak.normalise.std)


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
    """Root mean square of each row, (rows, 1), and 1 for a row of zeros: rows of one size err alike in floats, worth 4 to 28 dB."""
    sizes = A.square().mean(1, keepdim=True).sqrt()
    return sizes.where(sizes > 0, 1.0)


def rms(numbers: Tensor) -> Tensor:
    """Root mean square of all the numbers."""
    return numbers.square().mean().sqrt()
