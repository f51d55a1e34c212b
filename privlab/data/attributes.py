"""Image sets with more than one label an image: what a model is trained to tell, and what else could be told.

cifar10                     "animal": animal or vehicle, "class": the ten classes
orl                         "person": 40 people, "glasses": typed in by us after looking at all 400 faces
celeba, utkface, fairface   attributes of faces, from files that you have, see `privlab.data.faces`
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.data import faces, sources
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


def load(name: str, size: int | None = None, to: str | os.PathLike[str] | None = None) -> Described:
    """A set with its labels.  Those that registries hold are fetched; the faces must have been prepared, see `faces.prepare`.

    size: side in pixels, for a set of faces the one that it was prepared with (64 if not given); ORL is squeezed into a square.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for a name that is not known, FileNotFoundError, saying what to do, for faces that were not prepared.
    """
    choices = ["cifar10", "orl", "celeba", "utkface", "fairface"]
    if name not in choices:
        raise ValueError(f"name={name!r} has no labels beyond its classes{sources.nearest(name, choices)}")
    if name in faces.LAYOUTS:
        return Described(name, *faces.read(name, size or 64, to), faces.NORMALISE)
    images = load_images(name, to=to)
    pixels = images.pixels
    if size is not None and pixels.shape[-2:] != (size, size):
        pixels = F.interpolate(pixels.float(), (size, size), mode="bilinear", align_corners=False, antialias=True)
        pixels = pixels.round().clamp(0, 255).to(torch.uint8)
    if name == "orl":
        glasses = torch.tensor([k % 10 + 1 in GLASSES.get(k // 10 + 1, ()) for k in range(400)]).long()
        labels = {"person": images.labels, "glasses": glasses}
        values = {"person": tuple(f"s{k}" for k in range(1, 41)), "glasses": ("no", "yes")}
    else:
        animal = torch.tensor([c in ANIMALS for c in images.classes]).long()[images.labels]
        labels = {"animal": animal, "class": images.labels}
        values = {"animal": ("vehicle", "animal"), "class": images.classes}
    return Described(name, pixels, labels, values, NORMALISE[name])
