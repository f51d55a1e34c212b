"""A network and what was found behind it, as HTML: its layers in boxes, images, and numbers as bars, for what is switched or slid."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from torch import Tensor

from privlab import metrics
from privlab.notebook.plots.architecture_drawing import FACES, kind, marks
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sheet import strip

LARGE, SMALL, THUMB = 160, 96, 34  # CSS pixels of what was found, of the photograph, and of an image in a row
PLAIN = "margin:0;text-align:left;color:inherit;font-size:inherit"  # themes centre figures and grey their captions
MARKED = f"outline:3px solid {COLOURS[1]};outline-offset:1px"
Key = TypeVar("Key")


class Reconstructions(Generic[Key]):
    """What a search found behind several networks.  `ssim` and `psnr` say how near each image comes to the photograph, by network."""

    def __init__(self, found: Mapping[Key, Tensor], truth: Tensor) -> None:
        """found: network -> image, (1, 3, height, width) in [0, 1].  truth: the photograph.

        Raises ValueError for images that are no match.
        """
        self.found, self.truth = {one: image.cpu() for one, image in found.items()}, truth.cpu()
        self.ssim = {one: metrics.ssim(image, self.truth).item() for one, image in self.found.items()}
        self.psnr = {one: metrics.psnr(image, self.truth).item() for one, image in self.found.items()}

    def tag(self) -> str:
        """The <figure>."""
        raise NotImplementedError

    def score(self, one: Key) -> str:
        """How near an image comes, in words."""
        return f"SSIM {self.ssim[one]:.2f}, {self.psnr[one]:.1f} dB"

    def thumb(self, one: Key, key: str, framed: bool, name: str) -> str:
        """A small image in a row, which a script finds by its key."""
        shown = image(self.found[one], THUMB, f"{name}: SSIM {self.ssim[one]:.2f}.")
        return f'<div data-thumb="{key}" style="{MARKED if framed else ""}">{shown}</div>'

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": repr(self)}


def panel(layers: str, found: Tensor, truth: Tensor, score: str, bars: Sequence[str]) -> str:
    """What `stack` gives beside the image that was found, the photograph, and what `bar` gives; on a telephone below each other.

    found, truth: (1, 3, height, width) in [0, 1].  score: how near they are, in words.
    """
    images = (
        (image(found, LARGE, f"What the search found: {score}."), f"found: {score}"),
        (image(truth, SMALL, "The photograph."), "the photograph"),
    )
    shown = "".join(f'<div style="margin-right:.8em">{tag}<div>{name}</div></div>' for tag, name in images)
    return (
        f'<div style="display:flex;flex-wrap:wrap;gap:1.2em">{layers}'
        f'<div><div style="display:flex;align-items:flex-end">{shown}</div>{"".join(bars)}</div></div>'
    )


def stack(parts: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> str:
    """Layers from top to bottom; what is new or changed is marked, and what is gone is named below.

    parts: what it is a stack of, such as "the stem" -> the layers it is compared with, and the layers, as `models.morph.outline` says them.
    """
    shown = []
    for name, (old, new) in parts.items():
        gone, mark = marks(old, new)
        boxes = "".join(_box(layer, word) for layer, word in zip(new, mark, strict=True))
        lost = ", ".join(layer for layer, word in zip(old, gone, strict=True) if word == "gone")
        below = f'<p style="margin:.2em 0">gone: {html.escape(lost)}</p>' if lost else ""
        shown.append(f'<p style="margin:.2em 0">{html.escape(name)}</p>{boxes}{below}')
    return f'<div style="width:17em;max-width:100%">{"".join(shown)}</div>'


def _box(layer: str, mark: str) -> str:
    """A layer on a light ground with black letters, in a dark theme as in a light one."""
    edge = f"3px solid {COLOURS[1]}" if mark else "1px solid #777777"
    word = f"<strong>{mark}: </strong>" if mark else ""
    return (
        f'<div style="background:{FACES[kind(layer)]};color:#000000;border:{edge};border-radius:5px;padding:1px 8px;margin-bottom:5px">'
        f"{word}{html.escape(layer)}</div>"
    )


def bar(name: str, value: float, most: float, words: str) -> str:
    """A number as a length, with its words above."""
    part = 100 * max(0.0, value) / most
    return (
        f'<div style="margin-top:.6em">{name}: {words}<div style="border:1px solid currentColor;height:8px;width:16em;max-width:100%">'
        f'<div style="background:{COLOURS[0]};height:8px;width:{part:.1f}%"></div></div></div>'
    )


def image(one: Tensor, side: int, alt: str) -> str:
    """An image (1, 3, height, width), so many CSS pixels wide, its pixels as squares."""
    return replace(strip(one, alt), width=side).tag(";image-rendering:pixelated;display:block;margin:0")
