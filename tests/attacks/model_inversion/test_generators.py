"""Generators: eigenfaces against linear algebra by hand, and what all have in common."""

import math

import pytest
import torch

from privlab.attacks.model_inversion import gans, generators


def faces():
    """Images around a common one, far from black and white."""
    draw, shape = torch.Generator().manual_seed(0), (1, 6, 5)
    common = torch.rand(1, *shape, generator=draw) * 0.4 + 0.3
    return (common + 0.1 * torch.randn(12, *shape, generator=draw)).clamp(0, 1)


def test_eigenfaces_by_hand():
    """Two pixels, one of which varies thrice as much: a sum of squares of .18, over n - 1 = 3."""
    images = torch.tensor([[0.8, 0.5], [0.2, 0.5], [0.5, 0.6], [0.5, 0.4]]).view(4, 1, 1, 2)
    made = generators.Eigenfaces(images, 1)
    assert (made.width, made.shape) == (1, (1, 1, 2))
    assert made.deviations.item() == pytest.approx(math.sqrt(0.06))
    torch.testing.assert_close(made.mean.flatten(), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(made.components.abs(), torch.tensor([[1.0, 0.0]]))
    up = made.components[0, 0].item()  # a component may point either way
    expected = torch.tensor([0.5 + math.sqrt(0.06), 0.5])
    torch.testing.assert_close(made.synthesise(torch.tensor([[up]])).flatten(), expected)


def test_what_no_eigenfaces_are_fitted_to():
    with pytest.raises(ValueError, match=r"images: pixels go from -.*of values in \[-1, 1\], \(images \+ 1\) / 2"):
        generators.Eigenfaces(2 * faces() - 1, 5)


KINDS = {
    "eigenfaces": lambda: generators.Eigenfaces(faces(), 8),
    "adversary": lambda: gans.Adversary(8, (3, 32, 32), 4, 3),
    "conditional": lambda: gans.DCGAN(8, (1, 16, 16), 4, 3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_latents_follow_the_seed_and_images_lie_between_0_and_1(kind):
    made, labels = KINDS[kind]().eval(), torch.tensor([0, 1, 2, 0, 1, 2])
    state = torch.get_rng_state()
    z = made.sample(4000, seed=3)
    assert torch.equal(z, made.sample(4000, seed=3)) and not torch.equal(z, made.sample(4000, seed=4))
    assert z.shape == (4000, 8) and torch.equal(made.map(z), z) and torch.equal(state, torch.get_rng_state())
    torch.testing.assert_close(z.T.cov(), torch.eye(8), atol=0.1, rtol=0)
    far = made.draw(100 * z[:6], labels)
    assert far.shape == (6, *made.shape) and far.min() >= 0 and far.max() <= 1
    w = z[:6].clone().requires_grad_()
    (slope,) = torch.autograd.grad(made.draw(w, labels)[1].sum(), w)
    assert slope[1].abs().min() > 0 and slope[[0, 2, 3, 4, 5]].abs().max() == 0  # one latent, one image
