"""Blocks of a network as stacks of boxes, with what changed marked in words and by an outline, and beside them what a search found."""

import html
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher

import torch
from IPython.display import HTML
from torch import Tensor

from privlab import metrics, models
from privlab.notebook.plots.picture import COLOURS, Picture
from privlab.notebook.sheet import SQUARES, figure, picture, row

# How a convolution, a norm and an activation begin -> a colour: light, so that black letters read well on them, in a dark theme as in
# a light one; told apart by their text.
FACES = {r"\d+ x \d+": "#cfe3f3", r"\w+Norm": "#e4e4e4", "ReLU|GELU": "#fbd9b0"}
BLOCK = (1, 1)  # stage and block that a step of the morph shows: a block of the second stage, but for
PLACES = {4: (-1, 0), 8: (-1, 0), 13: (1, 0)}
SHORTCUT = "add the shortcut"  # the layer at which a shortcut ends; it begins where the block does
WIDE = "width:17em;max-width:100%"
LARGE, SMALL, THUMB = 160, 96, 34  # CSS pixels of what was found, of the photograph, and of an image in a row


def kind(layer: str) -> str:
    """What a line of `morph.outline` is: one of FACES, or itself."""
    return next((kind for kind in FACES if re.match(kind, layer)), layer)


def marks(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """A word for each layer, "" where it stays: "gone" or "changed" in the first, "new" or "changed" in the second.

    A layer counts as changed where one of the same kind stands in its place.
    """
    old, new = ["gone"] * len(before), ["new"] * len(after)
    matcher = SequenceMatcher(None, [*map(kind, before)], [*map(kind, after)], autojunk=False)
    for a, b, count in matcher.get_matching_blocks():
        for k in range(count):
            old[a + k] = new[b + k] = "changed" * (before[a + k] != after[b + k])
    return old, new


def stack(parts: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> str:
    """Layers from top to bottom, as HTML; what is new or changed is marked, and what is gone is named below.

    parts: what it is a stack of, such as "the stem" -> the layers it is compared with, and the layers, as `models.morph.outline` says them.
    """
    shown = ""
    for name, (old, new) in parts.items():
        gone, mark = marks(old, new)
        lost = ", ".join(layer for layer, word in zip(old, gone, strict=True) if word == "gone")
        shown += f"{html.escape(name)}{_boxes(new, mark)}" + f"<div>gone: {html.escape(lost)}</div>" * bool(lost)
    return f'<div style="{WIDE}">{shown}</div>'


def morph_block(step: int, before: int | None = None) -> Picture:
    """The block that a step of the morph from ResNet-50 to ConvNeXt-T changes, beside the same block before it.

    before: the step to compare with; the one before if not given, and step 1 itself where there is none.
    """
    first = max(1, step - 1) if before is None else before
    place = PLACES.get(step, BLOCK) if step - first == 1 else BLOCK
    with torch.device("meta"):  # layers have shapes there and no weights: an instant in place of a second
        layers = [models.morph.outline(models.morph.build(n), *place) for n in (first, step)]
    columns, spoken = "", []
    for n, stacked, words in zip((first, step), layers, marks(*layers), strict=True):
        title = f"{n}: {models.morph.STEPS[n].name}"
        columns += f'<div style="{WIDE}"><strong>{html.escape(title)}</strong>{_boxes(stacked, words)}</div>'
        told = [f"{layer} ({word})" if word else layer for layer, word in zip(stacked, words, strict=True)]
        spoken.append(f"{title}: {', '.join(told)}")
    alt = f"Two blocks as stacks of layers. {'. '.join(spoken)}."
    return Picture(f'<div role="img" aria-label="{html.escape(alt)}">{row([columns], gap=28)}</div>', alt)


def thumbs(found: Collection[Tensor]) -> str:
    """All images in a row as wide as the page, above what `panel` says of one. They are in the page once."""
    count = len(found)
    images = [picture(one, f"Image {n} of {count}.", THUMB, SQUARES) for n, one in enumerate(found, 1)]
    return f'<div style="{_grid(count)}">{"".join(images)}</div>'


def panel(place: int, count: int, found: Tensor, truth: Tensor, layers: str, facts: str, title: str = "") -> HTML:
    """What was found behind one network, which has this place of so many, and how near it comes to the photograph.

    found, truth: (1, 3, height, width) in [0, 1].  layers: of `stack`.  facts: HTML of what else is told of the network.
    """
    ssim, psnr = (metric(found, truth).item() for metric in (metrics.ssim, metrics.psnr))
    score = f"SSIM {ssim:.2f}, {psnr:.1f} dB"
    mark = f'<div style="{_grid(count)}"><div style="grid-column:{place};text-align:center" aria-hidden="true">▲</div></div>'
    best = picture(found, f"What the search found: {score}.", LARGE, SQUARES)
    photograph = picture(truth, "The photograph.", SMALL, SQUARES)
    images = row([figure(best, f"found: {score}"), figure(photograph, "the photograph")], gap=13)
    below = row([layers, f"<div>{images}{bar('SSIM', ssim, 1.0, f'{ssim:.2f}')}{facts}</div>"], gap=20)
    return HTML(f"{mark}{title}{below}")


def bar(name: str, value: float, most: float, words: str) -> str:
    """A number as a length, with its words above."""
    meter = f'<meter value="{max(0.0, value)}" max="{most}" style="width:16em;max-width:100%"></meter>'
    return f'<label style="display:block;margin-top:.6em">{name}: {words}<br>{meter}</label>'


def _boxes(layers: Sequence[str], words: Sequence[str]) -> str:
    """A box for each layer; a bracket on the left spans those that a shortcut passes by."""
    boxes = []
    for layer, word in zip(layers, words, strict=True):
        edge = f"3px {'dashed' if word == 'gone' else 'solid'} {COLOURS[1]}" if word else "1px solid #777777"
        face = FACES.get(kind(layer), "#ffffff")
        look = f"background:{face};color:#000000;border:{edge};border-radius:5px;padding:1px 8px;margin-bottom:5px"
        boxes.append(f'<div style="{look}">{f"<strong>{word}: </strong>" * bool(word)}{html.escape(layer)}</div>')
    end = layers.index(SHORTCUT) + 1 if SHORTCUT in layers else 0
    upright = '<span style="writing-mode:vertical-rl;transform:rotate(180deg);text-align:center">shortcut</span>'
    bracket = "display:flex;gap:3px;border:2px solid currentColor;border-right:0;border-radius:9px 0 0 9px;padding:5px 0 0 3px;margin:5px 0"
    passed = f'<div style="{bracket}">{upright}<div style="flex:1">{"".join(boxes[:end])}</div></div>' * bool(end)
    return passed + "".join(boxes[end:])


def _grid(columns: int) -> str:
    return f"display:grid;gap:5px;grid-template-columns:repeat({columns},1fr);max-width:{columns * (THUMB + 5)}px"
