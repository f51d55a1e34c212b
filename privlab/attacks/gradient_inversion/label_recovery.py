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


def row_sum(model: nn.Module, leak: Leak) -> Tensor:
    """The row of the last layer's weight gradient with the smallest sum: iDLG's rule (Zhao et al. 2020).

    Why: for one image row i sums to c_i s with s = sum_j f_j. If s > 0 the label's is the only negative sum. If s < 0 it is the only
    *positive* one, so the rule is wrong, always. Its accuracy is thus the share of images whose features sum to more than 0.

    Reach: one image. Sure where features are not negative: behind ReLU or sigmoid, hence ResNets. Behind a final LayerNorm that is still
    as it was drawn (ViT, Swin, ConvNeXt), s is 0 and what is left of it is rounding, so the answer means nothing; after training
    s takes either sign, often one for nearly all images of a model: two ViTs that differed in their seed gave 93% and 0%.
    It does not raise there; `row_products` is right on all of these.

    model: any that ends in a linear layer, see `classifier`.  leak: of one image, with that layer's weight among its gradients.
    Returns (1,) int64.  Raises ValueError for a batch, a model without a final linear layer, a missing, NaN, zero or foreign gradient.
    """
    rows = _rows(model, _one_image(leak, "row_sum"))
    return rows.sum(1).argmin()[None]


def row_products(model: nn.Module, leak: Leak) -> Tensor:
    """The row of the last layer's weight gradient that points away from every other: APRIL's rule (Lu et al. 2022, Algorithm 2).

    Why: for one image G_i . G_j = c_i c_j |f|^2. It is negative exactly where one of the two is the label's, whatever the signs in f.

    Reach: one image, any network, 3 classes or more whose rows are not zero. With 2, G_0 = -G_1, and either row points away from "every
    other"; a network so sure of one wrong class that all other probabilities round to 0 leaves 2 rows as well.
    The paper asks for no positive product. We take the row whose cosines with the others have the smallest sum: -(classes - 1) for the
    label, classes - 3 for the rest, so it is the same row, and rounding or noise that turns a few products does not leave us with none.

    model: any that ends in a linear layer, see `classifier`.  leak: of one image, with that layer's weight among its gradients.
    Returns (1,) int64.  Raises ValueError as `row_sum` does, and for fewer than 3 rows that are not zero.
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

    whose right side is at most 1, and about 1 / (classes - 1) on a fresh network: right unless a trained one has picked one wrong class
    and the features reach further down than up.
    Why, for a batch of distinct labels: B G_i = sum_b p_bi f_b - f_b', the last term only if image b' has label i, and its entries
    outweigh those of the sum as long as the probabilities are small. On features >= 0 a negative number in a row even proves its
    class present, in any batch. But a present class may lack one, and on features of both signs an absent class may hold one.

    Reach: distinct labels, at most as many as classes. Sure for one image on features >= 0, and wherever the condition above holds.
    As B nears the number of classes any guess is right at a rate of B / classes: compare with that. Here, 10 classes, 4 distinct labels:
    100% on fresh networks (a ViT with timm's position embedding of 0.02; with one of 1 it was 58%, see lab 07); after 300 steps of
    training still 100% on a ResNet (`bias_minimum`: 95%), but 73 to 83% on ViT, Swin and ConvNeXt (97 to 100%), where a guess has 40%.

    model: any that ends in a linear layer, see `classifier`.  leak: with that layer's weight among its gradients.
    Returns (batch,) int64, distinct, most negative first.  Raises ValueError for a batch larger than the number of classes, a model without
    a final linear layer, a missing, NaN, zero or foreign gradient.
    """
    return _smallest(_rows(model, leak).amin(1), leak)


def bias_minimum(model: nn.Module, leak: Leak) -> Tensor:
    """The smallest numbers of the last layer's bias gradient.

    Why: g_i = mean_b p_bi - (1/B if i is a label): features do not enter. For one image the label's is the only negative number.
    For distinct labels the B smallest are the labels if and only if no label's mean probability exceeds an absent class's by 1/B or more.
    A negative number proves its class present in any batch, repeated labels included, since all mean probabilities are positive.

    Reach: one image, any network whose last layer has a bias, always; distinct labels, under the condition above. In no paper of
    this book, though nothing but the chain rule: of what the head sends, the bias needs the fewest assumptions.

    model: any that ends in a linear layer with a bias, see `classifier`.  leak: with that layer's bias among its gradients.
    Returns (batch,) int64, distinct, most negative first.  Raises ValueError as `row_minimum` does, and for a layer without a bias.
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

    Reach: any labels, B as large as you like, but 1/B shrinks as B grows and the spread of the m_i does not: a fresh network, whose m_i are
    all near 1 / classes, gives large batches away, a trained one smaller. One image on any network, always: m_i - 1 < 0. Of distinct labels
    `bias_minimum` asks a little less, since it compares with absent classes alone. Right or wrong, each class whose number is negative is
    named: at most n_i of its k_ij are below 0, so no more than B are in all.
    Here, 10 classes, labels drawn with repeats: up to 8 images all right on a fresh ResNet, ViT and Swin; after 200 steps of training 97 to
    100% of 4 labels, 92 to 99% of 8, 91 to 96% of 16. Rules for distinct labels stop at 86% of 4 and 71% of 8: no more differ, on average.
    Unlike the others the rule reads the gradient's size: one that was clipped or rescaled must be scaled back first.
    LLG reads the weight's rows and has to estimate what one image does to them; for the bias that is 1/B, whatever the features.

    model: any that ends in a linear layer with a bias, see `classifier`; where two heads are averaged, each has half of 1/B.
    leak: with that layer's bias among its gradients.
    Returns (batch,) int64, sorted, with repeats.  Raises ValueError for a model without a final linear layer, a layer without a bias,
    a missing, NaN, zero or foreign gradient.
    Source: after Wainakh et al. 2022, User-Level Label Leakage from Gradients in Federated Learning, PoPETs, with the bias for the rows.
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
    """Share of a batch's labels that a rule found, in any order; a label that occurs twice has to be found twice.

    labels, truth: (batch,) class indices.  Returns a number from 0 to 1.
    Raises ValueError for two batches that differ in size, or empty ones.
    """
    if labels.shape != truth.shape or labels.ndim != 1 or len(truth) == 0:
        raise ValueError(
            f"labels: shape {tuple(labels.shape)} beside truth of shape {tuple(truth.shape)}; give one label an image in both: (batch,)"
        )
    return (Counter(labels.tolist()) & Counter(truth.tolist())).total() / len(truth)


def classifier(model: nn.Module, image_shape: Sequence[int]) -> str:
    """The name of the layer that makes the logits: "fc", "head", "head.fc", "classifier.linear", ...

    model: one of timm's, which is asked for its classifier (a distilled model has two: the first), or any other. Of that it is the
    nn.Linear whose output the model answers with, as it is or shifted, as by a LogSoftmax: it is run once, on noise, to see.
    image_shape: (channels, height, width) of what the model takes.
    Raises ValueError where there is no such layer: a model built without classes, or one that does more to what its last layer gives.
    """
    if not hasattr(model, "get_classifier"):
        layer: nn.Module = _answering(model, image_shape)
    else:
        owner = model.get_classifier()  # type: ignore[operator]
        owner = owner[0] if isinstance(owner, tuple | list) else owner
        layers = [m for m in owner.modules() if any(True for _ in m.parameters(recurse=False))]
        layer = layers[-1] if layers else owner
        pointwise = isinstance(layer, nn.Conv2d) and layer is owner and layer.kernel_size == (1, 1)  # behind pooling
        if not isinstance(layer, nn.Linear) and not pointwise:
            last = type(layer).__name__ if layers else "no layer with parameters"
            raise ValueError(
                f"model: {type(model).__name__} ends in {last}, and the rules for labels read a final nn.Linear; "
                "build it with num_classes=10, say, or give the attack its labels"
            )
    return next(name for name, module in model.named_modules() if module is layer)


def _answering(model: nn.Module, image_shape: Sequence[int]) -> nn.Linear:
    """The layer whose output is the answer, but for what a softmax does not see."""
    outputs: dict[nn.Linear, Tensor] = {}
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    hooks = [m.register_forward_hook(lambda layer, _, output: outputs.update({layer: output})) for m in linear]
    probe = torch.rand(2, *image_shape, generator=torch.Generator().manual_seed(0))
    like = next((p for p in model.parameters() if p.requires_grad), probe)
    try:
        with torch.no_grad(), torch.random.fork_rng([like.device] if like.is_cuda else []):
            logits = stateless(model)(preprocessing(model)(probe.to(like)))
    except RuntimeError as error:
        raise ValueError(
            f"model: this {type(model).__name__} answers images of {tuple(image_shape)} with an error ({error}); "
            "give the model that the client trained"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    for layer, output in outputs.items():
        if isinstance(logits, Tensor) and output.shape == logits.shape:
            near = 64 * torch.finfo(logits.dtype).eps
            if torch.allclose(output.softmax(1), logits.softmax(1), near, 0):
                return layer
    raise ValueError(
        f"model: {type(model).__name__} answers with the output of no nn.Linear, and the rules for labels read one; "
        "give the attack its labels"
    )


def _heads(model: nn.Module) -> int:
    """How many linear layers the logits are the mean of: 2 in a distilled DeiT, 1 elsewhere."""
    owner = model.get_classifier() if hasattr(model, "get_classifier") else model  # type: ignore[operator]
    return len(owner) if isinstance(owner, tuple | list) else 1


def _rows(model: nn.Module, leak: Leak) -> Tensor:
    return _gradient(model, leak, "weight").flatten(1)  # (classes, features)


def _gradient(model: nn.Module, leak: Leak, leaf: str) -> Tensor:
    """The classifier's gradient, in float32 at least; ValueError where it is missing, broken, zero, or of another model."""
    layer = classifier(model, leak.image_shape)
    name = f"{layer}.{leaf}".lstrip(".")
    parameter = getattr(model.get_submodule(layer), leaf)
    if parameter is None:
        raise ValueError(
            f"model: its last layer {layer!r} has no bias; try label_recovery.row_products or label_recovery.row_minimum"
        )
    if name not in leak.grads:
        raise ValueError(
            f"leak lacks {name!r}, from which this rule reads the labels; give labels with the leak, or let an attack search for them"
        )
    gradient = leak[name]
    if gradient.shape != parameter.shape:
        raise ValueError(
            f"the gradient of {name!r} has shape {tuple(gradient.shape)}, the model's has {tuple(parameter.shape)}; "
            "give the model that the client trained"
        )
    if not gradient.any():
        raise ValueError(
            f"the gradient of {name!r} is zero throughout: the model is as sure of the labels as its float format can say; "
            "take float64, or an image that it has not learnt by heart"
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
