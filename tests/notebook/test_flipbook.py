from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from markup import Page
from PIL import Image

from privlab import data
from privlab.notebook import flipbook, plots

FRAMES = [torch.full((1, 3, 4, 4), i / 4) for i in range(5)]
CAPTIONS = [f"step {i} <b>&amp; \"quoted\" 'so'</b>" for i in range(5)]
ALTS = [f'A grey square, "{i} quarters" <bright>' for i in range(5)]


def page(book: flipbook.Flipbook) -> Page:
    return Page(book._repr_mimebundle_()["text/html"])


def test_structure() -> None:
    found = page(flipbook.show(FRAMES, CAPTIONS, ALTS, label="optimisation <step>"))
    (slider,) = found.all("input")
    ends = [slider[name] for name in ("type", "min", "max", "value", "step")]
    assert ends == ["range", "0", "4", "4", "1"] and slider["aria-valuetext"] == "5 of 5"
    assert found.texts["label"].strip() == "optimisation <step>"  # the slider stands inside its label
    assert found.texts["output"] == "5 of 5"
    (live,) = (one for one in found.all("div") if "aria-live" in one)
    assert live["aria-live"] == "polite"


def test_frames_in_order_and_only_the_last_one_shown() -> None:
    found = page(flipbook.show(FRAMES, CAPTIONS, ALTS))
    frames = [one for one in found.all("div") if "data-frame" in one]
    assert [(one["data-frame"], "hidden" in one) for one in frames] == [(str(n), n != 4) for n in range(5)]
    assert [image["alt"] for image in found.all("img")] == ALTS
    for image, frame in zip(found.all("img"), FRAMES, strict=True):
        png = base64.b64decode(image["src"].removeprefix("data:image/png;base64,"))
        shown = np.asarray(Image.open(io.BytesIO(png)))
        assert shown.shape == (4, 4, 3) and (shown == round(frame[0, 0, 0, 0].item() * 255)).all()


def test_captions_survive_every_character() -> None:
    found = page(flipbook.show(FRAMES, CAPTIONS, ALTS))
    assert found.texts["p"].startswith("".join(CAPTIONS))
    assert not found.all("b")


def test_the_script_touches_nothing_beyond_its_own_figure() -> None:
    found = page(flipbook.show(FRAMES, CAPTIONS, ALTS))
    (script,) = (one["oninput"] for _, one in found.tags if "oninput" in one)
    assert script == flipbook.TURN
    assert "this.querySelectorAll" in script and "document" not in script and "textContent" in script
    assert not any("id" in attributes for _, attributes in found.tags)  # two equal books on a page do not collide


def test_nothing_comes_from_outside() -> None:
    text = flipbook.show(FRAMES, CAPTIONS, ALTS).tag()
    assert "//" not in text.replace("data:image", "").split("base64,")[0]
    assert all(image["src"].startswith("data:image/png;base64,") for image in Page(text).all("img"))
    assert not Page(text).all("script") and not Page(text).all("link")


def test_without_scripts_the_controls_go_and_where_they_stand_is_told() -> None:
    text = flipbook.show(FRAMES, CAPTIONS, ALTS, "step").tag()
    hidden = "<noscript><style>.privlab-flipbook .privlab-turn{display:none!important}</style>"
    assert f"{hidden}<p>step: 5 of 5</p></noscript>" in text and text.count("privlab-turn") == 2


CONTROLS = (
    flipbook.Control("width", ("96", "384"), 1, "slider"),
    flipbook.Control("way <b>", ('a "quoted"', "b & c"), 0, "buttons"),
    flipbook.Control("cut", ("no", "yes"), 1, "box"),
    flipbook.Control("claim", ("one", "two", "<three>"), 2, "menu"),
    flipbook.Control("seed", ("0",), 0, "slider"),
)


def test_each_kind_of_control_rests_where_it_stood_under_its_own_words() -> None:
    rest = tuple(control.rest for control in CONTROLS)
    found = page(flipbook.Flipbook(CONTROLS, {rest: "<p>at rest</p>", (0, *rest[1:]): "<p>left</p>"}))
    assert not found.all("b") and not found.all("three")
    slider, no, yes, box, alone = found.all("input")
    assert slider["value"] == "1" and json.loads(slider["data-options"]) == ["96", "384"]
    assert no["type"] == "radio" and "checked" in no and "checked" not in yes and no["name"] == yes["name"]
    assert box["type"] == "checkbox" and "checked" in box and alone["type"] == "hidden"
    assert ["selected" in option for option in found.all("option")] == [False, False, True]
    assert {one["aria-label"] for one in found.all("div") if one.get("role") == "radiogroup"} == {"way <b>"}
    stand = 'width: 384; way <b>: a "quoted"; cut: yes; claim: <three>; seed: 0'
    assert found.texts["p"].endswith(stand)
    shown = {one["data-frame"]: "hidden" not in one for one in found.all("div") if "data-frame" in one}
    assert shown == {"1-0-1-2-0": True, "0-0-1-2-0": False}


def test_equal_frames_are_in_the_page_once_and_buttons_of_two_books_do_not_meddle() -> None:
    control = flipbook.Control("way", ("a", "b", "c"), 1, "buttons")
    book = flipbook.Flipbook((control,), {(0,): "same", (1,): "other", (2,): "same"})
    assert book.tag().count("same") == 1
    frames = [one for one in page(book).all("div") if "data-frame" in one]
    assert [(one["data-frame"], "hidden" in one) for one in frames] == [("0 2", True), ("1", False)]
    another = flipbook.Flipbook((control,), {(0,): "a", (1,): "b", (2,): "c"})
    names = [{one["name"] for one in page(each).all("input")} for each in (book, another)]
    assert names[0].isdisjoint(names[1])


def test_small_on_the_page() -> None:
    photo, _ = data.load("cifar10_samples").take(slice(0, 1))
    noise = torch.randn(photo.shape, generator=torch.Generator().manual_seed(0))
    frames = [photo + noise * (1 - i / 13) for i in range(14)]
    book = flipbook.show(frames, [f"step {i}" for i in range(14)], [f"Frame {i}." for i in range(14)])
    assert len(book.tag()) < 80_000
    assert "image-rendering:pixelated" in book.tag() and "width:256px" in book.tag()


@pytest.mark.parametrize(
    ("count", "side", "width", "pixelated"),
    [(1, 32, 256, True), (2, 32, 65 * 8, True), (1, 224, 224, True), (1, 512, 256, False)],
)
def test_images_grow_by_whole_factors_or_shrink(count: int, side: int, width: int, pixelated: bool) -> None:
    book = flipbook.show([torch.zeros(count, 1, side, side)] * 2, ["a", "b"], ["A.", "B."])
    looks = [image["style"] for image in page(book).all("img")]
    assert len(looks) == 2 and all(f"width:{width}px" in look for look in looks)
    assert all(("pixelated" in look) == pixelated for look in looks)


def test_images_of_a_batch_stand_side_by_side() -> None:
    black_white = torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)])
    book = flipbook.show([black_white, black_white.flip(0)], ["a", "b"], ["A.", "B."])
    first = page(book).all("img")[0]["src"].removeprefix("data:image/png;base64,")
    shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(first))))
    assert shown.shape == (4, 9, 3)
    assert (shown[:, :4] == 0).all() and (shown[:, 4:] == 255).all()


def test_pictures_bring_their_alt_texts() -> None:
    pictures = [plots.spectrum({"G": [1.0, i]}, alt=f"Spectrum {i}.") for i in (2.0, 3.0)]
    book = flipbook.show(pictures, ["a", "b"], label="width")
    assert [image["alt"] for image in page(book).all("img")] == ["Spectrum 2.0.", "Spectrum 3.0."]
    assert [image["src"] for image in page(book).all("img")] == [
        Page(one.tag()).all("img")[0]["src"] for one in pictures
    ]
    assert "pixelated" not in book.tag()


def test_as_plain_text() -> None:
    book = flipbook.show(FRAMES, [str(i) for i in range(5)], ALTS)
    assert book._repr_mimebundle_()["text/plain"] == f"5 frames; the last, 4: {ALTS[-1]}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((FRAMES[:1], ["a"], ["A."]), "frames: got 1; give at least two"),
        ((FRAMES, CAPTIONS[:4], ALTS), "captions: got 4 for 5 frames; give one each"),
        ((FRAMES, CAPTIONS, ALTS[:4]), "alts: got 4 for 5 frames; give one each"),
        ((FRAMES, CAPTIONS), "alts: got 0 for 5 frames"),
        ((FRAMES, CAPTIONS, [*ALTS[:4], " "]), "alt=' ' tells a listener nothing"),
        ((FRAMES, CAPTIONS, ALTS, ""), "label='' does not say what the slider moves through"),
        (
            ([FRAMES[0], FRAMES[0][..., :2]], ["a", "b"], ["A.", "B."]),
            r"frames: got .*\(1, 3, 4, 2\).* give them all in one shape",
        ),
        (([FRAMES[0][0]] * 2, ["a", "b"], ["A.", "B."]), r"got shape \(3, 4, 4\)"),
    ],
)
def test_bad_input(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flipbook.show(*arguments)
