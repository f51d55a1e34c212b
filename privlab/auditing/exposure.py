"""What algebra alone reads from one image's gradient, by every closed form of this book, and what stops it at the least cost."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.gradient_inversion.closed_form import Recovery, first_layer, patches
from privlab.auditing import entrance
from privlab.auditing.likeness import Level, likeness
from privlab.defences import perturbation
from privlab.leak import Leak

# Closed form -> the gradients that it reads; those of "first_layer" and "patch_embedding" are seen by running the model.
FORMS: dict[str, tuple[str, ...]] = {
    "patch_embedding": ("pos_embed", "patch_embed.proj.weight"),  # as timm calls them
    "subspace": ("blocks.0.attn.qkv.weight",),
    "attention": ("pos_embed", "blocks.0.attn.qkv.weight"),
    "first_layer": (),
}
NOISE = (0.001, 0.01, 0.1, 1.0)  # norm of the noise over that of the gradient
SHORT = torch.bfloat16
SETS = 16  # of gradients to withhold, that are looked for and tried


@dataclass(frozen=True)
class Solve:
    """One closed form on one image.

    how: the gradients as computed ("float32"), rounded ("bfloat16"), or with noise ("gaussian 0.01").  psnr: of the clamped image, in dB.
    condition, rank, unknowns: of the linear system, see `closed_form.Recovery`.  note: what the solver warned of.
    ssim, lpips: of the clamped image, see `likeness`.  nearer: by these two, than every picture that looks at no gradient.
    """

    form: str
    image: int
    how: str
    psnr: float
    condition: float
    rank: int
    unknowns: int
    note: str = ""
    ssim: float | None = None
    lpips: float | None = None
    nearer: bool = False


Shown = list[tuple[frozenset[str], Solve]]  # the gradients that a form reads, and what it solves


@dataclass(frozen=True)
class Exposure:
    """All closed forms on one image.

    why: form -> why it does not apply.  needs: form -> the gradients that it read.
    ways: every way in which a form shows the image, from gradients as computed.
    energies: how the gradients were sent -> squared norm of what that changed over the gradient's own.
    pictures: how -> that of the form that is best as computed, (1, channels, height, width).
    """

    solves: tuple[Solve, ...]
    why: dict[str, str]
    needs: dict[str, tuple[str, ...]]
    ways: Shown
    energies: dict[str, float]
    pictures: dict[str, Tensor]


def word(dtype: torch.dtype) -> str:
    """A float format as a word, such as "float32"."""
    return str(dtype).removeprefix("torch.")


def expose(model: nn.Module, leak: Leak, image: Tensor, level: Level, seed: int = 0, index: int = 0) -> Exposure:
    """Try every closed form on one leak, as computed and in bfloat16; and with noise, those that get above a level.

    leak: of one image, unrounded.  image: the truth, (1, channels, height, width) in [0, 1], for the scores.
    level: what a picture of it has to stay below.
    seed: of the noise, which the attacker knows the size of.  index: the image's number, for the table.
    """
    computed, needs, levels = word(leak.precision), dict(FORMS), {index: level.psnr}
    why: dict[str, str] = {}
    ways: Shown = []
    # form -> gradients -> who reads the image from these: all that show it, else the best
    readers: dict[str, dict[tuple[str, ...], Reader]] = {}
    recoveries: dict[str, dict[str, tuple[Recovery, Solve]]] = {computed: {}}  # how -> form -> what came back

    def solved(form: str, how: str, read: Reader, sent: Leak, noise: float | None = None) -> tuple[Recovery, Solve]:
        recovery, note = read(sent, noise)
        return recovery, _solve(form, index, how, recovery, note, image, level)

    def rank(found: tuple[Recovery, Solve]) -> tuple[bool, float]:
        return shows(found[1], levels), found[1].psnr

    for form, (required, read) in _readers(model, leak):
        best = recoveries[computed].get(form)
        if best and required in readers[form] and shows(best[1], levels):
            continue  # another way from the same gradients to the same picture
        try:
            new = solved(form, computed, read, leak)
        except ValueError as error:
            why.setdefault(form, str(error))
            continue
        if shows(new[1], levels):
            ways.append((frozenset(required), new[1]))
        if best is None or rank(new) > rank(best):
            recoveries[computed][form], needs[form] = new, required
            readers[form] = (readers[form] if best and shows(best[1], levels) else {}) | {required: read}
        elif shows(new[1], levels):
            readers[form][required] = read
    alive = [form for form in FORMS if form in readers]
    why = {form: why[form] for form in FORMS if form not in readers}

    def read_all(forms: Sequence[str], how: str, sent: Leak, noise: float | None) -> None:
        """Note the best that each form makes of a changed leak, unless the change leaves nothing to solve."""
        recoveries[how] = {}
        for form in forms:
            found = []
            for read in readers[form].values():
                with contextlib.suppress(ValueError):
                    found.append(solved(form, how, read, sent, noise))
            if found:
                recoveries[how][form] = max(found, key=rank)

    rounded = leak.rounded(SHORT)
    read_all(alive, word(SHORT), rounded, None)
    leaking = [form for form in alive if shows(recoveries[computed][form][1], levels)]
    names = {name for form in leaking for required in readers[form] for name in required}
    energies = {word(SHORT): _energy(leak, rounded, names)} if leaking else {}
    for relative in NOISE if leaking else ():
        noisy, how = perturbation.gaussian(leak.only(names), relative, seed=seed), f"gaussian {relative:g}"
        read_all(leaking, how, noisy, relative)
        energies[how] = _energy(leak, noisy, names)

    solves = tuple(solve for forms in recoveries.values() for _, solve in forms.values())
    first = max(alive, key=lambda form: recoveries[computed][form][1].psnr, default="")
    pictures = {how: forms[first][0].clamped.cpu().float() for how, forms in recoveries.items() if first in forms}
    return Exposure(solves, why, needs, ways, energies, pictures)


def without(exposure: Exposure, model: nn.Module, leak: Leak, image: Tensor, level: Level, index: int) -> Shown:
    """The ways that are left where gradients are withheld.

    exposure: of the whole leak.  leak: without them.  image, level, index: see `expose`.
    Forms on tokens read what they name and nothing else, so they are not asked again; who reads a first layer may look at others instead.
    """
    found = [(n, s) for n, s in exposure.ways if s.form != "first_layer" and n <= leak.grads.keys()]
    for form, (names, read) in _on_first_layers(model, leak):
        with contextlib.suppress(ValueError):
            solve = _solve(form, index, word(leak.precision), *read(leak, None), image, level)
            if shows(solve, {index: level.psnr}):
                found.append((frozenset(names), solve))
    return found


def _solve(form: str, index: int, how: str, got: Recovery, note: str, image: Tensor, level: Level) -> Solve:
    like = likeness(got.clamped, image)
    system = (got.condition, got.rank, got.unknowns)
    return Solve(form, index, how, like.psnr, *system, note, like.ssim, like.lpips, level.nearer(like))


Reader = Callable[[Leak, float | None], tuple[Recovery, str]]
Named = tuple[tuple[str, ...], Reader]  # the gradients that it needs, and what reads the image from a leak


def _readers(model: nn.Module, leak: Leak) -> Iterator[tuple[str, Named]]:
    """Form -> all that may read the image so, the plain way first."""
    yield from _on_tokens(model, leak)
    yield from _on_first_layers(model, leak)


def _on_tokens(model: nn.Module, leak: Leak) -> Iterator[tuple[str, Named]]:
    try:
        read = patches.find(model, leak)
        yield (
            "patch_embedding",
            ((read.position, read.weight), functools.partial(_heard, closed_form.patch_embedding, model)),
        )
    except ValueError as error:
        yield "patch_embedding", ((), _refusal(error))
    for part in entrance.parts(model, leak):
        for form in (form for form in FORMS if form != "first_layer"):
            names = tuple(part.prefix + name for name in FORMS[form])
            yield form, (names, _from(names, functools.partial(_heard, part.solve, getattr(closed_form, form), model)))


def _on_first_layers(model: nn.Module, leak: Leak) -> Iterator[tuple[str, Named]]:
    try:
        name = first_layer.layer(model, leak)
        yield "first_layer", (_pair(name), _by(functools.partial(first_layer.image, model)))
    except ValueError as error:
        yield "first_layer", ((), _refusal(error))
    for names, read_whole in entrance.whole(model, leak):
        yield "first_layer", (names, _by(read_whole))


def _refusal(error: ValueError) -> Reader:
    def refuse(*_: Any) -> tuple[Recovery, str]:
        raise error

    return refuse


def _from(names: Sequence[str], read: Reader) -> Reader:
    """The same, unless it reads others than these, which are not there: a form may look behind a wrapper by itself."""

    def from_these(leak: Leak, noise: float | None) -> tuple[Recovery, str]:
        found = read(leak, noise)
        if missing := set(names) - leak.grads.keys():
            raise ValueError(f"leak: {min(missing)!r} is not there, so it was read from others")
        return found

    return from_these


def _by(form: Callable[[Leak], Recovery]) -> Reader:
    """A reader that needs no telling of the noise."""
    return lambda leak, _: _heard(form, leak)


def _pair(layer: str) -> tuple[str, str]:
    return f"{layer}.weight", f"{layer}.bias"


def _heard(form: Callable[..., Recovery], *arguments: Any) -> tuple[Recovery, str]:
    """What a form gives back, and its warnings; ValueError where it does not apply."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recovery = form(*arguments)
    note = "; ".join(str(w.message) for w in caught)
    if "does not hold" in note:
        raise ValueError(f"model: {note}")
    if not recovery.images.isfinite().all():
        raise ValueError("leak: what its system gives back is not finite")
    return recovery, note


def _energy(leak: Leak, changed: Leak, names: set[str]) -> float:
    change = sum((changed.grads[n] - leak.grads[n]).double().square().sum().item() for n in names)
    return change / sum(leak.grads[n].double().square().sum().item() for n in names)


# -- what would stop it ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defence:
    """A way to send less, and what the closed forms still make of it.

    energy: squared norm of what it changes over the gradient's own, mean over the images.  withheld: names of gradients that it keeps back.
    numbers: how many that are.  psnr, ssim, lpips: the most that is left over forms and images; None where no form can run, and where
    nothing shows without what is withheld.
    holds: whether no image shows, see `shows`.
    """

    name: str
    energy: float
    withheld: tuple[str, ...]
    numbers: int
    psnr: float | None
    ssim: float | None
    lpips: float | None
    holds: bool


def leaking(solves: Sequence[Solve], computed: str, levels: Sequence[float]) -> list[Solve]:
    """Those of the solves from unchanged gradients that show their image."""
    return [s for s in solves if s.how == computed and shows(s, levels)]


def shows(solve: Solve, levels: Sequence[float] | Mapping[int, float]) -> bool:
    """Whether a solve's picture is above its image's level, or nearer than any picture that looks at no gradient."""
    return solve.psnr > levels[solve.image] or solve.nearer


def defences(
    exposures: Sequence[Exposure],
    computed: str,
    levels: Sequence[float],
    sizes: Mapping[str, int],
    read: Callable[[frozenset[str]], Shown],
) -> list[Defence]:
    """What each defence leaves of the forms that leak; nothing where none does.

    computed: the word for gradients as computed.  levels: one an image, in dB.  sizes: parameter -> its numbers.
    read: names of gradients that are kept back -> the ways that are left on all images, see `without`.
    Noise and rounding first, then the gradients that could be withheld: each alone, and the least sets without which nothing shows.
    """
    solves = [s for exposure in exposures for s in exposure.solves]
    bare = leaking(solves, computed, levels)
    if not bare:
        return []
    pairs = {(s.form, s.image) for s in bare}
    rows = []
    for how in [word(SHORT), *(f"gaussian {relative:g}" for relative in NOISE)]:
        left = [s for s in solves if s.how == how and (s.form, s.image) in pairs]
        spent = [e.energies[how] for e in exposures if how in e.energies]
        holds = not any(shows(s, levels) for s in left)
        rows.append(Defence(how, sum(spent) / len(spent), (), 0, *_most(left), holds))
    return rows + _withheld({names for exposure in exposures for names, _ in exposure.ways}, sizes, read)


def _withheld(
    ways: set[frozenset[str]], sizes: Mapping[str, int], read: Callable[[frozenset[str]], Shown]
) -> list[Defence]:
    """Each gradient alone, and the least sets without which nothing shows.

    A form that goes without what is kept back may read the image from others, so no set is said to hold that was not tried, and what
    reads then is one more way to stop.
    """
    rows: dict[frozenset[str], Defence] = {}

    def untried() -> Iterator[frozenset[str]]:
        for some in [*map(frozenset, zip(sorted(frozenset().union(*ways)))), *_stopping(ways, sizes)]:
            if some not in rows and not any(row.holds and kept <= some for kept, row in rows.items()):
                yield some

    while (some := next(untried(), None)) is not None:
        left = read(some)
        ways |= {names for names, _ in left}
        kept = tuple(sorted(some, key=lambda name: (sizes[name], name)))
        rows[some] = Defence("withheld", 0.0, kept, sum(sizes[n] for n in kept), *_most([s for _, s in left]), not left)
    return sorted(rows.values(), key=lambda row: (len(row.withheld), row.numbers))


def _stopping(ways: Iterable[frozenset[str]], sizes: Mapping[str, int]) -> list[frozenset[str]]:
    """The least sets that have a name of every way, the fewest numbers first; where there are many, the first `SETS` alone."""
    sets = [frozenset[str]()]
    for way in sorted(ways, key=lambda way: (len(way), sorted(way))):
        grown = {some if some & way else some | {name} for some in sets for name in way}
        least = [some for some in grown if not any(other < some for other in grown)]
        sets = sorted(least, key=lambda some: (sum(sizes[n] for n in some), sorted(some)))[:SETS]
    return sets


def _most(solves: Sequence[Solve]) -> tuple[float | None, float | None, float | None]:
    """The highest PSNR and SSIM and the lowest LPIPS; None where there is none."""
    ssims = [s.ssim for s in solves if s.ssim is not None]
    distances = [s.lpips for s in solves if s.lpips is not None]
    return max((s.psnr for s in solves), default=None), max(ssims, default=None), min(distances, default=None)


def cheapest(rows: Sequence[Defence]) -> tuple[Defence | None, Defence | None]:
    """Of the defences that hold: the one with the least energy of noise, and the one that withholds the fewest numbers."""
    noise = [row for row in rows if row.holds and not row.withheld]
    withheld = [row for row in rows if row.holds and row.withheld]
    least = min(noise, key=lambda row: row.energy, default=None)
    return least, min(withheld, key=lambda row: row.numbers, default=None)
