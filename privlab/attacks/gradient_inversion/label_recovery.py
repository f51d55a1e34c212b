"""Labels from one gradient without a search: rules that read them off the last linear layer, each with its reach.

    row_sum        Zhao et al. 2020 (iDLG), as it is mostly coded   one image, features that sum to more than 0
    row_products   Lu et al. 2022, Algorithm 2, line 3              one image, any features, 3 classes or more
    row_minimum    Hatamizadeh et al. 2022, equation 2              distinct labels; sure for one image on features >= 0
    bias_minimum   no paper's: the same reading of the bias         distinct labels; sure for one image on any network
    bias_counts    after Wainakh et al. 2022 (LLG)                  any labels, repeats too; sure for one image on any network

All five follow from one identity. Let image b enter the last layer as features f_b and leave it with probabilities p_b. The mean
cross-entropy has the derivative c_bi = p_bi - [i is the label of b] at logit i, so row i of the layer's weight gradient and its bias are

    G_i = 1/B sum_b c_bi f_b        (features,)          g_i = 1/B sum_b c_bi

and c_bi is negative at b's label and nowhere else. For one image G_i = c_i f: every row is the same vector f, stretched by c_i; only the
label's points the other way. What the rules differ in is how they tell which way that is. Since the c_i add up to 0, the label's
row is also the longest (with 3 classes or more), as long as all the others together.

The rules need cross-entropy on whole labels; with smoothed or mixed labels more of the c_i are negative. They read the leak and the
model's layout, never `leak.labels`. Labels come in no order of the images: the order within a batch leaves no mark on the gradient.
Only `bias_counts` returns a label twice; in a batch that repeats labels at least one answer of the others is therefore wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.leak import Leak
from privlab.models.forward import preprocessing, stateless

# Each rule takes a model that ends in a linear layer, see `classifier`, and a leak with that layer's gradients, and gives (batch,) int64.
# Each raises ValueError for a batch that it cannot tell, a model without such a layer, and a gradient that is missing or zero.


def row_sum(model: nn.Module, leak: Leak) -> Tensor:
    """The row of the last layer's weight gradient with the smallest sum, as iDLG is mostly coded (Zhao et al. 2020).

    Why: G_i sums to c_i s, with s the sum of the features, and c_i is negative at the label alone. So s has to be above 0, as behind a
    ReLU. Behind a LayerNorm that is still as it was drawn (ViT, Swin, ConvNeXt) s is 0 and the answer is rounding; after training s takes
    either sign. It does not raise there; `row_products` is right on all of these.

    leak: of one image.
    """
    return _rows(model, _one_image(leak, "row_sum")).sum(1).argmin()[None]


def row_products(model: nn.Module, leak: Leak) -> Tensor:
    """The row of the last layer's weight gradient that points away from every other: APRIL's rule (Lu et al. 2022, Algorithm 2).

    Why: for one image G_i . G_j = c_i c_j |f|^2. It is negative exactly where one of the two is the label's, whatever the signs in f.
    The paper asks for no positive product. Here it is the row whose cosines with the others have the smallest sum, -(classes - 1) for the
    label and classes - 3 for the rest: the same row, and noise that turns a few products does not leave us with none.

    leak: of one image, and with 3 rows or more that are not zero: of 2, either points away from "every other".
    """
    rows = _rows(model, _one_image(leak, "row_products"))
    peaks = rows.abs().amax(1, keepdim=True)  # divided out first: squares of small numbers vanish in float32
    if (alive := int((peaks > 0).sum())) < 3:
        raise ValueError(
            f"leak: {alive} rows of the last layer's gradient are not zero, and of 2 rows each points away from the other; "
            "try label_recovery.bias_minimum, or label_recovery.row_sum behind a ReLU"
        )
    directions = F.normalize(rows / peaks.where(peaks > 0, 1.0))  # (classes, features)
    return (directions @ directions.sum(0)).argmin()[None]  # with itself as well, which adds 1 to each


def row_minimum(model: nn.Module, leak: Leak) -> Tensor:
    """The rows of the last layer's weight gradient that hold the most negative numbers: GradViT's rule (Hatamizadeh et al. 2022, eq. 2).

    Why, for one image: the label's row reaches down to -(1 - p_label) max_j f_j, another to p_i min_j f_j. On features >= 0 only the first
    is negative. On features of both signs the label's is the lowest if and only if

        max_j f_j / -min_j f_j > max_i p_i / (1 - p_label)        i: the classes other than the label

    whose right side is at most 1, and about 1 / (classes - 1) on a fresh network.
    For a batch of distinct labels B G_i = sum_b p_bi f_b - f_b', the last term only if image b' has label i: its entries outweigh those of
    the sum as long as the probabilities are small. As B nears the number of classes any guess is right at a rate of B / classes.

    leak: of distinct labels.  Returns them most negative first.
    """
    return _smallest(_rows(model, leak).amin(1), leak)


def bias_minimum(model: nn.Module, leak: Leak) -> Tensor:
    """The smallest numbers of the last layer's bias gradient. In no paper of this book, though nothing but the chain rule.

    Why: g_i = mean_b p_bi - (1/B if i is a label): features do not enter. For one image the label's is the only negative number, always.
    For distinct labels the B smallest are the labels if and only if no label's mean probability exceeds an absent class's by 1/B or more.

    leak: of distinct labels, and with the bias.  Returns them most negative first.
    """
    return _smallest(_gradient(model, leak, "bias"), leak)


def bias_counts(model: nn.Module, leak: Leak) -> Tensor:
    """How often each class occurs, from the last layer's bias gradient: take the smallest number, add 1/B to it, B times over.

    Why: g_i = m_i - n_i/B, with m_i the mean probability of class i and n_i the number of its images. Each image of a class pulls its
    number down by 1/B; to name one is to undo its pull. The rule is right, every n_i exactly, if and only if

        max of m_i over the classes present  <  min of m_i over all classes  +  1/B          (at equality the lower class wins)

    Proof: the j-th time that class i is named its number stands at k_ij = g_i + (j-1)/B, which grows with j. So B times the smallest is
    the B smallest of all the k_ij. The answer is right if these are the k_ij with j <= n_i; that is, if the largest of those, the
    largest k_i,n_i = m_i - 1/B of a class present, lies below the smallest of the others, the smallest k_i,n_i+1 = m_i of any class.

    Unlike the others the rule reads the gradient's size: one that was clipped or rescaled must be scaled back first.

    leak: of any labels, and with the bias; where two heads are averaged (a distilled DeiT), each has half of 1/B.
    Returns them sorted, with repeats.  Source: after Wainakh et al. 2022, PoPETs (LLG), which reads the weight's rows.
    """
    gradient = _gradient(model, leak, "bias").double() * _heads(model)  # (classes,)
    pulls = torch.arange(leak.batch_size, device=gradient.device, dtype=torch.float64) / leak.batch_size  # (batch,)
    keys = gradient[:, None] + pulls  # (classes, batch)
    first = keys.flatten().argsort(stable=True)[: leak.batch_size]
    return (first // leak.batch_size).sort().values


RULES: dict[str, Callable[[nn.Module, Leak], Tensor]] = {
    rule.__name__: rule for rule in (row_sum, row_products, row_minimum, bias_minimum, bias_counts)
}


def overlap(labels: Tensor, truth: Tensor) -> float:
    """Share, from 0 to 1, of a batch's labels (batch,) that a rule found, in any order; one that occurs twice has to be found twice."""
    return (Counter(labels.tolist()) & Counter(truth.tolist())).total() / len(truth)


def classifier(model: nn.Module, image_shape: Sequence[int]) -> str:
    """The name of the layer that makes the logits: "fc", "head", "head.fc", "classifier.linear", ...

    model: one of timm's, which is asked for its classifier (a distilled model has two: the first), or any other. Of that it is the
    nn.Linear whose output the model answers with, as it is or shifted, as by a LogSoftmax: it is run once, on noise, to see.
    image_shape: (channels, height, width) of what the model takes.  Raises ValueError where there is no such layer.
    """
    if not hasattr(model, "get_classifier"):
        layer = _answering(model, image_shape)
    else:
        owner = model.get_classifier()  # type: ignore[operator]
        owner = owner[0] if isinstance(owner, tuple | list) else owner
        layer = next((m for m in reversed([*owner.modules()]) if [*m.parameters(recurse=False)]), None)
    pointwise = isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1)  # behind pooling
    if not isinstance(layer, nn.Linear) and not pointwise:
        raise ValueError(
            f"model: {type(model).__name__} ends in no nn.Linear, which the rules for labels read; build it with num_classes=10, say, or "
            "give the attack its labels"
        )
    return next(name for name, module in model.named_modules() if module is layer)


def _answering(model: nn.Module, image_shape: Sequence[int]) -> nn.Module | None:
    """The linear layer whose output is the answer, but for what a softmax does not see."""
    outputs: dict[nn.Module, Tensor] = {}
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    hooks = [m.register_forward_hook(lambda layer, _, output: outputs.update({layer: output})) for m in linear]
    probe = torch.rand(2, *image_shape, generator=torch.Generator().manual_seed(0))
    like = next((p for p in model.parameters() if p.requires_grad), probe)
    try:
        with torch.no_grad(), torch.random.fork_rng([like.device] if like.is_cuda else []):
            logits = stateless(model)(preprocessing(model)(probe.to(like)))
    finally:
        for hook in hooks:
            hook.remove()
    same = {layer: output for layer, output in outputs.items() if output.shape == logits.shape}
    near = 64 * torch.finfo(logits.dtype).eps
    return next(
        (layer for layer, output in same.items() if torch.allclose(output.softmax(1), logits.softmax(1), near, 0)), None
    )


def _heads(model: nn.Module) -> int:
    """How many linear layers the logits are the mean of: 2 in a distilled DeiT, 1 elsewhere."""
    owner = model.get_classifier() if hasattr(model, "get_classifier") else model  # type: ignore[operator]
    return len(owner) if isinstance(owner, tuple | list) else 1


def _rows(model: nn.Module, leak: Leak) -> Tensor:
    return _gradient(model, leak, "weight").flatten(1)  # (classes, features)


def _gradient(model: nn.Module, leak: Leak, leaf: str) -> Tensor:
    """The classifier's gradient, in float32 at least."""
    name = f"{classifier(model, leak.image_shape)}.{leaf}".lstrip(".")
    if name not in leak.grads:
        raise ValueError(
            f"leak lacks {name!r}, from which this rule reads the labels; give labels with the leak, or let an attack search for them"
        )
    gradient = leak[name]
    if not gradient.any():
        raise ValueError(
            f"leak: the gradient of {name!r} is zero throughout, as of an image learnt by heart; take float64, or another image"
        )
    return gradient.to(torch.promote_types(gradient.dtype, torch.float32))


def _one_image(leak: Leak, rule: str) -> Leak:
    if leak.batch_size != 1:
        raise ValueError(
            f"leak.batch_size={leak.batch_size}, and label_recovery.{rule} tells the label of 1 image; "
            "for a batch try label_recovery.bias_counts, or label_recovery.row_minimum if its labels are distinct"
        )
    return leak


def _smallest(scores: Tensor, leak: Leak) -> Tensor:
    """The classes of the batch_size smallest scores, the smallest first."""
    if leak.batch_size > len(scores):
        raise ValueError(
            f"leak.batch_size={leak.batch_size} cannot hold distinct labels of {len(scores)} classes, as this rule assumes; "
            "try label_recovery.bias_counts, or give labels with the leak"
        )
    return scores.argsort(stable=True)[: leak.batch_size]
