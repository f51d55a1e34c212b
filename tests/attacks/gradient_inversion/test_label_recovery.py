"""The identity behind all rules, each rule where it must be right and where it must be wrong, and the laws that they keep."""

import dataclasses

import pytest
import timm
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from privlab import models
from privlab.attacks.gradient_inversion import label_recovery
from privlab.leak import Leak, observe


def head(classes, features):
    """A model that is a last layer and nothing else; images of shape (features, 1, 1) are its features."""
    return nn.Sequential(nn.Flatten(), nn.Linear(features, classes))


def leak_of(weight, bias=None, batch_size=1):
    grads = {"1.weight": torch.as_tensor(weight)} | ({} if bias is None else {"1.bias": torch.as_tensor(bias)})
    return Leak(grads, batch_size, (grads["1.weight"].shape[1], 1, 1))


def softmax_leak(features, logits, answers):
    """The gradient of a last layer by the definition, c_bi = p_bi - [i is b's label], written out sample by sample."""
    p = logits.softmax(1)
    c = p - nn.functional.one_hot(answers, p.shape[1])
    weight = torch.stack([torch.outer(c[b], features[b]) for b in range(len(c))]).mean(0)
    return head(p.shape[1], features.shape[1]), leak_of(weight, c.mean(0), len(c))


def test_two_images_by_hand():
    """p uniform over 4 classes, features (1, 0) with label 3 and (0, 2) with label 1: c = 1/4 everywhere, -3/4 at the labels."""
    rows = [[0.125, 0.25], [0.125, -0.75], [0.125, 0.25], [-0.375, 0.25]]
    leak = leak_of(rows, [0.25, -0.25, 0.25, -0.25], batch_size=2)
    assert label_recovery.row_minimum(head(4, 2), leak).tolist() == [1, 3]  # -.75 before -.375
    assert label_recovery.bias_minimum(head(4, 2), leak).tolist() == [1, 3]  # a tie: the lower class first


def test_overlap_by_hand():
    found = torch.tensor([2, 0, 2, 2])
    for truth, share in (([2, 2, 2, 0], 1.0), ([0, 1, 2, 2], 0.75), ([0, 0, 0, 0], 0.25), ([1, 1, 3, 3], 0.0)):
        assert label_recovery.overlap(found, torch.tensor(truth)) == share


VIT = dict(img_size=32, patch_size=16, depth=2)


@pytest.mark.parametrize(
    ("name", "layer", "small"),
    [
        ("vit_tiny_patch16_224", "head", VIT),
        ("convnext_tiny", "head.fc", dict(depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))),
        ("resnet18", "fc", dict(channels=(8, 8, 16, 16))),
        ("deit_tiny_distilled_patch16_224", "head", VIT),  # its logits are the mean of two heads
    ],
)
def test_rows_are_features_weighed_by_their_errors(name, layer, small):
    """G_i = 1/B sum_b (p_bi - y_bi) f_b and g_i = 1/B sum_b (p_bi - y_bi), f being what enters the last layer."""
    model, caught, answers = models.build(name, num_classes=7, **small).double(), [], torch.tensor([4, 0, 4])
    assert label_recovery.classifier(model) == layer
    model.get_submodule(layer).register_forward_pre_hook(lambda _, args: caught.append(args[0].detach()))
    x = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    leak = observe(model, x, answers)
    with torch.no_grad():
        p = model(leak.normalise(x.double())).softmax(1)
    c = (p - nn.functional.one_hot(answers, 7)) / (6 if "distilled" in name else 3)
    torch.testing.assert_close(leak[f"{layer}.weight"], c.T @ caught[0], rtol=1e-8, atol=1e-12)
    torch.testing.assert_close(leak[f"{layer}.bias"], c.sum(0), rtol=1e-8, atol=1e-12)


@st.composite
def one_image(draw):
    k, d = draw(st.integers(3, 8)), draw(st.integers(1, 6))
    numbers = [draw(st.lists(st.floats(-4, 4, allow_subnormal=False), min_size=n, max_size=n)) for n in (d, k)]
    features, logits = torch.tensor(numbers[:1]).double(), torch.tensor(numbers[1:]).double()
    return features, logits, torch.tensor([draw(st.integers(0, k - 1))])


@given(one_image())
def test_the_reach_of_each_rule_for_one_image(case):
    """The docstrings' conditions, as laws over random last layers: right exactly where they say."""
    features, logits, answer = case
    model, leak = softmax_leak(features, logits, answer)
    label, p = answer.item(), logits[0].softmax(0)
    assert label_recovery.bias_minimum(model, leak).item() == label_recovery.bias_counts(model, leak).item() == label
    if features.abs().max() > 1e-3:
        assert label_recovery.row_products(model, leak).item() == label
        total = features.sum().item()
        if abs(total) > 1e-6:
            assert (label_recovery.row_sum(model, leak).item() == label) == (total > 0)
        up, down = features.max().item(), -features.min().item()
        others = torch.cat([p[:label], p[label + 1 :]]).max().item() / (1 - p[label].item())
        if down <= 0:
            assert label_recovery.row_minimum(model, leak).item() == label
        elif abs(up / down - others) > 1e-6:
            assert (label_recovery.row_minimum(model, leak).item() == label) == (up / down > others)


@given(st.integers(1, 20), st.integers(2, 8), st.floats(0.01, 3), st.integers(0, 2**31))
def test_any_labels_from_the_bias(size, classes, spread, seed):
    """Every count right if and only if max m_i over the present < min m_i over all + 1/B; else still every class that is proven."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(size, 4, generator=generator, dtype=torch.float64)
    logits = torch.randn(size, classes, generator=generator, dtype=torch.float64) * spread
    logits += torch.randn(classes, generator=generator, dtype=torch.float64) * spread  # it has its favourites
    answers = torch.randint(classes, (size,), generator=generator)
    model, leak = softmax_leak(features, logits, answers)
    found, mean = label_recovery.bias_counts(model, leak), logits.softmax(1).mean(0)
    assert found.tolist() == sorted(found.tolist()) and len(found) == size
    margin = (mean.min() + 1 / size - mean[answers].max()).item()
    if abs(margin) > 1e-9:
        assert (found.tolist() == sorted(answers.tolist())) == (margin > 0)
    assert set((leak["1.bias"] < 0).nonzero().flatten().tolist()) <= set(found.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_products_of_very_small_rows(dtype):
    """c = (1e-25, 1e-30, -1e-25): products of 1e-50 do not exist in float32, their signs are read all the same."""
    leak = leak_of(torch.tensor([[1e-25, -2e-25], [1e-30, -2e-30], [-1e-25, 2e-25]], dtype=dtype))
    assert label_recovery.row_products(head(3, 2), leak).tolist() == [2]


@pytest.mark.parametrize(("name", "layer"), [("caformer_s18", "head.fc.fc2"), ("levit_128s", "head.linear")])
def test_the_classifier_of_heads_with_more_layers(name, layer):
    with torch.device("meta"):
        model = timm.create_model(name, num_classes=11)
    assert label_recovery.classifier(model) == layer


def test_what_a_rule_cannot_tell_is_named():
    binary = softmax_leak(torch.ones(1, 3), torch.zeros(1, 2), torch.tensor([0]))
    many = softmax_leak(torch.ones(5, 3), torch.zeros(5, 4), torch.tensor([0, 1, 1, 1, 2]))
    nothing = dataclasses.replace(binary[1], grads={n: torch.zeros_like(g) for n, g in binary[1].grads.items()})
    assert label_recovery.bias_counts(*many).tolist() == [0, 1, 1, 1, 2]
    for rule, (model, leak), says in (
        (label_recovery.row_sum, many, "of 5 images, and this rule tells the label of 1; try bias_counts"),
        (label_recovery.row_products, binary, "fewer than 3"),
        (label_recovery.row_minimum, many, "of 5 images and 4 classes; try label_recovery.bias_counts"),
        (label_recovery.row_minimum, (nn.Flatten(), many[1]), "it ends in no nn.Linear"),
        (label_recovery.bias_minimum, (binary[0], nothing), "'1.bias' is missing, or zero"),
    ):
        with pytest.raises(ValueError, match=says):
            rule(model, leak)
