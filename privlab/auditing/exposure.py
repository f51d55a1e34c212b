"""What algebra alone reads from one image's gradient, by every closed form of this book, and what stops it at the least cost."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.gradient_inversion.closed_form import Recovery, first_layer
from privlab.defences import perturbation
from privlab.leak import Leak

# Closed form -> the gradients that it reads; those of "first_layer" are seen by running the model.
FORMS: dict[str, tuple[str, ...]] = {
    "patch_embedding": ("pos_embed", "patch_embed.proj.weight"),
    "subspace": ("blocks.0.attn.qkv.weight",),
    "attention": ("pos_embed", "blocks.0.attn.qkv.weight"),
    "first_layer": (),
}
NOISE = (0.001, 0.01, 0.1, 1.0)  # norm of the noise over that of the gradient
SHORT = torch.bfloat16


@dataclass(frozen=True)
class Solve:
    """One closed form on one image.

    how: the gradients as computed ("float32"), rounded ("bfloat16"), or with noise ("gaussian 0.01").  psnr: of the clamped image, in dB.
    condition, rank, unknowns: of the linear system, see `closed_form.Recovery`.  note: what the solver warned of.
    """

    form: str
    image: int
    how: str
    psnr: float
    condition: float
    rank: int
    unknowns: int
    note: str = ""


@dataclass(frozen=True)
class Exposure:
    """All closed forms on one image.

    why: form -> why it does not apply.  needs: form -> the gradients that it read.
    energies: how the gradients were sent -> squared norm of what that changed over the gradient's own.
    pictures: how -> that of the form that is best as computed, (1, channels, height, width).
    """

    solves: tuple[Solve, ...]
    why: dict[str, str]
    needs: dict[str, tuple[str, ...]]
    energies: dict[str, float]
    pictures: dict[str, Tensor]


def word(dtype: torch.dtype) -> str:
    """A float format as a word, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def expose(model: nn.Module, leak: Leak, image: Tensor, level: float, seed: int = 0, index: int = 0) -> Exposure:
    """Try every closed form on one leak, as computed and in bfloat16; and with noise, those that get above a level.

    leak: of one image, unrounded.  image: the truth, (1, channels, height, width) in [0, 1], for the scores.  level: in dB.
    seed: of the noise, which the attacker knows the size of.  index: the image's number, for the table.
    """
    computed, needs, why = word(leak.precision), dict(FORMS), {}
    recoveries: dict[str, dict[str, tuple[Recovery, str]]] = {computed: {}}  # how -> form -> what came back
    for form in FORMS:
        try:
            if form == "first_layer":
                name = first_layer.layer(model, leak)
                needs[form] = (f"{name}.weight", f"{name}.bias")
            recoveries[computed][form] = _solve(form, model, leak)
        except ValueError as error:
            why[form] = str(error)
    alive = list(recoveries[computed])
    rounded = leak.rounded(SHORT)
    recoveries[word(SHORT)] = {form: _solve(form, model, rounded) for form in alive}

    scores = {form: metrics.psnr(recoveries[computed][form][0].clamped, image).item() for form in alive}
    leaking = [form for form in alive if scores[form] > level]
    names = {name for form in leaking for name in needs[form]}
    energies = {word(SHORT): _energy(leak, rounded, names)} if leaking else {}
    for relative in NOISE if leaking else ():
        noisy, how = perturbation.gaussian(leak.only(names), relative, seed=seed), f"gaussian {relative:g}"
        recoveries[how] = {form: _solve(form, model, noisy, relative) for form in leaking}
        energies[how] = _energy(leak, noisy, names)

    solves = tuple(
        Solve(form, index, how, _score(got, image), got.condition, got.rank, got.unknowns, note)
        for how, forms in recoveries.items()
        for form, (got, note) in forms.items()
    )
    best = max(scores, key=lambda form: scores[form], default="")
    pictures = {how: forms[best][0].clamped.cpu().float() for how, forms in recoveries.items() if best in forms}
    return Exposure(solves, why, needs, energies, pictures)


def _solve(form: str, model: nn.Module, leak: Leak, noise: float | None = None) -> tuple[Recovery, str]:
    """What a form gives back, and its warnings; ValueError where it does not apply."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = form == "first_layer"  # a mean over rows, which needs no telling of the noise
        recovery = first_layer.image(model, leak) if whole else getattr(closed_form, form)(model, leak, noise)
    note = "; ".join(str(w.message) for w in caught)
    if "does not hold" in note:
        raise ValueError(f"model: {note}")
    return recovery, note


def _score(recovery: Recovery, image: Tensor) -> float:
    return metrics.psnr(recovery.clamped, image).item()


def _energy(leak: Leak, changed: Leak, names: set[str]) -> float:
    change = sum((changed.grads[n] - leak.grads[n]).double().square().sum().item() for n in names)
    return change / sum(leak.grads[n].double().square().sum().item() for n in names)


# -- what would stop it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defence:
    """A way to send less, and what the closed forms still make of it.

    energy: squared norm of what it changes over the gradient's own, mean over the images.  withheld: names of gradients that it keeps back.
    numbers: how many that are.  psnr: the most that is left over forms and images, in dB; None where no form can run.
    holds: whether no image is above its level.
    """

    name: str
    energy: float
    withheld: tuple[str, ...]
    numbers: int
    psnr: float | None
    holds: bool


def leaking(solves: Sequence[Solve], computed: str, levels: Sequence[float]) -> list[Solve]:
    """Those of the solves from unchanged gradients that are above their image's level."""
    return [s for s in solves if s.how == computed and s.psnr > levels[s.image]]


def defences(
    exposures: Sequence[Exposure], computed: str, levels: Sequence[float], sizes: Mapping[str, int]
) -> list[Defence]:
    """What each defence leaves of the forms that leak; nothing where none does.

    computed: the word for gradients as computed.  levels: one an image, in dB.  sizes: parameter -> its numbers.
    Noise and rounding first, then the gradients that could be withheld: each alone, and the least sets that stop every form.
    """
    solves = [s for exposure in exposures for s in exposure.solves]
    bare = leaking(solves, computed, levels)
    if not bare:
        return []
    pairs, needs = {(s.form, s.image) for s in bare}, exposures[0].needs
    rows = []
    for how in [word(SHORT), *(f"gaussian {relative:g}" for relative in NOISE)]:
        left = [s for s in solves if s.how == how and (s.form, s.image) in pairs]
        spent = [e.energies[how] for e in exposures if how in e.energies]
        holds = all(s.psnr <= levels[s.image] for s in left)
        rows.append(Defence(how, sum(spent) / len(spent), (), 0, max(s.psnr for s in left), holds))
    names = sorted({name for form, _ in pairs for name in needs[form]}, key=lambda name: sizes[name])
    hits: list[set[str]] = []
    for count in range(1, len(names) + 1):
        for some in itertools.combinations(names, count):
            left = [s for s in bare if not set(some) & set(needs[s.form])]
            if any(hit <= set(some) for hit in hits) or (left and count > 1):
                continue
            hits += [] if left else [set(some)]
            most = max((s.psnr for s in left), default=None)
            rows.append(Defence("withheld", 0.0, some, sum(sizes[n] for n in some), most, not left))
    return rows


def cheapest(rows: Sequence[Defence]) -> tuple[Defence | None, Defence | None]:
    """Of the defences that hold: the one with the least energy of noise, and the one that withholds the fewest numbers."""
    noise = [row for row in rows if row.holds and not row.withheld]
    withheld = [row for row in rows if row.holds and row.withheld]
    least = min(noise, key=lambda row: row.energy, default=None)
    return least, min(withheld, key=lambda row: row.numbers, default=None)
