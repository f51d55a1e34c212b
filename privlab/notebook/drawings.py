"""The schematic drawings of the labs: SVG files that lie with them, in privlab/course/lab_NN.

A drawing is SVG inside the page, so its letters and lines have the colour of the text around it. It is 380 units wide: on a telephone a
unit is a pixel, and on a wider page it grows by a quarter. Colour is never the only cue: words and outlines say the same.
"""

import xml.etree.ElementTree as ET
from pathlib import Path

from privlab.notebook.plots.picture import Picture

COURSE = Path(__file__).parents[1] / "course"
STYLE = "display:block;width:100%;max-width:480px;height:auto;margin:.6em 0;font-family:inherit"


def show(name: str) -> Picture:
    """A drawing by the lab that it lies with and its name, such as "04.search_loop"."""
    svg = (COURSE / f"lab_{name}.svg".replace(".", "/", 1)).read_text(encoding="utf-8")
    description = ET.fromstring(svg).findtext("{http://www.w3.org/2000/svg}desc")
    return Picture(svg.replace("<svg ", f'<svg style="{STYLE}" ', 1), str(description))
