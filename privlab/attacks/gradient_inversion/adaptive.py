"""The attacker who knows the defence: what they do with noise whose size, tensor by tensor, is no secret.

A defence that is safe only while nobody knows of it is not safe. `deviations`, an argument of most functions here, is what
`defences.noise_budget.deviations` gives: parameter name -> standard deviation of the noise in each number. The closed forms take the same
mapping as it is: closed_form.patch_embedding(model, leak, noise=deviations).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import objectives
from privlab.attacks.gradient_inversion.objectives import Objective
from privlab.attacks.gradient_inversion.search import GradientMatching
from privlab.leak import Leak
from privlab.models.forward import Gradients


def averaged(leaks: Sequence[Leak]) -> Leak:
    """The mean of several rounds in which a client sent the same batch at the same weights, each time with fresh noise.

    n rounds cut the noise to 1 / sqrt(n), and the deviations with it; what rounding or clipping took stays lost.
    Returns a leak with the labels of the first.  Raises ValueError for leaks of other parameters than the first.
    """
    first = leaks[0]
    for leak in leaks[1:]:
        if {n: g.shape for n, g in leak.grads.items()} != {n: g.shape for n, g in first.grads.items()}:
            raise ValueError(
                f"leaks: {leak!r} and {first!r} are not of the same parameters; give rounds of one batch and one model"
            )
    return replace(first, grads={n: torch.stack([leak.grads[n] for leak in leaks]).mean(0) for n in first.grads})


def tempered(
    attack: GradientMatching, leak: Leak, deviations: Mapping[str, float], share: float = 0.03
) -> GradientMatching:
    """The same search, its terms on gradients now the squared distance, each tensor's over its size and the noise in it.

    The weights are 1 / hypot(|g|, |noise| / share), for each tensor of the update. Without noise that is `objectives.relative_distance`,
    its floor included: it weighs every tensor alike, is best for a search on a clean update, and the first to be drowned, since small
    tensors drown first. One whose noise is `share` of it or more counts as its noise does. A search never meets an update exactly, so noise
    below what it leaves over costs nothing: `share` is about that. With share towards 0 the noise alone decides. A tensor counts as one,
    however many numbers it has.

    deviations: of names that the leak holds; others count for nothing, and a name that is missing has no noise.
    share: above 0.  The search has to be run on this leak.
    """
    floor = objectives.FLOOR * leak.norm.item()
    sizes = {name: max(g.norm().item(), floor) for name, g in leak.grads.items()}
    noises = {name: deviations.get(name, 0.0) * g.numel() ** 0.5 for name, g in leak.grads.items()}
    factors = {name: 1 / math.hypot(size, noises[name] / share) for name, size in sizes.items()}
    objective = objectives.weighted(objectives.squared_distance, factors)
    return compared(attack, objective)


def arrived(attack: GradientMatching) -> GradientMatching:
    """The same search, comparing only the numbers of an update that are not 0: for updates of which most was not sent."""
    return _on_gradients(attack, lambda value: Transformed(value, what_arrived))


def unclipped(attack: GradientMatching) -> GradientMatching:
    """The same search, its gradient brought to the length of the update before they are compared: for one that was cut to a length.

    Which way the update points is all that clipping leaves, and all that it takes is the length, which tells next to nothing.
    """
    return _on_gradients(attack, lambda value: Transformed(value, at_its_length))


def what_arrived(grads: Gradients, leak: Leak) -> Gradients:
    """The attacker's numbers, 0 where the update has 0."""
    return {n: grads[n].where(g != 0, 0.0) for n, g in leak.grads.items()}


def at_its_length(grads: Gradients, leak: Leak) -> Gradients:
    """The attacker's numbers, all of them times the factor that makes them as long as the update."""
    mine = torch.stack([grads[n].square().sum() for n in leak.grads]).sum().sqrt()
    return {n: grads[n] * (leak.norm / mine) for n in leak.grads}


@dataclass(frozen=True, repr=False)
class Transformed:
    """An objective of the attacker's gradients after `transform`, a function (gradients, update) -> gradients."""

    objective: Objective
    transform: Callable[[Gradients, Leak], Gradients]

    def __call__(self, images: Tensor, grads: Gradients, leak: Leak) -> Tensor:
        return self.objective(images, self.transform(grads, leak), leak)

    def prepare(self, model: nn.Module, leak: Leak) -> Transformed | None:
        inner = getattr(self.objective, "prepare", None)
        objective = inner(model, leak) if inner else self.objective
        return None if objective is None else Transformed(objective, self.transform)

    def __repr__(self) -> str:
        return f"{self.transform.__name__}({getattr(self.objective, '__name__', repr(self.objective))})"


def compared(attack: GradientMatching, objective: Objective) -> GradientMatching:
    """The same search, by another objective on gradients; terms on images stay."""
    return _on_gradients(attack, lambda _: objective)


def _on_gradients(attack: GradientMatching, change: Callable[[Objective], Objective]) -> GradientMatching:
    """The same search, each of its terms on gradients with what `change` makes of its objective."""
    terms = [replace(t, value=change(t.value)) if t.of == "gradients" else t for t in attack.terms]
    return replace(attack, terms=tuple(terms))
