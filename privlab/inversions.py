"""Many gradient inversions, each an independent task: a fresh victim of the zoo, photographs, an attack by the name of its preset.

A `Case` holds plain values only, so any worker can do it: on this machine's cores, on a cluster, today or after an interruption. What it
found is kept in the store under a name made of all that it depends on, and never searched for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import timm
import torch
from torch import Tensor

from privlab import data, fleet, store
from privlab.attacks import gradient
from privlab.attacks.recording import Result
from privlab.leak import observe
from privlab.models import zoo

PRESETS: dict[str, Callable[..., gradient.Inversion]] = {
    preset.__name__: preset
    for preset in (
        gradient.dlg,
        gradient.idlg,
        gradient.inverting_gradients,
        gradient.annealed,
        gradient.tag,
        gradient.april,
    )
}


@dataclass(frozen=True)
class Case:
    """One search.

    model, changes, victim: what `zoo.build` takes: name, changes, and seed of the weights; `train` puts it in train mode.
    data, split, images, side: the named set, and the places of the batch's photographs; resized to `side` pixels if given.
    attack, settings: a name of `PRESETS`, and what it takes, such as dict(steps=600).  seed: of the noise it begins with.
    """

    model: str
    images: tuple[int, ...]
    attack: str
    settings: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)
    victim: int = 0
    seed: int = 0
    data: str = "cifar10"
    split: str = "test"
    side: int | None = None
    train: bool = False

    def __post_init__(self) -> None:
        if self.attack not in PRESETS:
            raise ValueError(f"attack={self.attack!r} is no preset that a worker knows; there are {', '.join(PRESETS)}")
        if not self.images:
            raise ValueError("images=() leaves nothing to look for; give the place of one photograph or more")

    def batch(self) -> tuple[Tensor, Tensor]:
        """The client's photographs, (batch, channels, height, width) in [0, 1], and their labels."""
        photos = data.load(self.data, self.split)
        taken = [photos.one(i, size=self.side) for i in self.images]
        images, labels = (torch.cat(part) for part in zip(*taken, strict=True))
        return images, labels


def run(
    cases: Sequence[Case],
    title: str = "inversions",
    *,
    device: str = "cpu",
    snapshots: int = 5,
    jobs: int | None = None,
    budget: float | None = None,
    progress: bool = True,
) -> list[Result]:
    """What each case finds, in the order of the cases; those that are kept already are not searched for again.

    device: "cpu" or "cuda".  snapshots: pictures kept on the way.  jobs, progress: see `fleet.run`.
    budget: seconds, after which searches stop at a checkpoint, to go on from there in the next call.
    Prints one line about what was done.  Raises TimeoutError where the budget was over before all were done.
    """
    tasks, runs = [], []
    for case in cases:
        arguments = {**asdict(case), "device": device, "snapshots": snapshots}
        kept = _run(arguments)
        runs.append(kept)
        tasks.append(
            fleet.Task(
                name=f"{case.model} {case.changes} {case.images}",
                call="privlab.inversions:invert",
                arguments=arguments,
                finished=partial(getattr, kept, "complete"),
                steps=partial(_done, kept),
                total=1,
            )
        )
    once = list({kept.path: task for kept, task in zip(runs, tasks, strict=True)}.values())
    report = fleet.run(once, title, jobs=jobs, gpu=device == "cuda", budget=budget, progress=progress)
    print(repr(report).replace("trained", "searched"))
    if report.left:
        raise TimeoutError(
            f"{report.left} of {len(once)} searches are left; what was found is kept: run this again, and it goes on from there"
        )
    return [gradient.kept(kept) for kept in runs]


def invert(budget: float | None = None, **arguments: Any) -> None:
    """Do one case and keep what it finds: what a worker is told to do. See `run` for the arguments, `Case`'s, device and snapshots."""
    kept = _run(arguments)
    if kept.complete:
        return
    device, snapshots = arguments.pop("device"), arguments.pop("snapshots")
    case = Case(**{**arguments, "images": tuple(arguments["images"])})
    model = zoo.build(case.model, seed=case.victim, **case.changes).to(device).train(case.train)
    leak = observe(model, *case.batch())
    attack = PRESETS[case.attack](**case.settings)
    attack.run(model, leak, seed=case.seed, snapshots=snapshots, store=kept, budget=budget, progress=False)


def _run(arguments: Mapping[str, Any]) -> store.Run:
    versions = dict(torch=torch.__version__, timm=timm.__version__, search=gradient.FORMAT)
    return store.Run("inversion", {**arguments, "versions": versions})


def _done(kept: store.Run) -> int:
    return int(kept.complete)
