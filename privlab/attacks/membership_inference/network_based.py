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
        logits, labels = _answers(logits, labels)
        if logits.shape[1] != self.classes:
            raise ValueError(
                f"logits: got {logits.shape[1]} classes, and the attack was fitted on a shadow model's {self.classes}; "
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

    Its input is the confidence vector, softmax of the logits in float64, and one bit: whether the answer is right (classes + 1
    numbers). The paper leaves open how wide the network is and how it is trained. We take 64 and 32 units with ReLU, Adam at 1e-3,
    batches of 200 and up to 50 epochs. On three small victims, with 5,000 answers each about CIFAR-10 images and
    unsorted, 512 and 256 units gave an AUC within 0.004 of this, and 200 epochs none that was higher by 0.001.
    Where there are more members than non-members, or fewer, the scores are corrected for it by Bayes' rule.

    logits: (n, classes), raw.  labels: (n,), 0 to classes - 1.  members: (n,) bool.
    sort: order the confidences from high to low, so that no class is told from another (Salem et al. 2019). The paper does not say
        that it sorts; without it the attack can learn that the shadow model leaks one class more than another.
    seed: of the first weights and of the order of the images; same seed, same scores.
    epochs: at most; on some hundred answers 50 teach it no more than the bit, 200 do.
    Returns a Network: `attack(logits, labels)` gives (n,) float64 scores in [0, 1].
    Raises ValueError for shapes that do not fit, logits that are not finite, labels out of range, members all of one kind.
    Source: Zhang et al. 2024, sections 3.1.1 and 4.1; Shokri et al. 2017, Salem et al. 2019.
    """
    logits, labels = _answers(logits, labels)
    members = _members(members, len(labels))
    classifier = MLPClassifier(WIDTHS, max_iter=epochs, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopping after so many epochs is meant
        classifier.fit(inputs(logits, labels, sort), members.numpy())
    inside = int(members.sum())
    return Network(classifier, logits.shape[1], inside, len(members) - inside, sort, seed)


def class_thresholds(scores: Tensor, labels: Tensor, members: Tensor) -> Tensor:
    """For each class the score from which on to say "member": the best balanced accuracy within the class, on a shadow model.

    A class that is harder has higher losses, inside the training set and outside; one threshold for all calls its members
    non-members.
    scores: (n,), finite, higher = member.  labels: (n,).  members: (n,) bool.
    Returns (classes,) float64, for `by_class`; there are as many classes as the largest label plus 1. A class without members or without
    non-members takes the threshold that is best over all images, with a warning that names it.
    Raises ValueError for shapes that do not fit, scores that are not finite, labels out of range, members all of one kind.
    Source: Song & Mittal 2021, the attacks with class-dependent thresholds.
    """
    scores, labels = _scores(scores, labels)
    members = _members(members, len(labels))
    classes = int(labels.max()) + 1
    _check_labels(labels, classes)
    thresholds = torch.full((classes,), roc.best_threshold(scores, members), dtype=torch.float64)
    absent = []
    for k in range(classes):
        here = labels == k
        if members[here].any() and not members[here].all():
            thresholds[k] = roc.best_threshold(scores[here], members[here])
        else:
            absent.append(k)
    if absent:
        warnings.warn(
            f"classes absent from a split: {', '.join(map(str, absent))} (no members, or no non-members); "
            "they take the threshold over all classes",
            stacklevel=2,
        )
    return thresholds


def by_class(scores: Tensor, labels: Tensor, thresholds: Tensor) -> Tensor:
    """Scores relative to the threshold of their class: 0 or more says "member", and one ROC serves all classes.

    scores: (n,), finite.  labels: (n,).  thresholds: (classes,), from `class_thresholds`.
    Returns (n,) float64.  Raises ValueError for shapes that do not fit, scores that are not finite, labels without a threshold.
    """
    scores, labels = _scores(scores, labels)
    thresholds = torch.as_tensor(thresholds, dtype=torch.float64)
    _check_labels(labels, len(thresholds))
    return scores - thresholds[labels]


def augmentation_gap(logits: Tensor, labels: Tensor) -> Tensor:
    """The share of an image's pictures that the model labels rightly: an attack for models that return nothing but a label.

    A model is right about a member even where the image is mirrored or moved; about an image that it never saw it is right by
    a narrower margin. Only the place of the largest logit is used. The paper feeds the right-or-wrong bits to a network fitted on a
    shadow model, which may weigh one picture above another; this share weighs all alike and needs no shadow model.

    logits: (queries, n, classes), the answers to `queries.shifts(d)`, say. With one query the share is 0 or 1: the model is right
        or wrong (Yeom et al. 2018, Adversary 1; the attack's accuracy is then (1 + train accuracy - test accuracy) / 2).
    labels: (n,).
    Returns (n,) float64 in [0, 1], in steps of 1 / queries.
    Raises ValueError for shapes that do not fit, logits that are not finite, labels out of range.
    Source: Choquette-Choo et al. 2021, the data-augmentation attack.
    """
    logits = torch.as_tensor(logits)
    if logits.ndim != 3 or 0 in logits.shape:
        raise ValueError(f"logits: got shape {tuple(logits.shape)}; give (queries, n, classes)")
    answers = [_answers(one, labels) for one in logits]
    return torch.stack([answer.argmax(1) == truth for answer, truth in answers]).double().mean(0)


# -- what an attack is given ---------------------------------------------------------------------------------------------


def inputs(logits: Tensor, labels: Tensor, sort: bool) -> np.ndarray:
    """What the network reads, (n, classes + 1): confidences, and whether the answer is right; arguments as for `network`, in float64."""
    right = logits.argmax(1, keepdim=True) == labels[:, None]  # (n, 1)
    confidences = logits.softmax(1)  # (n, classes)
    if sort:
        confidences = confidences.sort(1, descending=True).values
    return torch.cat([confidences, right], 1).numpy()


def _answers(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Raw logits in float64 and labels, on the CPU."""
    logits = torch.as_tensor(logits).detach().cpu().double()
    if logits.ndim != 2 or logits.shape[1] < 2 or len(logits) == 0:
        raise ValueError(f"logits: got shape {tuple(logits.shape)}; give (n, classes), 2 classes or more")
    if not logits.isfinite().all():
        row = int((~logits.isfinite()).any(1).nonzero()[0])
        raise ValueError(
            f"logits: row {row} holds NaN or an infinite value; give the raw logits of a model that trained well"
        )
    labels = _labels(labels, len(logits))
    _check_labels(labels, logits.shape[1])
    return logits, labels


def _scores(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.as_tensor(scores).detach().cpu().double()
    if scores.ndim != 1 or len(scores) == 0:
        raise ValueError(f"scores: got shape {tuple(scores.shape)}; give (n,), one an image")
    if not scores.isfinite().all():
        raise ValueError("scores hold NaN or an infinite value; compute them in float64 from the raw logits")
    return scores, _labels(labels, len(scores))


def _labels(labels: Tensor, n: int) -> Tensor:
    labels = torch.as_tensor(labels).detach().cpu()
    if labels.shape != (n,) or labels.dtype == torch.bool or labels.is_floating_point():
        raise ValueError(f"labels: got shape {tuple(labels.shape)} of {labels.dtype}; give ({n},), whole numbers")
    return labels.long()


def _check_labels(labels: Tensor, classes: int) -> None:
    if (outside := labels[(labels < 0) | (labels >= classes)]).numel():
        raise ValueError(f"labels hold {int(outside[0])}, and there are {classes} classes; give 0 to {classes - 1}")


def _members(members: Tensor, n: int) -> Tensor:
    members = torch.as_tensor(members).detach().cpu()
    if members.shape != (n,) or members.dtype != torch.bool:
        raise ValueError(f"members: got shape {tuple(members.shape)} of {members.dtype}; give ({n},) truth values")
    if members.all() or not members.any():
        raise ValueError(
            f"members are all {bool(members[0])}; give images of both kinds, or there is nothing to tell apart"
        )
    return members
