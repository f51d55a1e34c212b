"""A block of a network as a stack of boxes, two of them side by side, with what changed marked in words, by an outline and by hatching."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from privlab import models
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import Picture

HEIGHT, WIDTH, GAP = 0.5, 1.9, 0.17  # of a box, in inches; a layer takes up to three lines in it
LEFT, RIGHT = 0.5, 0.82  # room for the shortcut, and for the mark
FACES = {
    "convolution": "#cfe3f3",
    "norm": "#e4e4e4",
    "activation": "#fbd9b0",
    "other": "#ffffff",
}  # light: told apart by their text

BLOCK = (1, 1)  # stage and block that a step of the morph shows: a block of the second stage, but for
PLACES = {4: (-1, 0), 8: (-1, 0), 13: (1, 0)}


def kind(layer: str) -> str:
    """What a line of `morph.outline` is: "convolution", "norm", "activation" or "other"."""
    if layer.endswith("Norm"):
        return "norm"
    if layer in ("ReLU", "GELU"):
        return "activation"
    return "convolution" if " x " in layer and not layer.startswith("maximum") else "other"


def marks(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """A word for each layer, "" where it stays: "gone" or "changed" in the first, "new" or "changed" in the second.

    A layer counts as changed where one of the same kind stands in its place.
    """
    old, new = ["gone"] * len(before), ["new"] * len(after)
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            old[a:b], new[c:d] = [""] * (b - a), [""] * (d - c)
        elif tag == "replace":
            rest = list(range(c, d))
            for i in range(a, b):
                match = next((j for j in rest if kind(after[j]) == kind(before[i])), None)
                if match is not None:
                    old[i] = new[match] = "changed"
                    rest = [j for j in rest if j > match]
    return old, new


def blocks(before: Sequence[str], after: Sequence[str], titles: Sequence[str]) -> Picture:
    """Two blocks side by side, each from the top down, its shortcut as a line at the left.

    before, after: the layers in order, as `morph.outline` says them; "add the shortcut" is where the line ends.
    titles: of the two.
    The alt text names all layers and what changed.
    Raises ValueError for another number of titles.
    """
    if len(titles) != 2:
        raise ValueError(f"titles={titles!r}: give one for each of the two blocks")
    stacks, words = (before, after), marks(before, after)
    rows = max(len(before), len(after))
    width, height = 2 * (LEFT + WIDTH + RIGHT), rows * (HEIGHT + GAP) + 0.75
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    for column, (layers, marks_of) in enumerate(zip(stacks, words, strict=True)):
        left = column * width / 2 + LEFT
        axes.text(left + WIDTH / 2, 0.2, titles[column], ha="center", va="center", fontsize=11, fontweight="bold")
        for row, (layer, mark) in enumerate(zip(layers, marks_of, strict=True)):
            _box(axes, left, 0.5 + row * (HEIGHT + GAP), layer, mark)
            if row:
                _arrow(
                    axes,
                    left + WIDTH / 2,
                    0.5 + row * (HEIGHT + GAP) - GAP,
                    left + WIDTH / 2,
                    0.5 + row * (HEIGHT + GAP),
                )
        if "add the shortcut" in layers:
            _shortcut(axes, left, layers.index("add the shortcut"))
    return picture.render(figure, _alt(stacks, words, titles))


def _box(axes: Axes, left: float, top: float, layer: str, mark: str) -> None:
    style: dict[str, Any] = dict(
        linewidth=2.2 if mark else 0.8,
        edgecolor="#000000" if mark else "#777777",
        hatch="///" if mark == "gone" else None,
    )
    axes.add_patch(
        FancyBboxPatch(
            (left, top), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.08", facecolor=FACES[kind(layer)], **style
        )
    )
    axes.text(
        left + WIDTH / 2,
        top + HEIGHT / 2,
        _folded(layer),
        ha="center",
        va="center",
        fontsize=10.5,
        linespacing=1.0,
        bbox=_plate(mark, kind(layer)),
    )
    axes.text(left + WIDTH + 0.07, top + HEIGHT / 2, mark, ha="left", va="center", fontsize=10, fontweight="bold")


def _folded(layer: str) -> str:
    """A layer in lines of some 22 letters, broken after its commas."""
    lines = [""]
    for piece in layer.split(", "):
        if lines[-1] and len(lines[-1]) + len(piece) > 22:
            lines.append("")
        lines[-1] += f"{piece}, "
    return "\n".join(lines).rstrip(", ").replace(", \n", ",\n")


def _plate(mark: str, layer: str) -> dict[str, Any] | None:
    """Behind text on hatching, so that it can be read."""
    return dict(facecolor=FACES[layer], edgecolor="none", pad=1.5) if mark == "gone" else None


def _shortcut(axes: Axes, left: float, row: int) -> None:
    top, end, line = 0.42, 0.5 + row * (HEIGHT + GAP) + HEIGHT / 2, left - 0.3
    axes.plot(
        [left + WIDTH / 2, line, line, left - 0.06],
        [top, top, end, end],
        color="#333333",
        linewidth=1.3,
        solid_capstyle="round",
    )
    _arrow(axes, left - 0.12, end, left, end)
    _arrow(axes, left + WIDTH / 2, top, left + WIDTH / 2, 0.5)
    axes.text(
        line - 0.12,
        (top + end) / 2,
        "shortcut",
        rotation=90,
        ha="center",
        va="center",
        fontsize=10,
    )


def _arrow(axes: Axes, x: float, y: float, to_x: float, to_y: float) -> None:
    axes.add_patch(
        FancyArrowPatch(
            (x, y),
            (to_x, to_y),
            arrowstyle="-|>",
            mutation_scale=9,
            linewidth=1.0,
            color="#333333",
            shrinkA=0,
            shrinkB=0,
        )
    )


def _alt(stacks: Sequence[Sequence[str]], words: Sequence[Sequence[str]], titles: Sequence[str]) -> str:
    sentences = []
    for layers, marks_of, title in zip(stacks, words, titles, strict=True):
        parts = [f"{layer}{f' ({mark})' if mark else ''}" for layer, mark in zip(layers, marks_of, strict=True)]
        sentences.append(f"{title}: {', '.join(parts)}")
    return f"Two blocks as stacks of layers. {'. '.join(sentences)}."


def morph_block(step: int, before: int | None = None) -> Picture:
    """The block that a step of the morph from ResNet-50 to ConvNeXt-T changes, beside the same block before it.

    step: 1 to 14.  before: the step to compare with; the one before if not given, and step 1 itself where there is none.
    Raises ValueError for a step that is none.
    """
    steps = models.morph.STEPS
    pair = (max(min(steps), step - 1) if before is None else before, step)
    if strangers := [n for n in pair if n not in steps]:
        raise ValueError(f"step={strangers[0]!r} is none of {min(steps)} to {max(steps)}")
    place = PLACES.get(step, BLOCK) if step - pair[0] == 1 else BLOCK
    old, new = (_outline(n, place) for n in pair)
    return blocks(old, new, [f"{n}: {steps[n].name}" for n in pair])


@lru_cache(maxsize=32)
def _outline(step: int, place: tuple[int, int]) -> list[str]:
    with torch.device("meta"):  # layers have shapes there and no weights: an instant in place of a second
        model = models.morph.build(step)
    return models.morph.outline(model, *place)
