"""What a lab shows: the committed evidence of an experiment, and beside it the reader's own dots, measured live."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm.auto import tqdm

from privlab.experiments.measuring import measure, png
from privlab.experiments.protocol import Experiment, find
from privlab.ledger import evidence


@dataclass(frozen=True, repr=False)
class Evidence:
    """Values of an experiment, repeat by repeat; NaN for a statistic of too few.

    size: at which it was measured.  repeats: their numbers.  table: name -> (repeats,) float64.
    complete: whether all registered repeats are here.  stands_for, own: of the size.  images: name -> a live picture.
    """

    experiment: str
    size: str
    repeats: tuple[int, ...]
    table: Mapping[str, np.ndarray]
    complete: bool
    stands_for: str
    own: bool
    images: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.repeats)

    def __contains__(self, name: str) -> bool:
        return all(each in self.table for each in name.split(" - "))

    def __getitem__(self, name: str) -> np.ndarray:
        """The values of one name, or of a difference such as "psnr[a] - psnr[b]", repeat by repeat: (repeats,).

        Raises KeyError that lists what there is.
        """
        if name not in self:
            raise KeyError(f"{name} is not measured by {self.experiment}; it has {', '.join(self.table)}")
        first, *others = (self.table[each] for each in name.split(" - "))
        return first - sum(others)

    def mean(self, name: str) -> float:
        """Of all repeats."""
        return float(self[name].mean()) if len(self) else math.nan

    def spread(self, name: str) -> float:
        """Standard deviation of the repeats (n - 1 below the root)."""
        return float(self[name].std(ddof=1)) if len(self) > 1 else math.nan

    def above(self, name: str, bar: float) -> float:
        """How many repeats are above a bar."""
        return int((self[name] > bar).sum()) if len(self) else math.nan

    def picture(self, name: str, repeat: int | None = None) -> np.ndarray:
        """A picture that the experiment keeps, uint8 (height, width[, 3]), of the first repeat if not given.

        Raises KeyError where there is none.
        """
        if name in self.images:
            return self.images[name]
        number = next(iter(self.repeats), 0) if repeat is None else repeat
        file = png(self.experiment, self.size, number, name)
        if not file.exists():
            raise KeyError(f"there is no picture {name} of repeat {number}: {self!r}")
        return np.array(Image.open(file))

    def __repr__(self) -> str:
        if not len(self):
            return f"{self.experiment}: nothing is measured yet (python -m privlab measure {self.experiment} --size {self.size})"
        state = "" if self.complete else ", more to come"
        return f"{self.experiment} at {self.size}: {len(self)} repeats of {len(self.table)} names ({self.stands_for}{state})"


def load(name: str, size: str | None = None) -> Evidence:
    """The committed evidence of an experiment; empty where nothing is measured yet.

    size: which one; if not given, the highest whose registered repeats are complete, else the highest of which there is any.
    Raises ValueError for an unknown experiment or size.
    """
    experiment = find(name)
    sizes = [size] if size else [s for s in reversed([*experiment.sizes]) if s != "smoke"] or ["smoke"]
    there = [_loaded(experiment, each) for each in sizes]
    return next((e for e in there if e.complete), next((e for e in there if len(e)), there[-1]))


def _loaded(experiment: Experiment, size: str) -> Evidence:
    """What there is at one size: of the registered repeats, those names that all of them have."""
    plan = experiment.size(size)
    rows = [row for row in evidence.read(experiment.name, size, experiment.digest(size)) if row.repeat in plan.range]
    names = [name for name in (rows[0].values if rows else ()) if all(name in row.values for row in rows)]
    table = {name: np.array([row.values[name] for row in rows]) for name in names}
    numbers = tuple(row.repeat for row in rows)
    return Evidence(experiment.name, size, numbers, table, len(rows) == len(plan.range), plan.stands_for, plan.own)


def run(name: str, size: str, *, device: str = "cpu") -> Evidence:
    """What a lab does live: the reader's own dots, which are no verdict's.

    size: smoke or class: one repeat, see `Size.live`, in this process, and no evidence is written. night, gpu, paper: measures what is
    registered and missing (hours; interrupted, it goes on from there when it is run again), and loads it. Where the experiment does not
    have this size, the largest below it.  device: "cpu", "cuda", or "auto".  Raises ValueError for an unknown experiment, size or device.
    """
    experiment = find(name)
    no_larger = evidence.SIZES[: evidence.SIZES.index(evidence.checked(size)) + 1]
    size = next((each for each in reversed(no_larger) if each in experiment.sizes), size)
    if size not in ("smoke", "class"):
        measure([name], size, device=device)
        return load(name, size)
    plan, total = experiment.size(size), len(_loaded(experiment, size).table) or None
    bar = partial(tqdm, desc=name, total=total, unit="number", leave=False)
    row, images = experiment.measured(plan.live, size, device, bar)
    if live := os.environ.get("PRIVLAB_LIVE"):  # the runner's, which compares what moved
        evidence.append(name, size, row, Path(live))
    table = {key: np.array([value]) for key, value in row.values.items()}
    shown = {key: image.numpy() for key, image in images.items()}
    return Evidence(name, size, (row.repeat,), table, True, plan.stands_for, plan.own, shown)
