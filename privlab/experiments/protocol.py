"""An experiment: a function of one repeat that yields named numbers, and the sizes at which it can be run.

    @experiment("gradient_inversion.architectures", on=Trial.of)
    @Size("smoke", 2, "small networks, 20 steps", networks=SMALL, steps=20)
    @Size("night", 12, "the papers' networks", own=True, networks=PAPER, steps=3_000)
    def architectures(trial, networks, steps):
        for name in networks:
            yield f"psnr[cifar10, {name}]", ...

A repeat is the statistical unit: it has its own photograph, batch, split or people *and* its own weights and noise, all drawn from its
number, so that repeats are independent. What is compared is yielded by the same repeat, so it is paired.
"""

import difflib
import fnmatch
import hashlib
import importlib
import inspect
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from privlab.compute import machine, store
from privlab.data import load
from privlab.ledger.evidence import EXACT_PSNR, FIRST, Repeat, checked

Settings = Mapping[str, Any]  # plain JSON
Values = Iterator[tuple[str, Any]]  # a number, or a picture as uint8 (height, width[, 3])


def profile(name: str) -> str:
    """The name of a profile, by which a lab chooses sizes, checked.  Raises ValueError with the nearest for an unknown one."""
    return checked(name, "profile")


class Size:
    """One way to run an experiment: a decorator below `experiment`, from the cheapest down.

    name: smoke (of seconds, which proves that it runs), class, night, gpu or paper.  repeats: how many are registered and judged.
    stands_for: what a reader must know to place the numbers: "the paper's networks, 12 photographs", "small networks, 2,000 images".
    own: whether it is the paper's own setting; only then a verdict speaks about the paper.
    first: number of the first repeat; that of the size if not given.  settings: arguments of the measuring function, plain JSON.
    live: the repeat that a lab measures; at smoke 0, which the tests hold against its committed values, else a new one.
    """

    def __init__(
        self, name: str, repeats: int, stands_for: str, own: bool = False, first: int | None = None, **settings: Any
    ) -> None:
        start = FIRST[name] if first is None else first
        self.name, self.range, self.stands_for, self.own = name, range(start, start + repeats), stands_for, own
        self.settings, self.live = settings, 0 if name == "smoke" else self.range.stop

    def __call__(self, below: Any) -> tuple[Any, ...]:
        """The function with its sizes, the function last."""
        return (self, *below) if isinstance(below, tuple) else (self, below)


@dataclass(frozen=True)
class Experiment:
    """A measurement that can be repeated.

    name: its address, under which its evidence is kept, wherever the function moves.
    protocol: raised by hand when what is measured changes; a test holds a repeat at smoke, the canary, against its committed values.
    function, on: see `experiment`.  data: the sets that it reads.
    """

    name: str
    protocol: int
    function: Callable[..., Values]
    on: Callable[..., Any] | None
    sizes: Mapping[str, Size]
    data: Sequence[str]

    @property
    def takes_device(self) -> bool:
        """Whether it computes where it is told to; on the CPU otherwise."""
        return self.on is not None or "device" in inspect.signature(self.function).parameters

    def size(self, name: str) -> Size:
        """Raises ValueError for a size that this experiment does not have."""
        if name not in self.sizes:
            raise ValueError(f"size={name!r}: {self.name} can be measured at {', '.join(self.sizes)}")
        return self.sizes[name]

    def digest(self, size: str) -> str:
        """What the values of a repeat depend on, in twelve letters: name, protocol, settings, and the hashes of the data."""
        parts = [self.name, self.protocol, self.size(size).settings, {name: _hash(name) for name in self.data}]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def measure(self, repeat: int, device: str = "cpu", **settings: Any) -> Values:
        """The values of one repeat at these settings, as they are measured."""
        if self.on:
            takes = inspect.signature(self.function).parameters
            made = self.on(repeat, device=device, **{k: v for k, v in settings.items() if k not in takes})
            return self.function(made, **{k: v for k, v in settings.items() if k in takes})
        return self.function(repeat, **settings, **({"device": device} if self.takes_device else {}))

    def __call__(self, repeat: int, size: str, device: str = "cpu") -> Values:
        return self.measure(repeat, device, **self.size(size).settings)

    def measured(
        self, repeat: int, size: str, device: str = "cpu", watch: Callable[[Values], Values] = iter
    ) -> tuple[Repeat, dict[str, Tensor]]:
        """The line of one repeat, with what it is measured on now, and its pictures.

        watch: gives the values on as they come, such as a bar of progress.  Raises ValueError for a name that is yielded twice.
        """
        began, there = time.process_time(), machine.device(device)
        device = there if self.takes_device else "cpu"
        values, images = dict[str, float](), dict[str, Tensor]()
        for name, value in watch(self(repeat, size, device)):
            if name in values or name in images:
                raise ValueError(f"{self.name} yields {name!r} twice; give one of them another key")
            if name.startswith("picture["):
                images[name] = value.cpu()
            else:
                values[name] = EXACT_PSNR if name.startswith("psnr[") and value == math.inf else float(value)
        seconds = time.process_time() - began
        on = store.versions() | {"processor": machine.processor(), "threads": str(torch.get_num_threads())}
        if device.startswith("cuda"):
            on["card"] = torch.cuda.get_device_name(device)
        return Repeat(repeat, self.digest(size), values, seconds, time.time(), device, on), images


_REGISTRY: dict[str, Experiment] = {}


def experiment(
    name: str, *, on: Callable[..., Any] | None = None, protocol: int = 1, data: Sequence[str] = ("cifar10",)
) -> Callable[[tuple[Any, ...]], Experiment]:
    """Register a function with its sizes under its address, such as "gradient_inversion.architectures".

    on: makes what the function is called with, such as a Trial, of the repeat's number, the device, and those settings that the function
    does not take; if not given it is called with the number itself, and with the device where it takes one.
    """

    def register(sized: tuple[Any, ...]) -> Experiment:
        *sizes, function = sized
        _REGISTRY[name] = Experiment(name, protocol, function, on, {size.name: size for size in sizes}, data)
        return _REGISTRY[name]

    return register


def names(pattern: str = "*") -> list[str]:
    """Names of all experiments, or of those that fit a pattern, such as "gradient_inversion.*"; a lab's lie in its folder of the course."""
    for place in importlib.import_module("privlab.course").__path__:
        for file in sorted(Path(place).glob("lab_*/experiments.py")):
            importlib.import_module(f"privlab.course.{file.parent.name}.experiments")
    return fnmatch.filter(sorted(_REGISTRY), pattern)


def find(name: str) -> Experiment:
    """An experiment by its name.  Raises ValueError, with the nearest, for a name that none has."""
    if name not in _REGISTRY and name not in names():
        near = "".join(f"; did you mean {close!r}?" for close in difflib.get_close_matches(name, names(), n=1))
        raise ValueError(f"experiment={name!r} is not known{near}; `python -m privlab measure --list` names them all")
    return _REGISTRY[name]


@cache
def _hash(name: str) -> str:
    """Of a set of images, by its contents."""
    images = load(name)
    return store.digest(images.pixels, images.labels)
