"""Probes against hand-computed scores, on features where the answer is known."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

from privlab.attacks import attribute_inference


def drawn(n=400, width=6, values=3, seed=0, apart=3.0):
    """Features around one centre for each value of the attribute."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(values, width, generator=torch.Generator().manual_seed(99)) * apart
    truth = torch.randint(values, (n,), generator=generator)
    return centres[truth] + torch.randn(n, width, generator=generator), truth


@pytest.mark.parametrize("kind", attribute_inference.KINDS)
@pytest.mark.parametrize("width", [None, 2])
def test_a_probe_reads_what_lies_open(kind, width):
    x, truth = drawn()
    fitted = attribute_inference.probe(x, truth, kind, width)
    score = fitted.score(*drawn(seed=1))
    assert score.accuracy > 0.95 and score.macro_f1 > 0.95
    assert fitted.kind == kind


def test_features_that_know_nothing_give_no_more_than_chance():
    x, truth = drawn(2_000)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5))
    score = attribute_inference.probe(noise, truth, "linear").score(
        *[torch.randn(x.shape, generator=torch.Generator().manual_seed(6)), truth]
    )
    assert abs(score.accuracy - 1 / 3) < 0.05


def test_a_linear_probe_cannot_read_an_exclusive_or_and_the_mlp_can():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2_000, 2, generator=generator)
    truth = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).long()
    linear, mlp = (
        attribute_inference.probe(x[:1500], truth[:1500], kind).score(x[1500:], truth[1500:])
        for kind in ("linear", "mlp")
    )
    assert linear.accuracy < 0.6 < 0.9 < mlp.accuracy


def test_scores_by_hand():
    """Two of three rows of the commonest value: accuracy and F1 of the probe and of the constant guess."""
    x = torch.tensor([[0.0], [0.1], [1.0], [1.1], [0.2], [0.15]])
    truth = torch.tensor([0, 0, 1, 1, 0, 0])
    fitted = attribute_inference.probe(x, truth, "linear")
    asked, true = torch.tensor([[0.0], [0.1], [1.0], [0.05]]), torch.tensor([0, 0, 1, 1])
    assert fitted(asked).tolist() == [0, 0, 1, 0]
    score = fitted.score(asked, true)
    assert score.accuracy == 0.75
    assert score.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)  # F1 of 0: p 2/3, r 1; of 1: p 1, r 1/2
    assert score.majority == 0.5 and score.majority_f1 == pytest.approx((2 / 3 + 0) / 2)
    assert score.skill == pytest.approx(0.5)


def test_macro_f1_is_scikit_learns():
    x, truth = drawn(apart=0.5)
    fitted = attribute_inference.probe(x, truth)
    y, other = drawn(apart=0.5, seed=2)
    assert fitted.score(y, other).macro_f1 == pytest.approx(f1_score(other, fitted(y), average="macro"))


def test_an_affine_change_of_the_features_changes_nothing():
    """Features are standardised, so their units do not count."""
    x, truth = drawn(apart=1.0)
    y, _ = drawn(apart=1.0, seed=1)
    one = attribute_inference.probe(x, truth, "linear")(y)
    scale, shift = torch.tensor([1e-3, 1.0, 5.0, 100.0, 2.0, 0.1]), torch.arange(6.0)
    other = attribute_inference.probe(x * scale + shift, truth, "linear")(y * scale + shift)
    assert (one == other).double().mean() > 0.99


def test_as_many_components_as_features_lose_nothing_for_a_linear_probe():
    x, truth = drawn(apart=1.0)
    y, other = drawn(apart=1.0, seed=1)
    assert attribute_inference.probe(x, truth, "linear", 6).score(y, other).accuracy == pytest.approx(
        attribute_inference.probe(x, truth, "linear").score(y, other).accuracy, abs=0.01
    )


def test_one_component_of_two_keeps_the_direction_that_varies_most():
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(2, (400,), generator=generator)
    loud = torch.randn(400, generator=generator)
    x = torch.stack([loud, loud + 0.01 * torch.randn(400, generator=generator), truth.float()], 1)
    assert attribute_inference.probe(x, truth, "linear").score(x, truth).accuracy == 1
    assert attribute_inference.probe(x, truth, "linear", 1).score(x, truth).accuracy < 0.65


def test_the_same_seed_gives_the_same_probe():
    x, truth = drawn(apart=0.5)
    y, _ = drawn(apart=0.5, seed=3)
    one, two, other = (attribute_inference.probe(x, truth, seed=seed)(y) for seed in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)


def test_accuracy_rises_over_the_epochs_of_the_probe():
    curve = attribute_inference.over_epochs(drawn(), drawn(seed=1), epochs=15)
    assert len(curve) == 15 and curve[-1] > 0.9 and curve[-1] > curve[0]
    assert curve == attribute_inference.over_epochs(drawn(), drawn(seed=1), epochs=15)


# -- bad input -------------------------------------------------------------------------------------------------------------


def test_an_attribute_with_one_value_is_told():
    x, truth = drawn()
    with pytest.raises(ValueError, match="attribute: all 400 images have the value 2"):
        attribute_inference.probe(x, torch.full_like(truth, 2))


def test_values_that_only_the_auxiliary_set_has_are_told():
    x, truth = drawn()
    fitted = attribute_inference.probe(x, truth)
    y, other = drawn(seed=1)
    with pytest.raises(ValueError, match=r"auxiliary set had? ?.*values \[2\]"):
        fitted.score(y[other < 2], other[other < 2])


def test_values_that_the_auxiliary_set_lacks_are_warned_of():
    x, truth = drawn()
    fitted = attribute_inference.probe(x[truth < 2], truth[truth < 2])
    with pytest.warns(UserWarning, match=r"no image with the values \[2\]"):
        score = fitted.score(*drawn(seed=1))
    assert score.accuracy < 0.8


@pytest.mark.parametrize(
    "features, values, words",
    [
        (torch.zeros(4), torch.zeros(4).long(), r"features: got shape \(4,\)"),
        (torch.full((4, 2), np.nan), torch.tensor([0, 1, 0, 1]), "NaN"),
        (torch.zeros(4, 2), torch.tensor([0, 1, 0]), r"attribute: got shape \(3,\)"),
        (torch.zeros(4, 2), torch.tensor([0.0, 1, 0, 1]), "whole numbers"),
    ],
)
def test_what_does_not_fit_is_told(features, values, words):
    with pytest.raises(ValueError, match=words):
        attribute_inference.probe(features, values)


@pytest.mark.parametrize("width", [0, 7, 2.5, True])
def test_a_width_that_does_not_exist_is_told(width):
    with pytest.raises(ValueError, match="1 to 6 principal components"):
        attribute_inference.probe(*drawn(), width=width)


def test_an_unknown_kind_is_told():
    with pytest.raises(ValueError, match="kind='svm' is not known; try 'mlp' or 'linear'"):
        attribute_inference.probe(*drawn(), kind="svm")


def test_a_probe_is_given_no_more_components_than_there_are():
    draw = torch.Generator().manual_seed(0)
    features, attribute = torch.randn(20, 30, generator=draw), torch.arange(20) % 2
    with pytest.raises(ValueError, match="width=20: 20 images with 30 features each have 1 to 19 principal components"):
        attribute_inference.probe(features, attribute, width=20)
    features = features[:, :6].clone()
    features[:, 2] = 0.5  # a dead channel
    with pytest.raises(ValueError, match="width=6: these features span 5 directions"):
        attribute_inference.probe(features, attribute, width=6)
    attribute_inference.probe(features, attribute, width=5)
