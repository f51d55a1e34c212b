"""Pieces of HTML: paragraphs, and images with words below them, in rows that a narrow page breaks."""

import base64
import html
import io
from collections.abc import Iterable

from PIL import Image
from torch import Tensor
from torch.nn.functional import pad

SIDE = 112  # CSS pixels of an image: three beside each other fit on a telephone
SMALL = 96  # pixels: lower images are sent with every pixel, higher ones as photographs are
PLAIN = "line-height:1.5;margin:.2em 0 .4em;max-width:45em"
FIXED = f";width:{SIDE}px;overflow-wrap:anywhere"  # of a figure that is as wide as its image
SMOOTH = ";display:block;margin:0"
SQUARES = f"{SMOOTH};image-rendering:pixelated"  # of an image whose pixels are to be seen


def paragraph(words: str, status: bool = False) -> str:
    """A paragraph of HTML.  status: read aloud when it changes."""
    role = ' role="status"' * status
    return f'<p{role} style="{PLAIN}">{words}</p>'


def figure(tag: str, words: str, style: str = "") -> str:
    """A picture's tag with words below, both HTML.  style: more CSS, starting with a semicolon."""
    return f'<figure style="margin:0{style}">{tag}<figcaption style="color:inherit">{words}</figcaption></figure>'


def img(webp: io.BytesIO, alt: str, width: int, style: str = "") -> str:
    """An <img> with the file inside it and its alt text, so many CSS pixels wide at most.  style: more CSS, starting with a semicolon."""
    source = f"data:image/webp;base64,{base64.b64encode(webp.getvalue()).decode()}"
    look = f"width:{width}px;max-width:100%;height:auto{style}"
    return f'<img src="{source}" alt="{html.escape(alt)}" style="{look}">'


def picture(batch: Tensor, alt: str, width: int, style: str = SMOOTH) -> str:
    """Images side by side, a white pixel between, as a tag so many CSS pixels wide. The browser enlarges them, smoothly or as SQUARES.

    batch: (n, 1 or 3, height, width), shown clamped to [0, 1].  Raises ValueError for NaN.
    """
    if batch.isnan().any():
        raise ValueError("images: got NaN among the pixels; black is 0 and white 1")
    pixels = (batch.detach().float().cpu().clamp(0, 1) * 255).round().byte().expand(-1, 3, -1, -1)
    framed = pad(pixels, (0, 1), value=255)  # a white column on the right of each, of which the last goes
    joined = Image.fromarray(framed.permute(2, 0, 3, 1).flatten(1, 2)[:, :-1].numpy())
    file = io.BytesIO()
    joined.save(file, "WEBP", lossless=joined.height <= SMALL, quality=85)
    room = f";aspect-ratio:{joined.width}/{joined.height}"  # it keeps its place while the browser decodes it
    return img(file, alt, width, room + style)


def named(image: Tensor, name: str) -> str:
    """An image, (1, channels, height, width) in [0, 1], with its name below."""
    return figure(picture(image, f"{name}.", SIDE), html.escape(name), FIXED)


def row(figures: Iterable[str], gap: int = 8) -> str:
    """Figures beside each other, so many CSS pixels apart."""
    return f'<div style="display:flex;flex-wrap:wrap;gap:{gap}px">{"".join(figures)}</div>'
