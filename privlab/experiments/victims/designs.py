"""Searches on designs between a ResNet and a ConvNeXt, for labs 09 and 10: one photograph, one start, a draw of weights a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import data, metrics
from privlab.attacks.gradient_inversion import cases, objectives
from privlab.attacks.gradient_inversion.cases import Case
from privlab.attacks.gradient_inversion.results import Result
from privlab.experiments.reconstruction import baselines
from privlab.leak import observe
from privlab.models import morph


@dataclass(frozen=True)
class Search:
    """What all searches of one repeat share.

    repeat: place of the photograph in CIFAR-10's test split, seed of the weights, and of the noise that a search begins with.
    attack: "inverting_gradients" or "annealed".  steps: of it.  width, depths: of the networks, see `morph.build`.
    public: photographs of the train split, no other repeat's, that a fair weight is measured on.
    side: the photograph is enlarged to so many pixels, if given.  snapshots: steps at which pictures are kept on the way.
    """

    repeat: int
    attack: str
    steps: int
    width: float = 1.0
    depths: Sequence[int] | None = None
    public: int = 4
    side: int | None = None
    snapshots: tuple[int, ...] = ()
    device: str = "cpu"

    @property
    def number(self) -> int:
        """The repeat as a place among 10,000 photographs; pilots count from the end."""
        return self.repeat % 10_000

    @property
    def shape(self) -> dict[str, Any]:
        return dict(width=self.width) | ({} if self.depths is None else dict(depths=tuple(self.depths)))

    @cached_property
    def photograph(self) -> Tensor:
        """Under attack: (1, 3, side, side) in [0, 1]."""
        return data.load("cifar10", "test").one(self.number, size=self.side)[0]

    def case(self, step: int, weight: float = 1.0, train: bool = False, **changes: Any) -> Case:
        """The search on a step with some designs changed; `weight` times the usual weight of smoothness."""
        own = morph.STEPS[step]
        if changes.get("activations", own.activations) == "000" and not changes.get(
            "stem_activation", own.stem_activation
        ):
            changes.pop("activation", None)  # there is none to be of a kind
        changes = {name: value for name, value in changes.items() if getattr(own, name, None) != value}
        tv = 1e-4 * weight if self.attack == "inverting_gradients" else (0.02 * weight, 1e-5 * weight)
        return Case(
            f"morph_{step}", (self.number,), self.attack, dict(steps=self.steps, tv=tv), changes | self.shape, victim=self.number,
            seed=self.number, side=self.side, train=train, derivative="auto",
        )  # fmt: skip

    def result(self, step: int, weight: float = 1.0, **changes: Any) -> Result:
        return cases.searched(self.case(step, weight, **changes), self.device, self.snapshots)

    def curved(self, step: int, passes: int, **changes: Any) -> Result:
        """The same case by Gauss-Newton, which no weight of smoothness has to be set for."""
        asked = replace(self.case(step, **changes), attack="gauss_newton", settings=dict(steps=passes, passes=passes))
        return cases.searched(asked, self.device, self.snapshots)

    def alone(self, model: nn.Module, weight: float, hide: Sequence[str] = ()) -> Tensor:
        """The image that the search finds on a network that no `Case` describes, hide: names whose gradients are withheld."""
        case = self.case(9, weight)
        leak = observe(model, *case.batch()).without(hide)
        return case.search().run(model, leak, seed=case.seed, progress=False).images

    def fair(self, step: int, train: bool = False, **changes: Any) -> float:
        """The weight of smoothness that is to this design what 1 is to step 9 at 32 x 32 pixels, to one digit."""
        return self.weight_of(self.case(step, train=train, **changes).build(self.device))

    def weight_of(self, model: nn.Module) -> float:
        return float(f"{self.from_grey(model) / self._unit:.1g}")

    @cached_property
    def _unit(self) -> float:
        small = replace(self, side=None)
        return small.from_grey(small.case(9).build(self.device))

    def from_grey(self, model: nn.Module) -> float:
        """Cosine distance between the gradients of a grey image and of public photographs, on average: what a search has to go on."""
        photographs, apart = data.load("cifar10"), []
        for i in range(4 * self.number, 4 * self.number + self.public):
            image, label = photographs.one(i, size=self.side)
            grey, leak = (observe(model, x, label) for x in (torch.full_like(image, 0.5), image))
            apart.append(objectives.cosine_distance(image, grey.grads, leak).item())
        return sum(apart) / len(apart)

    def scores(self, key: str, image: Tensor, lpips: bool = False) -> Iterator[tuple[str, float]]:
        """How near an image is to the photograph; MSE is of normalised pixels, as the paper's must be."""
        normalise = data.NORMALISE["cifar10"]
        yield f"psnr[{key}]", metrics.psnr(image, self.photograph).item()
        yield f"ssim[{key}]", metrics.ssim(image, self.photograph).item()
        yield f"mse[{key}]", F.mse_loss(normalise(image), normalise(self.photograph)).item()
        if lpips:
            yield f"lpips[{key}]", metrics.lpips(image, self.photograph).item()

    def guesses(self, lpips: bool = False) -> Iterator[tuple[str, float]]:
        """Scores of pictures that look at no gradient: grey, and the mean of the public photographs."""
        mean = F.interpolate(
            baselines()["mean_photograph"], self.photograph.shape[-2:], mode="bilinear", antialias=True
        )
        yield from self.scores("cifar10, grey", torch.full_like(mean, 0.5), lpips)
        yield from self.scores("cifar10, mean_photograph", mean, lpips)
