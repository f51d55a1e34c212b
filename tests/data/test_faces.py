"""Photographs that are asked for: the authors' layouts on small files of each, and the file that is made of them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import prepare
import pytest
import torch
from PIL import Image
from torchvision.datasets import CelebA

from privlab.data import attributes, faces


def photo(path, shade, size=(12, 16)):
    """One shade of grey, so that a photograph is known again after any crop and resize."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0], 3), shade, np.uint8)).save(path)


def shades(images):
    return [round(float(p.float().mean())) for p in images.pixels]


def prepared(name, folder, size, to):
    faces.prepare(name, folder, size, to)
    return attributes.load(name, size, to)


@pytest.fixture
def scrub(tmp_path):
    folder = tmp_path / "facescrub"
    photo(folder / "actors/faces/Bob_B/2.png", 30)
    photo(folder / "actors/faces/Bob_B/1.png", 20)
    photo(folder / "actors/faces/Al_A/1.PNG", 10)
    photo(folder / "actresses/faces/Ada_A/1.jpg", 40)
    (folder / "actors/faces/Bob_B/notes.txt").write_text("no photograph")
    return folder


def test_facescrub_and_the_record_of_its_file(scrub, tmp_path):
    known = prepared("facescrub", scrub, 8, tmp_path / "data")
    place = tmp_path / "data/facescrub/photos_8.safetensors"
    record = place.with_name(f"{place.name}.sha256")
    assert {*place.parent.iterdir()} == {place, record}  # no part is left beside it
    assert known.pixels.shape == (4, 3, 8, 8) and known.pixels.dtype == torch.uint8
    assert known.values == {"class": ("Al_A", "Bob_B", "Ada_A")}  # actors first, each group by name
    assert known["class"].tolist() == [0, 1, 1, 2] and shades(known) == [10, 20, 30, 40]
    subprocess.run(["sha256sum", "--check", record.name], cwd=place.parent, capture_output=True, check=True)
    with open(place, "ab") as file:
        file.write(b"0")
    with pytest.raises(ValueError, match=rf"{place} cannot be read \(it has changed.*/prepare.py facescrub"):
        attributes.load("facescrub", 8, tmp_path / "data")
    record.write_text("")
    with pytest.raises(ValueError, match=f"{record} is no SHA-256 of {place.name} .* data_scripts/prepare.py"):
        attributes.load("facescrub", 8, tmp_path / "data")


def test_the_middle_square_is_taken(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = (200, 100, 50)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    pixels = torch.from_numpy(faces._square(tmp_path / "wide.png", None, 10).copy())
    assert pixels.flatten(1).unique(dim=1).tolist() == [[200], [100], [50]]


def test_a_photograph_that_cannot_be_decoded_is_named_and_nothing_is_written(scrub, tmp_path):
    path = scrub / "actresses/faces/Ada_A/1.jpg"
    for spoil in (
        lambda: path.write_bytes(path.read_bytes()[:200]),
        lambda: Image.new("I;16", (9, 9)).save(path, "PNG"),
    ):
        spoil()
        with pytest.raises(ValueError, match=r"faces/Ada_A/1.jpg cannot be decoded \(.*\); replace the file, or take"):
            prepared("facescrub", scrub, 8, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_celebas_people_are_those_with_most_photographs(tmp_path, monkeypatch):
    folder = tmp_path / "root"
    people = {1: 9, 2: 5, 3: 7, 4: 5, 5: 7, 6: 5, 7: 3}  # three photographs of 5, two of 7, one each of 9 and 3
    for number in people:
        photo(folder / f"celeba/img_align_celeba/{number:06d}.jpg", 20 * number, (178, 218))
    lines = "".join(f"{number:06d}.jpg {person}\n" for number, person in people.items())
    (folder / "celeba/identity_CelebA.txt").write_text(lines)
    known = prepared("celeba_people", folder, 8, tmp_path)
    assert known.values["class"] == ("5", "7", "9", "3")  # 9 before 3: its photograph comes first
    assert known["class"].tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert shades(known) == [40, 80, 120, 60, 100, 20, 140]
    monkeypatch.setattr(faces, "CELEBA_PEOPLE", 3)
    kept = faces.celeba_people(folder)
    assert kept.values == {"class": ("5", "7", "9")} and kept.labels == {"class": [0, 0, 0, 1, 1, 2]}


def boxed(path, boxes):
    path.parent.mkdir(parents=True, exist_ok=True)
    one = "<object><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"
    path.write_text(f"<annotation>{''.join(one.format(*box) for box in boxes)}</annotation>")


def test_dogs_in_the_first_box_of_each(tmp_path):
    folder = tmp_path / "dogs"
    photo(folder / "Images/n02-Wire-haired_terrier/n02_1.jpg", 90)
    half = np.full((20, 40, 3), 10, np.uint8)
    half[:, 20:] = 150
    (folder / "Images/n01-Chihuahua").mkdir()
    Image.fromarray(half).save(folder / "Images/n01-Chihuahua/n01_7.png")
    boxed(folder / "Annotation/n01-Chihuahua/n01_7", [(20, 0, 41, 20), (0, 0, 5, 5)])  # one pixel beyond: cut off
    boxed(folder / "Annotation/n02-Wire-haired_terrier/n02_1", [(0, 0, 5, 5)])
    known = prepared("stanford_dogs", folder, 8, tmp_path)
    assert known.values == {"class": ("Chihuahua", "Wire-haired_terrier")} and known["class"].tolist() == [0, 1]
    assert shades(known) == [150, 90]


def test_ffhq_has_no_labels_and_the_larger_photographs_go_first(tmp_path):
    folder = tmp_path / "ffhq"
    for number in (0, 1, 2000):
        photo(folder / f"thumbnails128x128/{number // 1000 * 1000:05d}/{number:05d}.png", number % 7 + 50)
    known = prepared("ffhq", folder, 8, tmp_path)
    assert known.values["class"] == ("public",) and known["class"].tolist() == [0, 0, 0]
    assert shades(known) == [50, 51, 55]
    photo(folder / "images1024x1024/00000/00000.png", 99)
    assert shades(prepared("ffhq", folder, 8, tmp_path)) == [99]


def test_a_set_that_was_not_prepared_says_where_to_ask_and_what_to_run(tmp_path):
    says = "no photos_224.safetensors in .*mmlab.*data_scripts/prepare.py celeba_people --from FOLDER --size 224"
    with pytest.raises(FileNotFoundError, match=says):
        attributes.load("celeba_people", 224, tmp_path)


@pytest.fixture
def utk(tmp_path):
    folder = tmp_path / "UTKFace"
    names = ("25_0_0", "31_1_2", "8_1_3", "60_0_4", "39_1")  # the last without a race, as three real files are
    for k, name in enumerate(names):
        photo(folder / f"{name}_2017011617452512{k}.jpg.chip.jpg", 40 * k, (200, 200))
    return folder


def test_utkface(utk, tmp_path, monkeypatch):
    known = prepared("utkface", utk, 16, tmp_path)
    rows = zip(shades(known), known["gender"].tolist(), known["race"].tolist(), strict=True)
    assert sorted(rows) == [(0, 0, 0), (40, 1, 2), (80, 1, 3)]  # "Others" and the file without a race are left out
    assert known.values == {"gender": ("male", "female"), "race": ("White", "Black", "Asian", "Indian")}
    monkeypatch.setitem(faces.LAYOUTS, "utkface", faces.LAYOUTS["utkface"]._replace(limit=2))
    assert len(prepared("utkface", utk, 16, tmp_path)) == 2


def test_fairface(tmp_path):
    folder = tmp_path / "fairface"
    for split, lines in (
        ("train", ["train/1.jpg,20-29,Female,East Asian,True", "train/2.jpg,0-2,Male,Black,True"]),
        ("val", ["val/1.jpg,20-29,Male,White,True"]),
    ):
        for line in lines:
            photo(folder / line.partition(",")[0], 60, (224, 224))
        (folder / f"fairface_label_{split}.csv").write_text("\n".join(["file,age,gender,race,service_test", *lines]))
    known = prepared("fairface", folder, 16, tmp_path)
    said = [[known.values[of][k] for k in known[of]] for of in ("race", "gender", "age")]
    assert said == [["East Asian", "Black", "White"], ["Female", "Male", "Male"], ["20-29", "0-2", "20-29"]]


def test_celeba_through_torchvisions_loader(tmp_path, monkeypatch):
    monkeypatch.setattr(CelebA, "file_list", [(drive, None, name) for drive, _, name in CelebA.file_list])  # no MD5
    inside, names = tmp_path / "root/celeba", [f"{k:06d}.jpg" for k in (1, 2, 3)]
    for k, name in enumerate(names):
        photo(inside / "img_align_celeba" / name, 50 * k)
    lists = {  # of each the head, and what stands behind the names
        "list_attr_celeba.txt": (["3", "Eyeglasses Male Young"], ["1 -1 1", "-1 -1 1", "-1 1 -1"]),
        "identity_CelebA.txt": ([], "789"),
        "list_bbox_celeba.txt": (["3", "x_1 y_1 width height"], ["1 2 3 4"] * 3),
        "list_landmarks_align_celeba.txt": (["3", "p0 p1"], ["1 1"] * 3),
        "list_eval_partition.txt": ([], "012"),
    }
    for name, (head, rows) in lists.items():
        lines = [*head, *(f"{n} {row}" for n, row in zip(names, rows, strict=True))]
        (inside / name).write_text("\n".join(lines) + "\n")
    known = prepared("celeba", tmp_path / "root", 16, tmp_path)
    assert known["Eyeglasses"].tolist() == [1, 0, 0] and known["Male"].tolist() == [0, 0, 1]
    assert known.values["Young"] == ("no", "yes") and shades(known) == [0, 50, 100]


@pytest.mark.parametrize("name", ["celeba", "utkface", "facescrub"])
def test_a_folder_of_another_layout_is_told_what_it_should_hold(tmp_path, name):
    photo(tmp_path / "from/holiday.jpg", 3)
    with pytest.raises(ValueError, match=rf"folder='.*' is no {name} as its authors lay it out \(.*jpg"):
        faces.prepare(name, tmp_path / "from", 8, tmp_path)


def test_the_script_prepares_faces_or_says_what_is_missing(utk, tmp_path, monkeypatch, capsys):
    for folder, status in ((utk, 0), (tmp_path / "nowhere", 1)):
        given = f"prepare.py utkface --from {folder} --size 8 --to {tmp_path}"
        monkeypatch.setattr(sys, "argv", given.split())
        assert prepare.main() == status
    said = capsys.readouterr()
    assert Path(said.out.strip()).exists() and "utkface: folder=" in said.err and "nowhere" in said.err
