"""Photographs that their authors hand out themselves: their layouts, and the one file that is made of them.

    celeba          its 40 attributes, none of which is race          utkface      "gender", "race"
    celeba_people   the 1,000 of its 10,177 people with most photographs, about 30,000 faces
    fairface        "gender", "race", "age"                           facescrub    530 actors and actresses, about 38,000 faces
    stanford_dogs   120 breeds, 20,580 photographs                    ffhq         70,000 faces of nobody in particular

`prepare` makes one file of what you have; `attributes.load` maps it. A label such as "gender" or "race" is what somebody wrote next to a
photograph, not what the person would say.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import torch
from PIL import Image, ImageOps
from pooch import file_hash
from safetensors.numpy import save
from torchvision.datasets import CelebA, ImageFolder
from tqdm.auto import tqdm

from privlab.compute.files import visible, write_atomic
from privlab.data import sources
from privlab.data.sources import Where

CELEBA_PEOPLE = 1_000
UTK_RACES = ("White", "Black", "Asian", "Indian")  # the fifth, "Others", is no group, and is left out


class Rows(NamedTuple):
    """What a reader finds: the photographs, name of a label -> the class of each, and the names of these classes.

    boxes: of some, the part that counts: left, top, right, bottom, in pixels.
    """

    photos: list[Path]
    labels: dict[str, list[int]]
    values: dict[str, tuple[str, ...]]
    boxes: list[list[int]] | None = None


class Layout(NamedTuple):
    """A set: what reads its folder, where to ask for it, and how many photographs `prepare` draws where there are more."""

    read: Callable[[Path], Rows]
    home: str
    limit: int | None = None


def prepare(name: str, folder: str | os.PathLike[str], size: int = 64, to: Where = None) -> Path:
    """Check the layout of a set as its authors hand it out, and make of it the one file that `attributes.load` maps.

    It lies beside its hash, in NAME.sha256, which `sha256sum --check` reads, too. Memory must hold it twice: 1.7 GB for FFHQ of 64 pixels.
    name: one of LAYOUTS.  folder: where its files lie, see the reader's docstring.
    size: of the square that the middle of each photograph is resized to.
    Raises ValueError for files of another layout and for a photograph that cannot be decoded, OSError where the disk is full.
    """
    layout, place = LAYOUTS[name], file_of(name, size, to)
    try:
        photos, labels, values, boxes = layout.read(Path(folder).expanduser())
        if not photos:
            raise FileNotFoundError("there is no such photograph")
    except Exception as error:  # what a folder may hold is no fixed list
        told, wanted = " ".join(str(error).split()), str(layout.read.__doc__).splitlines()[0]
        raise ValueError(f"folder={str(folder)!r} is no {name} as its authors lay it out ({told}): {wanted}") from error
    drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(0))[: layout.limit]
    rows = drawn.sort().values.tolist()
    arrays = {f"label.{label}": np.asarray(column, np.int64)[rows] for label, column in labels.items()}
    arrays["images"] = np.empty((len(rows), 3, size, size), np.uint8)
    bar = tqdm(rows, desc=name, unit="photo", disable=None, leave=False)  # where there is a terminal
    for k, row in enumerate(bar):
        arrays["images"][k] = _square(photos[row], boxes[row] if boxes else None, size)
    write_atomic(place, save(arrays, {"values": json.dumps(values)}))
    write_atomic(f"{place}.sha256", f"{file_hash(place)}  {place.name}\n".encode())
    return place


def file_of(name: str, size: int, to: Where = None) -> Path:
    """Where a prepared set lies, beside its SHA-256 in NAME.sha256.  name, size, to: see `prepare`."""
    return sources.folder(to) / name / f"photos_{size}.safetensors"


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
    named = [(path, re.match(r"\d+_([01])_([0-3])_\d+\.", path.name)) for path in visible(folder, "*.jpg")]
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
    """Khosla et al.'s Images/n02085620-Chihuahua/*.jpg, and for each its Annotation/n02085620-Chihuahua/* (XML, no suffix).

    Each photograph is cut to the first dog's box in its file, as in PPA. The breeds are numbered in the order of their folders.
    """
    dogs = ImageFolder(folder / "Images")
    photos = [Path(path) for path, _ in dogs.samples]
    notes = [ElementTree.parse(folder / "Annotation" / photo.parent.name / photo.stem) for photo in photos]
    boxes = [
        [int(note.findtext(f"object/bndbox/{side}", "")) for side in ("xmin", "ymin", "xmax", "ymax")] for note in notes
    ]
    return Rows(photos, {"class": dogs.targets}, {"class": tuple(n.split("-", 1)[-1] for n in dogs.classes)}, boxes)


def ffhq(folder: Path) -> Rows:
    """Karras et al.'s thumbnails128x128/00000/00000.png ... or images1024x1024/00000/00000.png ... in this folder.

    The larger ones are taken where both are there; you may have some of them. They have no labels: all are of class 0, "public".
    """
    photos = visible(folder, "images1024x1024/*/*.png") or visible(folder, "thumbnails128x128/*/*.png")
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


def _square(path: Path, box: list[int] | None, size: int) -> np.ndarray:
    """The largest square in the middle of a photograph, or of its box, resized: uint8 (3, size, size)."""
    try:
        with Image.open(path) as photo:
            left, top, right, bottom = box or (0, 0, *photo.size)
            part = photo.crop((left, top, min(right, photo.width), min(bottom, photo.height)))
            square = ImageOps.fit(converted(part, "RGB"), (size, size))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be decoded ({error}); replace the file, or take it away") from error
    return np.asarray(square).transpose(2, 0, 1)


def converted(photo: Image.Image, mode: str) -> Image.Image:
    """A photograph as "L" or "RGB", 8 bits a channel.  Raises ValueError for one of more bits, which Pillow would cut off at 255."""
    if photo.mode.startswith(("I", "F")):
        raise ValueError(f"a photograph of mode {photo.mode!r} has another range; save it with 8 bits a channel")
    return photo.convert(mode)
