"""Sets with several labels an image: the two that registries hold, and the faces' own layouts, on small files of each."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import CelebA

from privlab import data
from privlab.data import attributes


@pytest.fixture(scope="module")
def orl():
    return attributes.load("orl")


def test_cifar10_has_the_coarse_task_beside_the_class():
    known = attributes.load("cifar10")
    assert known.values["animal"] == ("vehicle", "animal") and len(known.values["class"]) == 10
    assert torch.equal(known["class"], data.load("cifar10").labels)
    kinds = {
        name: known["animal"][known["class"] == k].unique().tolist() for k, name in enumerate(known.values["class"])
    }
    assert kinds == {name: [int(name in attributes.ANIMALS)] for name in kinds}
    assert known["animal"].double().mean() == 0.6


def test_orl_has_glasses_beside_the_person(orl):
    assert len(orl) == 400 and orl["person"].bincount().tolist() == [10] * 40
    by_person = orl["glasses"].reshape(40, 10)
    always = {k + 1 for k in range(40) if by_person[k].all()}
    mixed = {k + 1: int(n) for k, n in enumerate(by_person.sum(1)) if 0 < n < 10}
    assert always == {2, 6, 14, 27, 28, 31, 34, 37}
    assert mixed == {4: 5, 7: 3, 13: 8, 17: 8, 19: 5, 20: 8, 36: 2}
    assert int(orl["glasses"].sum()) == 119


def test_the_glasses_that_were_typed_in_can_be_seen(orl):
    """In a person who takes them off, photographs with glasses are more like each other, around the eyes, than like those without."""
    eyes = orl.pixels[:, 0, 40:65, 15:77].float()
    eyes = (eyes - eyes.mean((1, 2), keepdim=True)).flatten(1)
    edges = (eyes.reshape(400, 25, 62).diff(dim=1).abs().mean((1, 2))).reshape(40, 10)  # rims are edges
    glasses = orl["glasses"].reshape(40, 10).bool()
    seen = [edges[k][glasses[k]].mean() > edges[k][~glasses[k]].mean() for k in range(40) if 2 <= glasses[k].sum() <= 8]
    assert sum(seen) >= 6 and len(seen) == 7


def test_orl_in_a_square(orl):
    square = attributes.load("orl", size=32)
    assert square.pixels.shape == (400, 1, 32, 32) and square.pixels.dtype == torch.uint8
    wide = orl.pixels.float().mean((1, 2, 3))
    torch.testing.assert_close(square.pixels.float().mean((1, 2, 3)), wide, atol=1.0, rtol=0)


def test_a_few_are_drawn_by_the_seed(orl):
    one, two, other = (orl.few(30, seed) for seed in (0, 0, 1))
    assert torch.equal(one.pixels, two.pixels) and not torch.equal(one["person"], other["person"])
    for k in range(30):  # labels stay with their photographs
        row = int((orl.pixels == one.pixels[k]).flatten(1).all(1).nonzero()[0])
        assert orl["person"][row] == one["person"][k] and orl["glasses"][row] == one["glasses"][k]
    assert len(orl.few(1_000, 0)) == 400


def test_what_is_not_known_is_told_with_the_nearest(orl):
    with pytest.raises(ValueError, match="label='glases'.*did you mean 'glasses'"):
        orl["glases"]
    with pytest.raises(ValueError, match="name='utkfaces'.*did you mean 'utkface'"):
        attributes.load("utkfaces")
    with pytest.raises(ValueError, match="name='orl' is no set of faces"):
        attributes.prepare("orl", ".")


# -- the authors' own layouts ----------------------------------------------------------------------------------------------


def photo(path, shade, size=(178, 218)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0], 3), shade, np.uint8)).save(path)


@pytest.fixture
def utk(tmp_path):
    folder = tmp_path / "UTKFace"
    names = [
        "25_0_0_20170116174525125",
        "31_1_2_20170116174525126",
        "8_1_3_20170116174525127",
        "60_0_4_20170116174525128",
    ]
    for k, name in enumerate(
        [*names, "39_1_20170116174525129"]
    ):  # the last lacks its race, as three of the real files do
        photo(folder / f"{name}.jpg.chip.jpg", 40 * k, (200, 200))
    return folder


def test_utkface(utk, tmp_path):
    place = attributes.prepare("utkface", utk, size=16, to=tmp_path / "data", progress=False)
    known = attributes.load("utkface", 16, tmp_path / "data")
    assert place.parent.name == "utkface" and known.pixels.shape == (3, 3, 16, 16)
    by_shade = sorted(
        (int(p.float().mean()), int(g), int(r))
        for p, g, r in zip(known.pixels, known["gender"], known["race"], strict=True)
    )
    assert by_shade == [(0, 0, 0), (40, 1, 2), (80, 1, 3)]  # "Others" and the file without a race are left out
    assert known.values == {"gender": ("male", "female"), "race": ("White", "Black", "Asian", "Indian")}


def test_a_folder_without_faces_is_told(tmp_path):
    photo(tmp_path / "holiday.jpg", 3)
    with pytest.raises(ValueError, match=r"holds 1 .jpg files, none of them named \[age\]_\[gender\]_\[race\]"):
        attributes.prepare("utkface", tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        attributes.prepare("utkface", tmp_path / "nowhere")


@pytest.fixture
def fair(tmp_path):
    folder = tmp_path / "fairface"
    for split, rows in (
        ("train", [("1", "20-29", "Female", "East Asian"), ("2", "0-2", "Male", "Black")]),
        ("val", [("1", "20-29", "Male", "White")]),
    ):
        for name, *_ in rows:
            photo(folder / split / f"{name}.jpg", 60, (224, 224))
        with (folder / f"fairface_label_{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["file", "age", "gender", "race", "service_test"])
            writer.writerows([f"{split}/{name}.jpg", age, gender, race, True] for name, age, gender, race in rows)
    return folder


def test_fairface(fair, tmp_path):
    attributes.prepare("fairface", fair, size=16, to=tmp_path / "data", progress=False)
    known = attributes.load("fairface", 16, tmp_path / "data")
    assert [known.values["race"][k] for k in known["race"]] == ["East Asian", "Black", "White"]
    assert [known.values["gender"][k] for k in known["gender"]] == ["Female", "Male", "Male"]
    assert [known.values["age"][k] for k in known["age"]] == ["20-29", "0-2", "20-29"]


def test_fairface_with_files_missing_says_which(fair):
    (fair / "train/2.jpg").unlink()
    with pytest.raises(FileNotFoundError, match="lacks fairface/train/2.jpg: it should hold FairFace's photographs"):
        attributes.prepare("fairface", fair)
    (fair / "fairface_label_val.csv").unlink()
    with pytest.raises(
        FileNotFoundError, match="lacks fairface/fairface_label_val.csv: it should hold FairFace's labels"
    ):
        attributes.prepare("fairface", fair)


def test_fairface_with_another_table_is_told(fair):
    table = fair / "fairface_label_val.csv"
    text = table.read_text()
    table.write_text(text.replace("White", "Martian"))
    with pytest.raises(ValueError, match="race: 'Martian' is none of Black"):
        attributes.prepare("fairface", fair)
    train = fair / "fairface_label_train.csv"
    train.write_text(train.read_text().replace("race", "group"))
    with pytest.raises(ValueError, match="has no column 'race'"):
        attributes.prepare("fairface", fair)


@pytest.fixture
def celeb(tmp_path, monkeypatch):
    """Three photographs and the five lists of torchvision's layout; the MD5 sums are those of the full lists, so they are not asked."""
    folder = tmp_path / "root"
    inside = folder / "celeba"
    names = [f"{k:06d}.jpg" for k in (1, 2, 3)]
    for k, name in enumerate(names):
        photo(inside / "img_align_celeba" / name, 50 * k)
    lists = {
        "list_attr_celeba.txt": ["3", "Eyeglasses Male Young", "1 -1 1", "-1 -1 1", "-1 1 -1"],
        "identity_CelebA.txt": ["7", "8", "9"],
        "list_bbox_celeba.txt": ["3", "x_1 y_1 width height", *["1 2 3 4"] * 3],
        "list_landmarks_align_celeba.txt": ["3", " ".join(f"p{k}" for k in range(10)), *[" ".join("1" * 10)] * 3],
        "list_eval_partition.txt": ["0", "1", "2"],
    }
    for name, lines in lists.items():
        head, rows = lines[:-3], lines[-3:]
        (inside / name).write_text(
            "\n".join([*head, *(f"{n} {row}" for n, row in zip(names, rows, strict=True))]) + "\n"
        )
    monkeypatch.setattr(CelebA, "file_list", [(drive, None, name) for drive, _, name in CelebA.file_list])
    return folder


def test_celeba_through_torchvisions_loader(celeb, tmp_path):
    attributes.prepare("celeba", celeb, size=16, to=tmp_path / "data", progress=False)
    known = attributes.load("celeba", 16, tmp_path / "data")
    assert known["Eyeglasses"].tolist() == [1, 0, 0] and known["Male"].tolist() == [0, 0, 1]
    assert known.values["Young"] == ("no", "yes") and "race" not in {name.lower() for name in known.values}
    assert [int(p.float().mean()) for p in known.pixels] == [0, 50, 100]


@pytest.mark.parametrize("gone", ["list_bbox_celeba.txt", "img_align_celeba/000002.jpg"])
def test_celeba_with_files_missing_says_which(celeb, gone):
    (celeb / "celeba" / gone).unlink()
    with pytest.raises(FileNotFoundError, match=gone):
        attributes.prepare("celeba", celeb)


def test_lists_that_are_not_celebas_are_told(celeb, monkeypatch):
    monkeypatch.undo()  # with its MD5 sums
    with pytest.raises(ValueError, match="does not take these for CelebA's files"):
        attributes.prepare("celeba", celeb)


def test_fewer_are_drawn_by_the_seed(utk, tmp_path):
    attributes.prepare("utkface", utk, size=8, limit=2, to=tmp_path / "data", progress=False)
    assert len(attributes.load("utkface", 8, tmp_path / "data")) == 2


def test_faces_that_were_not_prepared_say_where_to_ask_and_what_to_run(tmp_path):
    with pytest.raises(FileNotFoundError, match="data_scripts/prepare.py attributes celeba --from FOLDER --size 224"):
        attributes.load("celeba", 224, tmp_path)


def test_the_script_prepares_faces_or_says_what_is_missing(utk, tmp_path):
    script = Path(__file__).parents[2] / "data_scripts/prepare.py"

    def run(folder):
        command = [
            sys.executable,
            script,
            "attributes",
            "utkface",
            "--from",
            folder,
            "--size",
            "8",
            "--to",
            tmp_path / "data",
        ]
        return subprocess.run(command, capture_output=True, text=True)

    done = run(utk)
    assert done.returncode == 0 and Path(done.stdout.strip()).exists(), done.stderr
    assert len(attributes.load("utkface", 8, tmp_path / "data")) == 3
    failed = run(tmp_path / "nowhere")
    assert failed.returncode == 1 and "Traceback" not in failed.stderr and "lacks nowhere" in failed.stderr


@pytest.mark.parametrize("mode", ["I;16", "RGB"])
def test_a_photograph_of_sixteen_bits_keeps_its_greys(tmp_path, mode):
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16)[None].repeat(8, 0)  # (8, 256)
    photo = Image.fromarray(ramp) if mode == "I;16" else Image.fromarray((ramp // 257).astype(np.uint8)).convert("RGB")
    photo.save(tmp_path / "ramp.png")
    with Image.open(tmp_path / "ramp.png") as read:
        assert read.mode == mode
        np.testing.assert_array_equal(np.asarray(attributes.converted(read, "L"))[0], np.arange(256))
    assert attributes.face(lambda: Image.open(tmp_path / "ramp.png"), 8).max() < 255


def test_a_photograph_without_a_known_range_is_refused():
    with pytest.raises(ValueError, match="a photograph of mode 'F' has no known range; save it with 8 or 16 bits"):
        attributes.converted(Image.fromarray(np.zeros((4, 4), np.float32)), "RGB")


@pytest.mark.parametrize("n", [0, -2, True, 1.5])
def test_a_number_of_photographs_is_a_whole_one_above_zero(n):
    with pytest.raises(ValueError, match=f"n={n!r} is not a number of photographs; give 1 or more"):
        attributes.load("orl").few(n, seed=0)
