"""What a lab shows: the committed evidence of an experiment, and beside it the reader's own dots, measured live."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm.auto import tqdm

from privlab.experiments import pictures
from privlab.experiments.protocol import find
from privlab.ledger import evidence

__all__ = ["Evidence", "load", "run"]


@dataclass(frozen=True)
class Evidence:
    """Values of an experiment, repeat by repeat.

    size: at which it was measured.  repeats: their numbers.  table: name -> (repeats,) float64.
    complete: whether all registered repeats are here.
    stands_for, own: what the size stands for, and whether it is the paper's own setting.  seconds: what all repeats took.
    """

    experiment: str
    size: str
    repeats: tuple[int, ...]
    table: Mapping[str, np.ndarray]
    complete: bool
    stands_for: str
    own: bool
    seconds: float
    images: Mapping[tuple[int, str], np.ndarray]

    def __len__(self) -> int:
        return len(self.repeats)

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of one name, (repeats,).  Raises KeyError that lists what there is."""
        if name not in self.table:
            raise KeyError(f"{name} is not measured by {self.experiment}; it has {', '.join(self.table)}")
        return self.table[name]

    def mean(self, name: str) -> float:
        return float(self[name].mean())

    def picture(self, name: str, repeat: int | None = None) -> np.ndarray:
        """A picture that the experiment keeps, uint8 (height, width[, 3]): of the first repeat if not given."""
        number = self.repeats[0] if repeat is None else repeat
        image = self.images.get((number, name))
        image = pictures.load(self.experiment, self.size, number, name) if image is None else image
        if image is None:
            raise KeyError(
                f"there is no picture {name} of repeat {number}; those of the first {pictures.SHOWN} repeats are kept"
            )
        return image

    def __repr__(self) -> str:
        state = "" if self.complete else ", more to come"
        return f"{self.experiment} at {self.size}: {len(self)} repeats of {len(self.table)} names ({self.stands_for}{state})"


def load(name: str, size: str | None = None, root: Path | None = None) -> Evidence:
    """The committed evidence of an experiment.

    size: which one; if not given, the highest whose registered repeats are complete, else the highest of which there is any.
    Raises ValueError for an unknown experiment or size, FileNotFoundError where nothing is measured.
    """
    experiment = find(name)
    found: list[Evidence] = []
    for chosen in [size] if size else [s for s in reversed([*experiment.sizes]) if s != "smoke"]:
        plan, first = experiment.size(chosen), experiment.first(chosen)
        rows = evidence.read(name, chosen, experiment.digest(chosen), root).of(first, plan.repeats)
        common = set.intersection(*(set(row.values) for row in rows)) if rows else set()
        table = {n: np.array([row.values[n] for row in rows]) for row in rows[:1] for n in row.values if n in common}
        numbers, seconds = tuple(row.repeat for row in rows), math.fsum(row.seconds for row in rows)
        complete = len(rows) == plan.repeats
        if rows:
            found.append(Evidence(name, chosen, numbers, table, complete, plan.stands_for, plan.own, seconds, {}))
    if not found:
        raise FileNotFoundError(
            f"nothing is measured of {name} yet; try `python -m privlab measure {name} --size class`"
        )
    return next((each for each in found if each.complete), found[0])


def run(
    name: str, size: str, *, repeats: Sequence[int] | int = 1, device: str = "cpu", progress: bool = True
) -> Evidence:
    """Measure live, in this process; nothing is written. These dots are the reader's own and no verdict's.

    repeats: their numbers, or how many; a number of them begins where the committed ones of the size end.
    """
    experiment = find(name)
    plan, first = experiment.size(size), experiment.first(size)
    numbers = [*range(first + plan.repeats, first + plan.repeats + repeats)] if isinstance(repeats, int) else [*repeats]
    rows, images, began = [], {}, time.perf_counter()
    for number in tqdm(numbers, name, unit="repeat", disable=not progress, leave=False):
        values = {}
        for key, value in experiment(number, size, device):
            if isinstance(value, torch.Tensor) and value.dtype == torch.uint8 and value.ndim > 1:
                images[number, key] = value.cpu().numpy()
            else:
                values[key] = float(value)
        rows.append(values)
    table = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    seconds = time.perf_counter() - began
    return Evidence(name, size, tuple(numbers), table, True, plan.stands_for, plan.own, seconds, images)
