"""How well each part of a client's update tells edits of an image apart: for the audit alone, see `sensitivity.spectrum` for the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from privlab.data.images import check_range
from privlab.leak import observe

ROWS = 4096  # of the sketch of `told_apart`: for a few dozen edits, singular values within some percent


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
