"""Sets of people: the authors' layouts on small files of each, the file that is made of them, and the draws of who is private."""

import errno
import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file

from privlab.data import identities


def photo(path, shade, size=(12, 16)):
    """One shade of grey, so that a photograph is known again after any crop and resize."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0], 3), shade, np.uint8)).save(path)


def shades(images):
    return [round(float(p.float().mean())) for p in images.pixels]


# -- the authors' own layouts ------------------------------------------------------------------------------------------


@pytest.fixture
def scrub(tmp_path):
    folder = tmp_path / "facescrub"
    photo(folder / "actors/faces/Bob_B/2.png", 30)
    photo(folder / "actors/faces/Bob_B/1.png", 20)
    photo(folder / "actors/faces/Al_A/1.PNG", 10)
    photo(folder / "actresses/faces/Ada_A/1.jpg", 40)
    (folder / "actors/faces/Bob_B/notes.txt").write_text("no photograph")
    return folder


def test_facescrub(scrub, tmp_path):
    place = identities.prepare("facescrub", scrub, 8, tmp_path / "data", progress=False)
    known = identities.load("facescrub", 8, tmp_path / "data")
    assert place == tmp_path / "data/facescrub/people_8.safetensors"
    assert known.pixels.shape == (4, 3, 8, 8) and known.pixels.dtype == torch.uint8
    assert known.classes == ("Al_A", "Bob_B", "Ada_A")  # actors first, each group by name
    assert known.labels.tolist() == [0, 1, 1, 2] and shades(known) == [10, 20, 30, 40]
    images, labels = known.take([3, 0])
    assert labels.tolist() == [2, 0] and images.min() >= 0 and images.max() <= 1
    torch.testing.assert_close(known.normalise(images[1:])[0, 0, 0, 0].item(), 2 * 10 / 255 - 1)


def test_the_file_is_what_safetensors_reads(scrub, tmp_path):
    place = identities.prepare("facescrub", scrub, 5, tmp_path / "data", progress=False)  # 5: odd numbers of bytes
    tensors = load_file(place)
    assert tensors["images"].shape == (4, 3, 5, 5) and tensors["labels"].dtype == torch.int64
    assert int.from_bytes(place.read_bytes()[:8], "little") % 8 == 0
    assert {p.name for p in place.parent.iterdir()} == {place.name, f"{place.name}.sha256"}  # no part is left beside it


def test_the_middle_square_is_taken(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = (200, 100, 50)
    path = tmp_path / "f/actors/faces/A/1.png"
    path.parent.mkdir(parents=True)
    (tmp_path / "f/actresses/faces").mkdir(parents=True)
    Image.fromarray(wide).save(path)
    identities.prepare("facescrub", tmp_path / "f", 10, tmp_path, progress=False)
    pixels = identities.load("facescrub", 10, tmp_path).pixels[0]
    assert pixels.flatten(1).unique(dim=1).tolist() == [[200], [100], [50]]


def test_facescrub_with_files_missing_says_which(scrub):
    (scrub / "actresses").rename(scrub / "women")
    with pytest.raises(FileNotFoundError, match="lacks facescrub/actresses/faces: it should hold FaceScrub's cropped"):
        identities.prepare("facescrub", scrub, 8)
    (scrub / "women").rename(scrub / "actresses")
    (scrub / "actresses/faces/Nobody").mkdir()
    with pytest.raises(ValueError, match="faces/Nobody: no .jpg or .png in it"):
        identities.prepare("facescrub", scrub, 8)


def test_facescrub_with_one_person_twice_is_told(scrub):
    photo(scrub / "actresses/faces/Bob_B/1.png", 1)
    with pytest.raises(ValueError, match="has 'Bob_B' among actors and actresses"):
        identities.prepare("facescrub", scrub, 8)


def test_folders_without_people_are_told(tmp_path):
    for half in ("actors", "actresses"):
        (tmp_path / half / "faces").mkdir(parents=True)
    with pytest.raises(ValueError, match="has the right folders, but nobody in them"):
        identities.prepare("facescrub", tmp_path, 8)


@pytest.mark.parametrize("damage", ["cut short", "no image"])
def test_a_photograph_that_cannot_be_decoded_is_named_and_nothing_is_written(scrub, tmp_path, damage):
    path = scrub / "actresses/faces/Ada_A/1.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:1_000] if damage == "cut short" else b"<html>404</html>")
    with pytest.raises(
        ValueError, match=r"faces/Ada_A/1.jpg cannot be decoded \(.*\); replace the file, or take it away"
    ):
        identities.prepare("facescrub", scrub, 8, tmp_path / "data", progress=False)
    assert list((tmp_path / "data/facescrub").iterdir()) == []


def test_a_full_disk_is_told_in_one_line(scrub, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*people_8.safetensors: No space left on device"):
        identities.prepare("facescrub", scrub, 8, tmp_path / "data", progress=False)
    assert list((tmp_path / "data/facescrub").iterdir()) == []


def test_photographs_are_not_held_together(scrub, tmp_path, monkeypatch):
    """While a photograph is being decoded, the ones before it are in the file already, up to the writer's buffer."""
    for k in range(40):
        photo(scrub / f"actors/faces/Bob_B/x{k:02d}.png", k)
    before, sizes = identities._pixels, []

    def watched(one, size):
        parts = list((tmp_path / "data/facescrub").glob(".people*"))
        sizes.append(parts[0].stat().st_size)
        return before(one, size)

    monkeypatch.setattr(identities, "_pixels", watched)
    identities.prepare("facescrub", scrub, 64, tmp_path / "data", progress=False)
    waiting = [k * 3 * 64 * 64 - size for k, size in enumerate(sizes)]
    assert len(sizes) == 44 and max(waiting) < 12 * 3 * 64 * 64


@pytest.fixture
def celeb(tmp_path):
    folder = tmp_path / "root"
    rows = {1: 9, 2: 5, 3: 7, 4: 5, 5: 7, 6: 5, 7: 3}  # three photographs of 5, two of 7, one each of 9 and 3
    for number in rows:
        photo(folder / f"celeba/img_align_celeba/{number:06d}.jpg", 20 * number, (178, 218))
    lines = [f"{number:06d}.jpg {person}" for number, person in rows.items()]
    (folder / "celeba/identity_CelebA.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_celebas_people_are_those_with_most_photographs(celeb, tmp_path):
    identities.prepare("celeba_people", celeb, 8, tmp_path, progress=False)
    known = identities.load("celeba_people", 8, tmp_path)
    assert known.classes == ("5", "7", "9", "3")  # 9 before 3: its photograph comes first
    assert known.labels.tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert shades(known) == [40, 80, 120, 60, 100, 20, 140]
    _, labels, kept = identities.celeba_people(celeb, people=3)
    assert kept == ["5", "7", "9"] and labels == [0, 0, 0, 1, 1, 2]


def test_celeba_with_files_missing_says_which(celeb):
    (celeb / "celeba/img_align_celeba/000004.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="lacks root/celeba/img_align_celeba/000004.jpg"):
        identities.prepare("celeba_people", celeb, 8)
    (celeb / "celeba/identity_CelebA.txt").unlink()
    with pytest.raises(FileNotFoundError, match="lacks root/celeba/identity_CelebA.txt"):
        identities.prepare("celeba_people", celeb, 8)


def test_a_list_that_is_none_is_told(celeb):
    table = celeb / "celeba/identity_CelebA.txt"
    table.write_text("000001.jpg 9\n000002.jpg -1\n")
    with pytest.raises(ValueError, match="identity_CelebA.txt, line 2: '000002.jpg -1' is not a file and an identity"):
        identities.prepare("celeba_people", celeb, 8)
    table.write_text("")
    with pytest.raises(ValueError, match="names no photographs"):
        identities.prepare("celeba_people", celeb, 8)


def boxed(path, boxes):
    path.parent.mkdir(parents=True, exist_ok=True)
    inner = "".join(
        "<object><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>".format(*box)
        for box in boxes
    )
    path.write_text(f"<annotation>{inner}</annotation>")


@pytest.fixture
def dogs(tmp_path):
    folder = tmp_path / "dogs"
    photo(folder / "Images/n02-Wire-haired_terrier/n02_1.jpg", 90)
    half = np.full((20, 40, 3), 10, np.uint8)
    half[:, 20:] = 150
    (folder / "Images/n01-Chihuahua").mkdir()
    Image.fromarray(half).save(folder / "Images/n01-Chihuahua/n01_7.png")
    return folder


def test_dogs_whole_and_in_their_boxes(dogs, tmp_path):
    identities.prepare("stanford_dogs", dogs, 8, tmp_path / "whole", progress=False)
    known = identities.load("stanford_dogs", 8, tmp_path / "whole")
    assert known.classes == ("Chihuahua", "Wire-haired_terrier") and known.labels.tolist() == [0, 1]
    assert shades(known) == [80, 90]  # half 10, half 150
    boxed(dogs / "Annotation/n01-Chihuahua/n01_7", [(20, 0, 41, 20), (0, 0, 5, 5)])  # one pixel beyond: cut off
    boxed(dogs / "Annotation/n02-Wire-haired_terrier/n02_1", [(0, 0, 5, 5)])
    identities.prepare("stanford_dogs", dogs, 8, tmp_path / "boxes", progress=False)
    assert shades(identities.load("stanford_dogs", 8, tmp_path / "boxes")) == [150, 90]  # the first box


def test_dogs_with_files_missing_says_which(dogs):
    (dogs / "Annotation").mkdir()
    boxed(dogs / "Annotation/n01-Chihuahua/n01_7", [(0, 0, 5, 5)])
    with pytest.raises(FileNotFoundError, match="lacks dogs/Annotation/n02-Wire-haired_terrier/n02_1: .* the boxes"):
        identities.prepare("stanford_dogs", dogs, 8)
    boxed(dogs / "Annotation/n02-Wire-haired_terrier/n02_1", [(5, 0, 5, 5)])
    with pytest.raises(ValueError, match="n02_1 holds no box"):
        identities.prepare("stanford_dogs", dogs, 8)
    with pytest.raises(FileNotFoundError, match="lacks nowhere/Images"):
        identities.prepare("stanford_dogs", dogs / "nowhere", 8)


def test_ffhq_has_no_labels_and_the_larger_photographs_go_first(tmp_path):
    folder = tmp_path / "ffhq"
    for number in (0, 1, 2000):
        photo(folder / f"thumbnails128x128/{number // 1000 * 1000:05d}/{number:05d}.png", number % 7 + 50)
    identities.prepare("ffhq", folder, 8, tmp_path, progress=False)
    known = identities.load("ffhq", 8, tmp_path)
    assert known.classes == ("public",) and known.labels.tolist() == [0, 0, 0] and shades(known) == [50, 51, 55]
    photo(folder / "images1024x1024/00000/00000.png", 99)
    identities.prepare("ffhq", folder, 8, tmp_path, progress=False)
    assert shades(identities.load("ffhq", 8, tmp_path)) == [99]


def test_ffhq_with_files_missing_says_which(tmp_path):
    folder = tmp_path / "ffhq"
    with pytest.raises(FileNotFoundError, match="lacks ffhq/thumbnails128x128: it should hold FFHQ's photographs"):
        identities.prepare("ffhq", folder, 8)
    photo(folder / "thumbnails128x128/00000.png", 1)
    with pytest.raises(ValueError, match="holds no photographs such as 00000/00000.png"):
        identities.prepare("ffhq", folder, 8)
    for number in (1000, 1002):
        photo(folder / f"thumbnails128x128/01000/{number:05d}.png", 1)
    with pytest.raises(FileNotFoundError, match="lacks ffhq/thumbnails128x128/01000/01001.png"):
        identities.prepare("ffhq", folder, 8)


# -- preparing and loading ---------------------------------------------------------------------------------------------


def test_a_limit_spreads_over_the_people(scrub, tmp_path):
    for k in range(20):
        photo(scrub / f"actors/faces/Bob_B/x{k:02d}.png", 100 + k)
    drawn = []
    for seed in (0, 0, 1, 2, 3):
        identities.prepare("facescrub", scrub, 8, tmp_path, limit=4, seed=seed, progress=False)
        known = identities.load("facescrub", 8, tmp_path)
        assert known.labels.tolist() == [0, 1, 1, 2]  # one of each, then a second of the one who has it
        drawn.append(shades(known))
    assert drawn[0] == drawn[1] and len({tuple(d) for d in drawn}) > 2
    identities.prepare("facescrub", scrub, 8, tmp_path, limit=2, progress=False)
    assert len(identities.load("facescrub", 8, tmp_path).labels.unique()) == 2
    identities.prepare("facescrub", scrub, 8, tmp_path, limit=1_000, progress=False)
    assert len(identities.load("facescrub", 8, tmp_path)) == 24


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"name": "facescrubs"}, "name='facescrubs' is no set of identities.*did you mean 'facescrub'"),
        ({"size": 0}, "size=0 is not a number of pixels; try 64"),
        ({"size": 8.0}, "size=8.0 is not a number of pixels"),
        ({"limit": 0}, "limit=0 is not a number of photographs"),
    ],
)
def test_what_cannot_be_prepared_is_told(scrub, tmp_path, given, says):
    with pytest.raises(ValueError, match=says):
        identities.prepare(**{"name": "facescrub", "folder": scrub, "size": 8, "to": tmp_path} | given)


def test_a_set_that_was_not_prepared_says_where_to_ask_and_what_to_run(scrub, tmp_path):
    with pytest.raises(ValueError, match="did you mean 'ffhq'"):
        identities.load("ffhqs", 8, tmp_path)
    with pytest.raises(
        FileNotFoundError, match="mmlab.*data_scripts/prepare.py identities celeba_people --from FOLDER --size 224"
    ):
        identities.load("celeba_people", 224, tmp_path)
    identities.prepare("facescrub", scrub, 8, tmp_path, progress=False)
    with pytest.raises(FileNotFoundError, match=r"no people_64.safetensors in .* \(prepared: size 8\)"):
        identities.load("facescrub", 64, tmp_path)


def test_names_of_people_are_kept_as_they_are_written(scrub, tmp_path):
    photo(scrub / "actors/faces/Zoë_Ü/1.png", 1)
    place = identities.prepare("facescrub", scrub, 8, tmp_path, progress=False)
    assert "Zoë_Ü" in identities.load("facescrub", 8, tmp_path).classes
    length = int.from_bytes(place.read_bytes()[:8], "little")
    header = json.loads(place.read_bytes()[8 : 8 + length])
    assert header["images"]["data_offsets"][1] + 8 + length == place.stat().st_size


def test_every_set_has_a_home_and_a_number_of_classes():
    assert identities.READERS.keys() == identities.HOMES.keys() == identities.PEOPLE.keys()


def test_the_script_prepares_a_set_or_says_what_is_missing(scrub, tmp_path, monkeypatch, capsys):
    script = Path(__file__).parents[2] / "data_scripts/prepare.py"

    def run(folder):
        given = ["identities", "facescrub", "--from", folder, "--size", "8", "--to", tmp_path / "data"]
        monkeypatch.setattr(sys, "argv", list(map(str, [script, *given])))
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(script), run_name="__main__")
        return ended.value.code, *capsys.readouterr()

    code, out, err = run(scrub)
    assert code == 0 and Path(out.strip()).exists() and "4 photographs, 3 of 530 classes" in err
    code, out, err = run(tmp_path / "nowhere")
    assert code == 1 and out == "" and err.startswith("facescrub: ") and "lacks nowhere/actors/faces" in err


# -- who is private ----------------------------------------------------------------------------------------------------

SETS = (
    st.lists(st.integers(0, 9), min_size=2, max_size=60).filter(lambda labels: len(set(labels)) > 1).map(torch.tensor)
)


@settings(deadline=None)
@given(SETS, st.data())
def test_private_and_public_people_share_nobody_and_are_all(labels, data):
    people = labels.unique().tolist()
    number = data.draw(st.integers(1, len(people) - 1))
    private, public = identities.split(labels, number, seed=3)
    identities.check_disjoint(private, public)
    assert len(private) == number and sorted(private.tolist() + public.tolist()) == people
    assert private.tolist() == sorted(private.tolist()) and public.tolist() == sorted(public.tolist())
    theirs = labels[torch.isin(labels, private)]
    assert torch.equal(private[torch.searchsorted(private, theirs)], theirs)  # the numbering that the docstring gives


def test_the_seed_draws_who_is_private():
    labels = torch.arange(40).repeat(2)
    draws = [tuple(identities.split(labels, 20, seed)[0].tolist()) for seed in (0, 0, 1, 2)]
    assert draws[0] == draws[1] and len(set(draws)) == 3
    often = sum(identities.split(labels, 10, seed)[0].bincount(minlength=40) for seed in range(200))
    assert (often.double() / 200 - 0.25).abs().max() < 0.13  # 4 standard errors: everybody has the same chance


@pytest.mark.parametrize("private", [0, 3, -1, 1.0, True])
def test_a_side_with_nobody_is_told(private):
    with pytest.raises(ValueError, match=f"private={private} of 3 identities; give 1 to 2"):
        identities.split(torch.tensor([0, 1, 2, 2]), private, 0)


def test_people_on_both_sides_are_told():
    identities.check_disjoint(["Ada", "Bob"], ["Cy"])
    identities.check_disjoint(torch.tensor([1, 1]), [2])
    identities.check_disjoint([], ["Ada"])
    with pytest.raises(ValueError, match="private and public mix numbers with names; give both by name"):
        identities.check_disjoint(torch.arange(3), ["0", "1"])
    with pytest.raises(ValueError, match="2 identities are both private and public: Ada, Bob. What is inverted"):
        identities.check_disjoint(["Bob", "Ada", "Ada"], ["Ada", "Bob", "Cy"])
    with pytest.raises(ValueError, match=r"20 identities are both private and public: 0, 1, 2, 3, 4, \.\.\."):
        identities.check_disjoint(torch.arange(20), torch.arange(30))


@settings(deadline=None)
@given(st.lists(st.integers(2, 9), min_size=1, max_size=8), st.integers(0, 3), st.randoms(use_true_random=False))
def test_as_many_of_each_person_are_held_out_and_the_rest_is_all(counts, seed, order):
    rows = [7 * person for person, n in enumerate(counts) for _ in range(n)]
    order.shuffle(rows)
    labels = torch.tensor(rows)
    for each in range(1, min(counts)):
        train, test = identities.hold_out(labels, each, seed)
        assert sorted(train.tolist() + test.tolist()) == list(range(len(labels)))
        assert train.tolist() == sorted(train.tolist()) and test.tolist() == sorted(test.tolist())
        assert labels[test].unique(return_counts=True)[1].tolist() == [each] * len(counts)
        assert set(labels[train].tolist()) == set(rows)
        assert torch.equal(test, identities.hold_out(labels, each, seed)[1])


def test_a_share_is_divided_evenly_among_the_people():
    labels = torch.tensor([0] * 10 + [1] * 30)
    assert labels[identities.hold_out(labels, 0.2, 0)[1]].tolist() == [0] * 4 + [1] * 4  # 8 of 40
    assert labels[identities.hold_out(labels, 0.001, 0)[1]].tolist() == [0, 1]  # never nobody


def test_which_are_held_out_is_drawn_by_the_seed_alone():
    labels = torch.arange(3).repeat(30)
    draws = {tuple(identities.hold_out(labels, 5, seed)[1].tolist()) for seed in range(5)}
    assert len(draws) == 5
    state = torch.random.get_rng_state()
    identities.hold_out(labels, 5, 0)
    identities.split(labels, 1, 0)
    assert torch.equal(state, torch.random.get_rng_state())
    often = sum(identities.hold_out(labels, 10, seed)[1].bincount(minlength=90) for seed in range(300)) / 300
    assert (often - 1 / 3).abs().max() < 0.12  # 4 standard errors: every photograph has the same chance


@pytest.mark.parametrize(
    ("each", "says"),
    [
        (2, r"each=2 does not leave each person some to train on: identity 4 has 2; give a whole number from 1 to 1"),
        (0, "each=0 does not leave"),
        (1.5, "each=1.5 does not leave"),
        (0.9, r"each=0.9 \(that is 3 of each person\) does not leave"),
        (True, "each=True does not leave"),
    ],
)
def test_nobody_is_left_without_photographs_to_train_on(each, says):
    with pytest.raises(ValueError, match=says):
        identities.hold_out(torch.tensor([3, 3, 3, 3, 3, 4, 4]), each, 0)


def test_no_photographs_at_all_are_told():
    with pytest.raises(ValueError, match="labels: there are no photographs to hold out"):
        identities.hold_out(torch.tensor([], dtype=torch.int64), 1, 0)
