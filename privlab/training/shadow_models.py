"""Fleets of shadow models: one architecture, one recipe, one set, and a keep matrix that says which model is trained on which image.

The name of a fleet in the store is made of its settings, the images and the keep matrix among them. `train` makes one of its models: its
row and its seed give weights, and the raw logits of every image for every query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privlab import compute, models
from privlab.compute import store
from privlab.data import Normalise
from privlab.models.representations import LAST, listening
from privlab.training import batches, defence, trainer
from privlab.training.defence import Defence
from privlab.training.recipes import Recipe, settled

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

    def model(self, m: int, at: int | None = None) -> nn.Module:
        """One of the trained models, in eval mode, on the CPU; as it was after epoch `at` where `make` was told to keep the weights.

        Its form is that of then, too: behind `architecture.tts`, an early one has its skips.
        """
        last, built = self.at[-1], self.fresh(m)
        built.image_shape = tuple(self.pixels.shape[1:])
        defence.shaped(built, self.defences, (at or last) - 1)
        built.load_state_dict(self.runs[m].load("weights" if at in (None, last) else f"weights_{at}"))
        return built.eval()

    def fresh(self, m: int) -> Any:
        """One of the models as it was before any training, in eval mode, on the CPU."""
        of = self.settings["model"]
        built = models.build(of["name"], seed=self.seed(m), **of["changes"])
        # in this format a ResNet takes .6 of the time on a CPU, and a Transformer what it took; but oneDNN (issue 6035) writes beyond its
        # memory in the backward pass of a 1x1 convolution with a stride and less than 16 channels, such as a RepVGG's first
        narrow = [each for each in built.modules() if isinstance(each, nn.Conv2d) and each.in_channels < 16]
        if not any(each.kernel_size == (1, 1) != each.stride for each in narrow):
            built = built.to(memory_format=torch.channels_last)
        if self.settings["normalise"]:
            built.normalise = Normalise(**self.settings["normalise"])
        return built

    def seed(self, m: int) -> int:
        """Of a model's weights and training: no two models of two fleets share one, as seed + m would."""
        return int(np.random.SeedSequence([self.settings["seed"], m]).generate_state(1)[0])

    def logits(self, m: int, at: int | None = None) -> Tensor:
        """What model m said of every image after epoch `at` (the last if not given): (queries, n, classes), raw and float32.

        Of earlier epochs the first query alone was kept: (1, n, classes).
        """
        return self.runs[m].load(f"logits_{at or self.at[-1]}")["logits"]

    def features(self, m: int, at: int | None = None) -> Tensor:
        """What entered the last layer of model m of every image after epoch `at` (the last if not given): (n, width)."""
        return self.runs[m].load(f"features_{at or self.at[-1]}")[LAST]

    def right(self, m: int, places: Tensor, at: int | None = None) -> float:
        """The share of the images in these places, indices or (n,) bool, that model m gets right, by the first query: 0 to 1."""
        return (self.logits(m, at)[0].argmax(1) == self.labels)[places].double().mean().item()


def make(
    name: str, recipe: Recipe, images: tuple[Tensor, Tensor], keep: Tensor, *, model: Mapping[str, Any] = {},
    normalise: Normalise | None = None, seed: int = 0, queries: Sequence[str] = ("image",), at: Sequence[int] = (),
    features: bool = False, weights: bool = False, defences: Sequence[Defence] = (), device: str = "cpu",
) -> Fleet:  # fmt: skip
    """A fleet, with its folder in the store; nothing is trained yet.

    name, model: what `zoo.build` takes, and the changes.  seed: model m's first weights and its training are seeded by (seed, m).
    images: pixels and labels of n images that are all asked about; a model is trained on those of its row alone.
    keep: (models, n) bool, from `splits.in_out` or from the parts of `splits.four_way`.  normalise: the set's; else the model's own.
    queries: what of each image is asked, see `batches.queries`.  at: epochs whose logits are kept beside the last one's, of the first.
    features: whether what enters the last layer is kept, too, after the same epochs; the first query has to be "image".
    weights: whether the model itself is kept after these epochs, too; of the last one it always is.
    defences: of all models, see `training.fit`.  device: "cpu", "cuda", or "cuda:1" (of several cards).
    Raises ValueError for a model without members, and an epoch outside the recipe.
    """
    (pixels, labels), recipe = batches.pair(images), settled(recipe, device, defences)
    if (members := int(keep.sum(1).min())) < 2:
        raise ValueError(f"keep: a model would be trained on {members} images; give each row two members or more")
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
    path = compute.Run("fleet", settings).path.absolute()
    return Fleet(path, settings, keep, pixels, labels, tuple(defences), str(device))


def train(fleet: Fleet, model: int) -> None:
    """Train one model of a fleet, from where it stands, and keep its logits."""
    run, settings = fleet.runs[model], fleet.settings
    if run.complete:
        return
    built = fleet.fresh(model).to(fleet.device)

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
    recipe = Recipe(**settings["recipe"])
    trainer.fit(built, members, recipe, seed=fleet.seed(model), defences=fleet.defences, run=run, watch=watch)
