"""Photographs whose label is a person (or a breed of dog): the private sets of model inversion, and faces for the public one.

    facescrub       530 actors and actresses, about 38,000 faces that are still to be had
    celeba_people   the 1,000 of CelebA's 10,177 people with most photographs, about 30,000 faces
    stanford_dogs   120 breeds, 20,580 photographs
    ffhq            70,000 faces of nobody in particular: one label for all, so for the public side alone

The authors hand them out themselves. `prepare` makes one file of what you have, `load` maps it; `split`, `hold_out` and
`check_disjoint` say who is private, which photographs of theirs are kept for the test, and that no private person is public.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from torch import Tensor
from tqdm.auto import tqdm

from privlab.compute import reading
from privlab.data import attributes, integrity, sources
from privlab.data.attributes import needs
from privlab.data.images import Images, Normalise

_NORMALISE = Normalise((0.5,), (0.5,))
CELEBA_PEOPLE = 1_000


class Photo(NamedTuple):
    """A photograph's file, and the part of it to be used: (left, top, right, bottom) in pixels, or all of it."""

    path: Path
    box: tuple[int, int, int, int] | None = None


Rows = tuple[list[Photo], list[int], list[str]]  # photographs, the class of each, the names of the classes
People = Tensor | Sequence[int] | Sequence[str]


def load(name: str, size: int, to: str | os.PathLike[str] | None = None) -> Images:
    """A set as `prepare` left it; its pixels stay on disk until they are asked for.

    name: one of READERS.  size: the side in pixels that it was prepared with.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for an unknown name or a damaged file, FileNotFoundError, saying what to do, for a set that was not prepared.
    """
    place = _place(_known(name), size, to)
    again = f"python data_scripts/prepare.py identities {name} --from FOLDER --size {size}"
    if not place.exists():
        others = sorted(path.stem.removeprefix("people_") for path in place.parent.glob("people_*.safetensors"))
        there = f" (prepared: size {', '.join(others)})" if others else ""
        home = f"Its authors hand it out themselves: {HOMES[name]}"
        raise FileNotFoundError(
            f"{name}: no {place.name} in {place.parent}{there}. {home}. When you have the files, run {again}"
        )
    with integrity.checked(place, f"run {again}"), safe_open(place, framework="pt") as file:
        pixels, labels = file.get_tensor("images"), file.get_tensor("labels")
        classes = tuple(json.loads(file.metadata()["classes"]))
    return Images(name, "all", pixels, labels, classes, _NORMALISE)


def prepare(
    name: str,
    folder: str | os.PathLike[str],
    size: int,
    to: str | os.PathLike[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Path:
    """Check the layout of a set as its authors hand it out, and make of it the one file that `load` maps.

    The photographs go one by one into a single file, behind a header that is known beforehand, so memory holds one photograph however
    many there are; the file appears when it is whole. A set of 38,000 at 224 takes 5.7 GB of disk.
    name: one of READERS.  folder: where its files lie, see its reader.  size: of the square that the middle of each is resized to.
    limit: at most so many photographs, drawn by `seed` and spread over the people as evenly as they can be; None for all.
    Raises FileNotFoundError that names what is missing, ValueError for files of another layout and for a photograph that cannot be
    decoded, OSError where the disk is full.
    """
    place = _place(_known(name), size, to)
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"size={size!r} is not a number of pixels; try 64, 112 or 224")
    photos, labels, classes = READERS[name](Path(folder).expanduser())
    rows = _spread(torch.tensor(labels), limit, seed).tolist()
    bar = tqdm(rows, desc=name, unit="photo", disable=not progress, leave=False)
    chosen_labels = np.asarray([labels[row] for row in rows], "<i8")
    _write(place, (_pixels(photos[row], size) for row in bar), size, chosen_labels, classes)
    return place


# -- who is private ----------------------------------------------------------------------------------------------------


def split(labels: Tensor, private: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw who is private; everybody else is public (Koh et al. 2024, section 8: no class is in both).

    labels: (n,) the identity of each photograph.  private: how many identities.
    Returns (private, public): two tensors of identities in rising order. `torch.isin(labels, private)` are their photographs, and
    `torch.searchsorted(private, theirs)` numbers their labels from 0 for a classifier.
    Raises ValueError for a number that leaves nobody on one side.
    """
    people = torch.as_tensor(labels).unique()
    if isinstance(private, bool) or not isinstance(private, int) or not 0 < private < len(people):
        raise ValueError(f"private={private!r} of {len(people)} identities; give 1 to {len(people) - 1}")
    order = torch.randperm(len(people), generator=torch.Generator().manual_seed(seed))
    return people[order[:private]].sort().values, people[order[private:]].sort().values


def check_disjoint(private: People, public: People) -> None:
    """Raise ValueError, with some of them and their number, if an identity is on both sides.

    private, public: identities, both by number or both by name, as they are written; across two sets, whose numbers mean different
    people, by name. Raises ValueError too for a number against a name, which would never agree.
    """
    sides = [set(side.tolist() if isinstance(side, Tensor) else side) for side in (private, public)]
    if len({isinstance(who, str) for side in sides for who in side}) > 1:
        raise ValueError("private and public mix numbers with names; give both by name, as in the classes of a set")
    if both := sorted(sides[0] & sides[1]):
        more = ", ..." if len(both) > 5 else ""
        raise ValueError(
            f"{len(both)} identities are both private and public: {', '.join(map(str, both[:5]))}{more}. What is inverted would have been "
            "seen; take them out of the public side"
        )


def hold_out(labels: Tensor, each: float, seed: int) -> tuple[Tensor, Tensor]:
    """Keep the same number of photographs of every person for the test.

    labels: (n,) the identity of each photograph.
    each: how many of each person, as a whole number; or, as a fraction below 1, the share of all photographs, which is then divided
        evenly among the people (0.1 as in PPA, which however draws without regard to the person).
    Returns (train, test): places in `labels` in rising order, int64; together they are all, and each person is in both.
    Raises ValueError where somebody would have no photograph left to train on.
    """
    labels = torch.as_tensor(labels)
    people, counts = labels.unique(return_counts=True)
    if len(people) == 0:
        raise ValueError("labels: there are no photographs to hold out")
    number = max(1, round(each * len(labels) / len(people))) if isinstance(each, float) and 0 < each < 1 else each
    fewest = int(counts.min())
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < fewest:
        meant = f" (that is {number} of each person)" if number is not each else ""
        raise ValueError(
            f"each={each!r}{meant} does not leave each person some to train on: identity {people[counts.argmin()]} has {fewest}; "
            f"give a whole number from 1 to {fewest - 1}, or a fraction, or leave out the people with few"
        )
    in_test = _rank(labels, seed) < number
    return (~in_test).nonzero()[:, 0], in_test.nonzero()[:, 0]


def _rank(labels: Tensor, seed: int) -> Tensor:
    """In an order drawn by the seed, the how-manieth of its person each photograph is, from 0."""
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    order = drawn[labels[drawn].argsort(stable=True)]  # person by person, each in the order drawn
    _, person, counts = labels[order].unique_consecutive(return_inverse=True, return_counts=True)
    begins = counts.cumsum(0) - counts
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(labels)) - begins[person]
    return rank


def _spread(labels: Tensor, limit: int | None, seed: int) -> Tensor:
    """At most `limit` places, in rising order: the first drawn of each person, then the second of each, and so on."""
    if limit is None:
        return torch.arange(len(labels))
    limit = attributes.count("limit", limit)
    drawn = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed + 1))
    return drawn[_rank(labels, seed)[drawn].argsort(stable=True)][:limit].sort().values


# -- the authors' own layouts ------------------------------------------------------------------------------------------


def facescrub(folder: Path) -> Rows:
    """Ng and Winkler's cropped faces: actors/faces/NAME/*.jpg (or .png) and actresses/faces/NAME/* in this folder.

    Actors come first, each group in order of name, so the numbers are those of PPA wherever all 530 people are there.
    """
    halves = [folder / "actors" / "faces", folder / "actresses" / "faces"]
    needs(folder, halves, "FaceScrub's cropped faces, in folders such as actors/faces/Aaron_Eckhart")
    people = [person for half in halves for person in reading.visible(half) if person.is_dir()]
    names = [person.name for person in people]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"folder={str(folder)!r} has {twice[0]!r} among actors and actresses; one person is one class")
    return _by_folder(folder, people, names)


def celeba_people(folder: Path, people: int = CELEBA_PEOPLE) -> Rows:
    """CelebA as torchvision lays it out: celeba/img_align_celeba/*.jpg and celeba/identity_CelebA.txt in this folder.

    people: how many, those with most photographs; of two with as many, the one whose first photograph comes earlier in the list goes
        first. PPA's order is the same; but it crops the photographs in the wild anew, and here the aligned ones give their middle.
    """
    inside = folder / "celeba"
    table, photos = inside / "identity_CelebA.txt", inside / "img_align_celeba"
    needs(folder, [table, photos], "CelebA, as torchvision lays it out, with the list of its identities")
    by_person: dict[str, list[Photo]] = {}
    for number, line in enumerate(table.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not (match := re.fullmatch(r"(\d+\.(?:jpg|png)) +(\d+)\s*", line)):
            raise ValueError(
                f"{table}, line {number}: {line[:60]!r} is not a file and an identity, as in '000001.jpg 2880'"
            )
        by_person.setdefault(match[2], []).append(Photo(photos / match[1]))
    names = sorted(by_person, key=lambda person: -len(by_person[person]))[:people]  # stable, so ties stay as they came
    rows = [(photo, k) for k, person in enumerate(names) for photo in by_person[person]]
    needs(folder, [photo.path for photo, _ in rows], "CelebA's photographs")
    if not rows:
        raise ValueError(f"{table} names no photographs")
    return [photo for photo, _ in rows], [k for _, k in rows], names


def stanford_dogs(folder: Path) -> Rows:
    """Khosla et al.'s Images/n02085620-Chihuahua/*.jpg, and, where it is there, Annotation/n02085620-Chihuahua/* (XML, no suffix).

    With Annotation each photograph is cut to the first dog's box in its file, as in PPA; a photograph without its file is then an
    error. Without that folder the whole photograph is used. The breeds are numbered in the order of their folders.
    """
    images, boxes = folder / "Images", folder / "Annotation"
    needs(folder, [images], "Stanford Dogs, in folders such as Images/n02085620-Chihuahua")
    breeds = [breed for breed in reading.visible(images) if breed.is_dir()]
    photos, labels, classes = _by_folder(folder, breeds, [breed.name.split("-", 1)[-1] for breed in breeds])
    if boxes.is_dir():
        files = [boxes / photo.path.parent.name / photo.path.stem for photo in photos]
        needs(folder, files, "the boxes of its photographs in Annotation; without that folder they are used whole")
        photos = [Photo(photo.path, _box(file)) for photo, file in zip(photos, files, strict=True)]
    return photos, labels, classes


def ffhq(folder: Path) -> Rows:
    """Karras et al.'s thumbnails128x128/00000/00000.png ... or images1024x1024/00000/00000.png ... in this folder.

    The larger ones are taken where both are there. You may have some of the folders, and the first photographs of a folder; one that
    is missing before others of its folder is an error. They have no labels: all are of class 0, "public".
    """
    large, small = folder / "images1024x1024", folder / "thumbnails128x128"
    photos = large if large.exists() else small
    needs(folder, [photos], "FFHQ's photographs, in folders such as thumbnails128x128/00000 or images1024x1024/00000")
    paths = [path for path in reading.visible(photos, "*/*.png") if re.fullmatch(r"\d{5}", path.stem)]
    if not paths:
        raise ValueError(f"{photos} holds no photographs such as 00000/00000.png, in the authors' folders")
    last = {path.parent: int(path.stem) for path in paths}
    whole = [inner / f"{k:05d}.png" for inner, end in last.items() for k in range(end // 1000 * 1000, end + 1)]
    needs(folder, whole, "FFHQ's photographs")
    return [Photo(path) for path in paths], [0] * len(paths), ["public"]


READERS: dict[str, Callable[[Path], Rows]] = {
    "facescrub": facescrub, "celeba_people": celeba_people, "stanford_dogs": stanford_dogs, "ffhq": ffhq,
}  # fmt: skip
PEOPLE = {"facescrub": 530, "celeba_people": CELEBA_PEOPLE, "stanford_dogs": 120, "ffhq": 1}  # classes in full
HOMES = {
    "facescrub": "https://vintage.winklerbros.net/facescrub.html (addresses of photographs, for research)",
    "celeba_people": attributes.HOMES["celeba"],
    "stanford_dogs": "http://vision.stanford.edu/aditya86/ImageNetDogs/ (ImageNet's terms: for research that is not commercial)",
    "ffhq": "https://github.com/NVlabs/ffhq-dataset (CC BY-NC-SA 4.0; each photograph under its own licence)",
}


def _by_folder(folder: Path, people: list[Path], names: list[str]) -> Rows:
    """One class a folder, its photographs in order of name; an empty folder is told."""
    by_person = [
        [path for path in reading.visible(person) if path.suffix.lower() in (".jpg", ".jpeg", ".png")]
        for person in people
    ]
    if empty := [person for person, photos in zip(people, by_person, strict=True) if not photos]:
        raise ValueError(f"{empty[0]}: no .jpg or .png in it; fill it, or take the empty folder away")
    if not by_person:
        raise ValueError(f"folder={str(folder)!r} has the right folders, but nobody in them")
    labels = [k for k, photos in enumerate(by_person) for _ in photos]
    return [Photo(path) for photos in by_person for path in photos], labels, names


def _box(file: Path) -> tuple[int, int, int, int]:
    text = file.read_text(encoding="utf-8")
    left, top, right, bottom = (
        int(match[1]) if (match := re.search(rf"<{side}>\s*(\d+)\s*</{side}>", text)) else -1
        for side in ("xmin", "ymin", "xmax", "ymax")
    )
    if not (0 <= left < right and 0 <= top < bottom):
        raise ValueError(f"{file} holds no box (xmin, ymin, xmax, ymax) that a photograph can be cut to")
    return left, top, right, bottom


def _pixels(photo: Photo, size: int) -> np.ndarray:
    """One photograph as uint8 (3, size, size)."""

    def opener() -> Image.Image:
        with Image.open(photo.path) as whole:
            box = photo.box and (*photo.box[:2], min(photo.box[2], whole.width), min(photo.box[3], whole.height))
            return whole.crop(box)  # without a box a copy of all of it

    try:
        return attributes.face(opener, size)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"{photo.path} cannot be decoded ({error}); replace the file, or take it away") from error


# -- the file ----------------------------------------------------------------------------------------------------------


def _known(name: str) -> str:
    if name not in READERS:
        raise ValueError(f"name={name!r} is no set of identities{sources.nearest(name, list(READERS))}")
    return name


def _place(name: str, size: int, to: str | os.PathLike[str] | None) -> Path:
    return sources.folder(to) / name / f"people_{size}.safetensors"


def _write(place: Path, pixels: Iterable[np.ndarray], size: int, labels: np.ndarray, classes: list[str]) -> None:
    """A safetensors file: 8 bytes with the length of its header, the header as JSON, labels, images one by one."""
    shape = [len(labels), 3, size, size]
    ends = [labels.nbytes, labels.nbytes + math.prod(shape)]
    header = {
        "__metadata__": {"classes": json.dumps(classes)},
        "labels": {"dtype": "I64", "shape": list(labels.shape), "data_offsets": [0, ends[0]]},
        "images": {"dtype": "U8", "shape": shape, "data_offsets": ends},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # so that labels begin at a multiple of their size
    start = len(text).to_bytes(8, "little") + text + labels.tobytes()
    integrity.write(place, itertools.chain([start], (one.tobytes() for one in pixels)))
