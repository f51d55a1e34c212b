"""Many gradient inversions, each an independent task: a fresh victim of the zoo, photographs, an attack by the name of its preset.

A `Case` holds plain values only, so any worker can do it: on this machine's cores, on a cluster, today or after an interruption. What it
found is kept in the store under a name made of all that it depends on, and never searched for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privlab import compute, data, models
from privlab.attacks.gradient_inversion import adaptive, matching, presets, results
from privlab.attacks.gradient_inversion.derivatives import KINDS, Kind
from privlab.attacks.gradient_inversion.gauss_newton import GaussNewton
from privlab.attacks.gradient_inversion.results import Result
from privlab.compute import store, tasks
from privlab.defences import perturbation
from privlab.leak import Leak, observe
from privlab.training import defence

PRESETS: dict[str, Callable[..., matching.GradientMatching | GaussNewton]] = {"gauss_newton": GaussNewton} | {
    preset.__name__: preset
    for preset in (
        presets.dlg,
        presets.idlg,
        presets.inverting_gradients,
        presets.annealed,
        presets.quasi_newton,
        presets.tag,
        presets.april,
    )
}


@dataclass(frozen=True)
class Case:
    """A victim, its photographs, and a search.

    model, changes, victim: what `zoo.build` takes: name, changes, and seed of the weights; `train` puts it in train mode.
    data, split, images, side: the named set, and the places of the batch's photographs; resized to `side` pixels if given.
    attack, settings: a name of `PRESETS`, and what it takes, such as dict(steps=600).  seed: of the noise it begins with.
    noise: what the client adds to its update, see `perturbation.gaussian`; drawn by the victim's seed.
    sent: a defence of the update, by its settings (`updates.sent(...).settings()`); drawn by the victim's seed.
    rounds: updates of the same photographs, each with noise of its own, that the attacker takes the mean of.
    informed: whether they know the defence: noise is weighed (`adaptive.tempered`), zeros of a sparse update are no numbers, and a
        clipped one has no length.
    derivative: how the search takes its directions, see `matching.GradientMatching`. New experiments give "auto", which takes half to
        two thirds of the time; "exact" is the default so that what was kept before keeps its name.
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
    sent: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1
    informed: bool = False
    derivative: Kind = "exact"

    def __post_init__(self) -> None:
        if self.attack not in PRESETS:
            raise ValueError(f"attack={self.attack!r} is no preset that a worker knows; there are {', '.join(PRESETS)}")
        if self.derivative not in KINDS:
            raise ValueError(f"derivative={self.derivative!r} is not known here; try {', '.join(map(repr, KINDS))}")
        if not self.images:
            raise ValueError("images=() leaves nothing to look for; give the place of one photograph or more")
        if self.rounds < 1:
            raise ValueError(f"rounds={self.rounds} brings no update; give 1 or more")
        if self.noise and self.rounds > 1:
            raise ValueError(
                f"rounds={self.rounds} are of a defence given as `sent`, and noise={self.noise} is drawn once; give that noise as `sent`"
            )
        if self.informed and (not self.sent or self.noise or self.attack == "gauss_newton"):
            raise ValueError(
                "informed=True is for a defence given as `sent`, and for searches that can weigh tensors; give those"
            )

    def plain(self) -> dict[str, Any]:
        """All of it as plain JSON, for a worker and for the name that its result is kept under."""
        late = ("sent", "rounds", "informed", "derivative")  # left out where nothing is set, as in what was kept before
        return {k: v for k, v in asdict(self).items() if k not in late or v != getattr(BARE, k)}

    def leak(self, model: nn.Module) -> tuple[Leak, dict[str, float]]:
        """What the attacker receives, or the mean of what they receive, and what they may know of the noise in it."""
        leak = observe(model, *self.batch())
        if self.noise:
            leak = perturbation.gaussian(leak, self.noise, self.victim)
        if not self.sent:
            return leak, {}
        send: Any = defence.opened(self.sent)
        mean = adaptive.averaged([send(leak, model, self.victim + 1_000_003 * n) for n in range(self.rounds)])
        return mean, send.deviations(mean, model, self.rounds)

    def batch(self) -> tuple[Tensor, Tensor]:
        """The client's photographs, (batch, channels, height, width) in [0, 1], and their labels."""
        photos = data.load(self.data, self.split)
        images, labels = zip(*(photos.one(i, size=self.side) for i in self.images), strict=True)
        return torch.cat(images), torch.cat(labels)

    def build(self, device: str = "cpu") -> nn.Module:
        return models.build(self.model, seed=self.victim, **self.changes).to(device).train(self.train)


BARE = Case("", (0,))


def run_cases(
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

    device: "cpu" or "cuda".  snapshots: steps at which pictures are kept on the way.  jobs, progress: see `tasks.run`.
    budget: seconds, after which searches stop at a checkpoint, to go on from there in the next call.
    Prints one line about what was done.  Raises TimeoutError where the budget was over before all were done.
    """
    settings = [{**case.plain(), "device": device, "snapshots": list(snapshots)} for case in cases]
    return [results.kept(run) for run in _done(settings, title, jobs, budget, progress)]


def searched(case: Case, device: str = "cpu", snapshots: Sequence[int] = ()) -> Result:
    """What one case finds, here and now: from the store if it is kept there, else searched for, from the last checkpoint on."""
    arguments = {**case.plain(), "device": device, "snapshots": list(snapshots)}
    invert(**arguments)
    return results.kept(_run(arguments))


def invert(budget: float | None = None, **arguments: Any) -> None:
    """Do one case of `run_cases` and keep what it finds: what a worker is told to do."""
    run = _run(arguments)
    if not run.complete:
        own = {name: value for name, value in arguments.items() if name not in ("device", "snapshots")}
        case = Case(**{**own, "images": tuple(own["images"])})
        model = case.build(arguments["device"])
        attack: Any = PRESETS[case.attack](**case.settings)
        if case.derivative != "exact":
            attack = replace(attack, derivative=case.derivative)
        leak, deviations = case.leak(model)
        if case.informed:
            attack = adaptive.tempered(attack, leak, deviations)
            change = {"sparse": adaptive.arrived, "clipped": adaptive.unclipped}.get(case.sent["arguments"]["by"])
            attack = change(attack) if change else attack
        attack.run(
            model,
            leak,
            seed=case.seed,
            snapshots=arguments.get("snapshots", ()),
            store=run,
            budget=budget,
            progress=False,
        )


def _done(
    settings: Sequence[dict[str, Any]], title: str, jobs: int | None, budget: float | None, progress: bool
) -> list[compute.Run]:
    runs = [_run(arguments) for arguments in settings]
    todo = {
        run.path: tasks.Task(
            name=f"{arguments['model']} {arguments['changes']}, photographs {arguments['images']}",
            call="privlab.attacks.gradient_inversion.cases:invert",
            arguments=arguments,
            finished=partial(getattr, run, "complete"),
            steps=partial(_steps, run),
            total=1,
        )
        for run, arguments in zip(runs, settings, strict=True)
    }
    gpu = any(arguments["device"] == "cuda" for arguments in settings)
    report = tasks.run(list(todo.values()), title, jobs=jobs, gpu=gpu, budget=budget, progress=progress)
    print(repr(report).replace("trained", "done"))
    if report.left:
        raise TimeoutError(
            f"{report.left} of {len(todo)} are left; what was found is kept: run this again, and it goes on from there"
        )
    return runs


def _run(arguments: Mapping[str, Any]) -> compute.Run:
    settings = {name: value for name, value in arguments.items() if name != "device"}
    return store.keyed("gradient_inversion", settings, format=results.FORMAT, device=arguments["device"])


def _steps(run: compute.Run) -> int:
    return int(run.complete)
