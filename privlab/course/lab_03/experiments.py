"""Lab 03: what does a representation tell that nobody asked, and what of it did training teach? (Zhang et al. 2024, section 4.3)

One repeat is a draw of photographs, cut into four parts that share none (the victim's training and test images, and the attacker's own
two), with weights of its own for each architecture. The same weights before any training are a column: what training adds is the probe's
accuracy less theirs. Draws of CIFAR-10's 50,000 training images overlap, so this speaks of CIFAR-10.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from privlab import data, models, training
from privlab.attacks import attribute_inference
from privlab.attacks.attribute_inference import Score
from privlab.data.attributes import Described
from privlab.data.splits import FourWay
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.victims import shadow_fleets
from privlab.experiments.victims.shadow_fleets import FAMILIES, RECIPE, Architecture, at_matched_gap
from privlab.models import representations
from privlab.training.shadow_models import Fleet

SMOKE, CLASS, LONGER = (dict(RECIPE["smoke"], epochs=epochs) for epochs in (2, 36, 45))
PAPER: Settings = training.RECIPES["zhang2024_attribute"].settings()
Kind = Literal["mlp", "linear"]  # of a probe
PROOF = "0.3 M parameters, 100 images a part, 2 epochs: it proves the code"
KIND = "the kind of thing, behind animal or vehicle"


@dataclass(frozen=True)
class Game:
    """Photographs with a task and a hidden attribute, cut into the four parts of one repeat."""

    photos: Described
    task: str  # what the victim is trained to say
    hidden: Tensor  # (n,), what the attacker is after
    parts: FourWay  # places of the victim's training and test images, and of the attacker's
    seed: int  # of weights and probes

    def victim(self, net: Architecture, recipe: Settings, every: int = 0, device: str = "cpu", **changes: Any) -> Fleet:
        """One network, trained on its part to tell the task; it is kept, with what enters its last layer of every photograph."""
        name, shape = net
        how, photos = training.Recipe(**recipe), self.photos
        keep = torch.zeros(1, len(photos), dtype=torch.bool)
        keep[0, self.parts.victim_train] = True
        channels, side = photos.pixels.shape[1:3]
        needed = dict(models.sized(name, side), in_chans=channels, num_classes=len(photos.values[self.task]))
        return shadow_fleets.trained(
            name, how, (photos.pixels, photos[self.task]), keep, model={**shape, **needed, **changes},
            normalise=photos.normalise, at=range(every, how.epochs, every) if every else (),
            features=True, weights=True, seed=self.seed, device=device,
        )  # fmt: skip

    def probed(self, features: Tensor, kind: Kind = "mlp", width: int | None = None, on: str = "shadow_test") -> Score:
        """Fit a probe on the attacker's images, of features (n, width) of every photograph, and judge it on the part `on`."""
        fit, judge = self.parts.shadow_train, getattr(self.parts, on)
        fitted = attribute_inference.probe(features[fit], self.hidden[fit], kind, width, self.seed)
        return fitted.score(features[judge], self.hidden[judge])


def game(repeat: int, photos: Described, images: int, task: str, attribute: str) -> Game:
    """A repeat's own draw: its photographs, its four parts."""
    seed = repeat % 2**31
    drawn = photos.few(images, seed)
    return Game(drawn, task, drawn[attribute], data.four_way(drawn[attribute], seed), seed)


def marked(repeat: int, images: int, side: int = 4) -> Game:
    """A repeat whose attribute is a white square in the corner of half of the images, whatever they show.  side: its pixels."""
    photos = data.attributes.load("cifar10").few(images, repeat % 2**31)
    worn = torch.rand(len(photos), generator=torch.Generator().manual_seed(1_000_000 + repeat % 2**31)) < 0.5
    pixels = photos.pixels.clone()
    pixels[worn, :, :side, :side] = 255
    labels, values = {**photos.labels, "mark": worn.long()}, {**photos.values, "mark": ("no", "yes")}
    stamped = replace(photos, pixels=pixels, labels=labels, values=values)
    return game(repeat, stamped, images, "animal", "mark")


@experiment("attribute_inference.architectures")
@Size("smoke", 2, PROOF, families="small", images=400, recipe=SMOKE, every=1, probe_epochs=5, widths=(1,))
@Size("class", 8, f"networks of 0.3 M parameters on CIFAR-10, 480 images a part; {KIND}",
    families="small", images=1_920, recipe=CLASS, every=6, probe_epochs=30, widths=(1,))  # fmt: skip
@Size("night", 16, f"networks of 2 to 3 M parameters on CIFAR-10, 5,000 images a part; {KIND}", families="medium",
    images=20_000, recipe=dict(RECIPE["night"], epochs=40), every=5, probe_epochs=50, widths=(1,))  # fmt: skip
@Size("gpu", 8, f"ResNet-50 and Swin-T on CIFAR-10, 5,000 images a part; {KIND}",
    families="paper", images=20_000, recipe=PAPER, every=10, probe_epochs=100, widths=(1,))  # fmt: skip
def architectures(
    repeat: int, families: str, images: int, recipe: Settings, every: int, probe_epochs: int, widths: tuple[int, ...] = (),
    device: str = "cpu",
) -> Values:  # fmt: skip
    """ResNet and Swin: the probe, what it has to beat, its course and the victim's, its depth, and a bottleneck."""
    this, pair = game(repeat, data.attributes.load("cifar10"), images, "animal", "class"), FAMILIES[families]
    fleets = {name: this.victim(pair[name], recipe, every, device) for name in ("resnet", "swin")}
    yield from at_the_end(this, "cifar10", fleets)
    courses = {name: course(this, fleet, probe_epochs) for name, fleet in fleets.items()}
    for name, fleet in fleets.items():
        of, model = f"cifar10, {name}", fleet.model(0)
        *before, _ = representations.stages(model)  # the last is the representation
        read = representations.read(model, this.photos.pixels, before)
        stages = [this.probed(features, "linear").accuracy for features in read.values()]
        yield from ((f"attack_acc[{of}, linear, stage_{n}]", value) for n, value in enumerate(stages, start=1))
        yield f"attack_acc[{of}, linear, middle]", stages[len(stages) // 2]
        for width in widths:
            narrow = this.victim(pair[name], recipe, 0, device, bottleneck=width)
            yield f"attack_acc[{of}, bottleneck_{width}]", this.probed(narrow.features(0)).accuracy
            yield f"task_acc[{of}, bottleneck_{width}]", narrow.right(0, this.parts.victim_test)
        for epoch, value in zip((0, *fleet.at), courses[name]["victim"], strict=True):
            yield f"attack_acc[{of}, probe, victim_epoch_{epoch}]", value
        for epoch in range(5, probe_epochs + 1, 5):
            yield f"attack_acc[{of}, probe, probe_epoch_{epoch}]", courses[name]["probe"][epoch - 1]
    probe, victim, fresh = (courses["swin"][what] - courses["resnet"][what] for what in ("probe", "victim", "fresh"))
    yield "share_of_epochs_ahead[cifar10, probe, swin_less_resnet]", (probe > 0).mean()
    yield "share_of_epochs_ahead[cifar10, victim, swin_less_resnet]", (victim[1:] > 0).mean()
    yield "share_of_epochs_ahead[cifar10, probe, swin_less_resnet, beyond_untrained]", (probe > fresh).mean()
    yield "share_of_epochs_ahead[cifar10, victim, swin_less_resnet, beyond_untrained]", (victim[1:] > victim[0]).mean()
    curves = {name: (each["level"][1:], each["victim"][1:]) for name, each in courses.items()}
    begin = {name: each["victim"][0] for name, each in courses.items()}
    for name, value in at_matched_gap(curves, begin).items():
        yield f"attack_acc_at_matched_gap[cifar10, {name}]", value


@experiment("attribute_inference.longer")
@Size("smoke", 1, PROOF, families="small", images=400, recipe=SMOKE, every=1, probe_epochs=5)
@Size("class", 8, f"networks of 0.3 M parameters on CIFAR-10, 480 images a part, 45 epochs; {KIND}",
    first=100, families="small", images=1_920, recipe=LONGER, every=5, probe_epochs=30)  # fmt: skip
def longer(repeat: int, device: str = "cpu", **settings: Any) -> Values:
    """The same for a quarter more epochs, so that a Swin of 0.3 M parameters knows its training images; without a bottleneck."""
    return architectures.measure(repeat, device=device, **settings)


@experiment("attribute_inference.mark")
@Size("smoke", 1, PROOF, families="small", images=400, recipe=SMOKE)
@Size("class", 8, "networks of 0.3 M parameters on CIFAR-10, 480 images a part, 45 epochs; a mark on half of the images, "
    "behind animal or vehicle", first=200, families="small", images=1_920, recipe=LONGER)  # fmt: skip
def mark(repeat: int, families: str, images: int, recipe: Settings, device: str = "cpu") -> Values:
    """An attribute that does not follow from the task: a white square in the corner of half of the images, whatever they show."""
    this, pair = marked(repeat, images), FAMILIES[families]
    fleets = {name: this.victim(pair[name], recipe, device=device) for name in ("resnet", "swin")}
    yield from at_the_end(this, "mark", fleets)


def at_the_end(this: Game, key: str, fleets: dict[str, Fleet]) -> Values:
    """What the photographs alone tell, and of each trained victim its probe with everything that it is held against."""
    blurred = torch.nn.functional.avg_pool2d(this.photos.pixels.float() / 255, this.photos.pixels.shape[-1] // 8)
    pixels = this.probed(blurred.flatten(1), "linear")  # of 8 x 8 pixels
    yield f"attack_acc[{key}, pixels]", pixels.accuracy
    yield f"attack_acc[{key}, majority]", pixels.majority
    width = min(fleet.features(0).shape[1] for fleet in fleets.values()) // 2  # of the comparison at equal width
    for name, fleet in fleets.items():
        features, of = fleet.features(0), f"{key}, {name}"
        untrained = representations.read(fleet.fresh(0), fleet.pixels)[representations.LAST]
        yield f"train_acc[{of}]", fleet.right(0, this.parts.victim_train)
        yield f"task_acc[{of}]", fleet.right(0, this.parts.victim_test)
        for kind, score in {
            "probe": this.probed(features),
            "linear_probe": this.probed(features, "linear"),
            "equal_width": this.probed(features, width=width),
            "on_the_victims_training_images": this.probed(features, on="victim_train"),
            "untrained_network": this.probed(untrained),
            "untrained_linear_probe": this.probed(untrained, "linear"),
            "untrained_equal_width": this.probed(untrained, width=width),
            "the_answer_alone": this.probed(fleet.logits(0)[0].softmax(1)),
        }.items():
            yield f"attack_acc[{of}, {kind}]", score.accuracy
            yield f"macro_f1[{of}, {kind}]", score.macro_f1


def course(this: Game, fleet: Fleet, epochs: int) -> dict[str, np.ndarray]:
    """Attack accuracy by epoch of the probe's training, on the trained victim and on a fresh one, and by epoch of the victim's."""
    parts, untrained = this.parts, representations.read(fleet.fresh(0), fleet.pixels)[representations.LAST]

    def curve(features: Tensor) -> list[float]:
        auxiliary, attacked = ((features[k], this.hidden[k]) for k in (parts.shadow_train, parts.shadow_test))
        return attribute_inference.over_epochs(auxiliary, attacked, epochs, this.seed)

    looks = [untrained, *(fleet.features(0, at) for at in fleet.at)]
    levels = [fleet.right(0, parts.victim_train, at) - fleet.right(0, parts.victim_test, at) for at in fleet.at]
    return {
        "probe": np.array(curve(fleet.features(0))),
        "fresh": np.array(curve(untrained)),
        "victim": np.array([this.probed(features).accuracy for features in looks]),  # before its training, too
        "level": np.array([0.0, *levels]),  # of overfitting, there
    }
