"""The front page: pictures of the committed evidence, and a card for each threat model that leads to its first lab."""

import re
from pathlib import Path

import front_page
import numpy as np
import pytest
from PIL import Image

from privlab.experiments import pictures
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("front") / "front"
    front_page.write(out, catalogue.everything(ROOT / "labs"))
    return out


def test_each_threat_model_has_a_card_with_a_picture_and_leads_to_its_first_lab(made):
    text = (made / "cards.md").read_text()
    cards = text.split("{container} privlab-card\n")[1:]
    labs = [set(re.findall(r"</_generated/(labs/\w+)>", card)) for card in cards]
    assert [{name[:7] for name in names} for names in labs] == [{"labs/01"}, {"labs/03"}, {"labs/04"}, {"labs/11"}]
    assert all((ROOT / f"{name}.py").exists() for names in labs for name in names)
    for card in cards:
        (picture,) = re.findall(r"{image} /_generated/front/(\w+\.png)\n:alt: \w", card)
        assert (made / picture).exists()


def test_the_cat_is_the_evidences_and_comes_back(made):
    strip = pictures.load(*front_page.SOLVED[:2], 0, front_page.SOLVED[2])
    for name, tile in (("photograph", 0), ("computed", 1)):
        with Image.open(made / f"{name}.png") as image:
            assert (np.array(image)[..., :3] == strip[:, 32 * tile : 32 * (tile + 1)]).all()
    photograph, noise = front_page.strips()["photograph"][0].astype(float), front_page.strips()["noise"]
    errors = [np.square(photograph - tile).mean() for tile in noise]
    assert len(errors) == 5 and errors == sorted(errors, reverse=True) and errors[-1] < errors[0] / 2


def test_the_bets_of_the_labs_stay_open(made):
    assert not re.search(r"No pixel|linear|search|luck", (made / "hero.md").read_text())
    shown = front_page.strips()["gradient inversion"]
    assert len(shown) == 5 and all(tile.shape == (32, 32, 3) and (tile == shown[1]).all() for tile in shown[1:])


def test_a_book_of_other_labs_names_them_without_a_link(tmp_path):
    front_page.write(tmp_path / "front", [])
    assert "{doc}" not in "".join(page.read_text() for page in (tmp_path / "front").glob("*.md"))


def test_a_picture_that_is_not_there_is_named_with_what_would_do():
    with pytest.raises(FileNotFoundError, match=r"9-picture-photograph.*measure april_closed_form\.solved at class"):
        front_page.tiles(front_page.SOLVED, repeat=9)
