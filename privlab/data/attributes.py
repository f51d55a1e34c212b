"""Image sets with more than one label an image: what a model is trained to tell, and what else could be told.

    cifar10    "animal": animal or vehicle, "class": the ten classes
    orl        "person": 40 people, "glasses": typed in by us after looking at all 400 faces
    utkface    "gender", "race" (as the set's authors labelled them), from files that you have; see `prepare`
    fairface   the same, and "age"
    celeba     its 40 attributes, none of which is race

A label such as "gender" or "race" here is what somebody wrote next to a photograph, not what the person would say.
"""

from __future__ import annotations

import csv
import json
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

import numpy as np
import safetensors.torch
import torch
from PIL import Image, ImageOps
from safetensors import safe_open
from torch import Tensor
from torchvision.datasets import CelebA
from tqdm.auto import tqdm

from privlab.compute import reading
from privlab.data import integrity, sources
from privlab.data.images import NORMALISE, Normalise
from privlab.data.images import load as load_images

ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
# Glasses in ORL: (person, its photographs with glasses), both counted from 1 as in the files s2/1.pgm. All 400 were looked at, in rows
# of ten, those of doubt again at four times the size. Person 20 takes his off for two photographs, and s13, s17 for two each.
_ALL = tuple(range(1, 11))
GLASSES = {
    2: _ALL, 4: (1, 2, 3, 8, 9), 6: _ALL, 7: (4, 5, 10), 13: (1, 2, 5, 6, 7, 8, 9, 10), 14: _ALL, 17: (1, 2, 5, 6, 7, 8, 9, 10),
    19: (1, 2, 3, 6, 10), 20: (1, 2, 3, 5, 7, 8, 9, 10), 27: _ALL, 28: _ALL, 31: _ALL, 34: _ALL, 36: (9, 10), 37: _ALL,
}  # fmt: skip
UTK_RACES = ("White", "Black", "Asian", "Indian")  # the fifth, "Others", is no group, and is left out
FAIR_RACES = ("Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White")
_FACE = Normalise((0.5,), (0.5,))


@dataclass(frozen=True, repr=False)
class Described:
    """Images with several labels each.

    pixels: uint8 (images, channels, height, width).  labels: name of a label -> int64 (images,), each an index into `values[name]`.
    """

    name: str
    pixels: Tensor
    labels: dict[str, Tensor]
    values: dict[str, tuple[str, ...]]
    normalise: Normalise

    def __len__(self) -> int:
        return len(self.pixels)

    def __repr__(self) -> str:
        shape = "x".join(str(n) for n in self.pixels.shape[1:])
        labels = ", ".join(f"{name} ({len(values)})" for name, values in self.values.items())
        return f"Described({self.name}: {len(self):,} of {shape}; {labels})"

    def __getitem__(self, label: str) -> Tensor:
        """One label of every image, (images,).  Raises ValueError, with the nearest, for one that the set does not have."""
        if label not in self.labels:
            raise ValueError(f"label={label!r} is not known for {self.name}{sources.nearest(label, list(self.labels))}")
        return self.labels[label]

    def few(self, n: int, seed: int) -> Described:
        """n of them, drawn with equal chances by this seed; all of them where there are no more."""
        rows = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))[: count("n", n)]
        labels = {name: column[rows] for name, column in self.labels.items()}
        return Described(self.name, self.pixels[rows], labels, self.values, self.normalise)


def load(name: str, size: int | None = None, to: str | os.PathLike[str] | None = None) -> Described:
    """A set with its labels.  Those that registries hold are fetched; the faces must have been prepared, see `prepare`.

    size: side in pixels, for a set of faces the one that it was prepared with (64 if not given); ORL is squeezed into a square.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for a name that is not known, FileNotFoundError, saying what to do, for faces that were not prepared.
    """
    choices = ["cifar10", "orl", *READERS]
    if name not in choices:
        raise ValueError(f"name={name!r} has no labels beyond its classes{sources.nearest(name, choices)}")
    if name in READERS:
        return _prepared(name, _place(name, size or 64, to))
    images = load_images(name, to=to)
    pixels, labels = images.pixels, images.labels
    if size is not None and pixels.shape[-2:] != (size, size):
        pixels = _squared(pixels, size)
    if name == "orl":
        glasses = torch.tensor([k % 10 + 1 in GLASSES.get(k // 10 + 1, ()) for k in range(400)]).long()
        people = tuple(f"s{k}" for k in range(1, 41))
        return Described(
            name,
            pixels,
            {"person": labels, "glasses": glasses},
            {"person": people, "glasses": ("no", "yes")},
            NORMALISE[name],
        )
    animal = torch.tensor([c in ANIMALS for c in images.classes]).long()[labels]
    values = {"animal": ("vehicle", "animal"), "class": images.classes}
    return Described(name, pixels, {"animal": animal, "class": labels}, values, NORMALISE[name])


# -- faces that a reader has to ask for --------------------------------------------------------------------------------------

Rows = tuple[
    list[Callable[[], Image.Image]], dict[str, list[int]], dict[str, tuple[str, ...]]
]  # openers, labels, values


def prepare(
    name: str,
    folder: str | os.PathLike[str],
    size: int = 64,
    limit: int = 20_000,
    seed: int = 0,
    to: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Path:
    """Check the layout of a set of faces as its authors hand it out, and make of it the one file that `load` maps.

    name: one of READERS.  folder: where its files lie, see the reader's own docstring.
    size: of the square that the middle of each photograph is resized to.
    limit: how many photographs, drawn by `seed` (Zhang et al. 2024, section 4.1, take 20,000).
    Raises FileNotFoundError that names what is missing, ValueError for files of another layout.
    """
    if name not in READERS:
        raise ValueError(f"name={name!r} is no set of faces{sources.nearest(name, list(READERS))}")
    openers, labels, values = READERS[name](Path(folder).expanduser())
    draw = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(openers), generator=draw)[: count("limit", limit)].sort().values.tolist()
    bar = tqdm(rows, desc=name, unit="face", disable=not progress, leave=False)
    pixels = torch.from_numpy(np.stack([face(openers[row], size) for row in bar]))
    tensors = {f"label.{label}": torch.tensor(column)[rows] for label, column in labels.items()} | {"images": pixels}
    place = _place(name, size, to)
    integrity.write(place, safetensors.torch.save(tensors, {"values": json.dumps(values)}))
    return place


def utkface(folder: Path) -> Rows:
    """A folder of files [age]_[gender]_[race]_[date].jpg, as UTKFace's authors name them ("aligned and cropped").

    gender 0 male, 1 female; race 0 to 4. The few files whose names lack a part, and the race "Others", are left out.
    """
    needs(folder, [folder], "photographs such as 25_0_2_20170116174525125.jpg.chip.jpg")
    named = [(path, re.match(r"(\d+)_([01])_([0-4])_\d+\.", path.name)) for path in reading.visible(folder, "*.jpg")]
    labelled = [(path, match) for path, match in named if match and int(match[3]) < len(UTK_RACES)]
    if not labelled:
        raise ValueError(
            f"folder={str(folder)!r} holds {len(named)} .jpg files, none of them named [age]_[gender]_[race]_[date].jpg; give the folder "
            "of UTKFace's aligned and cropped photographs"
        )
    labels = {"gender": [int(match[2]) for _, match in labelled], "race": [int(match[3]) for _, match in labelled]}
    return [_opener(path) for path, _ in labelled], labels, {"gender": ("male", "female"), "race": UTK_RACES}


def fairface(folder: Path) -> Rows:
    """A folder with fairface_label_train.csv, fairface_label_val.csv (file, age, gender, race) and the photographs that they name."""
    tables = [folder / f"fairface_label_{split}.csv" for split in ("train", "val")]
    needs(folder, tables, "FairFace's labels")
    rows: list[Mapping[str, str]] = []
    for table in tables:
        with table.open(newline="", encoding="utf-8-sig") as file:
            rows += csv.DictReader(file)
    if lacking := [name for name in ("file", "age", "gender", "race") if rows and name not in rows[0]]:
        raise ValueError(f"{tables[0].name} has no column {lacking[0]!r}; it has {', '.join(rows[0])}")
    needs(folder, [folder / row["file"] for row in rows], "FairFace's photographs")
    values = {"gender": ("Male", "Female"), "race": FAIR_RACES, "age": tuple(sorted({row["age"] for row in rows}))}
    labels = {name: [_index(row[name], allowed, name) for row in rows] for name, allowed in values.items()}
    return [_opener(folder / row["file"]) for row in rows], labels, values


def celeba(folder: Path) -> Rows:
    """What torchvision's CelebA reads: celeba/img_align_celeba/*.jpg and the five lists beside it, in this folder."""
    inside = folder / CelebA.base_folder
    lists = [inside / name for _, _, name in CelebA.file_list if name.endswith(".txt")]
    needs(folder, [inside / "img_align_celeba", *lists], "CelebA, as torchvision lays it out")
    try:
        celeba_files = CelebA(str(folder), split="all", target_type="attr")
    except RuntimeError as error:  # its check of MD5 sums
        raise ValueError(
            f"folder={str(folder)!r}: torchvision does not take these for CelebA's files: {error}"
        ) from None
    photos = inside / "img_align_celeba"
    needs(folder, [photos / name for name in celeba_files.filename], "CelebA's photographs")
    names = [name for name in celeba_files.attr_names if name]
    labels = {name: celeba_files.attr[:, k].tolist() for k, name in enumerate(names)}
    return [_opener(photos / name) for name in celeba_files.filename], labels, dict.fromkeys(names, ("no", "yes"))


READERS: dict[str, Callable[[Path], Rows]] = {"celeba": celeba, "utkface": utkface, "fairface": fairface}
HOMES = {
    "celeba": "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (for research that is not commercial)",
    "utkface": "https://susanqq.github.io/UTKFace/ (for research that is not commercial)",
    "fairface": "https://github.com/joojs/fairface (CC BY 4.0)",
}


def _place(name: str, size: int, to: str | os.PathLike[str] | None) -> Path:
    return sources.folder(to) / name / f"faces_{size}.safetensors"


def _prepared(name: str, place: Path) -> Described:
    again = f"run python data_scripts/prepare.py attributes {name} --from FOLDER --size {place.stem.split('_')[1]}"
    if not place.exists():
        raise FileNotFoundError(
            f"{name}: no {place.name} in {place.parent}. Its authors hand it out themselves: {HOMES[name]}. "
            f"When you have the files, {again}"
        )
    with integrity.checked(place, again), safe_open(place, framework="pt") as file:
        values = {label: tuple(choices) for label, choices in json.loads(file.metadata()["values"]).items()}
        labels = {label: file.get_tensor(f"label.{label}") for label in values}
        pixels = file.get_tensor("images")
    return Described(name, pixels, labels, values, _FACE)


def count(name: str, value: SupportsIndex) -> int:
    """The value, if it is a number of photographs.  Raises ValueError that names it otherwise."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or operator.index(value) < 1:
        raise ValueError(f"{name}={value!r} is not a number of photographs; give 1 or more")
    return operator.index(value)


def needs(folder: Path, paths: Iterable[Path], what: str) -> None:
    """Raise FileNotFoundError, naming the folder given, what it should hold and the first of these paths that are not there."""
    if missing := [str(path.relative_to(folder.parent)) for path in paths if not path.exists()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise FileNotFoundError(f"folder={str(folder)!r} lacks {', '.join(missing[:3])}{more}: it should hold {what}")


def _index(value: str, values: tuple[str, ...], label: str) -> int:
    if value not in values:
        raise ValueError(f"{label}: {value!r} is none of {', '.join(values)}")
    return values.index(value)


def _opener(path: Path) -> Callable[[], Image.Image]:
    return lambda: Image.open(path)


def face(opener: Callable[[], Image.Image], size: int) -> np.ndarray:
    """The largest square in the middle of a photograph, resized: uint8 (3, size, size)."""
    with opener() as photo:
        square = ImageOps.fit(converted(photo, "RGB"), (size, size))
        return np.asarray(square).transpose(2, 0, 1).copy()  # (3, size, size)


def converted(photo: Image.Image, mode: str) -> Image.Image:
    """A photograph as "L" or "RGB", 8 bits a channel; 16 bits are scaled, where Pillow by itself would cut them off at 255.

    Raises ValueError for a photograph of whole numbers or floats of an unknown range.
    """
    if photo.mode.startswith("I;16"):
        photo = Image.fromarray((np.asarray(photo) / 257).round().astype(np.uint8))  # 65535 / 257 = 255
    if photo.mode in ("I", "F"):
        raise ValueError(f"a photograph of mode {photo.mode!r} has no known range; save it with 8 or 16 bits a channel")
    return photo.convert(mode)


def _squared(pixels: Tensor, size: int) -> Tensor:
    small = torch.nn.functional.interpolate(
        pixels.float(), (size, size), mode="bilinear", align_corners=False, antialias=True
    )
    return small.round().clamp(0, 255).to(torch.uint8)
