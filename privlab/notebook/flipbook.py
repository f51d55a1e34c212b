"""Frame-by-frame pictures for pages with no kernel behind them: a slider that works in the static book too."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image
from torch import Tensor

from privlab.notebook.plots import Picture
from privlab.notebook.plots.image_grids import pixels

WIDTH, LARGEST = 560, 256  # CSS pixels that a frame, and one image in it, may take

# All the script there is. It starts from the slider that moved, so flipbooks on one page cannot meddle with each other.
TURN = (
    "const book = this.closest('figure'), n = Number(this.value);"
    "book.querySelectorAll('img').forEach((image, i) => image.style.display = i === n ? 'block' : 'none');"
    "book.querySelector('figcaption').textContent = JSON.parse(book.dataset.captions)[n];"
    "this.setAttribute('aria-valuetext', `${n + 1} of ${Number(this.max) + 1}`);"
)


@dataclass(frozen=True, repr=False)
class Flipbook:
    """Frames behind a slider, in HTML that needs nothing from outside; where scripts are off, the last frame alone."""

    frames: tuple[Picture, ...]
    captions: tuple[str, ...]
    label: str
    pixelated: bool = False

    def tag(self) -> str:
        """The <figure>: frames, slider, caption. The slider takes the arrow keys, Home and End by itself."""
        last = len(self.frames) - 1
        look = ";margin:0" + ";image-rendering:pixelated" * self.pixelated
        images = [f.tag(f";display:{'block' if i == last else 'none'}{look}") for i, f in enumerate(self.frames)]
        texts = html.escape(json.dumps(self.captions))
        plain = "margin:0;text-align:left;color:inherit"  # themes centre figures and grey their captions
        return (
            f'<figure class="privlab-flipbook" style="{plain}" data-captions="{texts}">'
            f"{''.join(images)}"
            f'<label style="display:block;margin:.4em 0">{html.escape(self.label)} '
            f'<input type="range" min="0" max="{last}" step="1" value="{last}" autocomplete="off" '
            f'aria-valuetext="{last + 1} of {last + 1}" oninput="{html.escape(TURN)}" '
            'style="vertical-align:middle;width:min(20em,60%)"></label>'
            f'<figcaption aria-live="polite" style="{plain}">{html.escape(self.captions[-1])}</figcaption>'
            "<noscript><style>.privlab-flipbook label{display:none!important}</style></noscript></figure>"
        )

    def __repr__(self) -> str:
        return f"{len(self.frames)} frames; the last, {self.captions[-1]}: {self.frames[-1].alt}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": repr(self)}


def show(
    frames: Sequence[Tensor | Picture], captions: Sequence[str], alts: Sequence[str] | None = None, label: str = "frame"
) -> Flipbook:
    """A flipbook of images or pictures; it opens on the last frame.

    frames: at least two, either all (batch, 1 or 3, height, width) in one shape, shown side by side and clamped to
    [0, 1], or all `plots.Picture`s. The page carries every frame: 14 of 32 x 32 take 60 KB, of 224 x 224 some 2 MB.
    captions: a line a frame, shown below it.  alts: what each frame shows, in words; pictures bring their own.
    label: what the slider moves through, such as "optimisation step".
    Raises ValueError for too few frames, shapes that differ, a caption or alt too few, an empty alt or label.
    """
    if len(frames) < 2:
        raise ValueError(f"frames: got {len(frames)}; give at least two, or show a single one with plots.images")
    if not label.strip():
        raise ValueError(f"label={label!r} does not say what the slider moves through; try 'optimisation step'")
    if alts is None and all(isinstance(frame, Picture) for frame in frames):
        alts = [frame.alt for frame in frames if isinstance(frame, Picture)]
    for name, texts in (("captions", captions), ("alts", alts or ())):
        if len(texts) != len(frames):
            raise ValueError(f"{name}: got {len(texts)} for {len(frames)} frames; give one each")
    shapes = {tuple(frame.shape) if isinstance(frame, Tensor) else "a picture" for frame in frames}
    if len(shapes) > 1:
        raise ValueError(f"frames: got {' and '.join(map(str, shapes))}; give them all in one shape")

    pictures = []
    for frame, alt in zip(frames, alts or (), strict=True):
        if isinstance(frame, Picture):
            pictures.append(Picture(frame.png, alt, frame.width))
        else:
            pictures.append(strip(frame, alt))
    enlarged = isinstance(frames[0], Tensor) and frames[0].shape[3] <= _side(len(frames[0]))
    return Flipbook(tuple(pictures), tuple(captions), label, pixelated=enlarged)


def _side(count: int) -> int:
    return min(LARGEST, WIDTH // count)


def strip(batch: Tensor, alt: str) -> Picture:
    """A batch side by side, a white pixel between, in its own size: the browser enlarges it by a whole factor."""
    cells = pixels(batch)
    gap = np.full((cells[0].shape[0], 1, 3), 255, np.uint8)
    strip = np.concatenate([part for cell in cells for part in (cell, gap)][:-1], axis=1)
    side, native = _side(len(cells)), cells[0].shape[1]
    factor = side // native or side / native  # whole, unless the image has to shrink
    file = io.BytesIO()
    Image.fromarray(strip).save(file, "PNG", optimize=True)
    return Picture(file.getvalue(), alt, round(strip.shape[1] * factor))
