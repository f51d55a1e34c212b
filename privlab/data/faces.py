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
from privlab.data import integrity, sources
from privlab.data.images import Images, Normalise

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


@dataclass(frozen=True)
class Layout:
    """A set: what reads its folder, where to ask for it, and how many photographs `prepare` takes unless told otherwise."""

    read: Callable[[Path], Rows]
    home: str
    limit: int | None = None


class Prepared(NamedTuple):
    """pixels: uint8 (images, 3, size, size), mapped from the file.  labels: name -> int64 (images,), indices into `values[name]`."""

    pixels: Tensor
    labels: dict[str, Tensor]
    values: dict[str, tuple[str, ...]]


def load(name: str, size: int, to: str | os.PathLike[str] | None = None) -> Images:
    """A set whose label is a person (or a breed), as `prepare` left it.  Arguments and errors as in `read`."""
    pixels, labels, values = read(name, size, to)
    if "class" not in labels:
        raise ValueError(f"name={name!r} has {', '.join(labels)} as labels and no people; attributes.load reads it")
    return Images(name, "all", pixels, labels["class"], values["class"], NORMALISE)


def read(name: str, size: int, to: str | os.PathLike[str] | None = None) -> Prepared:
    """The file of `prepare`; its pixels stay on disk until they are asked for.

    name: one of LAYOUTS.  size: the side in pixels that it was prepared with.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for an unknown name or a damaged file, FileNotFoundError, saying what to do, for a set that was not prepared.
    """
    layout, place = _layout(name), _place(name, size, to)
    again = f"python data_scripts/prepare.py {name} --from FOLDER --size {size}"
    if not place.exists():
        raise FileNotFoundError(
            f"{name}: no {place.name} in {place.parent}. Its authors hand it out themselves: {layout.home}. When you have the files, "
            f"run {again}"
        )
    with integrity.checked(place, f"run {again}"), safe_open(place, framework="pt") as file:
        values = {label: tuple(names) for label, names in json.loads(file.metadata()["values"]).items()}
        return Prepared(
            file.get_tensor("images"), {label: file.get_tensor(f"label.{label}") for label in values}, values
        )


def prepare(
    name: str,
    folder: str | os.PathLike[str],
    size: int = 64,
    to: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Check the layout of a set as its authors hand it out, and make of it the one file that `read` maps.

    The photographs go one by one into the file, so memory holds one of them; it appears when it is whole.
    name: one of LAYOUTS.  folder: where its files lie, see the reader's docstring.
    size: of the square that the middle of each photograph is resized to.
    limit: how many photographs, drawn by `seed`; the layout's if not given.
    Raises FileNotFoundError that names what is missing, ValueError for files of another layout and for a photograph that cannot be
    decoded, OSError where the disk is full.
    """
    layout, place = _layout(name), _place(name, size, to)
    photos, labels, values, boxes = layout.read(Path(folder).expanduser())
    drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(seed))
    rows = drawn[: limit or layout.limit].sort().values.tolist()
    bar = tqdm(rows, desc=name, unit="photo", disable=not progress, leave=False)
    pixels = (_square(photos[row], boxes[row] if boxes else None, size) for row in bar)
    columns = {f"label.{label}": np.asarray(column, "<i8")[rows] for label, column in labels.items()}
    _write(place, pixels, (len(rows), 3, size, size), columns, {"values": json.dumps(values)})
    return place


# -- the authors' own layouts ------------------------------------------------------------------------------------------


def celeba(folder: Path) -> Rows:
    """What torchvision's CelebA reads: celeba/img_align_celeba/*.jpg and the five lists beside it, in this folder."""
    inside = folder / CelebA.base_folder
    lists = [inside / name for _, _, name in CelebA.file_list if name.endswith(".txt")]
    _needs(folder, [inside / "img_align_celeba", *lists], "CelebA, as torchvision lays it out")
    try:
        files = CelebA(str(folder), split="all", target_type="attr")
    except RuntimeError as error:  # its check of MD5 sums
        why = f"folder={str(folder)!r}: torchvision does not take these for CelebA's files: {error}"
        raise ValueError(why) from None
    photos = [inside / "img_align_celeba" / name for name in files.filename]
    _needs(folder, photos, "CelebA's photographs")
    names = [name for name in files.attr_names if name]
    labels = {name: files.attr[:, k].tolist() for k, name in enumerate(names)}
    return Rows(photos, labels, dict.fromkeys(names, ("no", "yes")))


def celeba_people(folder: Path, people: int = CELEBA_PEOPLE) -> Rows:
    """CelebA as torchvision lays it out: celeba/img_align_celeba/*.jpg and celeba/identity_CelebA.txt in this folder.

    people: how many, those with most photographs; of two with as many, the one whose first photograph comes earlier in the list goes
        first. PPA's order is the same; but it crops the photographs in the wild anew, and here the aligned ones give their middle.
    """
    inside = folder / "celeba"
    table = inside / "identity_CelebA.txt"
    _needs(folder, [table], "CelebA, as torchvision lays it out, with the list of its identities")
    by_person: dict[str, list[Path]] = {}
    for photo, person in map(str.split, table.read_text(encoding="utf-8-sig").splitlines()):
        by_person.setdefault(person, []).append(inside / "img_align_celeba" / photo)
    names = sorted(by_person, key=lambda person: -len(by_person[person]))[:people]  # stable, so ties stay as they came
    photos = [photo for person in names for photo in by_person[person]]
    _needs(folder, photos, "CelebA's photographs")
    return Rows(
        photos, {"class": [k for k, person in enumerate(names) for _ in by_person[person]]}, {"class": tuple(names)}
    )


def utkface(folder: Path) -> Rows:
    """A folder of files [age]_[gender]_[race]_[date].jpg, as UTKFace's authors name them ("aligned and cropped").

    gender 0 male, 1 female; race 0 to 4. The few files whose names lack a part, and the race "Others", are left out.
    """
    named = [(path, re.match(r"\d+_([01])_([0-3])_\d+\.", path.name)) for path in reading.visible(folder, "*.jpg")]
    photos = {path: match for path, match in named if match}
    if not photos:
        raise FileNotFoundError(
            f"folder={str(folder)!r} holds {len(named)} .jpg files, none of them named [age]_[gender]_[race]_[date].jpg; give the folder "
            "of UTKFace's aligned and cropped photographs"
        )
    gender, race = ([int(match[part]) for match in photos.values()] for part in (1, 2))
    return Rows([*photos], {"gender": gender, "race": race}, {"gender": ("male", "female"), "race": UTK_RACES})


def fairface(folder: Path) -> Rows:
    """A folder with fairface_label_train.csv, fairface_label_val.csv (file, age, gender, race) and the photographs that they name."""
    tables = [folder / f"fairface_label_{split}.csv" for split in ("train", "val")]
    _needs(folder, tables, "FairFace's labels")
    rows = pd.concat([pd.read_csv(table, encoding="utf-8-sig", dtype=str) for table in tables])
    if lacking := {"file", "age", "gender", "race"} - {*rows.columns}:
        raise ValueError(f"{tables[0].name} has no column {min(lacking)!r}; it has {', '.join(rows.columns)}")
    photos = [folder / name for name in rows["file"]]
    _needs(folder, photos, "FairFace's photographs")
    columns = {label: rows[label].astype("category").cat for label in ("gender", "race", "age")}
    labels = {label: column.codes.tolist() for label, column in columns.items()}
    return Rows(photos, labels, {label: tuple(column.categories) for label, column in columns.items()})


def facescrub(folder: Path) -> Rows:
    """Ng and Winkler's cropped faces: actors/faces/NAME/*.jpg (or .png) and actresses/faces/NAME/* in this folder.

    Actors come first, each group in order of name, so the numbers are those of PPA wherever all 530 people are there.
    """
    halves = [folder / "actors" / "faces", folder / "actresses" / "faces"]
    _needs(folder, halves, "FaceScrub's cropped faces, in folders such as actors/faces/Aaron_Eckhart")
    photos: list[Path] = []
    labels: list[int] = []
    names: list[str] = []
    for half in map(ImageFolder, halves):
        photos += [Path(path) for path, _ in half.samples]
        labels += [len(names) + person for _, person in half.samples]
        names += half.classes
    return Rows(photos, {"class": labels}, {"class": tuple(names)})


def stanford_dogs(folder: Path) -> Rows:
    """Khosla et al.'s Images/n02085620-Chihuahua/*.jpg, and, where it is there, Annotation/n02085620-Chihuahua/* (XML, no suffix).

    With Annotation each photograph is cut to the first dog's box in its file, as in PPA; a photograph without its file is then an
    error. Without that folder the whole photograph is used. The breeds are numbered in the order of their folders.
    """
    _needs(folder, [folder / "Images"], "Stanford Dogs, in folders such as Images/n02085620-Chihuahua")
    dogs = ImageFolder(folder / "Images")
    photos, boxes = [Path(path) for path, _ in dogs.samples], None
    if (folder / "Annotation").is_dir():
        files = [folder / "Annotation" / photo.parent.name / photo.stem for photo in photos]
        _needs(folder, files, "the boxes of its photographs in Annotation; without that folder they are used whole")
        boxes = [_box(file) for file in files]
    breeds = tuple(name.split("-", 1)[-1] for name in dogs.classes)
    return Rows(photos, {"class": [breed for _, breed in dogs.samples]}, {"class": breeds}, boxes)


def ffhq(folder: Path) -> Rows:
    """Karras et al.'s thumbnails128x128/00000/00000.png ... or images1024x1024/00000/00000.png ... in this folder.

    The larger ones are taken where both are there; you may have some of them. They have no labels: all are of class 0, "public".
    """
    for kind in ("images1024x1024", "thumbnails128x128"):
        if photos := reading.visible(folder, f"{kind}/*/*.png"):
            return Rows(photos, {"class": [0] * len(photos)}, {"class": ("public",)})
    raise FileNotFoundError(
        f"folder={str(folder)!r} lacks FFHQ's photographs, such as thumbnails128x128/00000/00000.png"
    )


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


def _layout(name: str) -> Layout:
    if name not in LAYOUTS:
        raise ValueError(f"name={name!r} is no set that you ask its authors for{sources.nearest(name, list(LAYOUTS))}")
    return LAYOUTS[name]


def _place(name: str, size: int, to: str | os.PathLike[str] | None) -> Path:
    return sources.folder(to) / name / f"photos_{size}.safetensors"


def _needs(folder: Path, paths: Iterable[Path], what: str) -> None:
    """Raise FileNotFoundError, naming the folder given, what it should hold and the first of these paths that are not there."""
    if missing := [str(path.relative_to(folder.parent)) for path in paths if not path.exists()]:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise FileNotFoundError(f"folder={str(folder)!r} lacks {', '.join(missing[:3])}{more}: it should hold {what}")


def _box(file: Path) -> Box:
    """The first dog's."""
    box = ElementTree.parse(file).find("object/bndbox")
    if box is None:
        raise ValueError(f"{file} holds no box (object/bndbox) that a photograph can be cut to")
    left, top, right, bottom = (int(box.findtext(side, "0")) for side in ("xmin", "ymin", "xmax", "ymax"))
    return left, top, right, bottom


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
    integrity.write(place, itertools.chain([start], (one.tobytes() for one in pixels)))
