"""How finely a gradient tells images apart: the Jacobian of a client's update by its pixels, and what the centre of a network sees.

A search compares updates, so near the truth it can only tell images apart whose updates differ. Column k of J = d(update) / d(pixel k)
says how the update answers to pixel k. Many singular values of one size: every direction in the space of images shows, and a step
down the loss goes home. A few large ones and a long tail: most directions hardly show. Both are properties of the architecture and its
weights, at one image; they say nothing of how far from it the linear picture holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, jvp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from privlab.data.images import check_range
from privlab.leak import observe
from privlab.models.forward import functional, preprocessing

SKETCH = (
    64  # rows kept for each column of the Jacobian: most singular values within some 1 / sqrt(64) of the whole one's
)

ROWS = 4096  # of the sketch of `told_apart`: for a few dozen edits, singular values within some percent


def spectrum(model: nn.Module, image: Tensor, label: Tensor, block: int = 2, seed: int = 0, at_once: int = 8) -> Tensor:
    """Singular values of the Jacobian of the update by the image, largest first, in units of the update's norm.

    image: (1, channels, height, width) in [0, 1].  label: (1,).
    block: directions are squares of block x block equal pixels, of norm 1 each; 1 takes every pixel by itself. Their number is
        channels * height * width / block**2, and costs one forward-over-reverse pass each.
    at_once: directions in one pass, which takes the memory of so many gradients.
    The Jacobian has a row for each parameter: too many. `SKETCH` times as many random sums of rows as there are columns stand for them
    (each row is added with a random sign to one of the sums), which keeps most singular values to about 12%, single ones less well where
    few parameters carry the update.  seed: of the sums.
    Returns (directions,) float64 on the CPU.
    Raises ValueError for more than one image, or a block that does not divide its sides.
    """
    directions = _squares(image, label, block)
    parameters = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    if not parameters:
        raise ValueError("model: all its parameters are frozen, so it sends no update; call model.requires_grad_(True)")
    x = preprocessing(model)(image.to(next(iter(parameters.values()))))
    label = label.to(x.device)

    forward = functional(model)

    def update(x: Tensor) -> dict[str, Tensor]:
        def task(parameters: dict[str, Tensor]) -> Tensor:
            return F.cross_entropy(forward(parameters, x), label)

        return grad(task)(parameters)

    def column(direction: Tensor) -> dict[str, Tensor]:
        return jvp(update, (x,), (direction,))[1]

    draw = torch.Generator().manual_seed(seed)
    rows = SKETCH * len(directions)
    sketched = torch.zeros(rows, len(directions), dtype=torch.float32)
    places = {n: torch.randint(rows, (p.numel(),), generator=draw) for n, p in parameters.items()}
    signs = {n: torch.randint(2, (p.numel(),), generator=draw).mul_(2).sub_(1).float() for n, p in parameters.items()}
    with sdpa_kernel(SDPBackend.MATH):
        norm = math.sqrt(sum(g.square().sum().item() for g in update(x).values()))
        for first in range(0, len(directions), at_once):
            some = directions[first : first + at_once].to(x)
            for name, part in vmap(column)(some.unsqueeze(1)).items():  # (some, *shape)
                flat = part.reshape(len(some), -1).T.float().cpu()  # (numbers, some)
                sketched[:, first : first + at_once].index_add_(0, places[name], flat * signs[name][:, None])
    gram = sketched.double().T @ sketched.double() / norm**2
    return torch.linalg.eigvalsh(gram).clamp(min=0).sqrt().flip(0)


def brightened(image: Tensor, cells: int = 4) -> Iterator[Tensor]:
    """The image with one square of a cells x cells grid brighter by 0.1, or darker where it is bright: a copy for each square.

    image: (1, channels, height, width) in [0, 1], as are the copies.  cells: fewer where the image has fewer pixels a side.
    """
    rows, columns = (torch.arange(side) * min(cells, side) // side for side in image.shape[2:])
    for row in rows.unique():
        for column in columns.unique():
            square = ((rows == row)[:, None] & (columns == column)).to(image)  # (height, width)
            dark = (image * square).sum() < 0.5 * square.sum() * image.shape[1]
            yield (image + square * (0.1 if dark else -0.1)).clamp(0, 1)


def told_apart(
    model: nn.Module,
    image: Tensor,
    label: Tensor,
    edits: Iterable[Tensor],
    groups: Mapping[str, Sequence[str]],
    seed: int = 0,
) -> dict[str, Tensor]:
    """How well each part of the update tells edits of an image apart: what `spectrum` asks, for a large model and part by part.

    It takes a plain gradient for each edit and no derivative of one, which is a fifth of the time of `spectrum`'s passes on a ViT-B, and
    works for every network. The change is a real one, not its first-order limit.
    image: (1, channels, height, width) in [0, 1].  label: (1,).  edits: images like it, such as `brightened(image)`.
    groups: part -> names of parameters; each change is kept as `ROWS` random sums of its numbers.  seed: of the sums.
    Returns part -> (edits,) float64, singular values of the changes in units of the part's own norm, largest first.  The root of the mean
    of their squares is how much an edit changes that part; `effective_rank` and `condition` say how unlike the changes are.
    Raises ValueError as `observe` does, for pixels outside [0, 1], or for a part without a gradient.
    """
    check_range("image", image, "give values in [0, 1]")
    before = observe(model, image, label).grads
    if missing := [(part, n) for part, names in groups.items() for n in names if n not in before]:
        part, name = missing[0]
        raise ValueError(f"groups: {name!r} of {part!r} has no gradient; leave it out")
    draw = torch.Generator().manual_seed(seed)
    places = {n: torch.randint(2 * ROWS, (g.numel(),), generator=draw, dtype=torch.int16) for n, g in before.items()}
    norms = {
        part: math.sqrt(sum(before[n].double().square().sum().item() for n in names)) for part, names in groups.items()
    }
    if silent := [part for part, norm in norms.items() if norm == 0]:
        raise ValueError(f"groups: the gradient of {silent[0]!r} is zero everywhere, so it says nothing; leave it out")
    columns: dict[str, list[Tensor]] = {part: [] for part in groups}
    for edited in edits:
        after = observe(model, edited, label).grads
        for part, names in groups.items():
            bins = torch.zeros(2 * ROWS)  # for each sum those that count in full, and those that count negative
            for n in names:
                bins.index_add_(0, places[n].int(), (after[n] - before[n]).flatten().float().cpu())
            columns[part].append((bins[0::2] - bins[1::2]).double() / norms[part])
    return {part: torch.linalg.svdvals(torch.stack(changes, 1)) for part, changes in columns.items()}


def effective_rank(singular: Tensor) -> float:
    """How many singular values count: the exponential of the entropy of their shares of the sum (Roy and Vetterli 2007).

    singular: (n,), none negative. Between 1 (one holds all) and n (all equal).
    """
    shares = singular.double() / singular.double().sum()
    return torch.special.entr(shares).sum().exp().item()


def condition(singular: Tensor, share: float = 1.0) -> float:
    """Largest singular value over the one that is not smaller than the last of the first `share` of them; inf where that is zero.

    share: 1 compares with the smallest of all; 0.5 with the middle one, which the smallest few cannot move.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share} is no part of the singular values; give a number above 0, up to 1")
    ordered = singular.double().sort(descending=True).values
    last = ordered[math.ceil(share * len(ordered)) - 1].item()
    return ordered[0].item() / last if last > 0 else math.inf


CONSTANT = 1e-4  # a sum over channels that moves by less than this part of a sum with signs is rounding


def _gradient(number: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(number, x, retain_graph=True)[0].abs().sum(1).mean(0)


def field(features: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """The effective receptive field of a map's centre: how much each pixel moves it (Luo et al. 2016).

    features: takes images to a map (batch, channels, height, width).  images: (batch, channels, height, width), as `features` wants them.
    Returns (height, width): the absolute gradient of the sum over channels at the centre, summed over colours, mean over images, of sum 1.
    Raises ValueError where the centre does not depend on the image at all, or where that sum does not, up to rounding.
    """
    x = images.detach().requires_grad_()
    maps = features(x)
    centre = maps[:, :, maps.shape[2] // 2, maps.shape[3] // 2]  # (batch, channels)
    signs = 1.0 - 2.0 * (torch.arange(centre.shape[1], device=centre.device) % 2)
    gradient = _gradient(centre.sum(), x)  # (height, width)
    if not gradient.sum() > CONSTANT * _gradient((centre * signs).sum(), x).sum():
        raise ValueError(
            "features: the centre of the map does not move with any pixel, or its channels add up to a constant, as behind a LayerNorm; "
            "give the map before the norm"
        )
    return (gradient / gradient.sum()).detach()


def area(field: Tensor, share: float = 0.9) -> float:
    """Part of the image's pixels that hold so much of the field, the strongest taken first: from next to 0 up to `share`.

    field: as `field` returns it. A field that is alike everywhere has an area of `share`.
    """
    ordered = field.flatten().double().sort(descending=True).values.cumsum(0)
    return (int((ordered < share * ordered[-1]).sum()) + 1) / len(ordered)


def _squares(image: Tensor, label: Tensor, block: int) -> Tensor:
    """Orthonormal squares of equal pixels: (directions, channels, height, width)."""
    if image.ndim != 4 or len(image) != 1 or label.shape != (1,):
        raise ValueError(
            f"image {tuple(image.shape)}, label {tuple(label.shape)}: give one image (1, channels, height, width) and (1,)"
        )
    _, channels, height, width = image.shape
    if block < 1 or height % block or width % block:
        raise ValueError(f"block={block} does not divide an image of {height} x {width}; try 1, 2 or 4")
    small = torch.eye(channels * height * width // block**2).view(-1, channels, height // block, width // block)
    return small.repeat_interleave(block, 2).repeat_interleave(block, 3) / block
