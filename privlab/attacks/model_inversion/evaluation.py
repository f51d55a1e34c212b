"""How far reconstructions show the people behind a model: a network that the attacker never saw is asked, as noise can drive the target's.

It has another architecture and was trained on all private photographs. What counts is whom it sees, and how near the pictures are to the
private ones in its features (Koh et al. 2024, section 14; the measures are those of PPA and KEDMI).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from privlab import training
from privlab.data.private_public import PrivatePublic
from privlab.models import representations
from privlab.training import batches
from privlab.training.batches import Labelled
from privlab.training.shadow_models import Fleet


class Score(NamedTuple):
    """What the evaluation model says of each of n pictures."""

    top1: Tensor  # (n,) bool, whether the target is its first choice
    knn: Tensor  # (n,) Euclidean distance to the nearest private photograph of the target, in its features

    @property
    def delta(self) -> Tensor:
        """The square of `knn`, as PPA prints it."""
        return self.knn.square()

    @property
    def accuracy(self) -> float:
        """Attack accuracy: the share of pictures in which the evaluation model sees the target (AttAcc, from 0 to 1)."""
        return self.top1.double().mean().item()


class EvaluationModel:
    """A network that was trained on all these private photographs; accuracy: of a network like it, on photographs held out."""

    def __init__(self, model: nn.Module, accuracy: float, private: Labelled) -> None:
        self.model, self.accuracy = model.eval(), accuracy
        pixels, self.labels = (part.cpu() for part in batches.pair(private))
        self.features = representations.read(model, pixels)[representations.LAST]  # (private photographs, width)

    def score(self, images: Tensor, targets: Tensor) -> Score:
        """Hold pictures (n, channels, height, width) in [0, 1] against the classes (n,) that they were made for."""
        heard: dict[str, list[Tensor]] = {representations.LAST: []}
        with representations.listening(self.model, heard):  # one pass gives both
            logits, targets = training.logits(self.model, images).cpu(), targets.cpu().long()
        features = torch.cat(heard[representations.LAST])
        return Score(logits.argmax(1) == targets, nearest(features, targets, self.features, self.labels))


def evaluation_model(fleet: Fleet, split: PrivatePublic) -> EvaluationModel:
    """That of a draw of people, out of a trained fleet with `split.evaluation_keep()` as its keep matrix; its accuracy is its twin's."""
    return EvaluationModel(fleet.model(0), fleet.right(1, split.test), (split.pixels, split.labels))


def nearest(features: Tensor, targets: Tensor, private: Tensor, labels: Tensor) -> Tensor:
    """Euclidean distance of each row of features (n, width) to the nearest private one (m, width) of its own class, else infinity: (n,).

    Koh et al. 2024, section 14, "KNN distance"; its square is the delta of PPA.
    """
    distance = torch.cdist(features.double(), private.double())  # (n, m)
    return distance.masked_fill(targets[:, None] != labels[None], torch.inf).min(1).values
