"""PLG-MI's GAN: pseudo-labels and losses by hand, a generator that heeds its label, and the same bits after an interruption."""

from dataclasses import fields, replace

import pytest
import torch
from torch import nn

from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import GANRecipe
from privlab.attacks.model_inversion.conditional_gan import (
    ClassBatchNorm,
    ConditionalDCGAN,
    Projection,
    hinge,
    plg_mi,
    pseudo_labels,
)

SMALL = GANRecipe(epochs=3, seed=1, width=8, channels=4, batch_size=16, lr=2e-3)


def halves(n=64):
    """Pictures whose left or right half is bright; what is public and mixed: half of each kind, in turn."""
    images = torch.rand(n, 1, 16, 16, generator=torch.Generator().manual_seed(0)) * 0.2
    images[::2, :, :, :8] += 0.6
    images[1::2, :, :, 8:] += 0.6
    return images


@pytest.fixture(scope="module")
def target():
    """Class 0 is the brightness of the left half, class 1 that of the right one, by the weights."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    with torch.no_grad():
        sides = torch.zeros(2, 16, 16)
        sides[0, :, :8], sides[1, :, 8:] = 0.05, 0.05
        model[1].weight.copy_(sides.flatten(1))
        model[1].bias.zero_()
    return model


def train(root, target, images=None, **changes):
    """The GAN of `SMALL`, or with changes: of its recipe, or of what `plg_mi` takes."""
    recipe = {each.name: changes.pop(each.name) for each in fields(GANRecipe) if each.name in changes}
    settings = dict(each=32, root=root, progress=False) | changes
    return plg_mi(halves() if images is None else images, target, replace(SMALL, **recipe), **settings)


@pytest.fixture(scope="module")
def whole(target, tmp_path_factory):
    return train(tmp_path_factory.mktemp("whole"), target)


def network(classes=3, side=16):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ConditionalDCGAN(6, (1, side, side), 4, classes).eval()


# -- by hand ---------------------------------------------------------------------------------------------------------------


def test_pseudo_labels_by_hand():
    """Image 3 serves both classes, image 1 none."""
    said = torch.tensor([[0.9, 0.1], [0.5, 0.5], [0.3, 0.7], [0.8, 0.6]])
    places, labels = pseudo_labels(said, 2)
    assert (places.tolist(), labels.tolist()) == ([0, 3, 2, 3], [0, 0, 1, 1])
    assert pseudo_labels(said, 1)[0].tolist() == [0, 2]


@pytest.mark.parametrize("n", [0, 5])
def test_pseudo_labels_for_more_than_there_are(n):
    with pytest.raises(ValueError, match=f"n={n} images of each class: there are 4; give 1 to that"):
        pseudo_labels(torch.rand(4, 2), n)


def test_hinge_by_hand():
    """Real: 1 - 2 is cut to 0, 1 - 0 and 1 + 1 stay; made: 1 - 3 is cut to 0, 1 + .5 stays."""
    got = hinge(torch.tensor([2.0, 0.0, -1.0]), torch.tensor([-3.0, 0.5]))
    assert got.item() == pytest.approx((0 + 1 + 2) / 3 + (0 + 1.5) / 2)
    beyond = torch.tensor([1.5], requires_grad=True)
    assert torch.autograd.grad(hinge(beyond, -beyond), beyond)[0].item() == 0


def test_class_batch_norm_by_hand():
    norm = ClassBatchNorm(1, 2)
    with torch.no_grad():
        norm.scale.weight[1], norm.shift.weight[1] = 3.0, 5.0
    x = torch.tensor([-1.0, 1.0]).view(2, 1, 1, 1)  # mean 0, variance 1
    got = norm(x, torch.tensor([0, 1])).flatten()
    assert got.tolist() == pytest.approx([-1, 3 * 1 + 5], abs=1e-4)


def test_the_opponents_logit_is_a_line_plus_a_projection():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        discriminator = Projection((1, 16, 16), 4, 3).eval()
    images, labels = torch.rand(5, 1, 16, 16, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 1, 0])
    features = discriminator.body(images).sum((2, 3))
    expected = [
        discriminator.plain.bias[0] + f @ (discriminator.plain.weight[0] + discriminator.classes.weight[y])
        for f, y in zip(features, labels, strict=True)
    ]
    torch.testing.assert_close(discriminator(images, labels), torch.stack(expected))
    for weight in (discriminator.plain.weight, discriminator.classes.weight, discriminator.body[0].weight.flatten(1)):
        assert torch.linalg.matrix_norm(weight, 2).item() == pytest.approx(
            1, abs=0.15
        )  # after the power iteration's first steps


# -- the generator ---------------------------------------------------------------------------------------------------------


def test_a_trained_generator_draws_the_class_it_is_told(target, tmp_path):
    made = train(tmp_path, target, epochs=30, lr=1e-2)
    z = made.sample(32, 3)
    bright = []
    for label in (0, 1):
        images = made.synthesise(z, torch.full((32,), label))
        bright.append((images[..., :8].mean() - images[..., 8:].mean()).item())
    assert bright[0] > 0.2 and bright[1] < -0.2


def test_the_margin_pulls_towards_what_the_target_takes_for_the_class(target, tmp_path):
    def certain(margin):
        made = train(tmp_path, target, margin=margin, epochs=12, lr=1e-2)
        labels = torch.arange(2).repeat_interleave(32)
        said = target(made.synthesise(made.sample(64, 3), labels))
        return (said[torch.arange(64), labels] - said[torch.arange(64), 1 - labels]).mean().item()

    assert certain(5.0) > certain(0.0) + 0.1


# -- the search in it ------------------------------------------------------------------------------------------------------


def test_the_first_choice_shows_one_pool_under_each_class(whole):
    target = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))  # one that a mirror image means something else to
    with torch.no_grad():
        target[1].weight.copy_(torch.randn(2, 256, generator=torch.Generator().manual_seed(0)) * 0.1)
    attack = model_inversion.plg_mi(candidates=3, kept=2, pool=20)
    chosen = attack.select(target, whole, torch.tensor([1, 0]), seed=4)
    pool = whole.sample(20, 4)
    for place, wanted in enumerate((1, 0)):
        images = whole.synthesise(pool, torch.full((20,), wanted))
        sure = (target(images).softmax(1) + target(images.flip(-1)).softmax(1))[:, wanted]
        best = sorted(range(20), key=lambda i: -sure[i])[:3]
        assert torch.equal(chosen[3 * place : 3 * place + 3], pool[best])


def test_the_search_stays_in_the_class_and_convinces(whole, target):
    found = model_inversion.plg_mi(candidates=4, kept=2, steps=30).run(target, whole, [1, 0], seed=1)
    assert found.targets.tolist() == [1, 1, 0, 0]
    assert torch.equal(found.images, whole.synthesise(found.latents, found.targets))
    before = target(found.first).softmax(1)[torch.arange(4), found.targets]
    assert (found.likelihood > before).all() and found.trace[-1] < found.trace[0]
    alone = model_inversion.plg_mi(candidates=4, kept=2, steps=30).run(target, whole, [0], seed=1)
    torch.testing.assert_close(alone.images, found.images[2:], atol=1e-4, rtol=1e-4)


def test_a_generator_for_another_target_is_named(whole):
    other = nn.Sequential(nn.Flatten(), nn.Linear(256, 5))
    with pytest.raises(ValueError, match="model: its 5 classes are to be finite, and those of the generator"):
        model_inversion.plg_mi(candidates=2).run(other, whole, [0])
