"""What a search leaves behind: the best images by its own loss, its traces, some pictures of the way, and a place to go on from."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from privlab.attacks.gradient_inversion.descent import Checkpoint, State
from privlab.compute import Run
from privlab.compute.store import joined, keyed, parted

FORMAT = 3  # raise it when the same search begins to give other images; belongs into the key of a run that keeps one
_EVERY = 20.0  # seconds between two checkpoints


@dataclass(frozen=True)
class Snapshot:
    """Images on the way: after `step` steps of one restart and as many `evaluations`, and the loss they had."""

    step: int
    images: Tensor
    loss: float
    evaluations: int


@dataclass(frozen=True, repr=False)
class Result:
    """What a search found, on the CPU wherever it ran.

    images: (batch, channels, height, width) in [0, 1], those of the lowest score over all restarts.  labels: (batch,).
    score: theirs, the loss as it is weighted at the end.  restart, step: where they were found.
    reasons: why each restart ended, see `State`.
    traces: for each restart, for each state, term -> weighted loss.  snapshots: of the restart that won.
    evaluations: gradients of the network taken, over all restarts.  seconds: of the search, over all of its parts.
    derivatives: how often the direction was taken by differentiating twice, "exact", and how often as a "difference", over all restarts.
    """

    images: Tensor
    labels: Tensor
    score: float
    restart: int
    step: int
    reasons: tuple[str, ...]
    traces: tuple[tuple[dict[str, float], ...], ...]
    snapshots: tuple[Snapshot, ...]
    evaluations: int
    seconds: float
    derivatives: dict[str, int] = field(default_factory=dict)

    @property
    def trace(self) -> tuple[dict[str, float], ...]:
        """The losses of the restart that won, state by state."""
        return self.traces[self.restart]

    def __repr__(self) -> str:
        of = "" if len(self.reasons) == 1 else f", restart {self.restart + 1} of {len(self.reasons)}"
        taken = self.derivatives.get("difference", 0)
        how = f", {taken:,} of them by a difference" if taken else ""
        return (
            f"Result: score {self.score:.3g} at step {self.step}{of} (ended by {self.reasons[self.restart]}), "
            f"{self.evaluations:,} evaluations{how} in {self.seconds:.1f} s"
        )


@dataclass
class _Notes:
    """What is kept on the way, in plain numbers, and the images that go with them."""

    traces: list[list[dict[str, float]]] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    evaluations: list[int] = field(default_factory=list)
    derivatives: list[dict[str, int]] = field(default_factory=list)
    seconds: float = 0.0
    best: tuple[float, int, int] | None = None  # score, restart, step
    seen: list[tuple[int, int, float, int]] = field(default_factory=list)  # snapshots: restart, step, loss, evaluations
    images: dict[str, Tensor] = field(default_factory=dict)

    def add(self, state: State, shots: set[int]) -> None:
        if state.restart == len(self.traces):
            self.traces.append([])
            self.reasons.append("")
            self.evaluations.append(0)
            self.derivatives.append({})
        self.traces[-1].append(state.losses)
        self.reasons[-1], self.evaluations[-1] = state.reason, state.evaluations
        self.derivatives[-1:] = [state.derivatives]  # a search kept by an earlier version has none
        finite = state.reason != "not finite"
        if finite and math.isfinite(state.score) and (self.best is None or state.score < self.best[0]):
            self.best = (state.score, state.restart, state.step)
            self.images |= {"best": state.images.cpu(), "labels": state.labels.cpu()}
        if finite and (state.step in shots or state.reason):
            self.images[f"snapshot{len(self.seen)}"] = state.images.cpu()
            self.seen.append((state.restart, state.step, state.loss, state.evaluations))

    def pack(self) -> Checkpoint:
        numbers = {
            n: getattr(self, n) for n in ("traces", "reasons", "evaluations", "derivatives", "seconds", "best", "seen")
        }
        return {**self.images, "notes": torch.frombuffer(bytearray(json.dumps(numbers).encode()), dtype=torch.uint8)}

    @classmethod
    def unpack(cls, checkpoint: Checkpoint) -> _Notes:
        numbers = json.loads(checkpoint["notes"].numpy().tobytes())
        return cls(**numbers, images={n: t for n, t in checkpoint.items() if n != "notes"})

    def result(self) -> Result:
        if self.best is None:
            raise ValueError(
                f"the search never had a finite loss (ended by {', '.join(self.reasons)}): look for zeros, NaN or overflow "
                "in the leak, or try a smaller lr"
            )
        score, restart, step = self.best
        shots = tuple(
            Snapshot(at, self.images[f"snapshot{i}"], value, evaluations)
            for i, (r, at, value, evaluations) in enumerate(self.seen)
            if r == restart
        )
        derivatives = dict(
            sum(map(Counter, self.derivatives), Counter())
        )  # over restarts; without those that never were
        traces = tuple(tuple(trace) for trace in self.traces)
        return Result(
            self.images["best"], self.images["labels"], score, restart, step, tuple(self.reasons), traces, shots,
            sum(self.evaluations), self.seconds, derivatives,
        )  # fmt: skip


def record(
    search: Callable[[Checkpoint | None], Iterator[State]],
    steps: int,
    restarts: int,
    snapshots: int | Sequence[int],
    store: Run | None,
    budget: float | None,
    progress: bool,
) -> Result:
    """Follow a search to its end.  See `matching.GradientMatching.run` for the arguments; `search` takes a checkpoint to go on from."""
    if budget is not None and store is None:
        raise ValueError(
            f"budget={budget} without a store would throw the search away; give store=Run(...), or no budget"
        )
    if store is not None and store.complete:
        return kept(store)
    shots = _steps(snapshots, steps)
    notes, resume = _Notes(), None
    if store is not None and "checkpoint" in store.names():
        last = parted(store.load("checkpoint"))
        resume, notes = last["search"], _Notes.unpack(last["kept"])
    done = sum(map(len, notes.traces))
    with tqdm(total=restarts * (steps + 1), initial=done, disable=not progress, desc="search", leave=False) as bar:
        began = saved = clock = time.perf_counter()
        for part, state in enumerate(search(resume)):
            now = time.perf_counter()
            notes.seconds += now - clock
            over = budget is not None and now - began > budget and part > 0  # a part goes one step at least
            if store is not None and (over or now - saved > _EVERY):
                store.save("checkpoint", joined({"search": state.checkpoint(), "kept": notes.pack()}))
                saved = time.perf_counter()
            if over:
                raise TimeoutError(
                    f"the {budget:.3g} seconds are over at step {state.step} of {steps} (restart {state.restart + 1} of {restarts}); "
                    "the search is kept: call it again to go on"
                )
            notes.add(state, shots)
            bar.set_postfix_str(f"loss {state.loss:.3g}", refresh=False)
            bar.update()
            clock = time.perf_counter()
    result = notes.result()
    if store is not None:
        store.save("result", notes.pack())
        store.save("checkpoint", {})  # of no more use
        store.finish()
    return result


def kept(store: Run) -> Result:
    """What a complete run of the store found.  Raises FileNotFoundError for one that is not complete."""
    return _Notes.unpack(store.load("result")).result()


def kept_run(attack: object, seed: int, device: str, **about: Any) -> Run:
    """Where a search is kept in the run store, under a name made of all that it depends on.

    attack: known by its repr.  about: which victim, photographs and leak, as `compute.store.key` takes settings.
    Raises ValueError for an attack with a function that has no name, since others without one would have the same run.
    """
    known = repr(attack)
    if "<lambda>" in known or " at 0x" in known:
        raise ValueError(
            f"attack={known}: a lambda or a partial has no name to keep a search by; write a function with def"
        )
    return keyed("gradient_inversion", dict(attack=known, seed=seed, **about), format=FORMAT, device=device)


def _steps(snapshots: int | Sequence[int], steps: int) -> set[int]:
    if isinstance(snapshots, int):
        if snapshots < 0:
            raise ValueError(f"snapshots={snapshots} is no number of pictures; give 0 or more, or the steps themselves")
        return {round(i * steps / max(snapshots, 1)) for i in range(snapshots + 1)} if snapshots else set()
    if outside := [s for s in snapshots if not 0 <= s <= steps]:
        raise ValueError(f"snapshots holds step {outside[0]}, and the search has the steps 0 to {steps}")
    return set(snapshots)
