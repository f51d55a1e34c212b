"""A sheet to draw on, or a photograph of one's own, and a button that hands the image to a function, such as one that sends its gradient.

The widgets of Jupyter have no canvas. So a drawing is text, a letter for the ink of each cell, in a text area that takes the
keyboard. Beside it stands the same drawing as a picture, on which a pointer draws by writing into that text.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import ipywidgets
import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from privlab.notebook import pages
from privlab.notebook.live import WRAP, Live, button, shown_error

CELLS, PIXELS = 28, 12  # cells a side, and CSS pixels of a cell
INKS = {"black": "k", "red": "r", "yellow": "y", "green": "g", "blue": "b", "white": "."}
COLOURS = {"k": "#1e1e1e", "r": "#cc2222", "y": "#f0c419", "g": "#009e73", "b": "#3b8fd0", ".": "#ffffff"}

# A house below a sun: rows of ink and how many cells it fills.
EXAMPLE = (
    *["28b"] * 2, "19b5y4b", *["18b7y3b"] * 4, "19b5y4b", "28b", "9b2k17b", "8b4k16b", "7b6k15b", "6b8k14b", "5b10k13b", "4b12k12b",
    "3b14k11b", *["5b10r13b"] * 2, *["5b1r3y2r2k2r13b"] * 3, "5b6r2k2r13b", *["5g6r2k2r13g"] * 2, *["28g"] * 4,
)  # fmt: skip

# Runs on the picture. It writes the letter of the ink into the text, and tells the text area once the stroke is over.
STROKE = f"""
if (event.type === 'pointermove' && !(event.buttons & 1)) return;
const area = this.closest('.privlab-pad').querySelector('textarea'), box = this.getBoundingClientRect();
const place = (at, from, length) => Math.max(0, Math.min({CELLS - 1}, Math.floor((at - from) / length * {CELLS})));
const x = place(event.clientX, box.left, box.width), y = place(event.clientY, box.top, box.height);
const rows = area.value.split('\\n'), row = (rows[y] || '').padEnd({CELLS}, '.');
rows[y] = row.slice(0, x) + this.dataset.ink + row.slice(x + 1);
area.value = rows.join('\\n');
this.insertAdjacentHTML('beforeend', `<path fill='${{this.dataset.colour}}' d='M${{x}} ${{y}}h1v1h-1z'/>`);
event.preventDefault();
"""
OVER = "this.closest('.privlab-pad').querySelector('textarea').dispatchEvent(new Event('input', {bubbles: true}))"
_CSS = ".privlab-pad textarea{font:10px/12px monospace!important;letter-spacing:2px;white-space:pre;overflow-x:auto}"
_SHEET = "max-width:100%;outline:1px solid currentColor"
_LOOK = f'<link rel="stylesheet" href="data:text/css,{quote(_CSS)}">'


class Pad(Live):
    """A sheet that hands its image to `send` at each click on Send, and shows what this returns, until another image is drawn.

    `image` is what it would send now.
    """

    def __init__(self, send: Callable[[Tensor], Any], side: int = 224) -> None:
        """send: of an image (1, 3, side, side) in [0, 1]; it returns a picture, or anything else that shows itself.

        side: pixels of the image; a multiple of the 28 cells keeps these equal.
        """
        self.send, self.side = send, side
        self.photograph: Tensor | None = None
        self.sheet, self.says, self.result = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Output()
        self.text = ipywidgets.Textarea(rows=CELLS, layout={"width": f"{CELLS * 9 + 20}px", "height": "auto"})
        self.text.tooltip = "The drawing as letters: k black, r red, y yellow, g green, b blue, . white"
        self.ink = ipywidgets.ToggleButtons(options=INKS, description="ink", style={"button_width": "5em"})
        self.upload = ipywidgets.FileUpload(accept="image/*", description="A photograph", layout={"width": "auto"})
        buttons = [
            button("Send", "Hand the image over, and see what comes back", self.hand_over, width="8em"),
            button("Clear", "An empty sheet", self.clear, width="8em"),
            button("Example", "The drawing that was here at first", self.draw_example, width="8em"),
            self.upload,
        ]
        rows = [ipywidgets.HBox(row, layout=WRAP) for row in ([self.sheet, self.text], buttons)]
        super().__init__([self.ink, *rows, self.says, self.result])
        self.add_class("privlab-pad")
        self.text.observe(self._drawn, "value")
        self.ink.observe(self._redraw, "value")
        self.upload.observe(self._chosen, "value")
        self.draw_example()

    @property
    def image(self) -> Tensor:
        """(1, 3, side, side) in [0, 1]: the photograph if one was chosen last, else the drawing."""
        if self.photograph is not None:
            return self.photograph
        inks = [[tuple(bytes.fromhex(COLOURS[ink][1:])) for ink in row] for row in self.cells]
        small = torch.tensor(inks).permute(2, 0, 1)[None] / 255  # (1, 3, cells, cells)
        return torch.nn.functional.interpolate(small, (self.side, self.side), mode="nearest-exact")

    @property
    def cells(self) -> list[str]:
        """The letters of the drawing, a row each; what is no ink, or missing, is white."""
        rows = (self.text.value.lower().split("\n") + [""] * CELLS)[:CELLS]
        return ["".join(ink if ink in COLOURS else "." for ink in row.ljust(CELLS, ".")[:CELLS]) for row in rows]

    def page(self, seconds: float, room: int) -> str:
        """The sheet as it is, and what comes back of it."""
        sheet = f'<svg role="img" aria-label="The drawing that was sent." viewBox="0 0 {CELLS} {CELLS}" width="{CELLS * PIXELS}" '
        drawing = f'{sheet}shape-rendering="crispEdges" style="{_SHEET}">{_paths(self.cells)}</svg>'
        return f"{drawing}{pages.shown(self.send(self.image))}<p>In the notebook you draw your own.</p>"

    def hand_over(self) -> None:
        """Give the image to the function, and show what it returns, or its exception, which is raised too."""
        try:
            shown = self.send(self.image)
        except Exception as error:
            self.result.outputs = shown_error(error)
            raise
        self.result.outputs = ({"output_type": "display_data", "data": shown._repr_mimebundle_(), "metadata": {}},)

    def clear(self) -> None:
        """Make the sheet white."""
        self.text.value = "\n".join(["." * CELLS] * CELLS)

    def draw_example(self) -> None:
        """Draw a house below a sun."""
        self.text.value = "\n".join(map(_unpacked, EXAMPLE))

    def _drawn(self, _: object) -> None:
        self.photograph, self.result.outputs = None, ()
        self._redraw()

    def _redraw(self, _: object = None) -> None:
        stroke, over, ink = html.escape(STROKE), html.escape(OVER), self.ink.value
        words = f"The sheet, {CELLS} by {CELLS} cells. The text area beside it has the same drawing as letters."
        self.sheet.value = (
            f'{_LOOK}<svg role="img" aria-label="{words}" viewBox="0 0 {CELLS} {CELLS}" width="{CELLS * PIXELS}" '
            f'data-ink="{ink}" data-colour="{COLOURS[ink]}" shape-rendering="crispEdges" style="{_SHEET};touch-action:none" '
            f'onpointerdown="{stroke}" onpointermove="{stroke}" onpointerup="{over}">{_paths(self.cells)}</svg>'
        )
        self._say(f"Send hands over your {'drawing' if self.photograph is None else 'photograph'}.")

    def _chosen(self, _: object) -> None:
        """Take the file that was chosen as the image, or say why it cannot be."""
        if not self.upload.value:
            return
        file = self.upload.value[-1]
        try:
            with Image.open(io.BytesIO(bytes(file["content"]))) as opened:
                fitted = ImageOps.fit(ImageOps.exif_transpose(opened).convert("RGB"), (self.side, self.side))
        except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
            return self._say(f"{file['name']} cannot be read as an image ({error}); choose a JPEG or a PNG.")
        self.photograph, self.result.outputs = torch.from_numpy(np.array(fitted)).permute(2, 0, 1)[None] / 255, ()
        self._say(f"Send hands over {file['name']}, cropped to a square.")

    def _say(self, words: str) -> None:
        self.says.value = f'<div role="status">{html.escape(words)}</div>'


def _paths(cells: list[str]) -> str:
    """The cells as SVG, a path for each ink."""
    where = {ink: [(x, y) for y, row in enumerate(cells) for x in range(CELLS) if row[x] == ink] for ink in COLOURS}
    return "".join(
        f'<path fill="{COLOURS[ink]}" d="{"".join(f"M{x} {y}h1v1h-1z" for x, y in places)}"/>'
        for ink, places in where.items()
        if places
    )


def _unpacked(row: str) -> str:
    """The letters of a row of EXAMPLE: "2b3k" is bbkkk."""
    return re.sub(r"(\d+)(\D)", lambda run: run[2] * int(run[1]), row)
