"""Was this image in the training set? Two attacks that need one shadow model; scores are higher for members throughout.

The attacker sees what models say of images, (n, classes) raw logits, and the labels (n,); of its own shadow model it also knows which
images were members, (n,) bool. The likelihood-ratio attack, with many shadow models, is in `lira.py`.
"""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from torch import Tensor

from privlab.attacks.membership_inference import signals
from privlab.metrics import roc


def network(
    logits: Tensor, labels: Tensor, members: Tensor, *, sort: bool = False, seed: int = 0, epochs: int = 50
) -> Callable[[Tensor, Tensor], Tensor]:
    """Fit the network-based attack on what a shadow model says of its own training images and of images that it never saw.

    Zhang et al. 2024, section 3.1.1, say "three-layer MLP", which we read as three layers of weights, and not how wide it is or how it is
    trained. We take 64 and 32 units with ReLU, Adam at 1e-3 and batches of 200; 512 and 256 units gave an AUC within 0.004 of this, on
    three small victims of CIFAR-10. Where members and non-members are not as many, the scores are corrected for it by Bayes' rule.

    sort: order the confidences from high to low, so that no class is told from another (Salem et al. 2019); the paper does not say.
    seed: of the first weights and of the order of the images.
    epochs: at most; on some hundred answers 50 teach it no more than whether the answer is right, 200 do.
    Returns a function (logits, labels) -> (n,) float64, the probability of being a member where half are; its threshold is 0.5.
    Raises ValueError for shapes that do not fit, logits that are not finite, members all of one kind.
    """
    inside = int(members.sum())
    if not 0 < inside < len(members):
        raise ValueError(f"members: {inside:,} of {len(members):,} images are members; give both kinds")
    classifier = MLPClassifier((64, 32), max_iter=epochs, random_state=seed)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # so many epochs are meant
        classifier.fit(inputs(logits, labels, sort), members.cpu().numpy())

    def attack(logits: Tensor, labels: Tensor) -> Tensor:
        against, member = torch.from_numpy(classifier.predict_proba(inputs(logits, labels, sort))).double().T
        return member / (member + against * (inside / (len(members) - inside)))  # as if fitted on as many of each

    return attack


def inputs(logits: Tensor, labels: Tensor, sort: bool) -> np.ndarray:
    """What the network reads, (n, classes + 1): confidences in float64, and one bit, whether the answer is right."""
    right = signals.correct(logits, labels)[:, None].cpu()  # (n, 1)
    confidences = logits.detach().cpu().double().softmax(1)  # (n, classes)
    if sort:
        confidences = confidences.sort(1, descending=True).values
    return torch.cat([confidences, right], 1).numpy()


def class_thresholds(scores: Tensor, labels: Tensor, members: Tensor) -> Tensor:
    """For each class the score from which on to say "member", (classes,) float64: the best balanced accuracy in it, on a shadow model.

    A class that is harder has higher losses, inside the training set and outside; one threshold for all calls its members non-members.
    A class without members or without non-members takes the threshold that is best over all images.  Source: Song & Mittal 2021.
    """
    thresholds = []
    for k in range(int(labels.max()) + 1):
        here = labels == k
        if len(members[here].unique()) < 2:
            here = torch.ones_like(here)
        thresholds.append(roc.best_threshold(scores[here], members[here]))
    return torch.tensor(thresholds, dtype=torch.float64)
