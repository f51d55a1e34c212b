"""One model inversion attack on every model of a fleet, in parallel, each kept as soon as it is done."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from privlab import compute
from privlab.attacks.model_inversion import distillation, generator_files
from privlab.attacks.model_inversion.results import PARTS, Result
from privlab.attacks.model_inversion.search import FORMAT, ModelInversion
from privlab.compute import store, tasks
from privlab.training import shadow_models


class Case(NamedTuple):
    """One attack: on model m of a fleet, as it was after epoch `at` (the last if None), with a generator on disk.

    generator: the folder that `generator_files.save` returned.  targets: classes.  attack, seed: see `ModelInversion.run`.
    beside: folders of models distilled from the target, see `distillation.distil`.
    """

    fleet: shadow_models.Fleet
    m: int
    at: int | None
    generator: str
    targets: Sequence[int]
    attack: ModelInversion
    seed: int
    beside: Sequence[str] = ()

    def arguments(self) -> dict[str, Any]:
        """All of it as plain JSON, for a worker."""
        rest = {"targets": list(self.targets), "attack": self.attack.settings(), "seed": self.seed}
        if self.beside:  # only then: results without it are in stores
            rest["beside"] = list(self.beside)
        return {"folder": str(self.fleet.folder), "m": self.m, "at": self.at, "generator": self.generator, **rest}

    @property
    def run(self) -> compute.Run:
        """Where the result is kept: under all that it depends on."""
        # Fleet, generator and distilled models by what they are, wherever they lie.
        names: dict[str, Any] = {"folder": store.key(self.fleet.settings)[:32], "generator": Path(self.generator).name}
        if self.beside:
            names["beside"] = [Path(each).name for each in self.beside]
        settings = self.arguments() | names
        return store.keyed("model_inversion", settings, format=FORMAT, device=self.fleet.settings["device"])

    @property
    def result(self) -> Result:
        """What the attack brought back.  Raises FileNotFoundError where it was not run."""
        run = self.run
        return Result(**run.load("found"), trace=run.read("trace"))


def run_cases(
    cases: Sequence[Case], *, jobs: int | None = None, budget: float | None = None, progress: bool = True
) -> list[Result]:
    """Run the attacks that are missing, and return what all of them found, in order; see `tasks.run` for the arguments.

    Raises TimeoutError when the budget is over before all of them are run; those that are, are kept.
    """
    todo = [
        tasks.Task(
            name=f"inversion of {each.fleet.settings['model']['name']} {each.m}",
            call="privlab.attacks.model_inversion.cases:work",
            arguments=each.arguments(),
            finished=(done := partial(getattr, each.run, "complete")),
            steps=done,
            total=1,
        )
        for each in cases
    ]
    gpu = any(each.fleet.settings["device"] == "cuda" for each in cases)
    print(tasks.run(todo, f"{len(todo)} attacks", jobs=jobs, gpu=gpu, budget=budget, progress=progress, verb="made"))
    if undone := [task.name for task in todo if not task.finished()]:
        raise TimeoutError(
            f"budget={budget:g} s are over with {len(undone)} of {len(todo)} attacks to go; call again to go on"
        )
    return [each.result for each in cases]


def searched(case: Case) -> Result:
    """What one attack brings back, here and now: from the store if it is kept there."""
    work(**case.arguments())
    return case.result


def work(
    folder: str,
    m: int,
    at: int | None,
    generator: str,
    targets: Sequence[int],
    attack: dict[str, Any],
    seed: int,
    budget: float | None = None,
    beside: Sequence[str] = (),
) -> None:
    """What a worker is told to do: one attack, from its arguments to its file. It takes seconds; a budget is not looked at."""
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in attack.items()
    }
    case = Case(shadow_models.load(folder), m, at, generator, targets, ModelInversion(**settings), seed, beside)
    if case.run.complete:
        return
    device = case.fleet.settings["device"]
    model, prior = case.fleet.model(m, at).to(device), generator_files.load(generator).to(device)
    others = [distillation.load(each).to(device) for each in beside]
    result, run = case.attack.run(model, prior, targets, seed, others), case.run
    run.save("found", {name: getattr(result, name) for name in PARTS})
    run.note("trace", result.trace)
    run.finish()
