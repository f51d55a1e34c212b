"""The attacker who knows the defence: what he does with noise whose size, tensor by tensor, is no secret.

A defence that is safe only while nobody knows of it is not safe. `deviations`, an argument of most functions here, is what
`defences.budget.deviations` gives: parameter name -> standard deviation of the noise in each number. The closed forms take the same
mapping as it is: closed_form.patch_embedding(model, leak, noise=deviations).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from privlab.attacks import objectives
from privlab.attacks.matching import Inversion
from privlab.attacks.objectives import Objective
from privlab.leak import Leak


def averaged(leaks: Sequence[Leak]) -> Leak:
    """The mean of several rounds in which a client sent the same batch at the same weights, each time with fresh noise.

    n rounds cut the noise to 1 / sqrt(n), and the deviations with it; what rounding or clipping took stays lost.
    Returns a leak with the labels of the first.
    Raises ValueError for no leak, and for leaks of other parameters, batches or labels than the first.
    """
    leaks = list(leaks)
    if not leaks:
        raise ValueError("leaks=[] has no round; give one leak or more")
    first = leaks[0]
    for number, leak in enumerate(leaks[1:], start=2):
        same = (
            {n: g.shape for n, g in leak.grads.items()} == {n: g.shape for n, g in first.grads.items()}
            and (leak.batch_size, leak.image_shape) == (first.batch_size, first.image_shape)
            and _alike(leak, first)
        )
        if not same:
            raise ValueError(
                f"leaks: round {number} ({leak!r}) is not of the batch and the parameters of the first ({first!r}); "
                "give rounds of one batch and one model"
            )
    return replace(first, grads={n: torch.stack([leak.grads[n] for leak in leaks]).mean(0) for n in first.grads})


def weighted(
    leak: Leak, deviations: Mapping[str, float], objective: Objective = objectives.squared_distance, floor: float = 1e-3
) -> objectives.Weighted:
    """An objective that hears each tensor by 1 / the standard deviation of its noise; see `weights`.

    With the squared distance it is, but for the floor, twice the negative logarithm of the likelihood under normal noise: no other weights
    tell more where the message depends linearly on what is sought (Gauss and Markov).
    """
    return objectives.weighted(objective, weights(leak, deviations, floor))


def weights(leak: Leak, deviations: Mapping[str, float], floor: float = 1e-3) -> dict[str, float]:
    """Factors for `objectives.weighted`: 1 / hypot(deviation, floor * size), size being the root mean square of all the leak's numbers.

    deviations: of names that the leak holds; others count for nothing, and a name that is missing has no noise.
    floor: a positive number; smaller noise is as good as none. Without it a tensor without noise would weigh infinitely more than others.
        Tensors without noise weigh alike, so an attack on a clean message stays what it was.
    Raises ValueError for deviations that are negative or not finite, a floor of 0 or less, and a leak of zeros.
    """
    if not 0 < floor < math.inf:
        raise ValueError(f"floor={floor} is no share of a gradient's size; give a positive number, such as 1e-3")
    known, size = _checked(leak, deviations), leak.norm.item() / sum(g.numel() for g in leak.grads.values()) ** 0.5
    if not size:
        raise ValueError("leak: its gradients are zero throughout, so there is nothing to weigh")
    return {name: 1 / math.hypot(deviation, floor * size) for name, deviation in known.items()}


def informed(attack: Inversion, leak: Leak, deviations: Mapping[str, float], floor: float = 1e-3) -> Inversion:
    """The same search, each of its terms on gradients weighed as in `weighted`; it has to be run on this leak.

    A squared distance is then in units of the noise, so priors want another weight; a cosine distance stays between 0 and 2.
    """
    factors = weights(leak, deviations, floor)
    terms = [
        replace(term, value=objectives.weighted(term.value, factors)) if term.of == "gradients" else term
        for term in attack.terms
    ]
    return replace(attack, terms=tuple(terms))


def dropped(leak: Leak, deviations: Mapping[str, float], above: float = 0.5) -> Leak:
    """The leak without the tensors that are mostly noise: for attacks that cannot weigh.

    above: tensors go whose noise has a greater standard deviation than this share of the root mean square of the numbers received, in which
        the noise itself is counted: pure noise has a share of about 1. A positive number; .7 keeps what is at least half signal.
    Raises ValueError where nothing would be left, for another `above`, and for deviations that are negative or not finite.
    """
    if not 0 < above < math.inf:
        raise ValueError(f"above={above} is no share of a gradient's size; give a positive number, such as 0.5")
    known = _checked(leak, deviations)
    sizes = {name: g.double().square().mean().sqrt().item() for name, g in leak.grads.items()}
    shares = {name: known[name] / size if size else float(known[name] > 0) for name, size in sizes.items()}
    cleanest = min(shares, key=lambda name: shares[name])
    if shares[cleanest] > above:
        raise ValueError(
            f"above={above} leaves no gradient; the cleanest, {cleanest!r}, has a share of noise of {shares[cleanest]:.2g}"
        )
    return leak.without([name for name, share in shares.items() if share > above])


def _alike(leak: Leak, other: Leak) -> bool:
    if leak.labels is None or other.labels is None:
        return leak.labels is other.labels
    return torch.equal(leak.labels, other.labels)


def _checked(leak: Leak, deviations: Mapping[str, float]) -> dict[str, float]:
    """The deviation of each gradient of the leak."""
    for name, size in deviations.items():
        if not 0 <= size < math.inf:
            raise ValueError(f"deviations[{name!r}]={size} is no standard deviation; give 0 or more")
    return {name: deviations.get(name, 0.0) for name in leak.grads}
