"""Image sets with names for their labels: what a model is trained to tell, and what else could be told.

cifar10                     "animal": animal or vehicle, "class": the ten classes
orl                         "person": 40 people, "glasses": typed in by us after looking at all 400 faces
celeba, utkface, fairface   attributes of faces; and "class", the person or breed, of the other sets of `privlab.data.faces`
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

from privlab.compute.files import guarded
from privlab.data import faces, images, sources
from privlab.data.images import Normalise

ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
# Glasses in ORL: (person, its photographs with glasses), both counted from 1 as in the files s2/1.pgm. All 400 were looked at, in rows
# of ten, those of doubt again at four times the size. Person 20 takes his off for two photographs, and s13, s17 for two each.
_ALL = tuple(range(1, 11))
GLASSES = {
    2: _ALL, 4: (1, 2, 3, 8, 9), 6: _ALL, 7: (4, 5, 10), 13: (1, 2, 5, 6, 7, 8, 9, 10), 14: _ALL, 17: (1, 2, 5, 6, 7, 8, 9, 10),
    19: (1, 2, 3, 6, 10), 20: (1, 2, 3, 5, 7, 8, 9, 10), 27: _ALL, 28: _ALL, 31: _ALL, 34: _ALL, 36: (9, 10), 37: _ALL,
}  # fmt: skip


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

    def __getitem__(self, label: str) -> Tensor:
        """One label of every image, (images,).  Raises ValueError, with the nearest, for one that the set does not have."""
        if label not in self.labels:
            raise ValueError(f"label={label!r} is not known for {self.name}{sources.nearest(label, list(self.labels))}")
        return self.labels[label]

    def few(self, n: int, seed: int) -> Self:
        """n of them, drawn with equal chances by this seed; all of them where there are no more."""
        rows = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))[:n]
        labels = {name: column[rows] for name, column in self.labels.items()}
        return replace(self, pixels=self.pixels[rows], labels=labels)


def load(name: str, size: int | None = None, to: sources.Where = None) -> Described:
    """A set with its labels.  Those that registries hold are fetched; the faces must have been prepared, see `faces.prepare`.

    size: side in pixels, for a set that was prepared the one that it was prepared with (64 if not given); ORL is squeezed into a square.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for a name that is not known or a damaged file, FileNotFoundError, saying what to do, for a set that was not prepared.
    """
    if name in faces.LAYOUTS:
        return _prepared(name, size or 64, to)
    if name not in ("cifar10", "orl"):
        known = sources.nearest(name, ["cifar10", "orl", *faces.LAYOUTS])
        raise ValueError(f"name={name!r} has no labels beyond its classes{known}")
    found = images.load(name, to=to)
    pixels = found.pixels
    if size is not None and pixels.shape[-2:] != (size, size):
        pixels = F.interpolate(pixels.float(), (size, size), mode="bilinear", align_corners=False, antialias=True)
        pixels = pixels.round().clamp(0, 255).to(torch.uint8)
    if name == "orl":
        glasses = torch.tensor([k % 10 + 1 in GLASSES.get(k // 10 + 1, ()) for k in range(400)]).long()
        labels = {"person": found.labels, "glasses": glasses}
        values = {"person": tuple(f"s{k}" for k in range(1, 41)), "glasses": ("no", "yes")}
    else:
        animal = torch.tensor([c in ANIMALS for c in found.classes]).long()[found.labels]
        labels = {"animal": animal, "class": found.labels}
        values = {"animal": ("vehicle", "animal"), "class": found.classes}
    return Described(name, pixels, labels, values, found.normalise)


def _prepared(name: str, size: int, to: sources.Where) -> Described:
    """The file of `faces.prepare`; its pixels stay on disk until they are asked for."""
    place = faces.file_of(name, size, to)
    record, again = Path(f"{place}.sha256"), f"run python data_scripts/prepare.py {name} --from FOLDER --size {size}"
    if not place.exists():
        where = f"Its authors hand it out themselves: {faces.LAYOUTS[name].home}"
        raise FileNotFoundError(f"{name}: no {place.name} in {place.parent}. {where}. When you have the files, {again}")
    with guarded(record, f"is no SHA-256 of {place.name}", again):
        digest, _ = record.read_text(encoding="utf-8").split()
    sources.check(place, digest, again)
    with safe_open(place, framework="pt") as file:
        values = {label: tuple(names) for label, names in json.loads(file.metadata()["values"]).items()}
        labels = {label: file.get_tensor(f"label.{label}") for label in values}
        return Described(name, file.get_tensor("images"), labels, values, Normalise((0.5,), (0.5,)))
