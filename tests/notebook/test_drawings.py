"""The drawings of the labs: each describes itself, has colours that follow the page, and letters that can be read."""

import xml.etree.ElementTree as ET

import pytest

from privlab.ledger import judging
from privlab.notebook import drawings
from privlab.notebook.plots.picture import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
ALL = sorted(f"{path.parent.name[4:]}.{path.stem}" for path in drawings.COURSE.glob("lab_*/*.svg"))


@pytest.mark.parametrize("name", ALL)
def test_a_drawing_describes_itself_and_can_be_read_on_any_ground(name):
    drawing = drawings.show(name)
    root = ET.fromstring(drawing.html)
    assert root.get("role") == "img" and root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc") == repr(drawing)
    assert len(drawing.alt.split()) > 15 and root.get("viewBox").startswith("-2 -2 384 ")
    painted = {element.get(kind) for element in root.iter() for kind in ("fill", "stroke")}
    assert painted <= {None, "none", "currentColor", *COLOURS} - {"#000000"}
    letters = [*root.iter(f"{SVG}text")]
    assert letters and all(float(e.get("font-size")) >= 12 and e.get("fill") == "currentColor" for e in letters)


def test_the_verdicts_are_those_of_the_ledger():
    words = {element.text for element in ET.fromstring(drawings.show("14.verdict").html).iter(f"{SVG}text")}
    assert {*judging.VERDICTS} <= words
