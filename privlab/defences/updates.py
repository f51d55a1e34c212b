"""One defence of a client's update, used three ways: on the update, on each step of a training, and by an attacker who knows it.

    defence = updates.sent("gaussian", relative=0.1)
    leak = defence(observe(model, images, labels), model)        # what the server receives
    training.fit(model, ..., defences=(defence,))                # what it costs, were every step's gradient sent like this
    defence.deviations(leak, model)                              # what one who knows the defence knows of the noise

In a training the gradient of a whole batch is the update: that of a client with so many images, and not the mean of many noisy ones.
It promises nothing, as no image's part is bounded; noise that does is `dp_sgd.dp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privlab.data.sources import nearest
from privlab.defences import noise_budget, perturbation
from privlab.leak import Leak
from privlab.models import parts
from privlab.training import Recipe
from privlab.training.defence import Defence

WAYS: dict[str, tuple[str, ...]] = {  # and the settings of each
    "gaussian": ("relative",),
    "laplacian": ("relative",),
    "spread": ("shares", "relative"),
    "clipped": ("norm",),
    "sparse": ("share",),
    "low_bits": ("bits",),
    "bfloat16": (),
    "withheld": ("words",),
}


@dataclass(frozen=True)
class UpdateDefence(Defence):
    """See `sent`."""

    by: str
    given: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise ValueError(f"by={self.by!r} is no way to send an update{nearest(self.by, [*WAYS])}")
        settings: dict[str, Any] = {n: list(v) if isinstance(v, tuple) else v for n, v in self.given}  # JSON has lists
        if settings.keys() != set(WAYS[self.by]):
            raise ValueError(
                f"{self.by} got {', '.join(settings) or 'nothing'}; give {', '.join(WAYS[self.by]) or 'nothing'}"
            )
        object.__setattr__(self, "given", tuple((name, settings[name]) for name in WAYS[self.by]))
        if self.by == "spread":
            noise_budget.check_shares(settings["shares"])
        for word in settings.get("words", []):
            if word not in parts.WORDS:
                raise ValueError(f"words: {word!r} is no part of a model{nearest(word, [*parts.WORDS])}")

    def __call__(self, leak: Leak, model: nn.Module, seed: int | None = 0) -> Leak:
        """What the server receives in place of this leak.  seed: of the noise; None draws from torch's own generator.

        Raises ValueError for numbers out of range, and a group or part that the model or the update lacks.
        """
        settings = dict(self.given)
        match self.by:
            case "spread":
                return noise_budget.spread(leak, **settings, seed=seed, model=model)
            case "gaussian" | "laplacian":
                return getattr(perturbation, self.by)(leak, **settings, seed=seed)
            case "bfloat16":
                return leak.rounded(torch.bfloat16)
            case "withheld":
                return leak.without(set(parts.names(model, *settings["words"])) & leak.grads.keys())
        return getattr(perturbation, self.by)(leak, **settings)

    def deviations(self, leak: Leak, model: nn.Module, rounds: int = 1) -> dict[str, float]:
        """What an attacker who knows the defence reads off the update received: parameter name -> standard deviation of its error.

        rounds: of how many updates with noise of their own the leak is the mean (`adaptive.averaged`); rounding errs alike in all of them.
        Empty where there is no noise, or where they know it without (`Leak.precision`). Noise that is relative to the gradient has, but
        for chance, a share of relative / sqrt(rounds + relative^2) in what arrives; rounding errs by 1 / sqrt(12) of a step.
        """
        settings = dict(self.given)
        if self.by == "low_bits":
            steps = 2 ** settings["bits"] - 1
            return {name: (g.max() - g.min()).item() / steps / 12**0.5 for name, g in leak.grads.items()}
        if "relative" not in settings:
            return {}
        received = settings["relative"] / math.hypot(rounds**0.5, settings["relative"])
        if self.by == "spread":
            return noise_budget.deviations(leak, settings["shares"], received, model)
        return {name: received * g.norm().item() / g.numel() ** 0.5 for name, g in leak.grads.items()}

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        self(_update({name: torch.ones_like(p) for name, p in model.named_parameters() if p.requires_grad}), model)

    def disturb(self, model: nn.Module) -> Callable[[], None]:
        def send() -> None:
            learnable = {name: p for name, p in model.named_parameters() if p.requires_grad}
            grads = {name: p.grad for name, p in learnable.items() if p.grad is not None}
            received = self(_update(grads), model, seed=None).grads
            for name in grads:
                learnable[name].grad = received.get(name)  # without one, the server leaves the parameter where it is

        return send

    def __repr__(self) -> str:
        return f"updates.sent({', '.join([repr(self.by), *(f'{name}={value!r}' for name, value in self.given)])})"


def sent(by: str, **settings: Any) -> UpdateDefence:
    """A defence of updates.

    by, settings: of `WAYS`; see `perturbation`, `noise_budget.spread`, and for "withheld" `parts.names`: in a training, what is withheld
        is never learnt.
    Raises ValueError for another way, and settings that it lacks or misses; when it is used, for numbers out of range.
    Source: Zhu et al. 2019, section 5; Abadi et al. 2016, algorithm 1 (clipped, there each image's gradient); the parts withheld are those
    of Zhang et al. 2024, Table 6, and two more.
    """
    return UpdateDefence(by, tuple(settings.items()))


def _update(grads: dict[str, Tensor]) -> Leak:
    """Gradients as an update; of which images no defence here asks."""
    return Leak(grads, 1, (1, 1, 1))
