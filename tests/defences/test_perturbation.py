"""Noise relative to the gradient: its size, its shape, its seed; updates cut, thinned out and rounded, by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab.defences import perturbation
from privlab.leak import Leak

KINDS = [perturbation.gaussian, perturbation.laplacian]


def leak(scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Leak(
        {"a": scale * torch.randn(200, 300, generator=generator), "b": torch.full((40_000,), scale)}, 1, (3, 4, 4)
    )


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.floats(1e-4, 10), st.floats(1e-3, 1e3), st.integers(0, 10_000))
def test_the_norm_of_the_noise_is_relative_to_the_gradients(kind, relative, scale, seed):
    clean = leak(scale)
    noisy = kind(clean, relative, seed)
    for name, g in clean.grads.items():
        noise = noisy.grads[name].double() - g.double()
        assert (noise.norm() / g.double().norm()).item() == pytest.approx(relative, rel=0.05)
        assert abs(noise.mean().item()) < 5 * relative * scale / g.numel() ** 0.5


@pytest.mark.parametrize(("kind", "kurtosis"), [(perturbation.gaussian, 3.0), (perturbation.laplacian, 6.0)])
def test_the_tails(kind, kurtosis):
    clean = leak()
    noise = kind(clean, 1.0, seed=1).grads["a"].double() - clean.grads["a"].double()
    assert (noise.pow(4).mean() / noise.square().mean() ** 2).item() == pytest.approx(kurtosis, rel=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_seed_and_zero(kind):
    clean = leak()
    assert torch.equal(kind(clean, 0.1, seed=3).grads["a"], kind(clean, 0.1, seed=3).grads["a"])
    assert not torch.equal(kind(clean, 0.1, seed=3).grads["a"], kind(clean, 0.1, seed=4).grads["a"])
    assert torch.equal(kind(clean, 0.0).grads["a"], clean.grads["a"])


# -- clipped, sparse, low bits: by hand ------------------------------------------------------------------------------------------


def update(*numbers):
    """Two tensors: (1, 2) and the rest."""
    numbers = torch.tensor(numbers, dtype=torch.float64)
    return Leak({"w": numbers[:2].view(1, 2), "b": numbers[2:]}, 1, (3, 4, 4))


def held(leak):
    return torch.cat([g.flatten() for g in leak.grads.values()]).tolist()


def test_the_whole_update_is_cut_to_a_norm():
    """|(2, -4, 5, 6)| = 9: cut to 4.5 each number is halved, whichever tensor it is in."""
    sent = update(2, -4, 5, 6)
    assert held(perturbation.clipped(sent, 4.5)) == pytest.approx([1, -2, 2.5, 3])
    assert held(perturbation.clipped(sent, 9)) == held(perturbation.clipped(sent, 100)) == held(sent)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(1, [2, -4, 5, 6, -1]), (0.6, [0, -4, 5, 6, 0]), (0.2, [0, 0, 0, 6, 0]), (0.01, [0, 0, 0, 6, 0])],
)
def test_the_largest_of_the_whole_update_are_kept(share, expected):
    assert held(perturbation.sparse(update(2, -4, 5, 6, -1), share)) == expected


def test_low_bits_by_hand():
    """Two bits: four levels over each tensor's own range; 0 and 3 of w stay, b has the levels -6, -2, 2, 6."""
    sent = update(0, 3, -6, -3, 1, 5, 6)
    assert held(perturbation.low_bits(sent, 2)) == pytest.approx([0, 3, -6, -2, 2, 6, 6])
    assert held(perturbation.low_bits(sent, 1)) == pytest.approx([0, 3, -6, -6, 6, 6, 6])
    constant = update(2, 2, 0, 0, 0)
    assert held(perturbation.low_bits(constant, 1)) == held(constant)


@pytest.mark.parametrize(
    ("defence", "bad", "message"),
    [
        (perturbation.clipped, 0, "norm=0 is no length to cut to; give a positive number, such as 9"),
        (perturbation.sparse, 1.1, "share=1.1 of the numbers cannot be kept; give one above 0 and at most 1"),
        (perturbation.low_bits, 17, "bits=17 is no number of bits; give 1 to 16, such as 8"),
        (perturbation.gaussian, -0.1, "relative=-0.1 is no share of the gradient's norm"),
    ],
)
def test_numbers_out_of_range(defence, bad, message):
    with pytest.raises(ValueError, match=message):
        defence(update(2, -4, 5, 6), bad)
