"""Fleets of shadow models: one architecture, one recipe, one set, and a keep matrix that says which model is trained on which image.

The name of a fleet in the store is made of its settings, the images and the keep matrix among them. A model is one task: its row and its
seed give weights, and the raw logits of every image for every query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privlab import compute, models
from privlab.compute import store, tasks
from privlab.data import Normalise
from privlab.models.representations import LAST, listening
from privlab.training import batches, defence, trainer
from privlab.training.defence import Defence
from privlab.training.recipes import Recipe, named

FORMAT = 1  # raise it when the same settings begin to give other logits


@dataclass(frozen=True, eq=False, repr=False)
class Fleet:
    """Models that share everything but their row of the keep matrix and their seed.

    folder: where its runs are kept.  settings: all that its models depend on, as JSON.  keep: (models, n) bool.
    pixels, labels: the n images that are asked about, members or not.  defences: of all models.  device: what trains them.
    """

    folder: Path
    settings: dict[str, Any]
    keep: Tensor
    pixels: Tensor
    labels: Tensor
    defences: Sequence[Defence]
    device: str

    @cached_property
    def runs(self) -> list[compute.Run]:
        """One run a model, in the order of the rows of `keep`."""
        key = store.key(self.settings)
        return [compute.Run("shadow", {"fleet": key, "model": m}, self.folder) for m in range(len(self.keep))]

    @property
    def at(self) -> list[int]:
        """The epochs after which logits are kept; the last one always is."""
        return self.settings["at"]

    def train(self, *, jobs: int | None = None, progress: bool = True) -> None:
        """Train what is missing, on this machine; prints one line about it.  jobs: processes, see `tasks.fan_out`."""
        name = self.settings["model"]["name"]
        jobs = jobs or (1 if self.device.startswith("cuda") else None)
        work = [
            tasks.Task(f"{name} {m}", train, {"fleet": self, "model": m}, finished=partial(getattr, run, "complete"))
            for m, run in enumerate(self.runs)
        ]
        print(tasks.fan_out(work, f"{len(work)} {name}", jobs=jobs, progress=progress))

    def model(self, m: int, at: int | None = None) -> nn.Module:
        """One of the trained models, in eval mode, on the CPU; as it was after epoch `at` where `make` was told to keep the weights.

        Its form is that of then, too: behind `architecture.tts`, an early one has its skips.
        """
        last, built = self.at[-1], self.fresh(m)
        built.image_shape = tuple(self.pixels.shape[1:])
        defence.shaped(built, self.defences, (at or last) - 1)
        built.load_state_dict(self._kept(m, "weights" if at in (None, last) else f"weights_{at}"))
        return built.eval()

    def fresh(self, m: int) -> Any:
        """One of the models as it was before any training, in eval mode, on the CPU."""
        return _build(self.settings, m).eval()

    def logits(self, m: int, at: int | None = None) -> Tensor:
        """What model m said of every image after epoch `at` (the last if not given): (queries, n, classes), raw and float32.

        Of earlier epochs the first query alone was kept: (1, n, classes).
        """
        return self._kept(m, f"logits_{at or self.at[-1]}")["logits"]

    def features(self, m: int, at: int | None = None) -> Tensor:
        """What entered the last layer of model m of every image after epoch `at` (the last if not given): (n, width)."""
        return self._kept(m, f"features_{at or self.at[-1]}")[LAST]

    def right(self, m: int, places: Tensor, at: int | None = None) -> float:
        """The share of the images in these places, indices or (n,) bool, that model m gets right, by the first query: 0 to 1."""
        return (self.logits(m, at)[0].argmax(1) == self.labels)[places].double().mean().item()

    def _kept(self, m: int, name: str) -> dict[str, Tensor]:
        run = self.runs[m]
        if not run.complete or name not in run.names():
            asked = "train() trains it; at=, features= and weights= of shadow_models.make say what is kept"
            raise ValueError(f"{name} of model {m} is not there; {asked}, here after epochs {self.at}")
        return run.load(name)


def make(
    name: str, recipe: Recipe | str, images: tuple[Tensor, Tensor], keep: Tensor, *, model: Mapping[str, Any] = {},
    normalise: Normalise | None = None, seed: int = 0, queries: Sequence[str] = ("image",), at: Sequence[int] = (),
    features: bool = False, weights: bool = False, defences: Sequence[Defence] = (), device: str = "cpu",
    folder: Path | str | None = None,
) -> Fleet:  # fmt: skip
    """A fleet, with its folder; nothing is trained yet.

    name, model: what `zoo.build` takes, and the changes.  recipe: a Recipe or its name.
    images: pixels and labels of n images that are all asked about; a model is trained on those of its row alone.
    keep: (models, n) bool, from `splits.in_out` or from the parts of `splits.four_way`.
    normalise: the set's; the model's own if not given.
    seed: model m's first weights and its training are seeded by (seed, m).
    queries: what of each image is asked, see `batches.queries`.
    at: epochs whose logits are kept beside the last one's, of the first query alone.
    features: whether what enters the last layer is kept, too, after the same epochs; the first query has to be "image".
    weights: whether the model itself is kept after these epochs, too; of the last one it always is.
    defences: of all models, see `training.fit`.  device: "cpu", "cuda", or "cuda:1" (of several cards).
    folder: where its runs shall be kept; by default in the store.
    Raises ValueError for a model without members, an epoch outside the recipe, and defences that do not fit the training.
    """
    pixels, labels = batches.pair(images)
    if (members := int(keep.sum(1).min())) < 2:
        raise ValueError(f"keep: a model would be trained on {members} images; give each row two members or more")
    recipe = named(recipe, device, defences)
    epochs = sorted({*at, recipe.epochs})
    if epochs[0] < 1 or epochs[-1] > recipe.epochs:
        raise ValueError(f"at={list(at)} leaves the training; give 1 to {recipe.epochs}, its epochs")
    settings: dict[str, Any] = {
        **store.environment(FORMAT, device),
        "model": {"name": name, "changes": {"num_classes": int(labels.max()) + 1, **model}},
        "normalise": normalise and asdict(normalise),
        "recipe": recipe.settings(),
        "seed": seed,
        "images": [len(labels), store.digest(pixels, labels)],
        "keep": [len(keep), store.digest(keep)],
        "queries": list(queries),
        "at": epochs,
    }
    extra = {"layers": [LAST] * features, "weights": weights, "defences": [each.settings() for each in defences]}
    settings |= {name: value for name, value in extra.items() if value}  # fleets without keep the name that they had
    # what does not fit is told here, and not by every worker
    defence.check(defences, _build(settings, 0), recipe, members)
    path = Path(folder) if folder else compute.Run("fleet", settings).path
    return Fleet(path.absolute(), settings, keep, pixels, labels, tuple(defences), str(device))


def train(fleet: Fleet, model: int) -> None:
    """Train one model of a fleet, from where it stands, and keep its logits: what a worker is told to do."""
    run, settings = fleet.runs[model], fleet.settings
    if run.complete:
        return
    built = _build(settings, model).to(fleet.device)

    def watch(epoch: int) -> None:
        if epoch not in fleet.at:
            return
        last = epoch == fleet.at[-1]
        names = settings["queries"] if last else settings["queries"][:1]
        passed: dict[str, list[Tensor]] = {layer: [] for layer in settings.get("layers", [])}
        logits = []
        for name, pixels in zip(names, batches.queries(fleet.pixels, names), strict=True):
            with listening(built, passed if name == "image" else {}):  # one pass gives both
                logits.append(trainer.logits(built, pixels))
        run.save(f"logits_{epoch}", {"logits": torch.stack(logits).float()})  # (queries, n, classes)
        if passed:
            run.save(f"features_{epoch}", {layer: torch.cat(rows) for layer, rows in passed.items()})
        if settings.get("weights") and not last:
            run.save(f"weights_{epoch}", built.state_dict())

    members = batches.subset((fleet.pixels, fleet.labels), fleet.keep[model])
    trainer.fit(
        built, members, Recipe(**settings["recipe"]), seed=_seed(settings, model), defences=fleet.defences, run=run,
        watch=watch, progress=False,
    )  # fmt: skip


def _build(settings: Mapping[str, Any], model: int) -> nn.Module:
    built = models.build(settings["model"]["name"], seed=_seed(settings, model), **settings["model"]["changes"])
    # In this format a ResNet takes .6 of the time on a CPU, and a Transformer what it took.
    built = built.to(memory_format=torch.channels_last)
    if settings["normalise"]:
        built.normalise = Normalise(**settings["normalise"])
    return built


def _seed(settings: Mapping[str, Any], model: int) -> int:
    """Of a model's weights and training: no two models of two fleets share one, as seed + model would."""
    return int(np.random.SeedSequence([settings["seed"], model]).generate_state(1)[0])
