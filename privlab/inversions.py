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
from torch import Tensor, nn

from privlab import data, fleet, store
from privlab.attacks import gradient, sensitivity
from privlab.attacks.recording import Result
from privlab.attacks.second_order import GaussNewton
from privlab.defences import perturbation
from privlab.leak import observe
from privlab.models import zoo

PRESETS: dict[str, Callable[..., gradient.Inversion | GaussNewton]] = {"gauss_newton": GaussNewton} | {
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
    """A victim, its photographs, and a search.

    model, changes, victim: what `zoo.build` takes: name, changes, and seed of the weights; `train` puts it in train mode.
    data, split, images, side: the named set, and the places of the batch's photographs; resized to `side` pixels if given.
    attack, settings: a name of `PRESETS`, and what it takes, such as dict(steps=600).  seed: of the noise it begins with.
    noise: what the client adds to its message, see `perturbation.gaussian`; drawn by the victim's seed.
    """

    model: str
    images: tuple[int, ...]
    attack: str = "inverting_gradients"
    settings: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    victim: int = 0
    seed: int = 0
    data: str = "cifar10"
    split: str = "test"
    side: int | None = None
    train: bool = False
    noise: float = 0.0

    def __post_init__(self) -> None:
        if self.attack not in PRESETS:
            raise ValueError(f"attack={self.attack!r} is no preset that a worker knows; there are {', '.join(PRESETS)}")
        if not self.images:
            raise ValueError("images=() leaves nothing to look for; give the place of one photograph or more")

    def batch(self) -> tuple[Tensor, Tensor]:
        """The client's photographs, (batch, channels, height, width) in [0, 1], and their labels."""
        photos = data.load(self.data, self.split)
        images, labels = zip(*(photos.one(i, size=self.side) for i in self.images), strict=True)
        return torch.cat(images), torch.cat(labels)

    def build(self, device: str = "cpu") -> nn.Module:
        return zoo.build(self.model, seed=self.victim, **self.changes).to(device).train(self.train)


def run(
    cases: Sequence[Case],
    title: str = "inversions",
    *,
    device: str = "cpu",
    snapshots: Sequence[int] = (),
    jobs: int | None = None,
    budget: float | None = None,
    progress: bool = True,
) -> list[Result]:
    """What each case finds, in the order of the cases; those that are kept already are not searched for again.

    device: "cpu" or "cuda".  snapshots: steps at which pictures are kept on the way.  jobs, progress: see `fleet.run`.
    budget: seconds, after which searches stop at a checkpoint, to go on from there in the next call.
    Prints one line about what was done.  Raises TimeoutError where the budget was over before all were done.
    """
    settings = [{**asdict(case), "device": device, "snapshots": list(snapshots)} for case in cases]
    return [gradient.kept(kept) for kept in _done("invert", settings, title, jobs, budget, progress)]


def spectra(
    cases: Sequence[Case],
    block: int = 4,
    title: str = "spectra",
    *,
    device: str = "cpu",
    jobs: int | None = None,
    budget: float | None = None,
    progress: bool = True,
) -> list[Tensor]:
    """`sensitivity.spectrum` at the photograph of each case; its attack does not matter. Kept, and fanned out, as in `run`."""
    plain = [{k: v for k, v in asdict(case).items() if k not in ("attack", "settings", "seed")} for case in cases]
    settings = [{**case, "device": device, "block": block} for case in plain]
    return [kept.load("spectrum")["singular"] for kept in _done("sense", settings, title, jobs, budget, progress)]


def invert(budget: float | None = None, **arguments: Any) -> None:
    """Do one case of `run` and keep what it finds: what a worker is told to do."""
    kept, device, snapshots, case = _taken("invert", arguments)
    if not kept.complete:
        model = case.build(device)
        attack = PRESETS[case.attack](**case.settings)
        leak = observe(model, *case.batch())
        leak = perturbation.gaussian(leak, case.noise, case.victim) if case.noise else leak
        attack.run(model, leak, seed=case.seed, snapshots=snapshots, store=kept, budget=budget, progress=False)


def sense(budget: float | None = None, **arguments: Any) -> None:
    """Do one case of `spectra`; a single one takes seconds and is not interrupted by a budget."""
    block = arguments["block"]
    kept, device, _, case = _taken("sense", arguments)
    if not kept.complete:
        kept.save("spectrum", {"singular": sensitivity.spectrum(case.build(device), *case.batch(), block=block)})
        kept.finish()


def _done(
    call: str, settings: Sequence[dict[str, Any]], title: str, jobs: int | None, budget: float | None, progress: bool
) -> list[store.Run]:
    runs = [_run(call, arguments) for arguments in settings]
    tasks = {
        kept.path: fleet.Task(
            name=f"{arguments['model']} {arguments['changes']}, photographs {arguments['images']}",
            call=f"privlab.inversions:{call}",
            arguments=arguments,
            finished=partial(getattr, kept, "complete"),
            steps=partial(_steps, kept),
            total=1,
        )
        for kept, arguments in zip(runs, settings, strict=True)
    }
    gpu = any(arguments["device"] == "cuda" for arguments in settings)
    report = fleet.run(list(tasks.values()), title, jobs=jobs, gpu=gpu, budget=budget, progress=progress)
    print(repr(report).replace("trained", "done"))
    if report.left:
        raise TimeoutError(
            f"{report.left} of {len(tasks)} are left; what was found is kept: run this again, and it goes on from there"
        )
    return runs


def _taken(call: str, arguments: dict[str, Any]) -> tuple[store.Run, str, Sequence[int], Case]:
    """The run of these arguments, and what they say."""
    own = {k: v for k, v in arguments.items() if k not in ("device", "snapshots", "block")}
    case = Case(**{**own, "images": tuple(own["images"])})
    return _run(call, arguments), arguments["device"], arguments.get("snapshots", ()), case


def _run(call: str, arguments: Mapping[str, Any]) -> store.Run:
    versions = dict(torch=torch.__version__, timm=timm.__version__, search=gradient.FORMAT)
    return store.Run("inversion" if call == "invert" else "spectrum", {**arguments, "versions": versions})


def _steps(kept: store.Run) -> int:
    return int(kept.complete)
