"""What a model inversion is like on its way, and what it brings back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

PARTS = ("images", "targets", "latents", "likelihood", "score", "first")  # of what was found, a row a picture each


@dataclass(frozen=True)
class State:
    """A moment of the search: the step just done (0 for the first choice), latents (n, width), the loss of each (n,).

    spread: where Gaussians are fitted, their log-variances (n, width), and `latents` are their means; None otherwise.
    """

    step: int
    latents: Tensor = field(repr=False)
    loss: Tensor = field(repr=False)
    spread: Tensor | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Result:
    """What an attack brings back, `kept` pictures for each target class, the best first.

    images: (n, channels, height, width) in [0, 1].  targets: (n,), the class each was made for.  latents: (n, width).
    likelihood: (n,) the target model's probability for the target, of the picture as it is.
    score: (n,) the mean of it over the views of the last choice.  first: (n, ...) the pictures that the search began with.
    trace: the mean loss that each step saw; the first stands there twice, for the first choice and the first step.
    """

    images: Tensor = field(repr=False)
    targets: Tensor = field(repr=False)
    latents: Tensor = field(repr=False)
    likelihood: Tensor = field(repr=False)
    score: Tensor = field(repr=False)
    first: Tensor = field(repr=False)
    trace: list[float] = field(repr=False)

    def __repr__(self) -> str:
        people, n = len(self.targets.unique()), len(self.targets)
        return f"Found {n} pictures of {people} classes; the target model gives them {self.likelihood.mean():.3f}"

    def best(self, n: int) -> Result:
        """The n pictures of each class that the last choice puts first: what an attacker would show."""
        rows = torch.cat([(self.targets == target).nonzero()[:n, 0] for target in self.targets.unique()])
        return replace(self, **{name: getattr(self, name)[rows] for name in PARTS})

    def places(self, n: int) -> Tensor:
        """Where the best picture of each of the first n target classes stands, (n,)."""
        return torch.stack([(self.targets == target).nonzero()[0, 0] for target in self.targets.unique()[:n]])


def joined(parts: Sequence[Result]) -> Result:
    """What several attacks on the same model found, for other targets each, as one; the trace is the mean of theirs."""
    traces = torch.tensor([part.trace for part in parts]).mean(0).tolist()
    whole: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in PARTS}
    return Result(**whole, trace=traces)
