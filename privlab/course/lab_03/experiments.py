"""Lab 03: what does a representation tell that nobody asked, and what of it did training teach? (Zhang et al. 2024, section 4.3)

One repeat is a draw of photographs, cut into four parts that share none (the victim's training and test images, and the attacker's own
two), with weights of its own for each architecture. The same weights before any training are a column: what training adds is the probe's
accuracy less theirs. Draws of CIFAR-10's 50,000 training images overlap, so this speaks of CIFAR-10.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from privlab import data, models, training
from privlab.attacks import attribute_inference
from privlab.attacks.attribute_inference import Score
from privlab.data.attributes import Described
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.shadow_fleets import FAMILIES, Architecture, at_matched_gap
from privlab.models import representations
from privlab.models.representations import LAST
from privlab.training import RECIPES, shadow_models
from privlab.training.shadow_models import Fleet

SMOKE: dict[str, Any] = dict(epochs=2, batch_size=32, lr=2e-3, warmup_epochs=1)
CLASS: dict[str, Any] = dict(epochs=36, batch_size=32, lr=2e-3, warmup_epochs=1)
LONGER: dict[str, Any] = CLASS | dict(epochs=45)
NIGHT: dict[str, Any] = dict(epochs=40, batch_size=64, lr=1e-3, warmup_epochs=2, precision="auto")
PAPER: dict[str, Any] = RECIPES["zhang2024_attribute"].settings()


@dataclass(frozen=True)
class Game:
    """Photographs with a task and a hidden attribute, cut into the four parts of one repeat.

    task: what the victim is trained to say.  attribute: what the attacker is after.
    parts: places of the victim's training and test images, and of the attacker's.  seed: of weights and probes.
    """

    photos: Described
    task: str
    attribute: str
    parts: data.splits.FourWay
    seed: int

    @property
    def hidden(self) -> Tensor:
        return self.photos[self.attribute]

    def probed(
        self,
        features: Tensor,
        kind: Literal["mlp", "linear"] = "mlp",
        width: int | None = None,
        on: str = "shadow_test",
    ) -> Score:
        """Fit a probe on the attacker's images, and judge it on others.

        features: (n, width) of every photograph.  kind, width: of `attribute_inference.probe`.  on: the part that it is judged on.
        """
        fit, judge = self.parts.shadow_train, getattr(self.parts, on)
        fitted = attribute_inference.probe(features[fit], self.hidden[fit], kind, width, self.seed)
        return fitted.score(features[judge], self.hidden[judge])

    def curve(self, features: Tensor, epochs: int) -> list[float]:
        """The probe's accuracy after each epoch of its own training."""
        fit, judge = self.parts.shadow_train, self.parts.shadow_test
        auxiliary, attacked = (features[fit], self.hidden[fit]), (features[judge], self.hidden[judge])
        return attribute_inference.over_epochs(auxiliary, attacked, epochs, self.seed)


def game(repeat: int, photos: Described, images: int, task: str, attribute: str) -> Game:
    """A repeat's own draw: its photographs, its four parts."""
    seed = repeat % 2**31
    drawn = photos.few(images, seed)
    return Game(drawn, task, attribute, data.four_way(drawn[attribute], seed), seed)


def victim(
    architecture: Architecture,
    photos: Described,
    task: str,
    trained_on: Tensor,
    recipe: Mapping[str, Any],
    seed: int,
    every: int = 0,
    device: str = "cpu",
    **changes: Any,
) -> Fleet:
    """One network, trained on these places of a set to tell `task`; it is kept, with what enters its last layer of every photograph."""
    name, shape = architecture
    how = training.Recipe(**recipe)
    keep = torch.zeros(1, len(photos), dtype=torch.bool)
    keep[0, trained_on] = True
    shape = {**shape, **models.sized(name, photos.pixels.shape[-1]), "in_chans": photos.pixels.shape[1], **changes}
    fleet = shadow_models.make(
        name, how, (photos.pixels, photos[task]), keep, model={**shape, "num_classes": len(photos.values[task])},
        normalise=photos.normalise, at=range(every, how.epochs, every) if every else (), layers=(LAST,), seed=seed,
        weights=True, device=device,
    )  # fmt: skip
    if not fleet.runs[0].complete:
        shadow_models.train(fleet, 0)
    return fleet


def eye(pixels: Tensor, side: int = 8) -> Tensor:
    """The photographs themselves, blurred to side x side: (n, channels * side * side)."""
    return torch.nn.functional.avg_pool2d(pixels.float() / 255, pixels.shape[-1] // side).flatten(1)


# -- two architectures on one draw --------------------------------------------------------------------------------------------


@experiment(
    "attribute_inference.architectures",
    data=("cifar10",),
    smoke=Size(
        2,
        "0.3 M parameters, 100 images a part, 2 epochs: it proves the code",
        settings=dict(families="small", images=400, recipe=SMOKE, every=1, probe_epochs=5, widths=(1,)),
    ),
    class_=Size(
        8,
        "networks of 0.3 M parameters on CIFAR-10, 480 images a part; the kind of thing, behind animal or vehicle",
        settings=dict(families="small", images=1_920, recipe=CLASS, every=6, probe_epochs=30, widths=(1,)),
    ),
    night=Size(
        16,
        "networks of 2 to 3 M parameters on CIFAR-10, 5,000 images a part; the kind of thing, behind animal or vehicle",
        settings=dict(families="medium", images=20_000, recipe=NIGHT, every=5, probe_epochs=50, widths=(1,)),
    ),
    gpu=Size(
        8,
        "ResNet-50 and Swin-T on CIFAR-10, 5,000 images a part; the kind of thing, behind animal or vehicle",
        settings=dict(families="paper", images=20_000, recipe=PAPER, every=10, probe_epochs=100, widths=(1,)),
    ),
)
def architectures(
    repeat: int,
    families: str,
    images: int,
    recipe: dict[str, Any],
    every: int,
    probe_epochs: int,
    widths: tuple[int, ...],
    device: str = "cpu",
) -> Values:
    """ResNet and Swin: the probe, what it has to beat, its course and the victim's, its depth, and a bottleneck."""
    this = game(repeat, data.attributes.load("cifar10"), images, "animal", "class")
    pixels = this.probed(eye(this.photos.pixels), "linear")
    yield "attack_acc[cifar10, pixels]", pixels.accuracy
    yield "attack_acc[cifar10, majority]", pixels.majority
    made = {
        name: victim(
            FAMILIES[families][name], this.photos, this.task, this.parts.victim_train, recipe, this.seed, every, device
        )
        for name in ("resnet", "swin")
    }
    width = min(fleet.features(0).shape[1] for fleet in made.values()) // 2
    courses = {name: course(this, fleet, probe_epochs) for name, fleet in made.items()}
    for name, fleet in made.items():
        of = f"cifar10, {name}"
        yield from at_the_end(this, fleet, of, width)
        yield from by_depth(this, fleet, of)
        for each in widths:
            narrow = victim(
                FAMILIES[families][name],
                this.photos,
                this.task,
                this.parts.victim_train,
                recipe,
                this.seed,
                0,
                device,
                bottleneck=each,
            )
            yield f"attack_acc[{of}, bottleneck_{each}]", this.probed(narrow.features(0)).accuracy
            yield f"task_acc[{of}, bottleneck_{each}]", narrow.right(0, this.parts.victim_test)
        for epoch, value in zip((0, *fleet.at), courses[name]["victim"], strict=True):
            yield f"attack_acc[{of}, probe, victim_epoch_{epoch}]", value
        for epoch, value in enumerate(courses[name]["probe"], start=1):
            if epoch % 5 == 0:
                yield f"attack_acc[{of}, probe, probe_epoch_{epoch}]", value
    yield from compared(courses)


@experiment("attribute_inference.longer", data=("cifar10",),
    smoke=Size(
        1, "0.3 M parameters, 100 images a part, 2 epochs: it proves the code",
        settings=dict(families="small", images=400, recipe=SMOKE, every=1, probe_epochs=5),
    ),
    class_=Size(
        8, "networks of 0.3 M parameters on CIFAR-10, 480 images a part, 45 epochs; the kind of thing, behind animal or vehicle",
        first=100, settings=dict(families="small", images=1_920, recipe=LONGER, every=5, probe_epochs=30),
    ),
)  # fmt: skip
def longer(repeat: int, device: str = "cpu", **how: Any) -> Values:
    """`architectures` with a quarter more epochs, so that a Swin of 0.3 M parameters knows its training images; without a bottleneck."""
    yield from architectures.measure(repeat, widths=(), device=device, **how)


@experiment("attribute_inference.mark", data=("cifar10",),
    smoke=Size(
        1, "0.3 M parameters, 100 images a part, 2 epochs: it proves the code",
        settings=dict(families="small", images=400, recipe=SMOKE),
    ),
    class_=Size(
        8, "networks of 0.3 M parameters on CIFAR-10, 480 images a part, 45 epochs; a mark on half of the images, behind animal or vehicle",
        first=200, settings=dict(families="small", images=1_920, recipe=LONGER),
    ),
)  # fmt: skip
def mark(repeat: int, families: str, images: int, recipe: dict[str, Any], device: str = "cpu") -> Values:
    """An attribute that does not follow from the task: a white square in the corner of half of the images, whatever they show."""
    drawn = stamped(data.attributes.load("cifar10").few(images, repeat % 2**31), 1_000_000 + repeat % 2**31)
    this = game(repeat, drawn, images, "animal", "mark")
    pixels = this.probed(eye(this.photos.pixels), "linear")
    yield "attack_acc[mark, pixels]", pixels.accuracy
    yield "attack_acc[mark, majority]", pixels.majority
    made = {
        name: victim(each, this.photos, this.task, this.parts.victim_train, recipe, this.seed, device=device)
        for name, each in FAMILIES[families].items()
        if name in ("resnet", "swin")
    }
    width = min(fleet.features(0).shape[1] for fleet in made.values()) // 2
    for name, fleet in made.items():
        yield from at_the_end(this, fleet, f"mark, {name}", width)


def stamped(photos: Described, seed: int, side: int = 4) -> Described:
    """The same photographs, half of them, drawn by chance, with a white square of so many pixels in the upper left corner."""
    worn = torch.rand(len(photos), generator=torch.Generator().manual_seed(seed)) < 0.5
    pixels = photos.pixels.clone()
    pixels[worn, :, :side, :side] = 255
    labels, values = {**photos.labels, "mark": worn.long()}, {**photos.values, "mark": ("no", "yes")}
    return replace(photos, pixels=pixels, labels=labels, values=values)


def at_the_end(this: Game, fleet: Fleet, of: str, width: int) -> Values:
    """The probe of a trained victim, and everything that it is held against.  width: of the comparison at equal width."""
    features, fresh = fleet.features(0), representations.read(fleet.fresh(0), fleet.pixels)[LAST]
    yield f"train_acc[{of}]", fleet.right(0, this.parts.victim_train)
    yield f"task_acc[{of}]", fleet.right(0, this.parts.victim_test)
    for kind, score in {
        "probe": this.probed(features),
        "linear_probe": this.probed(features, "linear"),
        "equal_width": this.probed(features, width=width),
        "on_the_victims_training_images": this.probed(features, on="victim_train"),
        "untrained_network": this.probed(fresh),
        "untrained_linear_probe": this.probed(fresh, "linear"),
        "untrained_equal_width": this.probed(fresh, width=width),
        "the_answer_alone": this.probed(fleet.logits(0)[0].softmax(1)),
    }.items():
        yield f"attack_acc[{of}, {kind}]", score.accuracy
        yield f"macro_f1[{of}, {kind}]", score.macro_f1


def by_depth(this: Game, fleet: Fleet, of: str) -> Values:
    """A linear probe behind every stage, from the first to the representation."""
    model = fleet.model(0)
    layers = representations.stages(model)
    read = representations.read(model, this.photos.pixels, layers)
    values = [this.probed(read[layer], "linear").accuracy for layer in layers[:-1]]
    yield from ((f"attack_acc[{of}, linear, stage_{n}]", value) for n, value in enumerate(values, start=1))
    yield f"attack_acc[{of}, linear, middle]", values[(len(layers) - 1) // 2]


def course(this: Game, fleet: Fleet, epochs: int) -> dict[str, list[float]]:
    """Attack accuracy by epoch: "probe" of the probe's training on the trained victim, "fresh" on the untrained one.

    "victim": by the victim's epoch, the untrained network first, and "level": its overfitting level there.
    """
    fresh = representations.read(fleet.fresh(0), fleet.pixels)[LAST]
    train, test = this.parts.victim_train, this.parts.victim_test
    return {
        "probe": this.curve(fleet.features(0), epochs),
        "fresh": this.curve(fresh, epochs),
        "victim": [this.probed(fresh).accuracy, *(this.probed(fleet.features(0, at=at)).accuracy for at in fleet.at)],
        "level": [0.0, *(fleet.right(0, train, at) - fleet.right(0, test, at) for at in fleet.at)],
    }


def compared(courses: Mapping[str, Mapping[str, list[float]]]) -> Values:
    """The Swin against the ResNet, epoch by epoch and at one overfitting level, as it is and less what the untrained networks tell."""
    columns = {name: {what: np.array(values) for what, values in each.items()} for name, each in courses.items()}
    swin, resnet = columns["swin"], columns["resnet"]
    probe, victim_ = (swin[what] - resnet[what] for what in ("probe", "victim"))
    yield "share_of_epochs_ahead[cifar10, probe, swin_less_resnet]", (probe > 0).mean()
    yield "share_of_epochs_ahead[cifar10, victim, swin_less_resnet]", (victim_[1:] > 0).mean()
    added = probe - (swin["fresh"] - resnet["fresh"])
    yield "share_of_epochs_ahead[cifar10, probe, swin_less_resnet, beyond_untrained]", (added > 0).mean()
    yield (
        "share_of_epochs_ahead[cifar10, victim, swin_less_resnet, beyond_untrained]",
        (victim_[1:] > victim_[0]).mean(),
    )
    curves = {name: (each["level"][1:], each["victim"][1:]) for name, each in courses.items()}
    begin = {name: each["victim"][0] for name, each in courses.items()}
    for name, value in at_matched_gap(curves, begin).items():
        yield f"attack_acc_at_matched_gap[cifar10, {name}]", value
