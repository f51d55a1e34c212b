"""The attacker who knows the defence: a defence that is safe only while nobody knows of it is not safe."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives
from privlab.attacks.gradient_inversion.objectives import Objective
from privlab.attacks.gradient_inversion.search import GradientMatching
from privlab.leak import Leak
from privlab.models.forward import Gradients

LEFT_OVER = 0.03  # of a tensor, by which a search misses it anyway


def averaged(leaks: Sequence[Leak]) -> Leak:
    """The mean of n rounds in which a client sent the same batch at the same weights: fresh noise falls to 1 / sqrt(n)."""
    return replace(leaks[0], grads={n: torch.stack([leak.grads[n] for leak in leaks]).mean(0) for n in leaks[0].grads})


def tempered(attack: GradientMatching, leak: Leak, deviations: Mapping[str, float]) -> GradientMatching:
    """The same search, its terms on gradients now the squared distance, each tensor weighed by 1 / hypot(|g|, |noise| / LEFT_OVER).

    Without noise that is `objectives.relative_distance`, which noise drowns first, since small tensors drown first.
    deviations: parameter name -> standard deviation of the noise in each number, as `defences.perturbation.deviations` gives them.
    """
    floor = objectives.FLOOR * leak.norm.item()
    factors = {}
    for name, g in leak.grads.items():
        noise = deviations.get(name, 0.0) * g.numel() ** 0.5
        factors[name] = 1 / math.hypot(max(g.norm().item(), floor), noise / LEFT_OVER)
    return compared(attack, objectives.weighted(objectives.squared_distance, factors))


def arrived(attack: GradientMatching) -> GradientMatching:
    """The same search, comparing only the numbers of an update that are not 0: for updates of which most was not sent."""

    def what_arrived(grads: Gradients, leak: Leak) -> Gradients:
        return {n: grads[n].where(g != 0, 0.0) for n, g in leak.grads.items()}

    return _behind(what_arrived, attack)


def unclipped(attack: GradientMatching) -> GradientMatching:
    """The same search, its gradient brought to the length of the update before they are compared: for one that was cut to a length."""

    def at_its_length(grads: Gradients, leak: Leak) -> Gradients:
        mine = torch.stack([grads[n].square().sum() for n in leak.grads]).sum().sqrt()
        return {n: grads[n] * (leak.norm / mine) for n in leak.grads}

    return _behind(at_its_length, attack)


def compared(attack: GradientMatching, objective: Objective) -> GradientMatching:
    """The same search, by another objective on gradients; terms on images stay."""
    return replace(attack, terms=tuple(replace(t, value=objective) if t.of == "gradients" else t for t in attack.terms))


def _behind(transform: Callable[[Gradients, Leak], Gradients], attack: GradientMatching) -> GradientMatching:
    """The same search, the attacker's gradients behind a transform."""

    def behind(objective: Objective) -> Objective:
        def value(images: Tensor, grads: Gradients, leak: Leak) -> Tensor:
            return objective(images, transform(grads, leak), leak)

        value.__name__ = f"{transform.__name__}({getattr(objective, '__name__', objective)})"
        return value

    terms = [replace(t, value=behind(t.value)) if t.of == "gradients" else t for t in attack.terms]
    return replace(attack, terms=tuple(terms))
