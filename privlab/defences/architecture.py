"""Architectures that resist model inversion: skip connections cut or weakened in the last stages, which an attack's gradients pass first.

Source: Koh et al. 2024, section 5.
"""

import copy
from dataclasses import dataclass
from typing import Any

from timm.models.densenet import DenseNet
from torch import nn

from privlab.models import skip_connections
from privlab.training import Recipe
from privlab.training.defence import Defence


@dataclass(frozen=True)
class Cut(Defence):
    """Shortcuts multiplied by k, or removed, from some epoch on.

    stages: (place, k, fraction) each. place: 1 for the last stage that has shortcuts, 2 for the one before it. k: in [0, 1], 0 removes
        them; None for SSF's own, 0.2 where skips are added and 0.01 where they are joined. fraction: in (0, 1], of the stage's last blocks.
    after: epochs that the model first trains in full.
    """

    stages: tuple[tuple[int, float | None, float], ...]
    after: int = 0

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        if self.after >= recipe.epochs:
            raise ValueError(f"full={self.after} of {recipe.epochs} epochs leave none without skips; give fewer")
        self.shape(copy.deepcopy(model), self.after)  # says what cannot be cut

    def shape(self, model: Any, epoch: int) -> bool:
        done = getattr(model, "cuts", ())
        if epoch < self.after or self in done:
            return False
        stages = [*skip_connections.stages(model)][::-1]  # all found first: a stage that is cut counts no longer
        if len(stages) < (most := max(place for place, _, _ in self.stages)):
            raise ValueError(f"stages: {type(model).__name__} has shortcuts in {len(stages)} of its stages, not {most}")
        own = 0.01 if isinstance(model, DenseNet) else 0.2  # Koh et al. 2024, section 5.2
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


def tts(full: int = 5) -> Cut:
    """Two-stage training: `full` epochs of the full model; the recipe's others go on with the last stage's skips removed.

    The weights are carried over. One schedule of the learning rate goes through both, as they are to be as long as the original training;
    the paper, with 5 and 95 epochs, does not say.  Raises ValueError, in a training, where no epoch is left for the second.
    Source: Koh et al. 2024, section 5.3.
    """
    return Cut(stages=((1, 0.0, 1.0),), after=full)
