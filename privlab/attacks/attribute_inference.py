"""What does a representation know that nobody asked it? A probe reads a hidden attribute off the features of a model.

The attacker has images of their own, the victim's features of these, and knows the attribute of each: the auxiliary set. They fit a probe
on it and ask it about the features of somebody else's image. (Zhang et al. 2024, section 3.1.2; Song and Shmatikov 2020 call it
overlearning.) The features come from `privlab.models.representations`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

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
EPOCHS = 50  # at most
KINDS = ("mlp", "linear")


@dataclass(frozen=True)
class Score:
    """How well a probe did.

    accuracy: share of images whose attribute was told rightly.
    macro_f1: the F1 of each value of the attribute, averaged with equal weight.
    majority: the accuracy of a guess that looks at nothing and always says what the auxiliary set has most of.
    majority_f1: the macro-F1 of that guess.
    """

    accuracy: float
    macro_f1: float
    majority: float
    majority_f1: float

    @property
    def skill(self) -> float:
        """The share of the constant guess's mistakes that the probe avoids: 0 knows nothing, 1 everything; negative is worse."""
        return (self.accuracy - self.majority) / (1 - self.majority) if self.majority < 1 else 0.0

    def __repr__(self) -> str:
        return (
            f"accuracy {self.accuracy:.3f}, macro-F1 {self.macro_f1:.3f} "
            f"(always the commonest value: {self.majority:.3f}, {self.majority_f1:.3f})"
        )


@dataclass(frozen=True)
class Probe:
    """A fitted probe: call it with features (n, width) for the attribute of each, (n,) int64."""

    pipeline: Pipeline
    kind: str
    commonest: int

    def __call__(self, features: Tensor) -> Tensor:
        return torch.from_numpy(self.pipeline.predict(_features(features))).long()

    def score(self, features: Tensor, attribute: Tensor) -> Score:
        """Its score on images that it was not fitted on.

        Raises ValueError where the auxiliary set had values of the attribute that none of these images has: the F1 of such a value means
        nothing. Warns where these have values that the auxiliary set lacked, which no probe can tell.
        """
        truth = _attribute(attribute, len(features))
        attacked, auxiliary = set(truth.tolist()), set(self.pipeline.classes_.tolist())
        if extra := sorted(auxiliary - attacked):
            raise ValueError(
                f"attribute: the auxiliary set has the values {extra}, and no image that is attacked has them; leave the auxiliary "
                "images with those out, or attack images that have them too"
            )
        if absent := sorted(attacked - auxiliary):
            warnings.warn(
                f"attribute: the auxiliary set has no image with the values {absent}; the probe never says them",
                stacklevel=2,
            )
        predicted = self(features).numpy()
        always = np.full_like(predicted, self.commonest)
        return Score(*_accuracy_and_f1(predicted, truth), *_accuracy_and_f1(always, truth))


def probe(
    features: Tensor,
    attribute: Tensor,
    kind: Literal["mlp", "linear"] = "mlp",
    width: int | None = None,
    seed: int = 0,
) -> Probe:
    """Fit a probe on the auxiliary set.

    features: (n, width) of the attacker's own images.  attribute: (n,) whole numbers, what they want to read off.
    kind: "mlp", two layers with 64 hidden units (Adam at 1e-3, batches of 200, up to 50 epochs); "linear", a logistic regression: what can
        be read off by weighing features.
    width: first reduce the features to so many principal components of the auxiliary set. A wider representation gives a probe more
        to work with; at equal width two architectures compare fairly.
    Features are standardised first, by mean and deviation of the auxiliary set.  seed: of weights and order; same seed, same probe.
    Raises ValueError for shapes that do not fit, features that are not finite, an attribute with a single value, more components than
    there are.
    Source: Zhang et al. 2024, sections 3.1.2 and 4.1, which name neither the width nor the recipe of the probe.
    """
    x = _features(features)
    truth = _attribute(attribute, len(x))
    values, counts = np.unique(truth, return_counts=True)
    if len(values) < 2:
        raise ValueError(f"attribute: all {len(truth)} images have the value {values[0]}; give images of two or more")
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known; try {' or '.join(map(repr, KINDS))}")
    first: list[Any] = [StandardScaler()]
    if width is not None:
        most = min(len(x) - 1, x.shape[1])  # their mean is taken off
        if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= most:
            raise ValueError(
                f"width={width!r}: {len(x)} images with {x.shape[1]} features each have 1 to {most} principal components"
            )
        first += [PCA(width, svd_solver="full"), StandardScaler()]
    classifier = (
        MLPClassifier((HIDDEN,), max_iter=EPOCHS, random_state=seed)
        if kind == "mlp"
        else LogisticRegression(max_iter=500)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stopping after so many epochs is meant
        pipeline = make_pipeline(*first, classifier).fit(x, truth)
    if width is not None:
        variances = pipeline["pca"].explained_variance_
        if (rank := int((variances > 1e-18 * variances[0]).sum())) < width:
            raise ValueError(f"width={width}: these features span {rank} directions, and the rest is rounding")
    return Probe(pipeline, kind, int(values[counts.argmax()]))


def over_epochs(
    auxiliary: tuple[Tensor, Tensor], attacked: tuple[Tensor, Tensor], epochs: int = EPOCHS, seed: int = 0
) -> list[float]:
    """Accuracy of the MLP probe on the attacked images after each epoch of its own training (Zhang et al. 2024, Figure 3b).

    auxiliary, attacked: pairs of features (n, width) and attribute (n,).
    Its batches come in another order than those of `probe`: scikit-learn's `partial_fit` begins from `seed` in each call, so every epoch
    but the first takes the images in one and the same order.
    """
    scale = StandardScaler().fit(_features(auxiliary[0]))
    x, y = (scale.transform(_features(features)) for features, _ in (auxiliary, attacked))
    truth, asked = (_attribute(attribute, len(features)) for features, attribute in (auxiliary, attacked))
    classifier = MLPClassifier((HIDDEN,), random_state=seed)
    curve = []
    for _ in range(epochs):
        classifier.partial_fit(x, truth, classes=np.unique(truth))
        curve.append(float((classifier.predict(y) == asked).mean()))
    return curve


def _accuracy_and_f1(predicted: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    macro = f1_score(truth, predicted, labels=np.unique(truth), average="macro", zero_division=0)
    return float(accuracy_score(truth, predicted)), float(macro)


def _features(features: Tensor) -> np.ndarray:
    x = torch.as_tensor(features).detach().cpu().double()
    if x.ndim != 2 or 0 in x.shape or not x.isfinite().all():
        raise ValueError(f"features: got shape {tuple(x.shape)}; give (n, width), one row an image, no NaN or infinity")
    return x.numpy()


def _attribute(attribute: Tensor, n: int) -> np.ndarray:
    values = torch.as_tensor(attribute).detach().cpu()
    if values.shape != (n,) or values.dtype == torch.bool or values.is_floating_point():
        raise ValueError(
            f"attribute: got shape {tuple(values.shape)} of {values.dtype}; give ({n},) whole numbers, one an image"
        )
    return values.long().numpy()
