"""Architectures that resist model inversion: skip connections cut or weakened in the last stages (Koh et al. 2024, section 5).

Gradients of an attack reach the early stages through the last one, so that is where a missing shortcut costs the attacker most.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from timm.models.densenet import DenseNet
from torch import nn

from privlab.models import skip_connections
from privlab.training import Recipe
from privlab.training.defence import Defence

ADDITIVE, CONCATENATIVE = 0.2, 0.01  # SSF's k: Koh et al. 2024, section 5.2


@dataclass(frozen=True)
class Cut(Defence):
    """Shortcuts multiplied by k, or removed, from some epoch on.

    stages: (place, k, fraction) each. place: 1 for the last stage that has shortcuts, 2 for the one before it. k: in [0, 1], 0 removes
        them; None for SSF's own, 0.2 where skips are added and 0.01 where they are joined. fraction: in (0, 1], of the stage's last blocks.
    after: epochs that the model first trains in full.  epochs: what the recipe must have in all; None for any number.
    """

    stages: tuple[tuple[int, float | None, float], ...]
    after: int = 0
    epochs: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(tuple(each) for each in self.stages))  # JSON knows lists alone

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        if self.epochs is not None and self.epochs != recipe.epochs:
            raise ValueError(
                f"full={self.after} and rest={self.epochs - self.after} add up to {self.epochs} epochs, and the recipe has "
                f"{recipe.epochs}; give rest={max(1, recipe.epochs - self.after)}, or a recipe with epochs={self.epochs}"
            )
        self.shape(copy.deepcopy(model), self.after)  # says what cannot be cut

    def shape(self, model: Any, epoch: int) -> bool:
        done = getattr(model, "cuts", ())
        if epoch < self.after or self in done:
            return False
        stages = [*skip_connections.stages(model)][::-1]  # all found first: a stage that is cut counts no longer
        if len(stages) < (most := max(place for place, _, _ in self.stages)):
            raise ValueError(
                f"stages: {type(model).__name__} has shortcuts in {len(stages)} of its stages, and {most} are to be cut"
            )
        own = CONCATENATIVE if isinstance(model, DenseNet) else ADDITIVE
        for place, k, fraction in self.stages:
            skip_connections.cut(model, stages[place - 1], own if k is None else k, fraction)
        model.cuts = (*done, self)
        return True


def rolss() -> Cut:
    """Removal of the last stage's skip connections.  Source: Koh et al. 2024, section 5.1."""
    return Cut(stages=((1, 0.0, 1.0),))


def rolss_plus() -> Cut:
    """RoLSS, and the skips in the last tenth of the stage before it.  Which tenth is ours.  Source: Koh et al. 2024, section 10.4."""
    return Cut(stages=((1, 0.0, 1.0), (2, 0.0, 0.1)))


def ssf(k: float | None = None) -> Cut:
    """Skip-connection scaling factor: the last stage's skips times k, in training and at inference.

    k: in [0, 1]; None for the paper's, 0.2 where skips are added, 0.01 where they are joined (DenseNet). 0 is RoLSS, 1 the full model.
    Source: Koh et al. 2024, sections 5.2 and 10.1.
    """
    return Cut(stages=((1, k, 1.0),))


def tts(full: int = 5, rest: int = 95) -> Cut:
    """Two-stage training: `full` epochs of the full model, then `rest` with the last stage's skips removed, the weights carried over.

    One schedule of the learning rate goes through both, as the two are to be as long as the original training; the paper does not say.
    A training with it raises ValueError where they are not together the recipe's epochs.  Source: Koh et al. 2024, section 5.3.
    """
    return Cut(stages=((1, 0.0, 1.0),), after=full, epochs=full + rest)
