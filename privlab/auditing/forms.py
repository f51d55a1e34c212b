"""What algebra alone reads from one image's gradient: as computed, rounded, with noise, and with gradients withheld."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import closed_form
from privlab.auditing import rows
from privlab.auditing.judge import Judge
from privlab.data import Normalise
from privlab.defences import perturbation
from privlab.leak import Leak
from privlab.models.forward import Gradients

ON_PATCHES = {
    form.__name__: form for form in (closed_form.patch_embedding, closed_form.subspace, closed_form.attention)
}
ROW, COMPUTED, SHORT = "singular vector", "as computed", "bfloat16"
NOISE = (0.001, 0.01, 0.1, 1.0)  # norm of the noise over that of the gradient


class Form(NamedTuple):
    """A way to an image.  names: of the gradients that it reads.

    read: leak, noise that the attacker knows of -> what entered, (numbers,), with the rank and the unknowns of its linear system.
    exact: whether that has its length.  enters: how an image becomes that; None where it is the normalised image.
    """

    name: str
    names: tuple[str, ...]
    read: Callable[[Leak, float | None], tuple[Tensor, int, int]]
    exact: bool
    enters: rows.Map | None


@dataclass(frozen=True)
class Solve:
    """One form on one image.  how: `COMPUTED`, `SHORT`, or noise such as "gaussian 0.01".  shows, psnr, fitted: see `judge.Look`."""

    form: str
    names: tuple[str, ...]
    image: int
    how: str
    shows: str
    psnr: float
    fitted: float
    rank: int
    unknowns: int


@dataclass(frozen=True)
class Defence:
    """A way to send less.  withheld: names of gradients.  psnr, fitted: the most that forms which show an image still make of any, in dB;
    None where none can run.  holds: whether no image shows."""

    name: str
    withheld: tuple[str, ...]
    psnr: float | None
    fitted: float | None
    holds: bool


Found = list[tuple[Form, Solve, Tensor]]  # with the picture, (1, channels, height, width)


def forms(model: nn.Module, leak: Leak, image: Tensor) -> tuple[list[Form], dict[str, str]]:
    """All that apply to a leak, and for the others why they do not.

    image: the one behind the leak. It tells in what order and size an image enters, as any other would; no form reads it.
    """
    found, why = [], dict[str, str]()
    enters = partial(rows.entering, model, leak, image.to(next(iter(leak.grads.values()))))
    inner = [(f"{n}.", m) for n, m in model.named_modules() if n and hasattr(m, "patch_embed")]  # as timm calls it
    for name, solve in ON_PATCHES.items():
        for prefix, part in [("", model), *inner]:
            noted = _Noted(leak.grads, prefix)
            try:
                vector, *_ = _on_patches(solve, part, prefix, replace(leak, grads=noted), None)
            except (ValueError, RuntimeError, UserWarning) as error:
                why.setdefault(name, str(error).partition("\n")[0].removeprefix("model: "))
                continue
            way = enters(vector) if prefix else None
            read = partial(_on_patches, solve, part, prefix)
            found.append(Form(name, tuple(dict.fromkeys(noted.names)), read, True, way))
            break
    for row in rows.rows(leak.grads, image.numel()):
        ways = dict.fromkeys([None, enters(row.of(leak.grads))])
        found += [Form(ROW, row.names, partial(_row, row), len(row.names) == 2, way) for way in ways]
    why[ROW] = "no gradient of nearly rank one has as many columns as the image, or a square of it, has numbers"
    return found, {name: reason for name, reason in why.items() if all(form.name != name for form in found)}


class _Noted(dict[str, Tensor]):
    """Gradients of a part of a model by their names in it, and the whole names of those that were asked for."""

    def __init__(self, grads: Gradients, prefix: str) -> None:
        super().__init__({n.removeprefix(prefix): g for n, g in grads.items() if n.startswith(prefix)})
        self.prefix, self.names = prefix, list[str]()

    def __getitem__(self, name: str) -> Tensor:
        self.names.append(self.prefix + name)
        return super().__getitem__(name)


def _on_patches(solve: Any, part: nn.Module, prefix: str, leak: Leak, noise: float | None) -> tuple[Tensor, int, int]:
    """What a closed form on a part of a model says that entered there."""
    if prefix:
        grads = leak.grads if isinstance(leak.grads, _Noted) else _Noted(leak.grads, prefix)
        leak = replace(leak, grads=grads, normalise=Normalise())
    with warnings.catch_warnings(action="ignore"):
        warnings.filterwarnings("error", ".*does not hold")
        recovery = solve(part, leak, noise)
    return leak.normalise(recovery.images.float()).flatten(), recovery.rank, recovery.unknowns


def _row(row: rows.Row, leak: Leak, noise: float | None) -> tuple[Tensor, int, int]:
    return row.of(leak.grads), 1, 1


def _picture(form: Form, vector: Tensor, leak: Leak) -> tuple[Tensor, Tensor]:
    """start, step: see `Judge.look`.  A smaller step where the vector is a square of an image; an error where it is none."""
    channels, height, width = leak.image_shape
    start = leak.normalise.inverse(vector.new_zeros(1, channels, 1, 1))
    if form.enters is not None:
        start = 0 * start if form.exact else rows.undone(form.enters, 0 * vector, leak.image_shape)
        step = rows.undone(form.enters, vector if form.exact else vector * len(vector) ** 0.5, leak.image_shape) - start
    else:
        if len(vector) != channels * height * width:
            height = width = math.isqrt(len(vector) // channels)
            if height < rows.SIDE:
                raise ValueError(f"model: {len(vector)} numbers are no square of an image")
        step = leak.normalise.inverse(vector.view(1, channels, height, width)) - start
    if not form.exact:  # of any length: that of the range of pixels, and brighter on the whole
        step = step / (step.abs().max() * (1 if step.sum() > 0 else -1))
    return start.cpu(), step.cpu()


def look(some: Sequence[Form], leak: Leak, noise: float | None, judge: Judge, index: int, how: str) -> Found:
    """What forms make of a leak; without those that it leaves nothing to solve.  index: the image's number."""
    found: Found = []
    for form in some:
        with contextlib.suppress(ValueError, RuntimeError):
            vector, *rank = form.read(leak, noise)
            seen = judge.look(*_picture(form, vector, leak))
            found.append((form, Solve(form.name, form.names, index, how, *seen[:3], *rank), seen.picture))
    return found


def expose(model: nn.Module, leak: Leak, judge: Judge, index: int) -> tuple[dict[str, Found], dict[str, str]]:
    """All forms on one leak as computed; and those that show the image on what rounding and noise leave of it.

    Returns how -> what was found; and form -> why it does not apply.
    """
    some, why = forms(model, leak, judge.image)
    found = {COMPUTED: look(some, leak, None, judge, index, COMPUTED)}
    if shown := [form for form, solve, _ in found[COMPUTED] if solve.shows]:
        own = leak.only({name for form in shown for name in form.names})
        found[SHORT] = look(shown, own.rounded(torch.bfloat16), None, judge, index, SHORT)
        for size in NOISE:
            noisy, how = perturbation.gaussian(own, size, seed=index), f"gaussian {size:g}"
            found[how] = look(shown, noisy, size, judge, index, how)
    return found, why


def defences(
    model: nn.Module, leaks: Callable[[int], Leak], judges: Sequence[Judge], solves: Sequence[Solve]
) -> list[Defence]:
    """Rounding and noise; then each gradient that is read withheld by itself, and all where none holds.  leaks: image's number -> leak."""
    bare = [solve for solve in solves if solve.how == COMPUTED and solve.shows]
    hows = [how for how in dict.fromkeys(solve.how for solve in solves) if how != COMPUTED]
    table = [_defence(how, (), [solve for solve in solves if solve.how == how]) for how in hows]
    read = tuple(dict.fromkeys(name for solve in bare for name in solve.names))
    for some in dict.fromkeys([*((name,) for name in read), read] if read else []):
        if len(some) > 1 and any(row.holds for row in table if row.withheld):
            break
        left = [solve for solve in bare if not {*some} & {*solve.names}]
        if not left:  # another way may open where the known ones are closed
            for i, judge in enumerate(judges):
                leak = leaks(i).without(some)
                again = look(forms(model, leak, judge.image)[0], leak, None, judge, i, COMPUTED) if leak.grads else []
                left += [solve for _, solve, _ in again if solve.shows]
        table.append(_defence("withheld", some, left))
    return table


def _defence(name: str, withheld: tuple[str, ...], left: Sequence[Solve]) -> Defence:
    psnr, fitted = (max((getattr(solve, of) for solve in left), default=None) for of in ("psnr", "fitted"))
    return Defence(name, withheld, psnr, fitted, not any(solve.shows for solve in left))
