"""What a lab measured: one record a name, one value a repeat, with everything that a reader needs to place the number."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from privlab.compute import reading
from privlab.compute.machine import Machine
from privlab.ledger import figures
from privlab.ledger.evidence import EXACT_PSNR, SIZES, checked
from privlab.ledger.figures import IN_LOGS, Figure

__all__ = ["IN_LOGS", "MIME", "Figure", "Machine", "Record", "record"]

MIME = "application/vnd.privlab.record+json"
LARGEST = 1e150  # in size, of a value: its square is a number still

_WORD = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Record:
    """One measured quantity.  Made by `record`, which says what the fields are."""

    metric: str
    keys: tuple[str, ...]
    values: tuple[float, ...]
    lab: str
    profile: str
    seed: int
    device: str
    mode: str
    victim: str
    position_std: float | None
    unit: str | None
    seconds: float | None
    note: str
    exact: int
    machine: Machine

    @property
    def name(self) -> str:
        """What a claim's comparison calls it: metric[key, ...]."""
        return f"{self.metric}[{', '.join(self.keys)}]"

    @property
    def logs(self) -> bool:
        """Whether its repeats are averaged in logs."""
        return self.metric in IN_LOGS

    @property
    def scaled(self) -> list[float]:
        """The repeats on the scale on which they are averaged: as they are, or their natural logs."""
        return figures.scaled(self.name, self.values)

    @property
    def figure(self) -> Figure:
        """Centre and spread of the repeats."""
        return Figure.of(self.name, self.values)

    def __str__(self) -> str:
        position = "" if self.position_std is None else f", position std {self.position_std:g}"
        unit = "" if self.unit is None else f", in {self.unit}"
        return f"{self.figure}{unit}; {self.mode} mode, victim {self.victim}{position}"

    def bundle(self) -> dict[str, Any]:
        """The record for a notebook's output: our own type beside a line of text."""
        return {MIME: asdict(self), "text/plain": f"recorded {self}"}

    @classmethod
    def read(cls, content: Any) -> Record:
        """The record behind a bundle's content.  Raises ValueError where it was written by another version of the format."""
        try:
            made = reading.typed(cls, content, "it")
            made.check()
        except ValueError as error:
            raise ValueError(
                f"a record in the notebook does not fit this privlab ({error}); run the lab again"
            ) from None
        return made

    def check(self) -> None:
        """Raises ValueError for what `record` would not have made: no repeats, or numbers without a mean and a spread."""
        if self.profile not in SIZES:
            raise ValueError(f"{self.name} has the profile {self.profile!r}, not one of {', '.join(SIZES)}")
        if not self.values:
            raise ValueError(f"{self.name} has no values")
        if (largest := max(map(abs, self.values))) > LARGEST:
            raise ValueError(f"{self.name} has the value {largest:g}, too large for a spread")


def record(
    metric: str,
    keys: Sequence[str],
    values: float | Sequence[float] | Tensor,
    *,
    lab: str,
    profile: str,
    seed: int,
    device: str,
    mode: str,
    victim: str,
    position_std: float | None = None,
    unit: str | None = None,
    seconds: float | None = None,
    note: str = "",
    machine: Machine | None = None,
) -> Record:
    """Check what was measured and put it on record.

    metric, keys: the name, in snake case; at least one key.  values: one number a repeat (an image, a seed); a PSNR of inf
    is an exact image, stored as 320 dB and counted.  mode: the victim's, "eval" or "train".
    victim: its state, such as "fresh", "trained 5 epochs" or "none".  position_std: standard deviation of its position
    embedding, where it has one.  unit: of an MSE "pixels" (of images in [0, 1]) or "normalised", and owed there; free otherwise.
    seconds: what measuring took.
    Raises ValueError for a name out of form, no values, more than one dimension, NaN or another infinity.
    """
    if isinstance(keys, str) or not keys:
        raise ValueError(f"keys={keys!r}; give a list with at least one name, such as ['closed_form', 'one_image']")
    for argument, word in [("metric", metric), *(("keys", k) for k in keys)]:
        if not isinstance(word, str) or not _WORD.fullmatch(word) or keyword.iskeyword(word):
            raise ValueError(f"{argument}: {word!r} is no snake-case name; try one like 'vit_b_16' or 'relative_0p1'")
    name = f"{metric}[{', '.join(keys)}]"
    checked(profile, "profile")
    if mode not in ("eval", "train"):
        raise ValueError(f"mode={mode!r} of {name}; the victim was in 'eval' or in 'train' mode")
    if not victim:
        raise ValueError(f"victim={victim!r} of {name}; say its state, such as 'fresh', 'trained 5 epochs' or 'none'")
    if "mse" in metric.split("_") and unit not in ("pixels", "normalised"):
        raise ValueError(f"unit={unit!r} of {name}; an MSE is of 'pixels' in [0, 1] or of 'normalised' images")
    numbers, exact = _numbers(metric, name, values)
    return Record(
        metric, tuple(keys), numbers, lab, profile, int(seed), str(device), mode, victim,
        None if position_std is None else float(position_std), unit, None if seconds is None else float(seconds),
        note, exact, machine or Machine.here(device),
    )  # fmt: skip


def _numbers(metric: str, name: str, values: float | Sequence[float] | Tensor) -> tuple[tuple[float, ...], int]:
    """The repeats as plain numbers, and how many of them are exact."""
    try:
        tensor = torch.as_tensor(values, dtype=torch.float64).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"values={values!r} of {name}; give a number, a list of numbers or a tensor") from None
    if tensor.ndim > 1 or tensor.numel() == 0:
        raise ValueError(f"values of {name} have the shape {tuple(tensor.shape)}; give one number a repeat")
    numbers = tensor.reshape(-1).tolist()
    for repeat, value in enumerate(numbers):
        if math.isnan(value) or (math.isinf(value) and not (metric == "psnr" and value > 0)):
            raise ValueError(f"values of {name}: repeat {repeat} is {value}; find out why before it goes on record")
        if LARGEST < abs(value) < math.inf:
            raise ValueError(f"values of {name}: repeat {repeat} is {value:g}, too large for a spread; find out why")
        if metric in IN_LOGS and value < 0:
            raise ValueError(f"values of {name}: repeat {repeat} is {value:g}; an error cannot be negative")
    exact = sum(math.isinf(v) if metric == "psnr" else metric in IN_LOGS and v == 0 for v in numbers)
    return tuple(EXACT_PSNR if math.isinf(v) else v for v in numbers), exact
