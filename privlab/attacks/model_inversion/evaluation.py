"""How far reconstructions show the people behind a model, as the field measures it: a network that the attacker never saw is asked.

The target model itself cannot say: the attack has driven its answer to the target, and noise can do that. So a second network of another
architecture is trained on all private photographs, and what counts is whom *it* sees, and how near the pictures are to the private
ones in its features (Koh et al. 2024, section 14; the measures are those of PPA and KEDMI).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from privlab import training
from privlab.compute import store
from privlab.data.private_public import PrivatePublic
from privlab.models import representations
from privlab.training import batches
from privlab.training.batches import Labelled
from privlab.training.shadow_models import Fleet


@dataclass(frozen=True)
class Score:
    """What the evaluation model says of each of n pictures.

    top1: (n,) bool, whether the target is its first choice.
    knn: (n,) Euclidean distance to the nearest private photograph of the target, in its features.
    delta: (n,) the square of it, as PPA prints it.  likelihood: (n,) its probability for the target.
    """

    top1: Tensor = field(repr=False)
    knn: Tensor = field(repr=False)
    likelihood: Tensor = field(repr=False)

    @property
    def delta(self) -> Tensor:
        return self.knn.square()

    @property
    def accuracy(self) -> float:
        """Attack accuracy: the share of pictures in which the evaluation model sees the target (AttAcc, from 0 to 1)."""
        return self.top1.double().mean().item()

    def __repr__(self) -> str:
        return f"attack accuracy {self.accuracy:.3f}, KNN distance {self.knn.mean():.2f}, {len(self.top1)} pictures"


@dataclass(frozen=True)
class EvaluationModel:
    """A network with the private photographs' features; make one with `evaluation_model`.

    accuracy: the share of photographs that it was not trained on which a network like it gets right: how far its word can be trusted.
    """

    model: nn.Module = field(repr=False)
    accuracy: float
    features: Tensor = field(repr=False)  # (private photographs, width)
    labels: Tensor = field(repr=False)

    def score(self, images: Tensor, targets: Tensor, target_model: nn.Module | None = None) -> Score:
        """Hold pictures (n, channels, height, width) in [0, 1] against the classes (n,) that they were made for.

        target_model: the model under attack, to make sure that it is another.
        Raises ValueError if it is, by its weights; and for a class without private photographs.
        """
        if target_model is not None and _weights(target_model) == _weights(self.model):
            raise ValueError(
                f"target_model: this {type(target_model).__name__} is the evaluation model itself, and would call any search a success; "
                "train an evaluation model of another architecture"
            )
        if len(images) != len(targets):
            raise ValueError(f"targets: {len(targets)} classes for {len(images)} pictures; give one for each")
        logits, targets = training.logits(self.model, images).cpu(), targets.cpu().long()
        features = representations.read(self.model, images)[representations.LAST]
        knn = nearest(features, targets, self.features, self.labels)
        return Score(logits.argmax(1) == targets, knn, logits.softmax(1).gather(1, targets[:, None])[:, 0])


def evaluation_model(model: nn.Module, accuracy: float, private: Labelled) -> EvaluationModel:
    """A model trained on these private photographs (all of them), and its held-out accuracy, measured on a twin."""
    pixels, labels = batches.pair(private)
    return EvaluationModel(model.eval(), accuracy, representations.read(model, pixels)[representations.LAST], labels)


def evaluation_models(fleet: Fleet, split: PrivatePublic) -> list[EvaluationModel]:
    """One for each draw of people, out of a trained fleet with `split.evaluation_keep()` as its keep matrix; its accuracy is its twin's."""
    n = len(split.draws)
    held_out = [fleet.right(n + i, draw.test) for i, draw in enumerate(split.draws)]
    return [evaluation_model(fleet.model(i), held_out[i], split.photographs(i)) for i in range(n)]


def nearest(features: Tensor, targets: Tensor, private: Tensor, labels: Tensor) -> Tensor:
    """Euclidean distance of each row of features (n, width) to the nearest private one (m, width) of its own class: (n,).

    Koh et al. 2024, section 14, "KNN distance"; its square is the delta of PPA.  Raises ValueError for a class without photographs.
    """
    distance = torch.cdist(features.double(), private.double())  # (n, m)
    distance = distance.masked_fill(targets[:, None] != labels[None], torch.inf)
    shortest = distance.min(1).values
    if shortest.isinf().any():
        raise ValueError(f"targets: there is no private photograph of class {int(targets[shortest.isinf()][0])}")
    return shortest


def _weights(model: nn.Module) -> str:
    return store.digest(*model.state_dict().values())
