"""Architectures that resist model inversion: skip connections cut or weakened in the last stages (Koh et al. 2024, section 5).

Gradients of an attack reach the early stages through the last one, so that is where a missing shortcut costs the attacker most. Each
defence is one `Cut`: which stages, by what factor, and after how many epochs.
"""

from __future__ import annotations

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
        for place, k, fraction in self.stages:
            if place < 1 or not 0 < fraction <= 1:
                raise ValueError(
                    f"stages: give a place from 1 (the last) and a fraction in (0, 1], not {place}, {fraction}"
                )
            if k is not None and not 0 <= k <= 1:
                raise ValueError(f"k={k!r} is no number in [0, 1]; 0 removes the skips, 1 leaves them as they are")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        if self.epochs is not None and self.epochs != recipe.epochs:
            raise ValueError(
                f"full={self.after} and rest={self.epochs - self.after} add up to {self.epochs} epochs, and the recipe has "
                f"{recipe.epochs}; give rest={max(1, recipe.epochs - self.after)}, or a recipe with epochs={self.epochs}"
            )
        if self.after >= recipe.epochs:
            raise ValueError(
                f"after={self.after}: the recipe is over after {recipe.epochs} epochs, so nothing would be cut; give less"
            )
        if not self._done(model):
            for stage, k, _ in self._found(model):
                skip_connections.scalable(model, stage, k)

    def shape(self, model: nn.Module, epoch: int) -> bool:
        if epoch < self.after or self._done(model):
            return False
        for stage, k, fraction in self._found(model):  # all found first: a stage that is cut counts no longer
            skip_connections.cut(model, stage, k, fraction)
        model.cuts = (*getattr(model, "cuts", ()), self)  # type: ignore[assignment]
        return True

    def _done(self, model: Any) -> bool:
        return self in getattr(model, "cuts", ())

    def _found(self, model: nn.Module) -> list[tuple[int, float, float]]:
        """(stage as `skip_connections` counts it, k, fraction) of each."""
        stages = list(skip_connections.stages(model))[::-1]
        if far := [place for place, _, _ in self.stages if place > len(stages)]:
            raise ValueError(
                f"stages: place {far[0]} from the end is asked for, and {type(model).__name__} has shortcuts in "
                f"{len(stages)} of its stages that can be cut; RoLSS needs one stage, RoLSS+ two"
            )
        own = CONCATENATIVE if isinstance(model, DenseNet) else ADDITIVE
        return [(stages[place - 1], own if k is None else k, fraction) for place, k, fraction in self.stages]


def rolss() -> Cut:
    """Removal of the last stage's skip connections.  Source: Koh et al. 2024, section 5.1."""
    return Cut(stages=((1, 0.0, 1.0),))


def rolss_plus() -> Cut:
    """RoLSS, and the skips in the last tenth of the stage before it.  Which tenth is ours.  Source: Koh et al. 2024, section 10.4."""
    return Cut(stages=((1, 0.0, 1.0), (2, 0.0, 0.1)))


def ssf(k: float | None = None) -> Cut:
    """Skip-connection scaling factor: the last stage's skips times k, in training and at inference.

    k: in [0, 1]; None for the paper's, 0.2 where skips are added, 0.01 where they are joined (DenseNet). 0 is RoLSS, 1 the full model.
    Raises ValueError for a k outside.  Source: Koh et al. 2024, sections 5.2 and 10.1.
    """
    return Cut(stages=((1, k, 1.0),))


def tts(full: int = 5, rest: int = 95) -> Cut:
    """Two-stage training: `full` epochs of the full model, then `rest` with the last stage's skips removed, the weights carried over.

    One schedule of the learning rate goes through both, as the two are to be as long as the original training; the paper does not say.
    Raises ValueError where one is below 1; and a training with it, where they are not together the recipe's epochs.
    Source: Koh et al. 2024, section 5.3.
    """
    for name, epochs in (("full", full), ("rest", rest)):
        if epochs < 1:
            raise ValueError(f"{name}={epochs!r} is no stage of training; give 1 epoch or more, or take rolss()")
    return Cut(stages=((1, 0.0, 1.0),), after=full, epochs=full + rest)
