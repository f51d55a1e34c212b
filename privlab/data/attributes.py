"""Image sets with more than one label an image: what a model is trained to tell, and what else could be told.

cifar10                     "animal": animal or vehicle, "class": the ten classes
orl                         "person": 40 people, "glasses": typed in by us after looking at all 400 faces
celeba, utkface, fairface   attributes of faces, from files that you have, see `privlab.data.faces`
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from privlab.data import faces, images, sources
from privlab.data.faces import Described

ANIMALS = ("bird", "cat", "deer", "dog", "frog", "horse")
# Glasses in ORL: (person, its photographs with glasses), both counted from 1 as in the files s2/1.pgm. All 400 were looked at, in rows
# of ten, those of doubt again at four times the size. Person 20 takes his off for two photographs, and s13, s17 for two each.
_ALL = tuple(range(1, 11))
GLASSES = {
    2: _ALL, 4: (1, 2, 3, 8, 9), 6: _ALL, 7: (4, 5, 10), 13: (1, 2, 5, 6, 7, 8, 9, 10), 14: _ALL, 17: (1, 2, 5, 6, 7, 8, 9, 10),
    19: (1, 2, 3, 6, 10), 20: (1, 2, 3, 5, 7, 8, 9, 10), 27: _ALL, 28: _ALL, 31: _ALL, 34: _ALL, 36: (9, 10), 37: _ALL,
}  # fmt: skip


def load(name: str, size: int | None = None, to: sources.Where = None) -> Described:
    """A set with its labels.  Those that registries hold are fetched; the faces must have been prepared, see `faces.prepare`.

    size: side in pixels, for a set of faces the one that it was prepared with (64 if not given); ORL is squeezed into a square.
    to: the folder that holds the sets; by default $PRIVLAB_DATA, or the user's cache.
    Raises ValueError for a name that is not known, FileNotFoundError, saying what to do, for faces that were not prepared.
    """
    if name in ("celeba", "utkface", "fairface"):
        return faces.read(name, size or 64, to)
    if name not in ("cifar10", "orl"):
        choices = ["cifar10", "orl", "celeba", "utkface", "fairface"]
        raise ValueError(f"name={name!r} has no labels beyond its classes{sources.nearest(name, choices)}")
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
