"""What algebra alone reads from one image's gradient: as computed, rounded, with noise, and with gradients withheld.

A linear layer y = W x + b has dL/dW = g x^T and dL/db = g, whatever stands before and behind it: one singular value, with x up to a factor
as its right singular vector, and g tells the factor (Phong et al. 2018, section 3). Nothing of the model needs to be known. Where x is the
image in another order or size, or a part of it, the attacker runs the model once to see which of its tensors is x.
"""

import contextlib
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.gradient_inversion.closed_form.patches import affine, undone
from privlab.data import Normalise
from privlab.defences import perturbation
from privlab.leak import Leak
from privlab.models.forward import Gradients, functional

ROW, COMPUTED, SHORT = "singular vector", "as computed", "bfloat16"
NOISE = (0.001, 0.01, 0.1, 1.0)  # norm of the noise over that of the gradient
IMAGE, UP_TO, PART = "the image", "the image up to brightness and contrast", "a part of the image"
TARGET, SLACK = 15.0, 0.5  # dB: a picture shows its image above that, and so far above a flat one
GAIN = 1.0  # dB above all pictures that look at no gradient, each at its best brightness and contrast: a correlation of 0.45
OF_A_PART = 10.0  # the same of a part of the image, beside a flat one
REST = 0.3  # of a gradient's length beside its first singular value, at most
ALIKE = 1e-3  # 1 - cosine, at most, of a bias that has the gradient of what leaves
LEAST = 48  # numbers of a part of an image
BENT = 0.1  # how far from affine a map of the image to as many numbers may be that is undone; less for fewer, such as features

View = Callable[[Tensor], Tensor]  # a gradient as a matrix, (rows, numbers)
Names = tuple[str, ...]  # of gradients
Row = dict[str, Any]  # of a table of an `Audit`
Found = list[tuple["Form", Row, Tensor]]  # of `Audit.solves`, with the picture, (1, channels, height, width)


class Form(NamedTuple):
    """A way to an image."""

    name: str
    names: Names  # of the gradients that it reads
    read: Callable[[Leak, float | None], Tensor]  # of the noise, what is known of it -> what entered, (numbers,)
    undo: Callable[[Tensor], Tensor]  # that -> the image, (1, channels, height, width); affine
    entered: Tensor  # what `read` gives of the leak on which it was found
    start: Callable[[], Tensor]  # the image that `undo` makes of nothing, made once


class Judge:
    """Knows one image, (1, channels, height, width), and pictures that look at no gradient, a flat one first."""

    def __init__(self, image: Tensor, blind: Sequence[Tensor]) -> None:
        self.image, self.level = image, max(TARGET, _psnr(blind[0], image) + SLACK)
        self.blind = max(_psnr(fitted(picture, image), image) for picture in blind)

    def look(self, picture: Tensor, start: Tensor, part: Tensor) -> tuple[Row, Tensor]:
        """Shows, psnr and fitted of `Audit.solves` in `part` of a picture; and the better picture.  start: the one of no gradient."""
        image, plain = self.image[part], picture[part].clamp(0, 1)
        near = fitted(picture[part], image, start[part])
        psnr, best = _psnr(plain, image), _psnr(near, image)
        if part.all():
            shows = IMAGE if psnr > self.level else UP_TO if best > self.blind + GAIN else ""
        else:
            shows = PART if best > _psnr(image.mean().expand_as(image), image) + OF_A_PART else ""
        better = torch.zeros_like(picture).masked_scatter(part, plain if shows == IMAGE else near)
        return {"shows": shows, "psnr": psnr, "fitted": best}, better


def fitted(picture: Tensor, image: Tensor, start: Tensor | float = 0.0) -> Tensor:
    """start + a (picture - start) + b, nearest to the image, clamped to [0, 1]."""
    rest, step = image - start, picture - start
    centred = step - step.mean()
    factor = (centred * (rest - rest.mean())).sum() / centred.square().sum().clamp(min=1e-30)
    return (start + factor * centred + rest.mean()).clamp(0, 1)


def _psnr(picture: Tensor, image: Tensor) -> float:
    return min(-10 * (picture - image).square().mean().log10().item(), 200.0)  # more than floats hold


def expose(model: nn.Module, leak: Leak, judge: Judge, index: int) -> tuple[Found, dict[str, str]]:
    """All forms on an image's leak; those that show it on what rounding and noise leave; and why the others do not apply."""
    some, why = forms(model, leak, judge.image)
    found = look(some, leak, None, judge, index, COMPUTED)
    if shown := [form for form, solve, _ in found if solve["shows"]]:
        own = leak.only({name for form in shown for name in form.names})
        found += look(shown, own.rounded(torch.bfloat16), None, judge, index, SHORT)
        for size in NOISE:
            noisy = perturbation.gaussian(own, size, seed=index)
            found += look(shown, noisy, size, judge, index, f"gaussian {size:g}")
    return found, why


def look(some: Sequence[Form], leak: Leak, noise: float | None, judge: Judge, index: int, how: str) -> Found:
    """What forms make of a leak, which as computed is the one on which they were found; without those that it leaves nothing to solve."""
    found: Found = []
    for form in some:
        with contextlib.suppress(ValueError, RuntimeError):
            entered = form.entered if how == COMPUTED else form.read(leak, noise)
            picture, start = form.undo(entered).cpu(), form.start().cpu()
            part = picture != start if len(entered) < picture.numel() else torch.ones_like(picture, dtype=torch.bool)
            seen, picture = judge.look(picture, start, part)
            found.append((form, {"form": form.name, "names": form.names, "image": index, "how": how, **seen}, picture))
    return found


def defences(model: nn.Module, leak_of: Callable[[int], Leak], judges: list[Judge], solves: list[Row]) -> Iterator[Row]:
    """Rounding and noise; then each gradient that is read withheld by itself, as `Audit.defences`.  leak_of: image's number -> leak."""
    bare = [solve for solve in solves if solve["how"] == COMPUTED and solve["shows"]]
    hows = dict.fromkeys(solve["how"] for solve in solves if solve["how"] != COMPUTED)
    left = {how: [solve for solve in solves if solve["how"] == how] for how in hows}
    for name in dict.fromkeys(name for solve in bare for name in solve["names"]):
        some = [solve for solve in bare if name not in solve["names"]]
        if not some:  # another way may open where the known ones are closed
            for i, judge in enumerate(judges):
                leak = leak_of(i).without([name])
                again = look(forms(model, leak, judge.image)[0], leak, None, judge, i, COMPUTED) if leak.grads else []
                some += [solve for _, solve, _ in again if solve["shows"]]
        left[f"without {name}"] = some
    for name, some in left.items():
        most = {of: max((solve[of] for solve in some), default=None) for of in ("psnr", "fitted")}
        yield {"name": name, **most, "holds": not any(solve["shows"] for solve in some)}


def forms(model: nn.Module, leak: Leak, image: Tensor) -> tuple[list[Form], dict[str, str]]:
    """All that apply to a leak, and why the others do not.  image: the one behind it, by which `entering` goes; no form reads it."""
    found, why, image = [], dict[str, str](), image.to(next(iter(leak.grads.values())))
    plain = lambda entered: leak.normalise.inverse(entered.view(image.shape))  # noqa: E731
    run, x = partial(_run, model, leak), image.clone().requires_grad_()
    met = run(x)
    inner = next(((n, m) for n, m in model.named_modules() if isinstance(m, VisionTransformer)), ("", model))
    places = {closed_form.patch_embedding: ("", model), closed_form.subspace: inner, closed_form.attention: inner}
    for solve, (name, part) in places.items():
        read = partial(_on_patches, solve, part, name and f"{name}.")
        try:
            names, entered = read(leak, None)
        except (ValueError, RuntimeError, UserWarning) as error:
            why[solve.__name__] = str(error).partition("\n")[0].removeprefix("model: ")
            continue
        undo = (name and entering(run, x, met, entered)) or plain
        again = partial(lambda read, *given: read(*given)[1], read)
        found.append(Form(solve.__name__, names, again, undo, entered, cache(partial(undo, 0 * entered))))
    for names, view in rows(leak.grads, image.numel()):
        entered = row(names, view, leak)
        if way := entering(run, x, met, entered) or (plain if len(entered) == image.numel() else None):
            found.append(Form(ROW, names, partial(row, names, view), way, entered, cache(partial(way, 0 * entered))))
    if not any(form.name == ROW for form in found):
        why[ROW] = "no gradient of nearly rank one has a row of as many numbers as the image, or that is a part of it"
    return found, why


def _on_patches(solve: Any, part: nn.Module, prefix: str, leak: Leak, noise: float | None) -> tuple[Names, Tensor]:
    """Whole names of what a closed form on a part of a model reads, and what it says that entered there."""
    grads = {n.removeprefix(prefix): g for n, g in leak.grads.items() if n.startswith(prefix)}
    own = replace(leak, grads=grads, normalise=Normalise() if prefix else leak.normalise)
    with warnings.catch_warnings(action="ignore"):
        warnings.filterwarnings("error", ".*does not hold")
        recovery = solve(part, own, noise)
    return tuple(prefix + n for n in recovery.names), own.normalise(recovery.images.float()).flatten()


def rows(grads: Gradients, numbers: int) -> Iterator[tuple[Names, View]]:
    """Gradients of nearly rank one: names of the weights, and of the bias that tells the factor where there is one; the matrix in them."""
    for name, gradient in ((n, g) for n, g in grads.items() if g.ndim and g.numel()):
        sizes = {len(gradient), gradient.numel() // len(gradient), numbers}
        for size in (n for n in sizes if LEAST <= n < gradient.numel() and gradient.numel() % n == 0):
            for view in (lambda g, n=size: g.reshape(-1, n), lambda g, n=size: g.reshape(n, -1).T):
                matrix = view(gradient).float()
                largest = matrix[matrix.norm(dim=1).topk(min(16, len(matrix))).indices]
                first, *others = torch.linalg.svdvals(largest).square().tolist()
                if first == 0 or sum(others) > REST**2 * first:
                    continue
                column, _ = leading(matrix)
                for bias, other in grads.items():
                    if other.shape == column.shape and F.cosine_similarity(other.float(), column, 0).abs() > 1 - ALIKE:
                        yield (name, bias), view
                yield (name,), view


def row(names: Names, view: View, leak: Leak, noise: float | None = None) -> Tensor:
    """(numbers,): what entered, by least squares over the rows; without a bias its direction, at a root mean square of 1."""
    matrix, *bias = view(leak.grads[names[0]]).float(), *(leak.grads[name].float() for name in names[1:])
    return bias[0] @ matrix / bias[0].square().sum() if bias else leading(matrix)[1] * matrix.shape[1] ** 0.5


def leading(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The left singular vector of the largest singular value, times that, and the right one, by power iteration."""
    row = matrix[matrix.norm(dim=1).argmax()]
    for _ in range(8):
        column = matrix @ (row / row.norm())
        row = matrix.T @ column
    return column, row / row.norm()


class _Tensors(TorchFunctionMode):
    """Keeps the tensors that torch's functions are given and that take a gradient, by their number of elements."""

    def __init__(self) -> None:
        super().__init__()
        self.met = defaultdict[int, dict[int, Tensor]](dict)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for t in tree_leaves((args, kwargs or {})):
            if isinstance(t, Tensor) and t.requires_grad:
                self.met[t.numel()].setdefault(id(t), t)
        return function(*args, **(kwargs or {}))


def _run(model: nn.Module, leak: Leak, x: Tensor) -> dict[int, list[Tensor]]:
    weights = {n: p.detach() for n, p in model.named_parameters()}
    with _Tensors() as watch:
        functional(model)(weights, leak.normalise(x if x.requires_grad else x.clone().requires_grad_()))
    return {size: [t.flatten() for t in some.values()] for size, some in watch.met.items()}


def entering(run: Any, x: Tensor, met: dict[int, list[Tensor]], row: Tensor) -> Callable[[Tensor], Tensor] | None:
    """The way back from a row to the image: through the tensor of the model that is this row, up to a factor and a shift, and affine in
    the image; None where there is none.  x, met: an image whose gradient has this row, and its run, by which the tensor is told."""
    near = dict[float, int]()
    for place, t in enumerate(met.get(len(row), [])):
        flat = t.detach().float()
        off = 1 - F.cosine_similarity(flat - flat.mean(), row - row.mean(), 0).abs().item()
        off += ALIKE * min(1, ((flat - row).norm() / row.norm()).item())  # of several, the one of the same size
        if off < BENT and torch.autograd.grad(t.sum(), x, retain_graph=True)[0].any():
            near.setdefault(round(off, 6), place)
    for _, place in sorted(near.items()):
        enters = partial(lambda place, x: run(x)[len(row)][place], place)
        with contextlib.suppress(LookupError, RuntimeError, ValueError):  # another image takes another way
            if affine(enters, x.detach(), BENT * min(1, len(row) / x.numel())):
                return lambda entered: undone(enters, entered, x.detach()).float()
    return None
