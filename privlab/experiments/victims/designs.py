"""Searches on designs between a ResNet and a ConvNeXt, for labs 09 and 10: one photograph, one start, a draw of weights a network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from privlab import data
from privlab.attacks.gradient_inversion import GradientMatching, objectives, presets
from privlab.attacks.gradient_inversion.results import Result
from privlab.experiments.trial import Trial
from privlab.leak import observe

SCORES = "psnr ssim mse"


def matching(attack: str, steps: int, weight: float = 1.0) -> GradientMatching:
    """The attack "inverting_gradients" or "annealed", `weight` times as smooth; by differences where they agree with exact directions."""
    tv: Any = 1e-4 * weight if attack == "inverting_gradients" else (0.02 * weight, 1e-5 * weight)
    return replace(getattr(presets, attack)(steps, tv), derivative="auto")


@dataclass(frozen=True)
class DesignTrial(Trial):
    """A repeat on networks of the morph."""

    attack: str = "annealed"  # of the search, see `matching`
    steps: int = 1
    width: float = 1.0  # of all networks, as `depths`, see `morph.build`
    depths: Sequence[int] | None = None
    side: int | None = None  # pixels to enlarge photographs to
    public: int = 4  # photographs of the train split, no other repeat's, that a fair weight is measured on

    def design(self, step: int, train: bool = False, **changes: Any) -> Any:
        """The network of a step with some designs changed."""
        return self.network(f"morph_{step}", train, width=self.width, depths=self.depths, **changes)

    def inverted(self, model: nn.Module, weight: float = 1.0, hide: Sequence[str] = (), **how: Any) -> Result:
        """What the search finds on a network.  hide: names whose gradients are withheld."""
        return self.search(matching(self.attack, self.steps, weight), model, self.leak(model).without(hide), **how)

    def calibrated(self, model: nn.Module, hide: Sequence[str] = ()) -> Tensor:
        """The image that the search finds on a network, at the weight of smoothness that is fair to it."""
        return self.inverted(model, self.fair(model), hide).images

    def fair(self, model: nn.Module) -> float:
        """The weight of smoothness that is to this network what 1 is to step 9 at 32 x 32 pixels, to one digit."""
        small = replace(self, side=None)
        return float(f"{self.from_grey(model) / small.from_grey(small.design(9)):.1g}")

    def from_grey(self, model: nn.Module) -> float:
        """Cosine distance between the gradients of a grey image and of public photographs, on average: what a search has to go on."""
        photographs, apart = data.load("cifar10"), []
        for i in range(4 * self.number, 4 * self.number + self.public):
            image, label = photographs.one(i, size=self.side)
            grey, leak = (observe(model, x, label) for x in (torch.full_like(image, 0.5), image))
            apart.append(objectives.cosine_distance(image, grey.grads, leak).item())
        return sum(apart) / len(apart)


def trial(
    repeat: int, attack: str = "annealed", steps: int = 1, width: float = 1.0, depths: Sequence[int] | None = None,
    side: int | None = None, device: str = "cpu", public: int = 4,
) -> DesignTrial:  # fmt: skip
    """repeat: place of the photograph in CIFAR-10's test split, and seed of weights and noise; pilots count from the end."""
    plain = Trial.of(repeat % 10_000, side=side, device=device)
    return DesignTrial(**vars(plain), attack=attack, steps=steps, width=width, depths=depths, side=side, public=public)
