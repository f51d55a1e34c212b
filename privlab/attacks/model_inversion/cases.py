"""A model inversion of one model of a fleet, kept in the store under all that it depends on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from privlab import compute
from privlab.attacks.model_inversion import distillation, generator_files
from privlab.attacks.model_inversion.results import PARTS, Result
from privlab.attacks.model_inversion.search import FORMAT, ModelInversion
from privlab.compute import store
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

    @property
    def run(self) -> compute.Run:
        """Where the result is kept: under all that it depends on."""
        settings: dict[str, Any] = {  # fleet, generator and distilled models by what they are, wherever they lie
            "folder": store.key(self.fleet.settings)[:32],
            "m": self.m,
            "at": self.at,
            "generator": Path(self.generator).name,
            "targets": list(self.targets),
            "attack": self.attack.settings(),
            "seed": self.seed,
        }
        if self.beside:  # only then: results without it are in stores
            settings["beside"] = [Path(each).name for each in self.beside]
        return store.keyed("model_inversion", settings, format=FORMAT, device=self.fleet.settings["device"])


def searched(case: Case) -> Result:
    """What one attack brings back: from the store if it is kept there. It takes seconds."""
    run = case.run
    if not run.complete:
        device = case.fleet.device
        model, prior = case.fleet.model(case.m, case.at).to(device), generator_files.load(case.generator).to(device)
        others = [distillation.load(each).to(device) for each in case.beside]
        found = case.attack.run(model, prior, case.targets, case.seed, others)
        run.save("found", {name: getattr(found, name) for name in PARTS})
        run.note("trace", found.trace)
        run.finish()
    return Result(**run.load("found"), trace=run.read("trace"))
