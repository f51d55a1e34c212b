"""DP-SGD: gradients image by image and beside Opacus', its noise, Poisson batches, epsilon, interruption, and what it refuses."""

import copy
import sys
from math import log

import pytest
import small_training
import torch
import torch.nn.functional as F
from opacus import GradSampleModule
from opacus.accountants import RDPAccountant
from opacus.optimizers import DPOptimizer
from small_training import LABELS, PIXELS, RECIPE, fit
from torch import nn

from privlab import compute, training
from privlab.defences import dp_sgd, regularisers
from privlab.defences.dp_sgd import DP, private_gradients
from privlab.training import Recipe, recipes

X = PIXELS[:7].double() / 255


def build(name="resnet18"):
    return small_training.build(name, **({"norm_layer": "groupnorm1"} if name == "resnet18" else {}))


def left(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("name", ["resnet18", "vit_cifar", "swin_cifar", "convnext_cifar"])
def test_gradients_image_by_image(name):
    """Of every family, in-place activations and additions among them, against backward() on one image at a time."""
    model = build(name).double().train()
    rows = []
    for image, label in zip(X, LABELS[:7], strict=True):
        loss = F.cross_entropy(model(image[None]), label[None])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*model.parameters()])]))
    each = torch.stack(rows)  # (images, parameters)
    norms = each.norm(dim=1)
    for clip in (1e9, norms.median().item()):
        private_gradients(model, X, LABELS[:7], clip=clip, noise=0.0, size=7)
        expected = (each * (clip / norms).clamp(max=1)[:, None]).mean(0)
        torch.testing.assert_close(left(model), expected, rtol=1e-4, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_opacus_own_hooks_give_the_same():
    """On a net without in-place operations, where its hooks work; the noise too, from the same state of the generator."""
    layers = [nn.Conv2d(3, 4, 3, stride=4), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(256, 3)]
    model = nn.Sequential(*layers)
    theirs, settings = GradSampleModule(copy.deepcopy(model)), dict(noise_multiplier=0.7, max_grad_norm=0.5)
    optimiser = DPOptimizer(torch.optim.SGD(theirs.parameters(), lr=1.0), **settings, expected_batch_size=6)
    F.cross_entropy(theirs(X.float()), LABELS[:7]).backward()
    torch.manual_seed(1)
    optimiser.pre_step()
    torch.manual_seed(1)
    private_gradients(model, X.float(), LABELS[:7], clip=0.5, noise=0.7, size=6)
    torch.testing.assert_close(left(model), left(theirs._module), rtol=1e-4, atol=1e-6)


def test_poisson_batches():
    """Each image comes with the chance batch_size / images, by itself: the sizes have the mean and the variance of a binomial."""
    recipe = Recipe(epochs=1, batch_size=2)
    order = DP(8, 1e-5).order(recipe, 400, torch.Generator().manual_seed(0))
    sizes = torch.tensor([len(rows) for rows in order], dtype=torch.float64)
    assert len(order) == recipes.steps(recipe, 400) == 200 and (sizes == 0).any()
    assert sizes.mean().item() == pytest.approx(2, abs=0.3) and sizes.var().item() == pytest.approx(2, abs=0.6)


def test_the_noise_is_of_the_clips_size_and_there_for_empty_batches():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 30))
    assert private_gradients(model, torch.zeros(0, 3, 32, 32), LABELS[:0], clip=0.5, noise=3.0, size=4) == 0
    assert left(model).std().item() == pytest.approx(3.0 * 0.5 / 4, rel=0.01)


def test_epsilon_agrees_with_the_accountant_step_by_step(tmp_path, capsys):
    run = compute.Run("victim", {}, tmp_path)
    training.fit(build("vit_cifar"), (PIXELS, LABELS), RECIPE, seed=0, defences=(DP(8, 1e-5),), run=run)
    told = run.read("defences")["dp"]
    accountant = RDPAccountant()
    for _ in range(6):  # two epochs of 8, 8 and 4 images
        accountant.step(noise_multiplier=told["noise"], sample_rate=8 / 20)
    assert told["epsilon"] == pytest.approx(accountant.get_epsilon(1e-5)) and told["rate"] == 0.4
    assert 8 - 0.011 <= told["epsilon"] <= 8 and told["delta"] == 1e-5


def test_epsilon_of_whole_batches_by_hand():
    """Without sampling a step has the Renyi divergence a / (2 noise^2) at each order a, and steps add up; Balle et al. 2020, Theorem 21."""
    orders = [a for a in RDPAccountant.DEFAULT_ALPHAS if a > 1]
    noise, steps, delta = 5.0, 12, 1e-5
    expected = min(steps * a / (2 * noise**2) + log((a - 1) / a) - (log(delta) + log(a)) / (a - 1) for a in orders)
    assert dp_sgd.spent(noise, 1.0, steps, delta) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fit(small_training.build(), DP(8, 1e-5)), "model: 'bn1' is a BatchNorm.*\"groupnorm1\""),
        (lambda: fit(build(), DP(8, 0.05)), "delta=0.05 gives one of 20 images away; give below 0.05"),
        (lambda: fit(build(), DP(8, 1e-5), regularisers.BiDO(1, 1)), "DP.* cannot go with BiDO"),
        (lambda: DP(0.01, 1e-5).check(build(), RECIPE, 20), "privacy budget is too low"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_without_opacus_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(ImportError, match=r"needs Opacus, which is not installed here: pip install -e '\.\[dp\]'"):
        fit(build(), DP(8, 1e-5))
