"""What does a representation know that nobody asked it? A probe reads a hidden attribute off the features of a model.

The attacker has images of their own, the victim's features of these, (n, width) of `models.representations`, and the attribute of each,
(n,) whole numbers: the auxiliary set. A probe is fitted on it and asked about the features of somebody else's image (Zhang et al. 2024,
section 3.1.2; Song and Shmatikov 2020 call it overlearning).
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

HIDDEN = 64  # units; the paper says "two-layer MLP", which we read as two layers of weights
KINDS = ("mlp", "linear")


class Score(NamedTuple):
    """How well a probe did, and a guess that looks at nothing and always says what the auxiliary set has most of."""

    accuracy: float  # share of images whose attribute was told rightly
    macro_f1: float  # F1 of each value of the attribute, with equal weight
    majority: float  # the accuracy of the guess
    majority_f1: float


class Probe(NamedTuple):
    """A fitted probe: call it with features for the attribute of each, (n,) int64."""

    pipeline: Pipeline
    commonest: int

    def __call__(self, features: Tensor) -> Tensor:
        return torch.from_numpy(self.pipeline.predict(features.double().numpy())).long()

    def score(self, features: Tensor, attribute: Tensor) -> Score:
        """Its score on images that it was not fitted on.  Raises ValueError for values that the auxiliary set alone has."""
        truth = attribute.numpy()
        if extra := sorted({*self.pipeline.classes_.tolist()} - {*truth.tolist()}):
            raise ValueError(f"attribute: no attacked image has the values {extra}; leave them out of the other set")
        values: list[float] = []
        for said in (self(features).numpy(), np.full(len(truth), self.commonest)):
            macro = f1_score(truth, said, labels=np.unique(truth), average="macro", zero_division=0)
            values += [float(accuracy_score(truth, said)), float(macro)]
        return Score(*values)


def probe(features: Tensor, attribute: Tensor, kind: str = "mlp", width: int | None = None, seed: int = 0) -> Probe:
    """Fit a probe on the auxiliary set, whose mean and deviation standardise the features.

    kind: "mlp", two layers with 64 hidden units (Adam at 1e-3, batches of 200, up to 50 epochs); "linear", a logistic regression.
    width: first reduce the features to so many principal components of the auxiliary set; at equal width two architectures compare fairly.
    seed: of weights and order; same seed, same probe.
    Raises ValueError for shapes that do not fit, another kind, an attribute with a single value, more components than there are.
    Source: Zhang et al. 2024, sections 3.1.2 and 4.1, which name neither the width nor the recipe of the probe.
    """
    x, truth = features.double().numpy(), attribute.numpy()
    values, counts = np.unique(truth, return_counts=True)
    if truth.shape != (len(x),) or len(values) < 2:
        raise ValueError(f"attribute: got {truth.shape} of values {values}; give one of several to each of {len(x)}")
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known; try {' or '.join(map(repr, KINDS))}")
    steps: list[Any] = [] if width is None else [PCA(width, svd_solver="full"), StandardScaler()]
    mlp = MLPClassifier((HIDDEN,), max_iter=50, random_state=seed)
    pipeline = make_pipeline(StandardScaler(), *steps, mlp if kind == "mlp" else LogisticRegression(max_iter=500))
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # so many epochs are meant
        return Probe(pipeline.fit(x, truth), int(values[counts.argmax()]))


def over_epochs(
    auxiliary: tuple[Tensor, Tensor], attacked: tuple[Tensor, Tensor], epochs: int, seed: int = 0
) -> list[float]:
    """Accuracy of the MLP probe on the attacked images after each epoch of its own training (Zhang et al. 2024, Figure 3b).

    auxiliary, attacked: pairs of features and attribute.  Every epoch but the first takes the images in the same order: scikit-learn's
        `partial_fit` begins from `seed` in each call.
    """
    scale, classifier = StandardScaler(), MLPClassifier((HIDDEN,), random_state=seed)
    x, truth = scale.fit_transform(auxiliary[0].double().numpy()), auxiliary[1].numpy()
    y, asked = scale.transform(attacked[0].double().numpy()), attacked[1].numpy()
    curve = []
    for _ in range(epochs):
        classifier.partial_fit(x, truth, classes=np.unique(truth))
        curve.append(float((classifier.predict(y) == asked).mean()))
    return curve
