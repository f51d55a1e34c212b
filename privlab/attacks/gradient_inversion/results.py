"""Where a search stands, and what it leaves behind: the best images by its own loss, its losses on the way, a place to go on from."""

import inspect
import io
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from privlab.compute import Run
from privlab.compute.store import environment
from privlab.leak import Leak

FORMAT = 7  # raise it when the same search begins to give other images; belongs into the key of a run that keeps one
EVERY = 20.0  # seconds between two checkpoints
Checkpoint = dict[str, Any]  # tensors, numbers, and dicts and lists of them


class Space(Protocol):
    """What a search looks in, such as one of `search_spaces`: makes normalised images of a latent, and of images the nearest latent."""

    def begin(self, images: Tensor) -> Tensor: ...
    def images(self, latent: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class State:
    """Where a search stands. All in it belongs to one moment, and of seeds that are searched for together to the one that stands best.

    restart, step: counted from 0.  evaluations: gradients of the network taken so far in this restart, `differences` of them in half a
        step, see `derivatives`.
    images: (batch, channels, height, width), clamped to [0, 1].  labels: (batch,), given, recovered or searched for.
    losses: term -> its value as it is weighted now.
    score: the loss as it is weighted at the end, by which states and restarts are compared; NaN until all of those terms count.
    reason: why the restart ends here, such as "steps" (all are done) or "not finite"; empty while it goes on.
    checkpoint: what `search` can go on from; it changes with the next step, so save it before.
    """

    restart: int
    step: int
    evaluations: int
    differences: int
    images: Tensor
    labels: Tensor
    losses: dict[str, float]
    score: float
    reason: str
    checkpoint: Checkpoint = field(repr=False, compare=False)

    @property
    def loss(self) -> float:
        """What the search minimises now: the sum of its terms."""
        return sum(self.losses.values())


@dataclass
class Result:
    """What a search found, on the CPU wherever it ran.

    images: (batch, channels, height, width) in [0, 1], those of the lowest score over all restarts.  labels: (batch,).
    score, step: theirs.  trace: of their restart, the losses of each state.  snapshots: its states at asked steps, and its last one.
    evaluations: gradients of the network taken, over all restarts, `differences` of them in half a step, see `derivatives`.
    reasons: why each restart ended.
    """

    images: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    score: float
    step: int
    trace: list[dict[str, float]] = field(repr=False)
    snapshots: list[State] = field(repr=False)
    evaluations: int
    differences: int
    reasons: list[str]


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
        if isinstance(snapshots, int):
            snapshots = [round(i * self.steps / snapshots) for i in range(snapshots + 1)] if snapshots else []
        best: Any = None  # the state of the lowest score
        traces: list[list[dict[str, float]]] = [[] for _ in range(restarts)]
        kept: list[State] = []  # at asked steps, and the last one of each restart
        resume: Checkpoint | None = None
        if store is not None and "search" in store.names():
            best, traces, kept, resume = _read(store)
        done = store is not None and (store.complete or (best is not None and resume is None))
        states = () if done else self.search(model, leak, seed, restarts, resume=resume, **how)
        passed, total, saved = sum(map(len, traces)), restarts * (self.steps + 1), time.perf_counter()
        bar = tqdm(states, "search", total, leave=False, initial=passed, disable=done or not progress)
        for state in bar:
            if store is not None and time.perf_counter() - saved > EVERY:
                _write(store, best, traces, kept, state.checkpoint)
                saved = time.perf_counter()
            traces[state.restart].append(state.losses)
            wins = state.reason != "not finite" and state.score < (math.inf if best is None else best.score)
            if wins or state.reason or state.step in snapshots:
                state = replace(state, images=state.images.cpu(), labels=state.labels.cpu(), checkpoint={})
                best = state if wins else best
                kept += [state] if state.reason or state.step in snapshots else []
            bar.set_postfix_str(f"loss {state.loss:.3g}", refresh=False)
        ends = [state for state in kept if state.reason]
        if best is None:
            raise ValueError("no finite loss in any step: look for zeros, NaN or overflow in the leak, or lower lr")
        if store is not None and not store.complete:
            _write(store, best, traces, kept, None)
            store.finish()
        return Result(
            best.images, best.labels, best.score, best.step, traces[best.restart],
            [state for state in kept if state.restart == best.restart and state.reason != "not finite"],
            sum(state.evaluations for state in ends), sum(state.differences for state in ends), [state.reason for state in ends],
        )  # fmt: skip


def kept_run(attack: object, seed: int, device: str, **about: Any) -> Run:
    """Where a search is kept in the run store, under a name made of all that it depends on.

    attack: known by its repr, and by the text of functions that are not of this package, which may change under one name.
    about: which victim, photographs and leak, as `compute.store.key` takes settings.
    Raises ValueError for an attack with a function that has no name, since others without one would have the same run.
    """
    known = repr(attack)
    if "<lambda>" in known or " at 0x" in known:
        raise ValueError(f"attack={known}: a lambda or a partial has no name to keep it by; write a function with def")
    functions = filter(inspect.isfunction, [*vars(attack).values(), *(t.value for t in getattr(attack, "terms", ()))])
    own = [inspect.getsource(each) for each in functions if not each.__module__.startswith("privlab.")]
    return Run("gradient_inversion", {"attack": [known, *own], "seed": seed, **about, **environment(FORMAT, device)})


def _write(store: Run, *content: Any) -> None:
    file = io.BytesIO()
    torch.save(content, file)
    store.save("search", {"file": torch.frombuffer(file.getbuffer(), dtype=torch.uint8)})


def _read(store: Run) -> Any:
    file = io.BytesIO(store.load("search")["file"].numpy().tobytes())
    with torch.serialization.safe_globals([State]):
        return torch.load(file, weights_only=True, map_location="cpu")
