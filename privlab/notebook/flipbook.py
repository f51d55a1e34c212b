"""Frames behind controls, for pages with no kernel behind them: sliders and buttons that work in the static book too."""

from __future__ import annotations

import hashlib
import html
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image
from torch import Tensor

from privlab.notebook.plots import Picture
from privlab.notebook.plots.image_grids import pixels

WIDTH, LARGEST = 560, 256  # CSS pixels that a frame, and one image in it, may take

# All the script there is. It starts from the control that was moved, so flipbooks on one page cannot meddle with each other. Where the
# setting has no frame of its own, the other controls go back to where they rested.
TURN = (
    "const inputs = [...this.querySelectorAll('[data-control]')], frames = [...this.querySelectorAll('[data-frame]')],"
    " moved = event.target.dataset.control;"
    "const at = () => inputs.filter(one => one.type !== 'radio' || one.checked)"
    ".map(one => one.type === 'checkbox' ? Number(one.checked) : Number(one.value)).join('-');"
    "const find = () => frames.find(frame => frame.dataset.frame.split(' ').includes(at()));"
    "if (!find()) inputs.filter(one => one.dataset.control !== moved).forEach(one => {"
    " if (one.type === 'range') one.value = one.defaultValue;"
    " else if (one.options) [...one.options].forEach(option => option.selected = option.defaultSelected);"
    " else one.checked = one.defaultChecked; });"
    "const found = find(); frames.forEach(frame => frame.hidden = frame !== found);"
    "inputs.filter(one => one.type === 'range').forEach(one => { const word = JSON.parse(one.dataset.options)[one.value];"
    " one.setAttribute('aria-valuetext', word); one.parentElement.nextElementSibling.textContent = word; });"
)

Kind = Literal["slider", "buttons", "menu", "box"]
Setting = tuple[int, ...]  # the position of each control, counted from 0
_PLAIN = "margin:0;text-align:left;color:inherit"  # themes centre figures and grey their captions
_ROW = 'style="display:flex;flex-wrap:wrap;align-items:center;gap:.1em .8em;margin:.3em 0"'


@dataclass(frozen=True)
class Control:
    """What a reader moves: its label, the words at its positions, and the position at which it rests.

    kind: "box" has the positions "no" and "yes".
    """

    label: str
    options: tuple[str, ...]
    rest: int
    kind: Kind = "slider"

    @classmethod
    def counted(cls, label: str, count: int, rest: int = 0) -> Control:
        """A slider through so many things, "1 of 8" and so on."""
        return cls(label, tuple(f"{n + 1} of {count}" for n in range(count)), rest)

    def tag(self, number: int, group: str) -> str:
        """The HTML; a control that cannot be moved is told in words.  group: what no other flipbook of the page has."""
        label, word = html.escape(self.label), html.escape(self.options[self.rest])
        mark = f'data-control="{number}" autocomplete="off"'
        if len(self.options) == 1:
            return f'<div {_ROW}>{label}: {word}<input type="hidden" {mark} value="0"></div>'
        if self.kind == "box":
            return f'<div {_ROW}><label><input type="checkbox" {mark}{" checked" * self.rest}> {label}</label></div>'
        if self.kind == "slider":
            texts = html.escape(json.dumps(self.options))
            return (
                f'<div {_ROW}><label style="flex:0 1 auto">{label} <input type="range" {mark} min="0" max="{len(self.options) - 1}" '
                f'step="1" value="{self.rest}" data-options="{texts}" aria-valuetext="{word}" '
                f'style="vertical-align:middle;width:20em;max-width:38vw"></label><output aria-hidden="true">{word}</output></div>'
            )
        choices = [html.escape(option) for option in self.options]
        if self.kind == "menu":
            chosen = "".join(
                f'<option value="{n}"{" selected" * (n == self.rest)}>{one}</option>' for n, one in enumerate(choices)
            )
            return f'<div {_ROW}><label>{label} <select {mark} style="max-width:100%">{chosen}</select></label></div>'
        name = html.escape(f"{group}-{number}")
        buttons = "".join(
            f'<label><input type="radio" name="{name}" {mark} value="{n}"{" checked" * (n == self.rest)}> {one}</label>'
            for n, one in enumerate(choices)
        )
        return (
            f'<div {_ROW} role="radiogroup" aria-label="{label}"><span aria-hidden="true">{label}</span>{buttons}</div>'
        )


@dataclass(frozen=True, repr=False)
class Flipbook:
    """Controls and the frame of each setting, in HTML that needs nothing from outside.

    Where scripts are off the frame at rest is there, and where the controls stand.

    frames: setting -> its HTML; the setting at rest, and every one in which a single control is elsewhere, have one. A setting
        without a frame sends the other controls back.
    said: the frame at rest in words; where the controls stand, if not given.
    note: what stands below, such as that the notebook has more settings.
    """

    controls: tuple[Control, ...]
    frames: Mapping[Setting, str]
    said: str = ""
    note: str = ""

    @property
    def rest(self) -> Setting:
        """The setting with which it opens."""
        return tuple(control.rest for control in self.controls)

    @property
    def stand(self) -> str:
        """Where the controls stand with which it opens, in words."""
        return "; ".join(f"{control.label}: {control.options[control.rest]}" for control in self.controls)

    def tag(self) -> str:
        """The <figure>: controls and frames. Sliders and buttons take the arrow keys by themselves."""
        sharing: dict[str, list[Setting]] = {}  # equal frames are in the page once
        for setting, frame in self.frames.items():
            sharing.setdefault(frame, []).append(setting)
        shown = "".join(
            f'<div data-frame="{" ".join("-".join(map(str, one)) for one in settings)}"{" hidden" * (self.rest not in settings)}>'
            f"{frame}</div>"
            for frame, settings in sharing.items()
        )
        group = "flip-" + hashlib.sha256(shown.encode()).hexdigest()[:12]
        controls = "".join(control.tag(n, group) for n, control in enumerate(self.controls))
        note = f'<p class="privlab-live">{html.escape(self.note)}</p>' if self.note else ""
        return (
            f'<figure class="privlab-flipbook" style="{_PLAIN}" oninput="{html.escape(TURN)}" '
            'onchange="this.oninput(event)">'
            f'<div class="privlab-turn">{controls}{note}</div><div aria-live="polite">{shown}</div>'
            f"<noscript><style>.privlab-flipbook .privlab-turn{{display:none!important}}</style>"
            f"<p>{html.escape(self.stand)}</p></noscript></figure>"
        )

    def __repr__(self) -> str:
        return f"{len(self.frames)} frames; {self.said or self.stand}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": repr(self)}


def show(
    frames: Sequence[Tensor | Picture], captions: Sequence[str], alts: Sequence[str] | None = None, label: str = "frame"
) -> Flipbook:
    """A flipbook of images or pictures behind one slider; it opens on the last frame.

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

    pictures = [
        Picture(frame.png, alt, frame.width) if isinstance(frame, Picture) else strip(frame, alt)
        for frame, alt in zip(frames, alts or (), strict=True)
    ]
    enlarged = isinstance(frames[0], Tensor) and frames[0].shape[3] <= _side(len(frames[0]))
    look = ";display:block;margin:0" + ";image-rendering:pixelated" * enlarged
    shown: dict[Setting, str] = {
        (n,): f'{picture.tag(look)}<p style="{_PLAIN}">{html.escape(caption)}</p>'
        for n, (picture, caption) in enumerate(zip(pictures, captions, strict=True))
    }
    last = len(frames) - 1
    said = f"the last, {captions[-1]}: {pictures[-1].alt}"
    return Flipbook((Control.counted(label, len(frames), last),), shown, said)


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
