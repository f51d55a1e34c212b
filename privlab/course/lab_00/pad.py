"""A sheet to draw on, or a photograph of one's own, and a button that hands the image to a function, such as one that sends its gradient.

Jupyter has no canvas. So a drawing is text, a letter for the ink of each cell, in a text area that takes the keyboard. Beside it stands
the same drawing as a picture, on which a pointer draws by writing into that text.
"""

import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ipywidgets
import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from privlab.notebook.live import WRAP, Live, as_html, button

CELLS, PIXELS, SIDE = 28, 12, 224  # cells a side, CSS pixels of a cell, and pixels a side of the image
INKS = {"black": "k", "red": "r", "yellow": "y", "green": "g", "blue": "b", "white": "."}
COLOURS = {"k": "#1e1e1e", "r": "#cc2222", "y": "#f0c419", "g": "#009e73", "b": "#3b8fd0", ".": "#ffffff"}
HOUSE = Path(__file__).with_name("house.txt").read_text().strip()  # below a sun
BLANK = "\n".join(["." * CELLS] * CELLS)

# On the picture: it writes the letter of the ink into the text, and tells the text area once the stroke is over.
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
CSS = (
    ".privlab-pad textarea{font:10px/12px monospace!important;letter-spacing:2px;white-space:pre;overflow-x:auto}"
    ".privlab-pad svg{max-width:100%;outline:1px solid currentColor;touch-action:none}"
)


class Pad(Live):
    """A sheet that hands its image to `send` at each click on Send, and shows what this returns, until another image is drawn."""

    def __init__(self, send: Callable[[Tensor], Any]) -> None:
        """send: of an image (1, 3, 224, 224) in [0, 1]; it returns a picture, or anything else that shows itself."""
        self.send = send
        self.sheet, self.says, self.result = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        letters = "The drawing as letters: k black, r red, y yellow, g green, b blue, . white"
        wide = {"width": f"{CELLS * 9 + 20}px", "height": "auto"}
        self.text = ipywidgets.Textarea(HOUSE, rows=CELLS, layout=wide, tooltip=letters)
        self.ink = ipywidgets.ToggleButtons(options=INKS, description="ink", style={"button_width": "5em"})
        self.upload = ipywidgets.FileUpload(accept="image/*", description="A photograph", layout={"width": "auto"})
        buttons = [
            button("Send", "Hand the image over, and see what comes back", self.hand_over, width="8em"),
            button("Clear", "An empty sheet", lambda: self.text.set_trait("value", BLANK), width="8em"),
            button("Example", "The drawing at first", lambda: self.text.set_trait("value", HOUSE), width="8em"),
            self.upload,
        ]
        rows = [ipywidgets.HBox(row, layout=WRAP) for row in ([self.sheet, self.text], buttons)]
        super().__init__([self.ink, *rows, self.says, self.result])
        self.add_class("privlab-pad")
        self.text.observe(lambda _: self._take(None, "your drawing"), "value")
        self.ink.observe(lambda _: self._show(), "value")
        self.upload.observe(lambda _: self._chosen(), "value")
        self._take(None, "your drawing")

    @property
    def image(self) -> Tensor:
        """(1, 3, 224, 224) in [0, 1]: the photograph if one was chosen last, else the drawing."""
        if self.photograph is not None:
            return self.photograph
        inks = torch.tensor([[[*bytes.fromhex(COLOURS[ink][1:])] for ink in row] for row in self.cells])
        return torch.nn.functional.interpolate(inks.permute(2, 0, 1)[None] / 255, (SIDE, SIDE), mode="nearest-exact")

    @property
    def cells(self) -> list[str]:
        """The letters of the drawing, a row each; what is no ink, or missing, is white."""
        rows = (self.text.value.lower().split("\n") + [""] * CELLS)[:CELLS]
        return ["".join(ink if ink in COLOURS else "." for ink in row.ljust(CELLS, ".")[:CELLS]) for row in rows]

    def hand_over(self) -> None:
        try:
            self.result.value = as_html(self.send(self.image))
        except Exception as error:  # nobody sees what a click raises
            self._say(f"{type(error).__name__}: {error}")
            raise

    def page(self, seconds: float, room: int) -> str:
        """What comes back of the sheet as it is."""
        return f"{as_html(self.send(self.image))}<p>In the notebook you draw your own.</p>"

    def _take(self, photograph: Tensor | None, name: str) -> None:
        """From now on Send hands over this photograph, or the drawing, which is called so."""
        self.photograph, self.result.value = photograph, ""
        self._show()
        self._say(f"Send hands over {name}.")

    def _show(self) -> None:
        squares = dict.fromkeys(COLOURS, "")  # of each ink
        for y, row in enumerate(self.cells):
            for x, ink in enumerate(row):
                squares[ink] += f"M{x} {y}h1v1h-1z"
        paths = "".join(f'<path fill="{COLOURS[ink]}" d="{path}"/>' for ink, path in squares.items())
        label = f"The sheet, {CELLS} by {CELLS} cells. The text area beside it has the same drawing as letters."
        stroke, ink = html.escape(STROKE), self.ink.value
        self.sheet.value = (
            f'<link rel="stylesheet" href="data:text/css,{quote(CSS)}"><svg role="img" aria-label="{label}" data-ink="{ink}" '
            f'data-colour="{COLOURS[ink]}" viewBox="0 0 {CELLS} {CELLS}" width="{CELLS * PIXELS}" shape-rendering="crispEdges" '
            f'onpointerdown="{stroke}" onpointermove="{stroke}" onpointerup="{html.escape(OVER)}">{paths}</svg>'
        )

    def _chosen(self) -> None:
        """Take the file that was chosen as the image, or say why it cannot be."""
        file = self.upload.value[-1]
        try:
            upright = ImageOps.exif_transpose(Image.open(io.BytesIO(file["content"])))
            square = np.array(ImageOps.fit(upright.convert("RGB"), (SIDE, SIDE)))
        except Exception as error:  # whatever the reader of some format raises
            return self._say(f"{file['name']} cannot be read as an image ({error}); choose a JPEG or a PNG.")
        self._take(torch.from_numpy(square).permute(2, 0, 1)[None] / 255, f"{file['name']}, cropped to a square")

    def _say(self, words: str) -> None:
        self.says.value = f'<div role="status">{html.escape(words)}</div>'
