"""Probes against hand-computed scores, on features where the answer is known."""

import pytest
import torch

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
    score = attribute_inference.probe(*drawn(), kind, width).score(*drawn(seed=1))
    assert score.accuracy > 0.95 and score.macro_f1 > 0.95


def test_a_linear_probe_cannot_read_an_exclusive_or_and_the_mlp_can():
    x = torch.randn(2_000, 2, generator=torch.Generator().manual_seed(0))
    truth = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).long()
    fit, held = (x[:1500], truth[:1500]), (x[1500:], truth[1500:])
    linear, mlp = (attribute_inference.probe(*fit, kind).score(*held) for kind in ("linear", "mlp"))
    assert linear.accuracy < 0.6 < 0.9 < mlp.accuracy


def test_scores_by_hand():
    """Two of three rows of the commonest value: accuracy and F1 of the probe and of the constant guess."""
    x = torch.tensor([[0.0], [0.1], [1.0], [1.1], [0.2], [0.15]])
    fitted = attribute_inference.probe(x, torch.tensor([0, 0, 1, 1, 0, 0]), "linear")
    asked, true = torch.tensor([[0.0], [0.1], [1.0], [0.05]]), torch.tensor([0, 0, 1, 1])
    assert fitted(asked).tolist() == [0, 0, 1, 0]
    score = fitted.score(asked, true)
    assert score.accuracy == 0.75
    assert score.macro_f1 == pytest.approx((0.8 + 2 / 3) / 2)  # F1 of 0: p 2/3, r 1; of 1: p 1, r 1/2
    assert score.majority == 0.5 and score.majority_f1 == pytest.approx((2 / 3 + 0) / 2)


def test_an_affine_change_of_the_features_changes_nothing():
    """Features are standardised, so their units do not count."""
    (x, truth), (y, _) = drawn(apart=1.0), drawn(apart=1.0, seed=1)
    scale, shift = torch.tensor([1e-3, 1.0, 5.0, 100.0, 2.0, 0.1]), torch.arange(6.0)
    one = attribute_inference.probe(x, truth, "linear")(y)
    other = attribute_inference.probe(x * scale + shift, truth, "linear")(y * scale + shift)
    assert (one == other).double().mean() > 0.99


def test_one_component_of_two_keeps_the_direction_that_varies_most():
    generator = torch.Generator().manual_seed(0)
    truth = torch.randint(2, (400,), generator=generator)
    loud = torch.randn(400, generator=generator)
    x = torch.stack([loud, loud + 0.01 * torch.randn(400, generator=generator), truth.float()], 1)
    assert attribute_inference.probe(x, truth, "linear").score(x, truth).accuracy == 1
    assert attribute_inference.probe(x, truth, "linear", 1).score(x, truth).accuracy < 0.65


def test_accuracy_rises_over_the_epochs_of_the_probe():
    curve = attribute_inference.over_epochs(drawn(), drawn(seed=1), epochs=15)
    assert len(curve) == 15 and curve[-1] > 0.9 and curve[-1] > curve[0]
    assert curve == attribute_inference.over_epochs(drawn(), drawn(seed=1), epochs=15)


def test_what_does_not_fit_is_told():
    x, truth = drawn()
    with pytest.raises(ValueError, match=r"attribute: got \(400,\) of values \[2\]; give one of several"):
        attribute_inference.probe(x, torch.full_like(truth, 2))
    with pytest.raises(ValueError, match=r"no attacked image has the values \[2\]; leave them out of the other"):
        attribute_inference.probe(x, truth).score(x[truth < 2], truth[truth < 2])
