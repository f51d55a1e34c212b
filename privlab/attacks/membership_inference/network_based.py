"""Was this image in the training set? Three attacks that need one shadow model or none; scores are higher for members throughout.

    network             Zhang et al. 2024, section 3.1.1: a small network reads the confidences; fitted on a shadow model's
    class_thresholds    Song & Mittal 2021: any score, held against a threshold for each class; chosen on a shadow model's
    augmentation_gap    Choquette-Choo et al. 2021: reads labels alone, over several pictures of the image; needs no shadow model
                        (with one picture it is the correctness gap of Yeom et al. 2018)

The attacker sees what models say of images, (n, classes) raw logits, and the labels of the images; of its own shadow model
it also knows which images were members. The likelihood-ratio attack, with many shadow models, is in `lira.py`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from torch import Tensor

from privlab.attacks.membership_inference import signals
from privlab.metrics import roc

WIDTHS = (64, 32)  # hidden units; the paper says "three-layer MLP", which we read as three layers of weights
EPOCHS = 50  # at most


@dataclass(frozen=True, repr=False)
class Network:
    """A fitted attack: call it with logits (n, classes) and labels (n,) for (n,) scores, the probability of being a member.

    Members and non-members are taken to be equally likely, so the threshold that goes with it is 0.5.
    """

    classifier: MLPClassifier
    classes: int
    members: int
    others: int
    sort: bool
    seed: int

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        if (given := logits.shape[-1]) != self.classes:
            raise ValueError(
                f"logits: got {given} classes, and the attack was fitted on a shadow model's {self.classes}; "
                "give a victim and a shadow model for the same classes"
            )
        against, member = torch.from_numpy(self.classifier.predict_proba(inputs(logits, labels, self.sort))).double().T
        return member / (member + against * (self.members / self.others))  # as if fitted on as many of each

    def __repr__(self) -> str:
        layers = "-".join(str(width) for width in (self.classes + 1, *WIDTHS, 1))
        order = "sorted" if self.sort else "in the order of the classes"
        return (
            f"network-based attack: {self.classes} confidences {order}, 1 bit for a right answer; MLP {layers}, ReLU,\n"
            f"Adam, {self.classifier.n_iter_} epochs, seed {self.seed}; fitted on {self.members:,} members and {self.others:,} non-members"
        )


def network(
    logits: Tensor, labels: Tensor, members: Tensor, *, sort: bool = False, seed: int = 0, epochs: int = EPOCHS
) -> Network:
    """Fit the network-based attack on what a shadow model says of its own training images and of images that it never saw.

    The paper leaves open how wide the network is and how it is trained. We take 64 and 32 units with ReLU, Adam at 1e-3, batches of 200 and
    up to 50 epochs. On three small victims of CIFAR-10, 512 and 256 units gave an AUC within 0.004 of this, and 200 epochs none that was
    higher by 0.001. Where there are more members than non-members, or fewer, the scores are corrected for it by Bayes' rule.

    logits: (n, classes), raw.  labels: (n,), 0 to classes - 1.  members: (n,) bool.
    sort: order the confidences from high to low, so that no class is told from another (Salem et al. 2019). The paper does not say
        that it sorts; without it the attack can learn that the shadow model leaks one class more than another.
    seed: of the first weights and of the order of the images; same seed, same scores.
    epochs: at most; on some hundred answers 50 teach it no more than the bit, 200 do.
    Returns a Network: `attack(logits, labels)` gives (n,) float64 scores in [0, 1].
    Raises ValueError for shapes that do not fit, logits that are not finite, labels out of range, members all of one kind.
    Source: Zhang et al. 2024, sections 3.1.1 and 4.1; Shokri et al. 2017, Salem et al. 2019.
    """
    read = inputs(logits, labels, sort)
    members = _members(members, len(read))
    classifier = MLPClassifier(WIDTHS, max_iter=epochs, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopping after so many epochs is meant
        classifier.fit(read, members.numpy())
    inside = int(members.sum())
    return Network(classifier, logits.shape[1], inside, len(members) - inside, sort, seed)


def inputs(logits: Tensor, labels: Tensor, sort: bool) -> np.ndarray:
    """What the network reads, (n, classes + 1): confidences in float64, and one bit, whether the answer is right."""
    right = signals.correct(logits, labels)[:, None].cpu()  # (n, 1)
    confidences = logits.detach().cpu().double().softmax(1)  # (n, classes)
    if sort:
        confidences = confidences.sort(1, descending=True).values
    return torch.cat([confidences, right], 1).numpy()


def class_thresholds(scores: Tensor, labels: Tensor, members: Tensor) -> Tensor:
    """For each class the score from which on to say "member": the best balanced accuracy within the class, on a shadow model.

    A class that is harder has higher losses, inside the training set and outside; one threshold for all calls its members
    non-members.
    scores: (n,), finite, higher = member.  labels: (n,).  members: (n,) bool.
    Returns (classes,) float64, for `by_class`; there are as many classes as the largest label plus 1. A class without members or without
    non-members takes the threshold that is best over all images, with a warning that names it.
    Raises ValueError as `roc.best_threshold` does.
    Source: Song & Mittal 2021, the attacks with class-dependent thresholds.
    """
    labels, members = torch.as_tensor(labels).cpu(), _members(members, len(labels))
    if labels.min() < 0:
        raise ValueError(f"labels hold {int(labels.min())}; give class indices from 0 on")
    over_all = roc.best_threshold(scores, members)
    thresholds, absent = [], []
    for k in range(int(labels.max()) + 1):
        here = labels == k
        there = members[here].any() and not members[here].all()
        thresholds.append(roc.best_threshold(scores[here], members[here]) if there else over_all)
        absent += [] if there else [k]
    if absent:
        warnings.warn(
            f"classes absent from a split: {', '.join(map(str, absent))} (no members, or no non-members); "
            "they take the threshold over all classes",
            stacklevel=2,
        )
    return torch.tensor(thresholds, dtype=torch.float64)


def by_class(scores: Tensor, labels: Tensor, thresholds: Tensor) -> Tensor:
    """Scores relative to the threshold of their class: 0 or more says "member", and one ROC serves all classes.

    scores: (n,), finite.  labels: (n,).  thresholds: (classes,), from `class_thresholds`.
    Returns (n,) float64.  Raises ValueError for labels without a threshold.
    """
    if (outside := labels[(labels < 0) | (labels >= len(thresholds))]).numel():
        raise ValueError(f"labels hold {int(outside[0])}, and there are thresholds for 0 to {len(thresholds) - 1}")
    return scores.double() - thresholds[labels]


def augmentation_gap(logits: Tensor, labels: Tensor) -> Tensor:
    """The share of an image's pictures that the model labels rightly: an attack for models that return nothing but a label.

    A model is right about a member even where the image is mirrored or moved; about an image that it never saw it is right by
    a narrower margin. Only the place of the largest logit is used. The paper feeds the right-or-wrong bits to a network fitted on a
    shadow model, which may weigh one picture above another; this share weighs all alike and needs no shadow model.

    logits: (queries, n, classes), the answers to `queries.shifts(d)`, say. With one query the share is 0 or 1: the model is right
        or wrong (Yeom et al. 2018, Adversary 1; the attack's accuracy is then (1 + train accuracy - test accuracy) / 2).
    labels: (n,).
    Returns (n,) float64 in [0, 1], in steps of 1 / queries.  Raises ValueError as `signals.correct` does.
    Source: Choquette-Choo et al. 2021, the data-augmentation attack.
    """
    logits = torch.as_tensor(logits).double()
    if logits.ndim != 3 or 0 in logits.shape:
        raise ValueError(f"logits: got shape {tuple(logits.shape)}; give (queries, n, classes)")
    return signals.correct(logits, labels).mean(0)


def _members(members: Tensor, n: int) -> Tensor:
    members = torch.as_tensor(members).detach().cpu()
    if members.shape != (n,) or members.dtype != torch.bool or members.all() or not members.any():
        raise ValueError(
            f"members: got shape {tuple(members.shape)} of {members.dtype}; give ({n},) bools, with members and non-members"
        )
    return members
