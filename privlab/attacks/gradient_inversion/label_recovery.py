"""Labels from one gradient without a search: rules that read them off the last linear layer, each with its reach.

    row_sum        Zhao et al. 2020 (iDLG), as it is mostly coded   one image, features that sum to more than 0
    row_products   Lu et al. 2022, Algorithm 2, line 3              one image, any features, 3 classes or more
    row_minimum    Hatamizadeh et al. 2022, equation 2              distinct labels; sure for one image on features >= 0
    bias_minimum   no paper's: the same reading of the bias         distinct labels; sure for one image on any network
    bias_counts    after Wainakh et al. 2022 (LLG)                  any labels, repeats too; sure for one image on any network

Image b enters the last layer as features f_b and leaves it with probabilities p_b. The mean cross-entropy has the derivative
c_bi = p_bi - [i is b's label] at logit i, negative at the label alone. So row i of the weight's gradient is G_i = 1/B sum_b c_bi f_b, and
that of the bias g_i = 1/B sum_b c_bi. For one image every row is f, stretched; only the label's points the other way.
The rules read the leak and the model's layout, never `leak.labels`, and give (batch,) int64 in no order of the images. Each raises
ValueError for a batch that it cannot tell, and for a gradient that is missing or zero.
"""

from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.leak import Leak


def row_sum(model: nn.Module, leak: Leak) -> Tensor:
    """The row with the smallest sum: c_i s, with s the sum of the features (Zhao et al. 2020).

    s has to be above 0, as behind a ReLU. Behind a fresh LayerNorm it is 0, and the answer is rounding.
    """
    return _of_one_image(model, leak).sum(1).argmin()[None]


def row_products(model: nn.Module, leak: Leak) -> Tensor:
    """The row that points away from every other: G_i . G_j < 0 exactly where one of the two is the label's (Lu et al. 2022, Algorithm 2).

    Here the one whose cosines with the others have the smallest sum: the same, and noise that turns a few leaves an answer.
    """
    rows = _of_one_image(model, leak)
    peaks = rows.abs().amax(1, keepdim=True)  # divided out first: squares of small numbers vanish in float32
    if (peaks > 0).sum() < 3:
        raise ValueError(f"leak: of {len(rows)} rows fewer than 3 are not 0, and of 2 each points away from the other")
    directions = F.normalize(rows / peaks.where(peaks > 0, 1.0))  # (classes, features)
    return (directions @ directions.sum(0)).argmin()[None]  # with itself as well, which adds 1 to each


def row_minimum(model: nn.Module, leak: Leak) -> Tensor:
    """The rows that hold the most negative numbers, the lowest first (Hatamizadeh et al. 2022, eq. 2).

    The paper's i runs over features and its j over classes; here a row i is a class.
    Right for one image if max_j f_j / -min_j f_j > max_i p_i / (1 - p_label), i other than the label; always on features >= 0.
    """
    return _smallest(_gradient(model, leak, "weight").amin(1), leak)


def bias_minimum(model: nn.Module, leak: Leak) -> Tensor:
    """The smallest numbers of the bias's gradient, the lowest first; in no paper of this book.

    Right for distinct labels if and only if no label's mean probability exceeds an absent class's by 1/B or more.
    """
    return _smallest(_gradient(model, leak, "bias"), leak)


def bias_counts(model: nn.Module, leak: Leak) -> Tensor:
    """Labels sorted, repeats too: take the smallest number of the bias's gradient, add 1/B to it, B times (after Wainakh et al. 2022).

    g_i = m_i - n_i/B, with m_i the mean probability of class i and n_i the number of its images. Right if and only if max of m_i over the
    classes present < min of m_i over all classes + 1/B. It reads the gradient's size: one that was clipped must be scaled back first.
    """
    gradient = len(_heads(model)) * _gradient(model, leak, "bias").double()  # (classes,); logits are the heads' mean
    pulls = torch.arange(leak.batch_size).to(gradient) / leak.batch_size  # (batch,)
    keys = gradient[:, None] + pulls  # (classes, batch): where a class stands when it is named the j-th time
    first = keys.flatten().argsort(stable=True)[: leak.batch_size]
    return (first // leak.batch_size).sort().values


RULES = {rule.__name__: rule for rule in (row_sum, row_products, row_minimum, bias_minimum, bias_counts)}


def overlap(labels: Tensor, truth: Tensor) -> float:
    """Share, from 0 to 1, of a batch's labels (batch,) that a rule found, in any order; one that occurs twice has to be found twice."""
    return (Counter(labels.tolist()) & Counter(truth.tolist())).total() / len(truth)


def classifier(model: nn.Module) -> str:
    """The name of the layer that makes the logits, such as "head.fc": the last nn.Linear of what timm calls the classifier (of a distilled
    model the first), or of all of a model that is not timm's.

    Raises ValueError where there is none.
    """
    inside = [*_heads(model)[0].modules()]
    found = [name for name, layer in model.named_modules() if layer in inside and isinstance(layer, nn.Linear)]
    if not found:
        raise ValueError("model: it ends in no nn.Linear to read labels from; give them with the leak")
    return found[-1]


def _heads(model: Any) -> list[nn.Module]:
    """What timm calls the classifier: two in a distilled DeiT. The model itself where it is not timm's."""
    owner = model.get_classifier() if hasattr(model, "get_classifier") else model
    return list(owner) if isinstance(owner, tuple) else [owner]


def _gradient(model: nn.Module, leak: Leak, leaf: str) -> Tensor:
    """The classifier's gradient, in float32 at least: its weight's is (classes, features)."""
    name = f"{classifier(model)}.{leaf}".lstrip(".")
    if name not in leak.grads or not leak[name].any():
        raise ValueError(f"leak: the gradient of {name!r} is missing, or zero; give labels with it or search for them")
    return leak[name].to(torch.promote_types(leak[name].dtype, torch.float32))


def _of_one_image(model: nn.Module, leak: Leak) -> Tensor:
    """The weight's gradient, (classes, features), for a rule that takes no batch."""
    if leak.batch_size != 1:
        raise ValueError(f"leak: of {leak.batch_size} images, and this rule tells the label of 1; try bias_counts")
    return _gradient(model, leak, "weight")


def _smallest(scores: Tensor, leak: Leak) -> Tensor:
    """The classes of the batch_size smallest scores, the smallest first."""
    if leak.batch_size > len(scores):
        raise ValueError(f"leak: of {leak.batch_size} images and {len(scores)} classes; try label_recovery.bias_counts")
    return scores.argsort(stable=True)[: leak.batch_size]
