"""Generators: eigenfaces against linear algebra by hand, the shapes of a DCGAN, both kept as they are."""

import math

import numpy as np
import pytest
import torch

from privlab.attacks.model_inversion import GANRecipe, conditional_gan, dcgan, gans, generators


def faces(n=12, shape=(1, 6, 5), seed=0, spread=0.1):
    """Images around a common one, far from black and white."""
    draw = torch.Generator().manual_seed(seed)
    return (torch.rand(1, *shape, generator=draw) * 0.4 + 0.3 + spread * torch.randn(n, *shape, generator=draw)).clamp(
        0, 1
    )


# -- eigenfaces ------------------------------------------------------------------------------------------------------------


def latent(made, images):
    """The latent (n, width) whose image is nearest to each of these, by orthogonal projection."""
    return ((images - made.mean).flatten(1) @ made.components.T) / made.deviations


def test_eigenfaces_by_hand():
    """Two pixels, one of which varies thrice as much: sums of squares .18 and .02, over n - 1 = 3."""
    images = torch.tensor([[0.8, 0.5], [0.2, 0.5], [0.5, 0.6], [0.5, 0.4]]).view(4, 1, 1, 2)
    made = generators.eigenfaces(images, 1)
    assert (made.width, made.shape) == (1, (1, 1, 2))
    assert made.explained == pytest.approx(0.9)
    assert made.deviations.item() == pytest.approx(math.sqrt(0.06))
    torch.testing.assert_close(made.mean.flatten(), torch.tensor([0.5, 0.5]))
    torch.testing.assert_close(made.components.abs(), torch.tensor([[1.0, 0.0]]))
    up = made.components[0, 0].item()  # a component may point either way
    assert latent(made, images).flatten().tolist() == pytest.approx(
        [up * 0.3 / math.sqrt(0.06), -up * 0.3 / math.sqrt(0.06), 0, 0], abs=1e-5
    )
    torch.testing.assert_close(
        made.synthesise(torch.tensor([[up]])).flatten(), torch.tensor([0.5 + math.sqrt(0.06), 0.5])
    )
    assert generators.eigenfaces(images, 2).explained == pytest.approx(1)


@pytest.mark.parametrize("shape", [(1, 6, 5), (3, 4, 4)])
def test_an_image_comes_back_as_its_projection(shape):
    images, others = faces(shape=shape), faces(shape=shape, seed=1)
    whole = generators.eigenfaces(images, 11)
    torch.testing.assert_close(whole.synthesise(latent(whole, images)), images, atol=1e-5, rtol=0)
    made = generators.eigenfaces(images, 4)
    rows = images.double().flatten(1).numpy()
    basis = np.linalg.svd(rows - rows.mean(0))[2][:4]
    expected = rows.mean(0) + (others.double().flatten(1).numpy() - rows.mean(0)) @ basis.T @ basis
    assert expected.min() > 0 and expected.max() < 1
    got = made.synthesise(latent(made, others)).flatten(1)
    torch.testing.assert_close(got, torch.from_numpy(expected).float(), atol=1e-5, rtol=0)
    torch.testing.assert_close(latent(made, made.synthesise(latent(made, others))), latent(made, others))


def test_bytes_are_the_images_that_they_stand_for():
    pixels = (faces(shape=(3, 4, 4)) * 255).round().to(torch.uint8)
    a, b = generators.eigenfaces(pixels, 5), generators.eigenfaces(pixels.float() / 255, 5)
    torch.testing.assert_close(a.mean, b.mean)
    torch.testing.assert_close(a.components.abs(), b.components.abs(), atol=1e-4, rtol=0)
    again = generators.eigenfaces(pixels, 5)
    assert torch.equal(a.components, again.components) and torch.equal(a.deviations, again.deviations)


@pytest.mark.parametrize(
    ("images", "width", "says"),
    [
        (faces(5), 5, "width=5: 5 images have 4 principal components; give 1 to that"),
        (faces(5), 0, "width=0: 5 images have 4 principal components"),
        (faces(3).repeat(3, 1, 1, 1), 3, "width=3: these images vary in fewer directions than that; give fewer"),
        (torch.full((4, 1, 2, 2), 0.5), 1, "width=1: these images vary in fewer directions"),
    ],
)
def test_a_width_that_the_images_do_not_have(images, width, says):
    with pytest.raises(ValueError, match=says):
        generators.eigenfaces(images, width)


@pytest.mark.parametrize("fit", [generators.eigenfaces, lambda images: gans.gmi(images, GANRecipe(1, 0))])
def test_public_images_that_leave_the_unit_interval(fit):
    with pytest.raises(ValueError, match=r"images: pixels go from -.*of values in \[-1, 1\], \(images \+ 1\) / 2"):
        fit(2 * faces(64, (1, 16, 16)) - 1)


# -- what all have in common -----------------------------------------------------------------------------------------------


def network(side=16, channels=1, seed=0, width=8):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = dcgan.DCGAN(width, (channels, side, side), 4)
        with torch.no_grad():
            for _ in range(3):  # so that the statistics of BatchNorm are not those it began with
                made.synthesise(torch.randn(16, width))
    return made.eval().requires_grad_(False)


BOTH = {"eigenfaces": lambda: generators.eigenfaces(faces(), 8), "dcgan": network}
KINDS = {
    **BOTH,
    "adversary": lambda: gans.Adversary(8, (1, 16, 16), 4, 3).eval().requires_grad_(False),
    "conditional": lambda: conditional_gan.ConditionalDCGAN(8, (1, 16, 16), 4, 3).eval().requires_grad_(False),
}


@pytest.mark.parametrize("kind", BOTH)
def test_latents_are_standard_normal_and_follow_the_seed(kind):
    made = BOTH[kind]()
    state = torch.get_rng_state()
    z = made.sample(4000, seed=3)
    assert torch.equal(z, made.sample(4000, seed=3)) and not torch.equal(z, made.sample(4000, seed=4))
    assert z.shape == (4000, 8) and torch.equal(made.map(z), z)
    torch.testing.assert_close(z.T.cov(), torch.eye(8), atol=0.1, rtol=0)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("kind", BOTH)
def test_images_lie_between_0_and_1_and_depend_smoothly_on_the_latent(kind):
    made = BOTH[kind]()
    far = made.synthesise(100 * made.sample(6, 0))
    assert far.shape == (6, *made.shape) and far.min() >= 0 and far.max() <= 1
    if kind == "eigenfaces":
        exact = generators.Eigenfaces(made.mean.double(), made.components.double(), made.deviations.double(), 1.0)
    else:
        exact = made.double()
    w = exact.sample(3, 1).requires_grad_()
    assert torch.autograd.gradcheck(exact.synthesise, w)
    (slope,) = torch.autograd.grad(exact.synthesise(w)[1].sum(), w)
    assert slope[1].abs().min() > 0 and slope[[0, 2]].abs().max() == 0  # one latent, one image


# -- DCGAN -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "channels"), [(16, 1), (32, 3), (64, 1), (128, 1)])
def test_shapes_of_both_networks(side, channels):
    made = network(side, channels)
    images = made.synthesise(made.sample(2, 0))
    assert images.shape == (2, channels, side, side)
    assert dcgan.discriminator(made.shape, 2)(images).shape == (2,)
    widths = [m.out_channels for m in made.modules() if isinstance(m, torch.nn.ConvTranspose2d)]
    assert widths == [4 * 2**k for k in reversed(range(len(widths) - 1))] + [channels]
