"""A gradient inversion in plain values: a fresh victim of the zoo, photographs, an attack by the name of its preset.

What it finds is kept in the store under a name made of all that it depends on, and never searched for twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from privlab import compute, data, models
from privlab.attacks.gradient_inversion import adaptive, presets, results, search
from privlab.attacks.gradient_inversion.derivatives import KINDS, Kind
from privlab.attacks.gradient_inversion.gauss_newton import GaussNewton
from privlab.attacks.gradient_inversion.results import Result
from privlab.compute import store
from privlab.defences import perturbation
from privlab.leak import Leak, observe
from privlab.training import defence

PRESETS: dict[str, Callable[..., search.GradientMatching | GaussNewton]] = {"gauss_newton": GaussNewton} | {
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
    informed: whether they know the defence: noise is weighed (`adaptive.tempered`), zeros of a sparse update are no numbers, and a
        clipped one has no length.
    derivative: how the search takes its directions, see `search.GradientMatching`. New experiments give "auto", which takes half to
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
    informed: bool = False
    derivative: Kind = "exact"

    def __post_init__(self) -> None:
        if self.attack not in PRESETS:
            raise ValueError(f"attack={self.attack!r} is no preset that a worker knows; there are {', '.join(PRESETS)}")
        if self.derivative not in KINDS:
            raise ValueError(f"derivative={self.derivative!r} is not known here; try {', '.join(map(repr, KINDS))}")
        if not self.images:
            raise ValueError("images=() leaves nothing to look for; give the place of one photograph or more")
        if self.informed and (not self.sent or self.noise or self.attack == "gauss_newton"):
            raise ValueError(
                "informed=True is for a defence given as `sent`, and for searches that can weigh tensors; give those"
            )

    def plain(self) -> dict[str, Any]:
        """All of it as plain JSON, for a worker and for the name that its result is kept under."""
        late = ("sent", "informed", "derivative")  # left out where nothing is set, as in what was kept before
        return {k: v for k, v in asdict(self).items() if k not in late or v != getattr(BARE, k)}

    def leak(self, model: nn.Module) -> tuple[Leak, dict[str, float]]:
        """What the attacker receives, and what they may know of the noise in it."""
        leak = observe(model, *self.batch())
        if self.noise:
            leak = perturbation.gaussian(leak, self.noise, self.victim)
        if not self.sent:
            return leak, {}
        send: Any = defence.opened(self.sent)
        received = send(leak, model, self.victim)
        return received, send.deviations(received, model)

    def batch(self) -> tuple[Tensor, Tensor]:
        """The client's photographs, (batch, channels, height, width) in [0, 1], and their labels."""
        photos = data.load(self.data, self.split)
        images, labels = zip(*(photos.one(i, size=self.side) for i in self.images), strict=True)
        return torch.cat(images), torch.cat(labels)

    def search(self) -> Any:
        """The attack with its settings, its derivative as the case asks for it; that of Gauss-Newton is exact."""
        attack = PRESETS[self.attack](**self.settings)
        return attack if isinstance(attack, GaussNewton) else replace(attack, derivative=self.derivative)

    def build(self, device: str = "cpu") -> nn.Module:
        return models.build(self.model, seed=self.victim, **self.changes).to(device).train(self.train)


BARE = Case("", (0,))


def searched(case: Case, device: str = "cpu", snapshots: Sequence[int] = ()) -> Result:
    """What one case finds: from the store if it is kept there, else searched for, from the last checkpoint on.

    device: "cpu" or "cuda".  snapshots: steps at which pictures are kept on the way.
    """
    run = _run({**case.plain(), "device": device, "snapshots": list(snapshots)})
    if not run.complete:
        model = case.build(device)
        attack = case.search()
        leak, deviations = case.leak(model)
        if case.informed:
            attack = adaptive.tempered(attack, leak, deviations)
            change = {"sparse": adaptive.arrived, "clipped": adaptive.unclipped}.get(case.sent["arguments"]["by"])
            attack = change(attack) if change else attack
        attack.run(model, leak, seed=case.seed, snapshots=snapshots, store=run, progress=False)
    return results.kept(run)


def _run(arguments: Mapping[str, Any]) -> compute.Run:
    settings = {name: value for name, value in arguments.items() if name != "device"}
    return store.keyed("gradient_inversion", settings, format=results.FORMAT, device=arguments["device"])
