"""Models that share all but their images, what they answered, and what attacks make of it: the ground of experiments on membership."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from privlab import data, training
from privlab.attacks.membership_inference import lira, network_based, signals
from privlab.experiments.protocol import Settings, Values, find
from privlab.metrics import roc
from privlab.training import RECIPES, shadow_models
from privlab.training.shadow_models import Fleet

Architecture = tuple[str, dict[str, Any]]  # a name of the zoo, and what is changed
FAMILIES: dict[str, dict[str, Architecture]] = {
    "small": {
        "resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
        "swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
        "convnext": ("convnext_cifar", dict(dims=(24, 48, 96, 96))),
    },
    "medium": {name: (f"{name}_cifar", {}) for name in ("resnet", "swin", "convnext")},
    "paper": dict(resnet=("resnet50_cifar", {}), swin=("swin_tiny_cifar", {}), convnext=("convnext_tiny_cifar", {})),
}
RECIPE: dict[str, Settings] = {  # by size
    "smoke": dict(epochs=2, batch_size=32, lr=2e-3, warmup_epochs=1),
    "class": dict(epochs=30, batch_size=32, lr=2e-3, warmup_epochs=1),
    "night": dict(epochs=80, batch_size=64, lr=1e-3, warmup_epochs=2, precision="auto"),
    "paper": RECIPES["zhang2024_membership"].settings(),
}
# metric of a look -> attack
LEAKS = {"attack_acc": "network", "auc": "likelihood_ratio", "tpr_at_fpr_0p01": "likelihood_ratio"}
PROOF = "0.3 M parameters, 100 images a model, 2 epochs: it proves the code"  # what smoke stands for


@dataclass(frozen=True)
class Draw:
    """Images of CIFAR-10 that belong to one repeat, and who is trained on which."""

    pixels: Tensor  # uint8 (n, 3, 32, 32)
    labels: Tensor  # (n,)
    keep: Tensor  # (models, n) bool; rows 2k and 2k + 1 are complementary halves of the audited images
    audited: int  # so many come first; no model is trained on those behind them
    seed: int
    device: str = field(default="cpu", kw_only=True)  # where models are trained


def draw(repeat: int, images: int, models: int, unseen: int = 0, device: str = "cpu") -> Draw:
    """A repeat's own images: the next block of one shuffled order, so two repeats share none until the set is used up (at 50,000 all do).

    images: that may be members.  models: an even number, 4 or more.  unseen: further images that no model is trained on.
    """
    everything, size = data.load("cifar10"), images + unseen
    shuffled = torch.randperm(len(everything), generator=torch.Generator().manual_seed(0))
    places = shuffled[repeat % (len(everything) // size) * size :][:size]
    seed = repeat % 2**31  # of a pilot, which is negative, too
    keep = F.pad(data.in_out(images, models, seed, pairs=True), (0, unseen))
    return Draw(everything.pixels[places], everything.labels[places], keep, images, seed, device=device)


@dataclass(frozen=True)
class Answers(Draw):
    """What the models of one architecture said of a draw of images."""

    logits: Mapping[int, Tensor]  # epoch -> (models, queries, n, classes), raw; before the last, one query
    mirrored: bool = False  # whether the models were trained on mirror images, too

    @property
    def models(self) -> int:
        return len(self.keep)

    @property
    def members(self) -> Tensor:
        """Which model was trained on which audited image, (models, audited)."""
        return self.keep[:, : self.audited]

    def at(self, epoch: int | None = None) -> Tensor:
        """Logits after this epoch, the last if not given."""
        return self.logits[max(self.logits) if epoch is None else epoch]

    def of(self, model: int, epoch: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (audited, classes) of one model, the labels, and who is a member: what an attacker sees, and what the referee knows."""
        return self.at(epoch)[model, 0, : self.audited], self.labels[: self.audited], self.members[model]

    def shadow(self, model: int) -> int:
        """The shadow model of this victim: of the next pair, so its members say nothing about the victim's."""
        return (model + 2) % self.models

    def accuracies(self, epoch: int | None = None) -> tuple[Tensor, Tensor]:
        """Each model's share of right answers on its members, and on the other audited images: two times (models,)."""
        right = (self.at(epoch)[:, 0, : self.audited].argmax(-1) == self.labels[: self.audited]).double()
        inside, outside = self.members.double(), (~self.members).double()
        return (right * inside).sum(1) / inside.sum(1), (right * outside).sum(1) / outside.sum(1)

    def margins(self, epoch: int | None = None, mirror: bool | None = None) -> Tensor:
        """(models, audited, queries): of the image and, if `mirror`, of its mirror image, where it was asked.

        mirror: if not given, whether the models know mirror images, since Carlini et al. 2022 ask about what the training showed.
        """
        logits = self.at(epoch)[:, : 1 + (self.mirrored if mirror is None else mirror), : self.audited]
        return torch.stack([signals.margin(each, self.labels[: self.audited]).T for each in logits])

    def ratios(self, epoch: int | None = None, **knobs: Any) -> Tensor:
        """LiRA with each model as the target, and all others but its partner as its shadows: (models, audited).  knobs: of `lira`."""
        return lira.every_target(self.margins(epoch), self.members, pairs=True, **knobs)

    def scores(self) -> dict[str, Tensor]:
        """What three attacks of all models say of all audited images, each (models, audited); margins order images as the loss does."""
        right = torch.stack([signals.correct(*self.of(model)[:2]) for model in range(self.models)])
        return {"likelihood_ratio": self.ratios(), "loss_threshold": self.margins()[..., 0], "right_or_wrong": right}

    def knows(self, of: str) -> Values:
        """How well the models know their images, by the names of the values.  of: the first keys of each name, "cifar10, swin"."""
        train, test = self.accuracies()
        yield f"train_acc[{of}]", train.min()  # of the model that knows its images least
        yield f"task_acc[{of}]", test.mean()
        yield f"train_test_gap[{of}]", (train - test).mean()  # the overfitting level (Zhang et al. 2024, section 4.2)


def trained(*settings: Any, **more: Any) -> Fleet:
    """A fleet, see `shadow_models.make`, trained here and now, in this process; from the store if it is kept there."""
    fleet = shadow_models.make(*settings, **more)
    for model in range(len(fleet.keep)):
        shadow_models.train(fleet, model)
    return fleet


def answers(architecture: Architecture, images: Draw, recipe: Settings, every: int = 0) -> Answers:
    """What a fleet says, see `trained`.  recipe: settings of a `Recipe`.  every: epochs between two looks; 0 for the last one alone."""
    (name, changes), how = architecture, training.Recipe(**recipe)
    fleet = trained(
        name, how, (images.pixels, images.labels), images.keep, model={**changes, "num_classes": 10},
        normalise=data.NORMALISE["cifar10"], seed=images.seed, at=range(every, how.epochs, every) if every else (),
        queries=("image", "mirror", *training.batches.SHIFTS), device=images.device,
    )  # fmt: skip
    logits = {at: torch.stack([fleet.logits(m, at) for m in range(len(fleet.keep))]) for at in fleet.at}
    return Answers(**vars(images), logits=logits, mirrored=how.augment != "none")


def enlarged(said: Answers, architecture: Architecture, recipe: Settings, models: int) -> Answers:
    """What a fleet said, and behind it what so many further models say of the same images: pairs with halves and weights of their own."""
    seed = 2**31 + said.seed  # of no repeat
    keep = F.pad(data.in_out(said.audited, models, seed, pairs=True), (0, len(said.labels) - said.audited))
    more = answers(architecture, Draw(said.pixels, said.labels, keep, said.audited, seed, device=said.device), recipe)
    logits = {max(said.logits): torch.cat([said.at(), more.at()])}
    return replace(said, keep=torch.cat([said.keep, keep]), logits=logits)


def shown(
    name: str, profile: str, families: Sequence[str], device: str = "cpu", guest: Architecture | None = None
) -> dict[str, Answers]:
    """The models behind a lab's live repeat, to play with, by family of FAMILIES; once they are trained they are read from the store.

    name: of an experiment that trains fleets.  profile: smoke, or anything above it for class.  guest: a further architecture.
    """
    plan = find(name).size("smoke" if profile == "smoke" else "class")
    how = {"unseen": 0, "every": 0, **plan.settings}
    images = draw(plan.live, how["images"], how["models"], how["unseen"], device)
    architectures = {family: FAMILIES[how["families"]][family] for family in families}
    architectures |= {"guest": guest} if guest else {}
    return {family: answers(each, images, how["recipe"], how["every"]) for family, each in architectures.items()}


def rates(scores: Tensor, members: Tensor) -> dict[str, float]:
    """Of all targets together, (models, n): AUC, and the TPR in percent at two low rates of false positives, by one threshold for all."""
    of = (scores.flatten(), members.flatten())
    low, high = 100 * roc.curve(*of).at([0.001, 0.01])
    return {"auc": roc.auc(*of), "tpr_at_fpr_0p01": float(high), "tpr_at_fpr_0p001": float(low)}


def rated(of: str, scores: Mapping[str, Tensor], members: Tensor) -> Values:
    """`rates` of each attack, by the names of the values.  of: the first keys of each.  scores: attack -> (models, n)."""
    for attack, each in scores.items():
        for metric, value in rates(each, members).items():
            if attack != "right_or_wrong" or metric == "auc":  # one bit has no tail
                yield f"{metric}[{of}, {attack}]", value


def by_network(said: Answers, victim: int, epoch: int | None = None, sort: bool = False, epochs: int = 50) -> float:
    """Accuracy of the paper's attack, a network that learns from the shadow model's answers who is a member.  epochs: of its training."""
    attack = network_based.network(*said.of(said.shadow(victim), epoch), sort=sort, epochs=epochs)
    logits, labels, members = said.of(victim, epoch)
    return roc.accuracy(attack(logits, labels), members, 0.5)


def accuracy(attack: Callable[..., float], said: Answers, **more: Any) -> float:
    """Mean over all victims."""
    return float(np.mean([attack(said, victim, **more) for victim in range(said.models)]))


def look(said: Answers, epoch: int, epochs: int = 50) -> dict[str, float]:
    """Where a fleet stands after an epoch, by metric.  epochs: of the attacking network's training."""
    train, test = (each.mean().item() for each in said.accuracies(epoch))
    network, ratio = accuracy(by_network, said, epoch=epoch, epochs=epochs), rates(said.ratios(epoch), said.members)
    learnt = {"train_acc": train, "task_acc": test, "train_test_gap": train - test, "attack_acc": network}
    return {**learnt, "auc": ratio["auc"], "tpr_at_fpr_0p01": ratio["tpr_at_fpr_0p01"]}


def at_one_level(looks: Mapping[str, list[dict[str, float]]]) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Metric, kind of attack, and what each network has at one overfitting level.  looks: network -> its looks."""
    levels = {of: [look["train_test_gap"] for look in each] for of, each in looks.items()}
    for metric, kind in LEAKS.items():
        chance = 1.0 if metric == "tpr_at_fpr_0p01" else 0.5  # of an untrained network, which leaks nothing
        curves = {of: (levels[of], [look[metric] for look in each]) for of, each in looks.items()}
        yield metric, kind, at_matched_gap(curves, dict.fromkeys(curves, chance))


def at_matched_gap(curves: Mapping[str, Sequence[Any]], untrained: Mapping[str, float]) -> dict[str, float]:
    """Each curve's mean over the overfitting levels that all of them went through, with straight lines between the looks.

    curves: name -> (overfitting levels, values of an attack), rows of a number a look.
    untrained: name -> the attack's value before any training, at level 0; there all curves begin, so they always meet.
    """
    points = {name: sorted([(0.0, untrained[name]), *zip(*each, strict=True)]) for name, each in curves.items()}
    low, high = max(each[0][0] for each in points.values()), min(each[-1][0] for each in points.values())
    grid = np.linspace(low, high, 100)
    return {name: float(np.interp(grid, *np.array(each).T).mean()) for name, each in points.items()}
