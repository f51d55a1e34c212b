"""An experiment: a function of one repeat that yields named numbers, and the sizes at which it can be run.

@experiment(
    "gradient_inversion.architectures",
    data=("cifar10",),
    smoke=Size(2, "small networks, 20 steps", networks=SMALL, steps=20),
    night=Size(12, "the papers' networks", own=True, networks=PAPER, steps=3_000),
)
def architectures(repeat, networks, steps, device):
    image = photograph(repeat)
    for name in networks:
        yield f"psnr[cifar10, {name}]", ...

larger_networks = architectures.like(  # the same function under another address
    "gradient_inversion.larger_networks",
    smoke=Size(2, "small networks in their place, 20 steps", networks=SMALL, steps=20),
    night=Size(6, "ResNet-101 and Swin-S", own=True, networks=LARGER, steps=3_000),
)

A repeat is the statistical unit: it has its own photograph, batch, split or people *and* its own weights and noise, all drawn from its
number, so that repeats are independent. What is compared is yielded by the same repeat, so it is paired.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import importlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from privlab import data
from privlab.compute import store
from privlab.ledger.evidence import EXACT_PSNR, FIRST, SIZES, checked

__all__ = ["Experiment", "Size", "experiment", "find", "names", "profile"]

Values = Iterator[tuple[str, Any]]  # a number, or a picture as uint8 (height, width[, 3])


def profile(name: str) -> str:
    """The name of a profile, by which a lab chooses sizes, checked.  Raises ValueError with the nearest for an unknown one."""
    return checked(name, "profile")


@dataclass(init=False)
class Size:
    """One way to run an experiment.

    repeats: how many are registered and judged, all of them and no others.
    stands_for: what a reader must know to place the numbers: "the paper's networks, 12 photographs", "small networks, 2,000 images".
    own: whether it is the paper's own setting; only then a verdict speaks about the paper.
    first: number of the first repeat; that of the size if not given.  more: arguments of the measuring function, plain JSON.
    """

    repeats: int
    stands_for: str
    own: bool
    settings: Mapping[str, Any]
    first: int | None

    def __init__(
        self,
        repeats: int,
        stands_for: str,
        own: bool = False,
        settings: Mapping[str, Any] = {},
        first: int | None = None,
        **more: Any,
    ) -> None:
        self.repeats, self.stands_for, self.own, self.first = repeats, stands_for, own, first
        self.settings = {**settings, **more}


@dataclass(frozen=True)
class Experiment:
    """A measurement that can be repeated.

    name: its address, such as "gradient_inversion.architectures", under which its evidence is kept, wherever the function moves.
    protocol: a number that is raised by hand when what is measured changes; a canary (a repeat at smoke, held against its committed values
    by the tests) fails where behaviour moved and nobody raised it.
    measure: called with a repeat's number, the settings of a size, and the device where it takes one.
    data: names of the sets that it reads; their hashes are part of the digest.
    """

    name: str
    protocol: int
    measure: Callable[..., Values]
    sizes: Mapping[str, Size]
    data: tuple[str, ...] = ()

    @property
    def takes_device(self) -> bool:
        """Whether it computes where it is told to; on the CPU otherwise."""
        return "device" in inspect.signature(self.measure).parameters

    def size(self, name: str) -> Size:
        """Raises ValueError for a size that this experiment does not have."""
        if name not in self.sizes:
            raise ValueError(f"size={name!r}: {self.name} can be measured at {', '.join(self.sizes)}")
        return self.sizes[name]

    def nearest(self, size: str) -> str:
        """This size, or the largest below it that the experiment has.  Raises ValueError for what is no size."""
        return [name for name in SIZES[: SIZES.index(checked(size)) + 1] if name in self.sizes][-1]

    def first(self, size: str) -> int:
        """Number of the first repeat at this size."""
        first = self.size(size).first
        return FIRST[size] if first is None else first

    def range(self, size: str) -> range:
        """Numbers of the repeats at this size."""
        return range(self.first(size), self.first(size) + self.size(size).repeats)

    def digest(self, size: str) -> str:
        """What the values of a repeat depend on, in twelve letters: name, protocol, settings, and the hashes of the data."""
        parts = [self.name, self.protocol, self.size(size).settings, {name: _hash(name) for name in self.data}]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def like(
        self,
        name: str,
        *,
        protocol: int = 1,
        data: Sequence[str] | None = None,
        given: Mapping[str, Any] = {},
        **sizes: Size,
    ) -> Experiment:
        """The same function under another address, at other sizes.

        data: those of this one if not given.  given: arguments that are the same at all sizes, and no part of a digest.
        """
        register = experiment(name, protocol=protocol, data=self.data if data is None else data, **sizes)
        return register(partial(self.measure, **given))

    def __call__(self, repeat: int, size: str, device: str = "cpu") -> Values:
        """The values of one repeat, as they are measured."""
        more = {"device": device} if self.takes_device else {}
        return self.measure(repeat, **self.size(size).settings, **more)

    def collected(
        self, repeat: int, size: str, device: str = "cpu", watch: Callable[[Values], Values] = lambda values: values
    ) -> tuple[dict[str, float], dict[str, Tensor]]:
        """The numbers and the pictures of one repeat. The infinite PSNR of an exact image is EXACT_PSNR, as in the ledger.

        watch: is handed the values as they come and gives them on, such as a bar of progress.
        Raises ValueError for a name that is yielded twice.
        """
        values, images = dict[str, float](), dict[str, Tensor]()
        for name, value in watch(self(repeat, size, device)):
            if name in values or name in images:
                raise ValueError(f"{self.name} yields {name!r} twice; give one of them another key")
            if isinstance(value, Tensor) and value.dtype == torch.uint8 and value.ndim > 1:
                images[name] = value.cpu()
            else:
                number = float(value)
                values[name] = EXACT_PSNR if name.startswith("psnr[") and number == math.inf else number
        return values, images


_REGISTRY: dict[str, Experiment] = {}


def experiment(
    name: str, *, protocol: int = 1, data: Sequence[str] = (), **sizes: Size
) -> Callable[[Callable[..., Values]], Experiment]:
    """Register the decorated function under its address, such as "gradient_inversion.architectures".

    sizes: smoke, class_, night, gpu, paper (class_, since class is Python's own word).
    Raises ValueError for a size that does not exist, settings that the function does not take, and no smoke.
    """
    named = {name.rstrip("_"): size for name, size in sizes.items()}
    if unknown := [name for name in named if name not in SIZES]:
        raise ValueError(f"{unknown[0]!r} is no size; give some of {', '.join(SIZES)}")

    def register(measure: Callable[..., Values]) -> Experiment:
        if "smoke" not in named:
            raise ValueError(f"{name} has no smoke; a size of seconds proves that it runs")
        for size, plan in named.items():
            try:
                inspect.signature(measure).bind_partial(0, **plan.settings)
            except TypeError as error:
                takes = ", ".join([*inspect.signature(measure).parameters][1:])
                raise ValueError(f"{name} at {size}: settings: {error}; it takes {takes}") from None
            json.dumps(plan.settings)
            if plan.repeats < 1:
                raise ValueError(f"{name} at {size}: repeats={plan.repeats}; give 1 or more")
        ordered = {size: named[size] for size in SIZES if size in named}
        _REGISTRY[name] = Experiment(name, protocol, measure, ordered, tuple(data))
        return _REGISTRY[name]

    return register


def names(pattern: str = "*") -> list[str]:
    """Names of the experiments that fit a pattern with wildcards, such as "gradient_inversion.*"; all of them if not given.

    A lab's lie with it, in the files privlab/course/lab_NN/experiments*.py.
    """
    for place in importlib.import_module("privlab.course").__path__:
        for file in sorted(Path(place).glob("lab_*/experiments*.py")):
            importlib.import_module(f"privlab.course.{file.parent.name}.{file.stem}")
    return [name for name in sorted(_REGISTRY) if fnmatch.fnmatchcase(name, pattern)]


def find(name: str) -> Experiment:
    """An experiment by its name.  Raises ValueError, with the nearest, for a name that none has."""
    if name not in _REGISTRY:
        choices = names()
        if name not in choices:
            near = difflib.get_close_matches(name, choices, n=1)
            raise ValueError(
                f"experiment={name!r} is not known{f'; did you mean {near[0]!r}?' if near else ''}; "
                "`python -m privlab measure --list` names them all"
            )
    return _REGISTRY[name]


@cache
def _hash(name: str) -> str:
    """Of a set of images, by its contents; two splits where it has two."""
    images = data.load(name)
    return store.digest(images.pixels, images.labels)
