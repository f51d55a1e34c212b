"""Photographs that their authors hand out themselves: their layouts, and the one file that is made of them.

    celeba          its 40 attributes, none of which is race          utkface      "gender", "race"
    celeba_people   the 1,000 of its 10,177 people with most photographs, about 30,000 faces
    fairface        "gender", "race", "age"                           facescrub    530 actors and actresses, about 38,000 faces
    stanford_dogs   120 breeds, 20,580 photographs                    ffhq         70,000 faces of nobody in particular

`prepare` makes one file of what you have; `load` maps it. A label such as "gender" or "race" is what somebody wrote next to a
photograph, not what the person would say.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageOps
from safetensors import safe_open
from torch import Tensor
from torchvision.datasets import CelebA, ImageFolder
from tqdm.auto import tqdm

from privlab.compute import reading
from privlab.data import sources
from privlab.data.images import Images, Normalise
from privlab.data.sources import Where

NORMALISE = Normalise((0.5,), (0.5,))
CELEBA_PEOPLE = 1_000
UTK_RACES = ("White", "Black", "Asian", "Indian")  # the fifth, "Others", is no group, and is left out
Box = tuple[int, int, int, int]  # left, top, right, bottom, in pixels


class Rows(NamedTuple):
    """What a reader finds: the photographs, name of a label -> the class of each, and the names of these classes; of some a box."""

    photos: list[Path]
    labels: dict[str, list[int]]
    values: dict[str, tuple[str, ...]]
    boxes: list[Box] | None = None


class Layout(NamedTuple):
    """A set: what reads its folder, where to ask for it, and how many photographs `prepare` takes unless told otherwise."""

    read: Callable[[Path], Rows]
    home: str
    limit: int | None = None


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
        rows = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))[:n]
        labels = {name: column[rows] for name, column in self.labels.items()}
        return Described(self.name, self.pixels[rows], labels, self.values, self.normalise)


def load(name: str, size: int, to: Where = None) -> Images:
    """A set whose label is a person (or a breed), as `prepare` left it.  Arguments and errors as in `read`."""
    faces = read(name, size, to)
    return Images(name, "all", faces.pixels, faces["class"], faces.values["class"], NORMALISE)


def read(name: str, size: int, to: Where = None) -> Described:
    """The file of `prepare`; its pixels stay on disk until they are asked for.

    name: one of LAYOUTS.  size: the side in pixels that it was prepared with.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for an unknown name or a damaged file, FileNotFoundError, saying what to do, for a set that was not prepared.
    """
    layout, place = _layout(name, size, to)
    again = f"python data_scripts/prepare.py {name} --from FOLDER --size {size}"
    if not place.exists():
        where = f"Its authors hand it out themselves: {layout.home}"
        raise FileNotFoundError(
            f"{name}: no {place.name} in {place.parent}. {where}. When you have the files, run {again}"
        )
    with sources.checked(place, f"run {again}"), safe_open(place, framework="pt") as file:
        values = {label: tuple(names) for label, names in json.loads(file.metadata()["values"]).items()}
        labels = {label: file.get_tensor(f"label.{label}") for label in values}
        return Described(name, file.get_tensor("images"), labels, values, NORMALISE)


def prepare(
    name: str, folder: str | os.PathLike[str], size: int = 64, to: Where = None, limit: int | None = None, seed: int = 0,
    progress: bool = True,
) -> Path:  # fmt: skip
    """Check the layout of a set as its authors hand it out, and make of it the one file that `read` maps.

    The photographs go one by one into the file, so memory holds one of them; it appears when it is whole.
    name: one of LAYOUTS.  folder: where its files lie, see the reader's docstring.
    size: of the square that the middle of each photograph is resized to.
    limit: how many photographs, drawn by `seed`; the layout's if not given.
    Raises ValueError for files of another layout and for a photograph that cannot be decoded, OSError where the disk is full.
    """
    layout, place = _layout(name, size, to)
    try:
        photos, labels, values, boxes = layout.read(Path(folder).expanduser())
        if not photos:
            raise FileNotFoundError("there is no such photograph")
    except Exception as error:  # what a folder may hold is no fixed list
        told, wanted = " ".join(str(error).split()), (layout.read.__doc__ or "").partition("\n")[0]
        why = f"folder={str(folder)!r} is not {name} as its authors lay it out ({told}): {wanted}"
        raise ValueError(why) from error
    drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(seed))
    rows = drawn[: limit or layout.limit].sort().values.tolist()
    bar = tqdm(rows, desc=name, unit="photo", disable=not progress, leave=False)
    pixels = (_square(photos[row], boxes[row] if boxes else None, size) for row in bar)
    columns = {f"label.{label}": np.asarray(column, "<i8")[rows] for label, column in labels.items()}
    _write(place, pixels, (len(rows), 3, size, size), columns, {"values": json.dumps(values)})
    return place


def _layout(name: str, size: int, to: Where) -> tuple[Layout, Path]:
    """A set, and its file.  Raises ValueError for a name that is not known."""
    if name not in LAYOUTS:
        raise ValueError(f"name={name!r} is no set that you ask its authors for{sources.nearest(name, list(LAYOUTS))}")
    return LAYOUTS[name], sources.folder(to) / name / f"photos_{size}.safetensors"


# -- the authors' own layouts: the first line of each is shown to who has laid out a folder in another way --------------


def celeba(folder: Path) -> Rows:
    """As torchvision's CelebA reads it: celeba/img_align_celeba/*.jpg and the five lists in celeba/, in the folder that you give."""
    files = CelebA(str(folder), split="all", target_type="attr")
    photos = [folder / CelebA.base_folder / "img_align_celeba" / name for name in files.filename]
    names = [name for name in files.attr_names if name]
    labels = {name: files.attr[:, k].tolist() for k, name in enumerate(names)}
    return Rows(photos, labels, dict.fromkeys(names, ("no", "yes")))


def celeba_people(folder: Path) -> Rows:
    """As torchvision lays out CelebA: celeba/img_align_celeba/*.jpg and celeba/identity_CelebA.txt, in the folder that you give.

    Those with most photographs; of two with as many, the one whose first photograph comes earlier in the list goes first. PPA's order is
    the same; but it crops the photographs in the wild anew, and here the aligned ones give their middle.
    """
    table = folder / CelebA.base_folder / "identity_CelebA.txt"
    listed = pd.read_csv(table, sep=" ", names=["photo", "person"], dtype=str, encoding="utf-8-sig")
    counts = listed.groupby("person", sort=False).size()
    names = counts.sort_values(ascending=False, kind="stable").index[:CELEBA_PEOPLE]
    kept = listed.set_index("person").loc[names]  # one person after the other
    photos = [table.with_name("img_align_celeba") / name for name in kept.photo]
    return Rows(photos, {"class": names.get_indexer(kept.index).tolist()}, {"class": tuple(names)})


def utkface(folder: Path) -> Rows:
    """A folder of files [age]_[gender]_[race]_[date].jpg, as UTKFace's authors name them ("aligned and cropped").

    gender 0 male, 1 female; race 0 to 4. The few files whose names lack a part, and the race "Others", are left out.
    """
    named = [(path, re.match(r"\d+_([01])_([0-3])_\d+\.", path.name)) for path in reading.visible(folder, "*.jpg")]
    photos = {path: match for path, match in named if match}
    gender, race = ([int(match[part]) for match in photos.values()] for part in (1, 2))
    return Rows([*photos], {"gender": gender, "race": race}, {"gender": ("male", "female"), "race": UTK_RACES})


def fairface(folder: Path) -> Rows:
    """A folder with fairface_label_train.csv, fairface_label_val.csv (file, age, gender, race) and the photographs that they name."""
    tables = [folder / f"fairface_label_{split}.csv" for split in ("train", "val")]
    rows = pd.concat([pd.read_csv(table, encoding="utf-8-sig", dtype=str) for table in tables])
    columns = {label: rows[label].astype("category").cat for label in ("gender", "race", "age")}
    labels = {label: column.codes.tolist() for label, column in columns.items()}
    values = {label: tuple(column.categories) for label, column in columns.items()}
    return Rows([folder / name for name in rows["file"]], labels, values)


def facescrub(folder: Path) -> Rows:
    """Ng and Winkler's cropped faces: actors/faces/NAME/*.jpg (or .png) and actresses/faces/NAME/* in this folder.

    Actors come first, each group in order of name, so the numbers are those of PPA wherever all 530 people are there.
    """
    actors, actresses = ImageFolder(folder / "actors/faces"), ImageFolder(folder / "actresses/faces")
    photos = [Path(path) for path, _ in actors.samples + actresses.samples]
    labels = actors.targets + [len(actors.classes) + person for person in actresses.targets]
    return Rows(photos, {"class": labels}, {"class": tuple(actors.classes + actresses.classes)})


def stanford_dogs(folder: Path) -> Rows:
    """Khosla et al.'s Images/n02085620-Chihuahua/*.jpg, and, where it is there, Annotation/n02085620-Chihuahua/* (XML, no suffix).

    With Annotation each photograph is cut to the first dog's box in its file, as in PPA; a photograph without its file is then an
    error. Without that folder the whole photograph is used. The breeds are numbered in the order of their folders.
    """
    dogs, boxes = ImageFolder(folder / "Images"), None
    photos = [Path(path) for path, _ in dogs.samples]
    if (folder / "Annotation").is_dir():
        boxes = [_box(folder / "Annotation" / photo.parent.name / photo.stem) for photo in photos]
    return Rows(photos, {"class": dogs.targets}, {"class": tuple(n.split("-", 1)[-1] for n in dogs.classes)}, boxes)


def _box(file: Path) -> Box:
    """The first dog's."""
    left, top, right, bottom = (
        int(ElementTree.parse(file).findtext(f"object/bndbox/{side}", "")) for side in ("xmin", "ymin", "xmax", "ymax")
    )
    return left, top, right, bottom


def ffhq(folder: Path) -> Rows:
    """Karras et al.'s thumbnails128x128/00000/00000.png ... or images1024x1024/00000/00000.png ... in this folder.

    The larger ones are taken where both are there; you may have some of them. They have no labels: all are of class 0, "public".
    """
    photos = reading.visible(folder, "images1024x1024/*/*.png") or reading.visible(folder, "thumbnails128x128/*/*.png")
    return Rows(photos, {"class": [0] * len(photos)}, {"class": ("public",)})


CELEBA_HOME = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (for research that is not commercial)"
LAYOUTS = {
    "celeba": Layout(celeba, CELEBA_HOME, 20_000),
    "celeba_people": Layout(celeba_people, CELEBA_HOME),
    "utkface": Layout(utkface, "https://susanqq.github.io/UTKFace/ (for research that is not commercial)", 20_000),
    "fairface": Layout(fairface, "https://github.com/joojs/fairface (CC BY 4.0)", 20_000),
    "facescrub": Layout(facescrub, "https://vintage.winklerbros.net/facescrub.html (addresses of photographs, for research)"),
    "stanford_dogs": Layout(
        stanford_dogs, "http://vision.stanford.edu/aditya86/ImageNetDogs/ (ImageNet's terms: for research that is not commercial)"
    ),
    "ffhq": Layout(ffhq, "https://github.com/NVlabs/ffhq-dataset (CC BY-NC-SA 4.0; each photograph under its own licence)"),
}  # fmt: skip


# -- pixels, and the file ----------------------------------------------------------------------------------------------


def _square(path: Path, box: Box | None, size: int) -> np.ndarray:
    """The largest square in the middle of a photograph, or of its box, resized: uint8 (3, size, size)."""
    try:
        with Image.open(path) as photo:
            part = photo.crop(box and (*box[:2], min(box[2], photo.width), min(box[3], photo.height)))
            square = ImageOps.fit(converted(part, "RGB"), (size, size))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be decoded ({error}); replace the file, or take it away") from error
    return np.asarray(square).transpose(2, 0, 1)


def converted(photo: Image.Image, mode: str) -> Image.Image:
    """A photograph as "L" or "RGB", 8 bits a channel; 16 bits are scaled, where Pillow by itself would cut them off at 255.

    Raises ValueError for a photograph of whole numbers or floats of an unknown range.
    """
    if photo.mode.startswith("I;16"):
        photo = Image.fromarray((np.asarray(photo) / 257).round().astype(np.uint8))  # 65535 / 257 = 255
    if photo.mode in ("I", "F"):
        raise ValueError(f"a photograph of mode {photo.mode!r} has no known range; save it with 8 or 16 bits a channel")
    return photo.convert(mode)


def _write(
    place: Path, pixels: Iterable[np.ndarray], shape: tuple[int, ...], columns: dict[str, np.ndarray], about: dict[str, str]
) -> None:  # fmt: skip
    """A safetensors file: 8 bytes with the length of its header, the header as JSON, the labels, the images one by one."""
    header: dict[str, object] = {"__metadata__": about}
    end = 0
    for name, column in columns.items():
        header[name] = {"dtype": "I64", "shape": list(column.shape), "data_offsets": [end, end + column.nbytes]}
        end += column.nbytes
    header["images"] = {"dtype": "U8", "shape": list(shape), "data_offsets": [end, end + math.prod(shape)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that labels begin at a multiple of their size
    start = len(text).to_bytes(8, "little") + text + b"".join(column.tobytes() for column in columns.values())
    sources.write(place, itertools.chain([start], (one.tobytes() for one in pixels)))
