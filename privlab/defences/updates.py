"""One defence of a client's update, used three ways: on the update, on each step of a training, and by an attacker who knows it.

    defence = updates.sent("gaussian", relative=0.1)
    leak = defence(observe(model, images, labels), model)        # what the server receives
    training.fit(model, ..., defences=(defence,))                # what it costs, were every step's gradient sent like this
    defence.deviations(leak, model)                              # what one who knows the defence knows of the noise

In a training the gradient of a whole batch is the update: that of a client with so many images, and not the mean of many noisy ones.
It promises nothing, as no image's part is bounded; noise that does is `dp_sgd.dp`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
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


def gaussian(leak: Leak, model: nn.Module, seed: int | None, relative: float) -> Leak:
    """Normal noise on each gradient, of `relative` times its norm (0 or more); after Zhu et al. 2019, section 5, see `perturbation`."""
    return perturbation.gaussian(leak, relative, seed)


def laplacian(leak: Leak, model: nn.Module, seed: int | None, relative: float) -> Leak:
    """Laplacian noise on each gradient, of `relative` times its norm (0 or more); after Zhu et al. 2019, section 5."""
    return perturbation.laplacian(leak, relative, seed)


def spread(
    leak: Leak, model: nn.Module, seed: int | None, shares: Mapping[noise_budget.Group, float], relative: float
) -> Leak:
    """Normal noise of `relative` (0 or more) times the update's norm, its energy in `shares` (1 together); see `noise_budget.spread`."""
    return noise_budget.spread(leak, shares, relative, seed, model)


def clipped(leak: Leak, model: nn.Module, seed: int | None, norm: float) -> Leak:
    """The whole update cut to a norm, above 0; Abadi et al. 2016, algorithm 1, does so with each image's gradient."""
    return perturbation.clipped(leak, norm)


def sparse(leak: Leak, model: nn.Module, seed: int | None, share: float) -> Leak:
    """The update's largest numbers alone, a `share` of them above 0 and at most 1; Zhu et al. 2019, section 5."""
    return perturbation.sparse(leak, share)


def low_bits(leak: Leak, model: nn.Module, seed: int | None, bits: int) -> Leak:
    """Each gradient rounded to the nearest of 2^bits levels, bits 1 to 16; Zhu et al. 2019, section 5."""
    return perturbation.low_bits(leak, bits)


def bfloat16(leak: Leak, model: nn.Module, seed: int | None) -> Leak:
    """Each gradient rounded to bfloat16, 8 significant bits; Zhu et al. 2019, section 5."""
    return leak.rounded(torch.bfloat16)


def withheld(leak: Leak, model: nn.Module, seed: int | None, words: Sequence[str]) -> Leak:
    """The update without the gradients of these parts, `words` of `parts.WORDS`; the parts of Zhang et al. 2024, Table 6, and two more."""
    return leak.without(set(parts.names(model, *words)) & set(leak.grads))


WAYS: dict[str, Callable[..., Leak]] = {
    way.__name__: way for way in (gaussian, laplacian, spread, clipped, sparse, low_bits, bfloat16, withheld)
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
        parameters = [*inspect.signature(WAYS[self.by]).parameters.values()][3:]
        if unknown := settings.keys() - {p.name for p in parameters}:
            raise ValueError(
                f"{self.by}: {sorted(unknown)[0]!r} is no setting of it; give {', '.join(p.name for p in parameters) or 'none'}"
            )
        if lacking := [p.name for p in parameters if p.name not in settings]:
            raise ValueError(f"{self.by}: {lacking[0]} is missing; give updates.sent({self.by!r}, {lacking[0]}=...)")
        object.__setattr__(self, "given", tuple((p.name, settings[p.name]) for p in parameters))
        if self.by == "spread":
            noise_budget.check_shares(settings["shares"])
            if wrong := [group for group in settings["shares"] if not isinstance(group, str)]:
                raise ValueError(
                    f"shares: {wrong[0]!r} is no word; groups are parts, single parameters, 'rest' or 'all'"
                )
            settings = settings | {"shares": noise_budget.UNIFORM}
        if self.by == "withheld":
            if not isinstance(settings["words"], list) or not settings["words"]:
                raise ValueError(
                    f"words={settings['words']!r} is no list of parts; give one or more, such as ['position']"
                )
            for word in settings["words"]:
                if word not in parts.WORDS:
                    raise ValueError(f"words: {word!r} is no part of a model{nearest(word, [*parts.WORDS])}")
        else:  # numbers out of range are named here, and not after an epoch
            WAYS[self.by](_leak({"w": torch.ones(2)}), nn.Identity(), 0, **settings)

    def __call__(self, leak: Leak, model: nn.Module, seed: int | None = 0) -> Leak:
        """What the server receives in place of this leak.  seed: of the noise; None draws from torch's own generator.

        Raises ValueError for a group or part that the model or the update lacks.
        """
        return WAYS[self.by](leak, model, seed, **dict(self.given))

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
        self(_leak({name: torch.ones_like(p) for name, p in _learnable(model).items()}), model)

    def disturb(self, model: nn.Module) -> Callable[[], None]:
        learnable = _learnable(model)

        def send() -> None:
            grads = {name: p.grad for name, p in learnable.items() if p.grad is not None}
            received = self(_leak(grads), model, seed=None).grads
            for name in grads:
                learnable[name].grad = received.get(name)  # without one, the server leaves the parameter where it is

        return send

    def __repr__(self) -> str:
        return f"updates.sent({', '.join([repr(self.by), *(f'{name}={value!r}' for name, value in self.given)])})"


def sent(by: str, **settings: Any) -> UpdateDefence:
    """A defence of updates.

    by: one of `WAYS`, and its settings: "gaussian" or "laplacian" (relative); "spread" (shares, relative; groups are words), see
        `noise_budget.spread`; "clipped" (norm), "sparse" (share), "low_bits" (bits), see `perturbation`; "bfloat16"; "withheld" (words),
        see `parts.names`. In a training, what is withheld is never learnt: it stays as it was drawn.
    Raises ValueError for another way, settings that it lacks or misses, and numbers out of range; and a training with it, for groups and
    parts that the model lacks.
    """
    return UpdateDefence(by, tuple(settings.items()))


def _learnable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _leak(grads: dict[str, Tensor]) -> Leak:
    """Gradients as an update; of which images no defence here asks."""
    return Leak(grads, 1, (1, 1, 1))
