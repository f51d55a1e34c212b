"""Schematic drawings: each is well-formed, describes itself, keeps to colours that follow the page, and shows what it was asked for."""

import xml.etree.ElementTree as ET
from html import unescape

import pytest
from IPython.core.interactiveshell import InteractiveShell

from privlab.ledger import judging
from privlab.models import morph_steps
from privlab.notebook import drawings
from privlab.notebook.plots.picture import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
ALL = {
    "client and server": drawings.client_and_server,
    "update": lambda: drawings.client_and_server("update of one epoch", "drawings"),
    "batch": drawings.batch,
    "search": drawings.search_loop,
    "vit": drawings.vit,
    "vit read inside": lambda: drawings.vit(("attention", "norm")),
    "stage": drawings.residual_stage,
    "stage with cuts": lambda: drawings.residual_stage(4, ("first", 2)),
    "probe": drawings.probe,
    "bottleneck": drawings.bottleneck,
    "generator": drawings.generator_inversion,
    "who trains on what": drawings.who_trains_on_what,
    "one question": drawings.one_question,
    "in and out": drawings.in_and_out,
    "keep matrix": drawings.keep_matrix,
    "plane": drawings.plane,
    "verdict": drawings.verdict,
    "three parties": drawings.three_parties,
}


def parsed(drawing):
    return ET.fromstring(drawing.svg)


def words(drawing):
    return [element.text for element in parsed(drawing).iter(f"{SVG}text")]


@pytest.mark.parametrize("draw", ALL.values(), ids=ALL)
def test_a_drawing_is_shown_with_its_description(draw):
    drawing = draw()
    root = parsed(drawing)
    assert root.get("role") == "img" and root.get("aria-label") == drawing.alt == repr(drawing)
    assert len(drawing.alt.split()) > 15 and "  " not in drawing.alt and ".." not in drawing.alt
    data, _ = InteractiveShell.instance().display_formatter.format(drawing)
    assert data == {"text/html": drawing.svg, "text/plain": drawing.alt}
    assert "max-width" in root.get("style") and root.get("viewBox").startswith("-2 -2 384 ")


@pytest.mark.parametrize("draw", ALL.values(), ids=ALL)
def test_its_colours_follow_the_page_and_its_letters_can_be_read(draw):
    root = parsed(draw())
    painted = {element.get(kind) for element in root.iter() for kind in ("fill", "stroke")}
    assert painted <= {None, "none", "currentColor", *COLOURS} - {"#000000"}
    letters = [element for element in root.iter(f"{SVG}text")]
    assert letters and all(float(e.get("font-size")) >= 12 and e.get("fill") == "currentColor" for e in letters)


def test_the_attacker_is_where_it_was_said_to_be():
    drawing = drawings.client_and_server(sent="update")
    assert "Attacker: reads the update," in " ".join(words(drawing))
    assert drawing.alt.endswith("The server is the attacker, and sees the update.")


def test_a_picture_of_the_keep_matrix_is_in_half_of_the_shadow_models():
    drawing = drawings.keep_matrix()
    said = words(drawing)
    assert said.count("in") == said.count("out") == 3 and "victim" in said
    filled = [e for e in parsed(drawing).iter(f"{SVG}rect") if e.get("fill-opacity") == ".75"]
    assert len(filled) == 4 * 6  # of 2 * 4 * 6 squares, whatever was drawn


def test_the_judge_gets_the_private_photographs_and_the_attacker_does_not():
    drawing = drawings.three_parties(12)
    said = " ".join(words(drawing))
    assert (
        "Photographs of 12 private people" in said
        and "past the attacker" in said
        and "12 private people" in drawing.alt
    )


def bars(drawing):
    """The signed heights of the bars on each line, from the left; the lines from the top, that of the sum last."""
    root = parsed(drawing)
    lines = [[tuple(map(float, p.split(","))) for p in e.get("points").split()] for e in root.iter(f"{SVG}polyline")]
    axes = [(a, b) for a, b in (line for line in lines if len(line) == 2) if a[1] == b[1] and b[0] - a[0] > 80]
    rects = [
        [float(e.get(k)) for k in ("x", "y", "height")]
        for e in root.iter(f"{SVG}rect")
        if e.get("fill-opacity") == ".85"
    ]
    found = []
    for (left, y), (right, _) in axes:
        on = [
            (x, top, tall)
            for x, top, tall in rects
            if left <= x < right and min(abs(top - y), abs(top + tall - y)) < 0.05
        ]
        found.append([-tall if abs(top - y) < 0.05 else tall for x, top, tall in sorted(on)])
    return found


@pytest.mark.parametrize("images", [2, 3, 4])
def test_what_a_batch_sends_is_the_sum_of_its_gradients(images):
    *each, total = bars(drawings.batch(images))
    assert [len(row) for row in each] == [8] * images and len(total) == 8
    assert [v / 15 for v in total] == pytest.approx([sum(column) / 20 for column in zip(*each, strict=True)], abs=0.01)


def test_a_batch_has_a_size_that_can_be_drawn():
    with pytest.raises(ValueError, match="images=9: give 2 to 4"):
        drawings.batch(9)


def heavy(drawing):
    """Names in boxes that are drawn as the attacker's."""
    boxes = [e for e in parsed(drawing).iter(f"{SVG}rect") if e.get("rx") == "6" and e.get("stroke") == COLOURS[1]]
    return {
        text.text
        for box in boxes
        for text in parsed(drawing).iter(f"{SVG}text")
        if 0 < float(text.get("x")) - float(box.get("x")) < float(box.get("width"))
        and 0 < float(text.get("y")) - float(box.get("y")) < float(box.get("height"))
    }


def test_a_vit_marks_what_is_read():
    assert heavy(drawings.vit(read=["head"])) == {"head"} and heavy(drawings.vit(read=())) == set()
    assert heavy(drawings.vit()) == {"patch embedding", "position", "embedding"}
    with pytest.raises(
        ValueError, match="read='skip' is no part of this ViT; it has patch embedding, position embedding"
    ):
        drawings.vit(read=["skip"])


@pytest.mark.parametrize(
    ("skips", "cut"),
    [(True, []), (False, [1, 2, 3]), (("last",), [1, 2]), (("first", "last"), [2]), ((2,), [1, 3]), ((), [1, 2, 3])],
)
def test_a_cut_skip_connection_is_dashed_and_named(skips, cut):
    drawing = drawings.residual_stage(3, skips)
    dashed = [e for e in parsed(drawing).iter(f"{SVG}polyline") if e.get("stroke-dasharray")]
    assert len(dashed) == len(cut) == words(drawing).count("cut")
    assert ("None is cut." if not cut else f"Cut: that of block {', '.join(map(str, cut))}.") in drawing.alt


@pytest.mark.parametrize(
    ("given", "says"),
    [(dict(blocks=9), "blocks=9: give 1 to 4"), (dict(skips=(4,)), "skips=4 is no block; give numbers from 1 to 3")],
)
def test_what_no_stage_has_is_named(given, says):
    with pytest.raises(ValueError, match=says):
        drawings.residual_stage(**given)


def test_labels_are_the_readers_own():
    assert (
        "gives the glasses" in drawings.probe("person", "glasses").svg
        and "glasses" in drawings.probe("person", "glasses").alt
    )
    assert "style code" in words(drawings.generator_inversion(searched="style code"))
    assert "a &lt; b" in drawings.plane(accuracy="a < b").svg and "a < b" in unescape(
        drawings.plane(accuracy="a < b").svg
    )


def test_the_verdicts_are_those_of_the_ledger():
    assert {*judging.VERDICTS} <= {*words(drawings.verdict())}


def test_there_are_as_many_models_with_a_picture_as_without():
    drawing = drawings.in_and_out()
    layers = [e.get("fill") for e in parsed(drawing).iter(f"{SVG}rect") if e.get("fill-opacity") == ".8"]
    assert layers.count(COLOURS[0]) == layers.count(COLOURS[2]) == 3 * 4  # four of each network
    assert "3 models were trained without it, 3 with it" in drawing.alt


def test_the_block_of_a_step_stands_beside_the_one_before():
    alt = drawings.morph_block(10).alt
    assert f"10: {morph_steps.STEPS[10].name}" in alt and "9: " in alt and alt.count("GELU (gone)") == 2
    assert "(" not in drawings.morph_block(1).alt.partition("layers.")[2]  # nothing before it, nothing changed
    assert "maximum of 3 x 3" in drawings.morph_block(4).alt  # the step changes the stem, so the stem is shown
    assert "14: " in drawings.morph_block(14, before=1).alt
    with pytest.raises(ValueError, match="step=15 is none of 1 to 14"):
        drawings.morph_block(15)


def test_a_box_says_when_its_words_do_not_fit():
    canvas = drawings.Canvas()
    with pytest.raises(ValueError, match="'an incomprehensibility' is too long for its box"):
        canvas.box(0, 0, 60, 40, "an incomprehensibility")
    with pytest.raises(ValueError, match="is too long for its box"):
        canvas.box(0, 0, 60, 40, "many words that need more than two lines")
    with pytest.raises(ValueError, match="tells a listener nothing"):
        canvas.done(10, " ")


def test_an_arrow_ends_where_it_points():
    canvas = drawings.Canvas()
    canvas.arrow((0, 0), (30, 40))
    (head,) = parsed(canvas.done(50, "an arrow")).iter(f"{SVG}polygon")
    tip, *back = [tuple(map(float, p.split(","))) for p in head.get("points").split()]
    assert tip == (30, 40)
    middle = [sum(v) / 2 for v in zip(*back, strict=True)]
    assert middle == pytest.approx([30 - 8 * 0.6, 40 - 8 * 0.8], abs=0.01)
