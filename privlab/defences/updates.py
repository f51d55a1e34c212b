"""One defence of a client's update, used three ways: on the update, on each step of a training, and by an attacker who knows it.

    defence = updates.sent("gaussian", relative=0.1)
    leak = defence(observe(model, images, labels), model)        # what the server receives
    training.fit(model, ..., defences=(defence,))                # what it costs, were every step's gradient sent like this
    defence.deviations(leak, model)                              # what one who knows the defence knows of the noise

In a training the gradient of a whole batch is the update: that of a client with so many images, and not the mean of many noisy ones.
It promises nothing, as no image's part is bounded; noise that does is `dp_sgd.DP`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import nn

from privlab.data.sources import nearest
from privlab.defences import perturbation
from privlab.leak import Leak
from privlab.models import parts
from privlab.training import Recipe
from privlab.training.defence import Defence


def withheld(leak: Leak, model: nn.Module, words: Sequence[str]) -> Leak:
    """The update without these parts of the model, see `parts.names`."""
    return leak.without(set(parts.names(model, *words)) & leak.grads.keys())


WAYS: dict[str, Callable[..., Leak]] = {
    "gaussian": perturbation.gaussian,
    "laplacian": perturbation.laplacian,
    "spread": perturbation.spread,
    "clipped": perturbation.clipped,
    "sparse": perturbation.sparse,
    "low_bits": perturbation.low_bits,
    "bfloat16": lambda leak: leak.rounded(torch.bfloat16),
    "withheld": withheld,
}


@dataclass(frozen=True)
class UpdateDefence(Defence):
    """See `sent`."""

    by: str
    given: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.by not in WAYS:
            raise ValueError(f"by={self.by!r} is no way to send an update{nearest(self.by, [*WAYS])}")
        wanted = [name for name in signature(WAYS[self.by]).parameters if name not in ("leak", "model", "seed")]
        if dict(self.given).keys() != {*wanted}:
            got, give = ", ".join(dict(self.given)), ", ".join(wanted)
            raise ValueError(f"{self.by} got {got or 'nothing'}; give {give or 'nothing'}")
        given = {name: list(value) if isinstance(value, tuple) else value for name, value in self.given}
        object.__setattr__(self, "given", tuple((name, given[name]) for name in wanted))  # one form for one defence

    def __call__(self, leak: Leak, model: nn.Module, seed: int | None = 0) -> Leak:
        """What the server receives in place of this leak.  seed: of the noise; None draws from torch's own generator.

        Raises ValueError for numbers out of range, and a group or part that the model or the update lacks.
        """
        way, about = WAYS[self.by], {"model": model, "seed": seed}
        return way(leak, **dict(self.given), **{k: v for k, v in about.items() if k in signature(way).parameters})

    def deviations(self, leak: Leak, model: nn.Module, rounds: int = 1) -> dict[str, float]:
        """What an attacker who knows the defence reads off the update received: parameter name -> standard deviation of its error.

        rounds: of how many updates with noise of their own the leak is the mean (`adaptive.averaged`); rounding errs alike in all of them.
        Empty where there is no noise. Noise that is relative to the gradient has, but for chance, a share of
        relative / sqrt(rounds + relative^2) in what arrives; rounding errs by 1 / sqrt(12) of a step.
        """
        settings = dict(self.given)
        if self.by == "low_bits":
            steps = 2 ** settings["bits"] - 1
            return {name: (g.max() - g.min()).item() / steps / 12**0.5 for name, g in leak.grads.items()}
        if "relative" not in settings:
            return {}
        received = settings["relative"] / math.hypot(rounds**0.5, settings["relative"])
        if self.by == "spread":
            return perturbation.deviations(leak, settings["shares"], received, model)
        return {name: received * g.norm().item() / g.numel() ** 0.5 for name, g in leak.grads.items()}

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        grads = {name: torch.ones_like(p) for name, p in model.named_parameters() if p.requires_grad}
        self(Leak(grads, 1, (1, 1, 1)), model)  # of what images, no defence here asks

    def disturb(self, model: nn.Module) -> Callable[[], None]:
        def send() -> None:
            grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
            received = self(Leak(grads, 1, (1, 1, 1)), model, seed=None).grads
            for name in grads:  # without one, the server leaves the parameter where it is
                model.get_parameter(name).grad = received.get(name)

        return send

    def __repr__(self) -> str:
        return f"updates.sent({', '.join([repr(self.by), *(f'{name}={value!r}' for name, value in self.given)])})"


def sent(by: str, **settings: Any) -> UpdateDefence:
    """A defence of updates.

    by: of `WAYS`.  settings: of that function, such as relative, shares or norm. In a training, what is withheld is never learnt.
    Raises ValueError for another way, and settings that it lacks or misses; when it is used, for numbers out of range.
    Source: Zhu et al. 2019, section 5; Abadi et al. 2016, algorithm 1 (clipped, there each image's gradient); the parts withheld are those
    of Zhang et al. 2024, Table 6, and two more.
    """
    return UpdateDefence(by, tuple(settings.items()))
