"""Where a search stands, and what it leaves behind: the best images by its own loss, its losses on the way, a place to go on from."""

from __future__ import annotations

import io
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from privlab.compute import Run
from privlab.compute.store import keyed
from privlab.leak import Leak

FORMAT = 5  # raise it when the same search begins to give other images; belongs into the key of a run that keeps one
EVERY = 20.0  # seconds between two checkpoints


Checkpoint = dict[str, Any]  # tensors, numbers, and dicts and lists of them


class Space(Protocol):
    """What a search looks in, such as one of `search_spaces`: makes normalised images of a latent, and of images the nearest latent."""

    def begin(self, images: Tensor) -> Tensor: ...
    def images(self, latent: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class State:
    """Where a search stands. All in it belongs to one moment, and of seeds that are searched for together to the one that stands best.

    restart, step: counted from 0.  evaluations: gradients of the network taken so far in this restart.
    images: (batch, channels, height, width), clamped to [0, 1].  labels: (batch,), given, recovered or searched for.
    losses: term -> its value as it is weighted now.
    score: the loss as it is weighted at the end, by which states and restarts are compared; NaN until all of those terms count.
    reason: why the restart ends here, such as "steps" (all are done) or "not finite"; empty while it goes on.
    checkpoint: what `search` can go on from; it changes with the next step, so save it before.
    derivatives: how often each was taken so far in this restart, "exact" and "difference".
    """

    restart: int
    step: int
    evaluations: int
    images: Tensor
    labels: Tensor
    losses: dict[str, float]
    score: float
    reason: str
    checkpoint: Checkpoint = field(repr=False, compare=False)
    derivatives: dict[str, int]

    @property
    def loss(self) -> float:
        """What the search minimises now: the sum of its terms."""
        return sum(self.losses.values())


class Snapshot(NamedTuple):
    """Images on the way: after `step` steps of one restart and as many `evaluations`, and the loss they had."""

    step: int
    images: Tensor
    loss: float
    evaluations: int


@dataclass(repr=False)
class Result:
    """What a search found, on the CPU wherever it ran.

    images: (batch, channels, height, width) in [0, 1], those of the lowest score over all restarts.  labels: (batch,).
    score, restart, step: theirs, see `State`.  seconds: of the search, over all of its parts.  shots: (restart, snapshot).
    reasons, traces, counts: for each restart why it ended; the losses of each state; its "evaluations", and which derivatives it took.
    """

    images: Tensor = field(default_factory=lambda: torch.empty(0))
    labels: Tensor = field(default_factory=lambda: torch.empty(0))
    score: float = math.inf
    restart: int = 0
    step: int = 0
    seconds: float = 0.0
    reasons: list[str] = field(default_factory=list)
    traces: list[list[dict[str, float]]] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    shots: list[tuple[int, tuple]] = field(default_factory=list)

    @property
    def trace(self) -> list[dict[str, float]]:
        """The losses of the restart that won, state by state."""
        return self.traces[self.restart]

    @property
    def snapshots(self) -> list[Snapshot]:
        """Pictures of the restart that won."""
        return [Snapshot(*shot) for restart, shot in self.shots if restart == self.restart]

    @property
    def evaluations(self) -> int:
        """Gradients of the network taken, over all restarts."""
        return sum(count["evaluations"] for count in self.counts)

    @property
    def derivatives(self) -> dict[str, int]:
        """How often each was taken, "exact" and "difference", over all restarts."""
        total = sum(map(Counter, self.counts), Counter())
        del total["evaluations"]
        return dict(total)

    def add(self, state: State, snapshots: Sequence[int]) -> None:
        """Take note of a state, and keep its images where its step is one of `snapshots`."""
        if state.restart == len(self.traces):
            self.traces.append([])
            self.reasons.append("")
            self.counts.append({})
        self.traces[-1].append(state.losses)
        self.reasons[-1] = state.reason
        self.counts[-1] = {"evaluations": state.evaluations, **state.derivatives}
        if state.reason == "not finite":
            return
        if state.score < self.score:
            self.images, self.labels = state.images.cpu(), state.labels.cpu()
            self.score, self.restart, self.step = state.score, state.restart, state.step
        if state.step in snapshots or state.reason:
            self.shots.append((state.restart, (state.step, state.images.cpu(), state.loss, state.evaluations)))

    def __repr__(self) -> str:
        of = "" if len(self.reasons) == 1 else f", restart {self.restart + 1} of {len(self.reasons)}"
        taken = self.derivatives.get("difference", 0)
        how = f", {taken:,} of them by a difference" if taken else ""
        return (
            f"Result: score {self.score:.3g} at step {self.step}{of} (ended by {self.reasons[self.restart]}), "
            f"{self.evaluations:,} evaluations{how} in {self.seconds:.1f} s"
        )


class Search:
    """What yields states, run to its end."""

    steps: int
    search: Callable[..., Iterator[State]]

    def run(
        self, model: nn.Module, leak: Leak, seed: int = 0, restarts: int = 1, snapshots: int | Sequence[int] = 10,
        store: Run | None = None, progress: bool = True, **how: Any,
    ) -> Result:  # fmt: skip
        """Search to the end and keep the best images by the search's own score.

        snapshots: how many states to keep, evenly spread over the steps, or which steps to keep.
        store: a run of the store; the search is kept there every 20 seconds, and called again it goes on from there.
        progress: show a bar.  The others: see `search`.  Raises ValueError where no state had a finite loss.
        """
        if store is not None and store.complete:
            return Result(**_read(store, "result"))
        if isinstance(snapshots, int):
            snapshots = [round(i * self.steps / snapshots) for i in range(snapshots + 1)] if snapshots else []
        result, resume = Result(), None
        if store is not None and "checkpoint" in store.names():
            last = _read(store, "checkpoint")
            result, resume = Result(**last["result"]), last["search"]
        states = self.search(model, leak, seed, restarts, resume=resume, **how)
        done, total = sum(map(len, result.traces)), restarts * (self.steps + 1)
        saved = clock = time.perf_counter()
        bar = tqdm(states, "search", total, leave=False, initial=done, disable=not progress)
        for state in bar:
            now = time.perf_counter()
            result.seconds += now - clock
            if store is not None and now - saved > EVERY:
                _write(store, "checkpoint", {"search": state.checkpoint, "result": vars(result)})
                saved = time.perf_counter()
            result.add(state, snapshots)
            bar.set_postfix_str(f"loss {state.loss:.3g}", refresh=False)
            clock = time.perf_counter()
        if not math.isfinite(result.score):
            ends = ", ".join(result.reasons)
            raise ValueError(
                f"the search never had a finite loss (ended by {ends}): look for zeros, NaN or overflow in the leak, or try a smaller lr"
            )
        if store is not None:
            _write(store, "result", vars(result))
            _write(store, "checkpoint", {})  # of no more use
            store.finish()
        return result


def kept_run(attack: object, seed: int, device: str, **about: Any) -> Run:
    """Where a search is kept in the run store, under a name made of all that it depends on.

    attack: known by its repr.  about: which victim, photographs and leak, as `compute.store.key` takes settings.
    Raises ValueError for an attack with a function that has no name, since others without one would have the same run.
    """
    known = repr(attack)
    if "<lambda>" in known or " at 0x" in known:
        raise ValueError(f"attack={known}: a lambda or a partial has no name to keep it by; write a function with def")
    return keyed("gradient_inversion", dict(attack=known, seed=seed, **about), format=FORMAT, device=device)


def _write(store: Run, name: str, content: dict[str, Any]) -> None:
    file = io.BytesIO()
    torch.save(content, file)
    store.save(name, {"file": torch.frombuffer(file.getbuffer(), dtype=torch.uint8)})


def _read(store: Run, name: str) -> dict[str, Any]:
    return torch.load(io.BytesIO(store.load(name)["file"].numpy().tobytes()), weights_only=True, map_location="cpu")
