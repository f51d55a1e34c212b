"""The drawings of the labs: each describes itself, has colours that follow the page, and letters that can be read."""

import xml.etree.ElementTree as ET

import pytest
from IPython.core.interactiveshell import InteractiveShell

from privlab.ledger import judging
from privlab.models import morph_steps
from privlab.notebook import drawings, plots
from privlab.notebook.plots.picture import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
ALL = sorted(f"{path.parent.name[4:]}.{path.stem}" for path in drawings.COURSE.glob("lab_*/*.svg"))


@pytest.mark.parametrize("name", ALL)
def test_a_drawing_describes_itself_and_can_be_read_on_any_ground(name):
    drawing = drawings.show(name)
    root = ET.fromstring(drawing.svg)
    assert root.get("role") == "img" and root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc") == repr(drawing)
    assert len(drawing.alt.split()) > 15 and root.get("viewBox").startswith("-2 -2 384 ")
    painted = {element.get(kind) for element in root.iter() for kind in ("fill", "stroke")}
    assert painted <= {None, "none", "currentColor", *COLOURS} - {"#000000"}
    letters = [element for element in root.iter(f"{SVG}text")]
    assert letters and all(float(e.get("font-size")) >= 12 and e.get("fill") == "currentColor" for e in letters)
    data, _ = InteractiveShell.instance().display_formatter.format(drawing)
    assert data == {"text/html": drawing.svg, "text/plain": drawing.alt}


def test_a_drawing_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"name='04.serach' is no drawing; try one of 00.client_and_server"):
        drawings.show("04.serach")


def test_the_verdicts_are_those_of_the_ledger():
    words = {element.text for element in ET.fromstring(drawings.show("14.verdict").svg).iter(f"{SVG}text")}
    assert {*judging.VERDICTS} <= words


def test_the_block_of_a_step_stands_beside_the_one_before():
    alt = plots.morph_block(10).alt
    assert f"10: {morph_steps.STEPS[10].name}" in alt and "9: " in alt and alt.count("GELU (gone)") == 2
    assert "(" not in plots.morph_block(1).alt.partition("layers.")[2]  # nothing before it, nothing changed
    assert "maximum of 3 x 3" in plots.morph_block(4).alt  # the step changes the stem, so the stem is shown
    assert "14: " in plots.morph_block(14, before=1).alt
    with pytest.raises(ValueError, match="step=15 is none of 1 to 14"):
        plots.morph_block(15)
