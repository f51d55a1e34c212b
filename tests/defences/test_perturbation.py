"""Noise relative to the gradient: its size, its shape, its seed."""

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
    with pytest.raises(ValueError, match=r"relative=-0\.1 is no share of the gradient's norm"):
        kind(clean, -0.1)
