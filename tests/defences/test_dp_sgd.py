"""DP-SGD: gradients image by image and beside Opacus' hooks, its noise, Poisson batches, epsilon, interruption, and what it refuses."""

import copy
import math
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from opacus import GradSampleModule
from opacus.accountants import RDPAccountant
from opacus.optimizers import DPOptimizer
from torch import nn

from privlab import compute, models, training
from privlab.defences import dp_sgd, regularisers
from privlab.defences.dp_sgd import dp, private_gradients
from privlab.training import Recipe, recipes, trainer

RECIPE = Recipe(epochs=3, batch_size=8, lr=2e-3, weight_decay=0)
PIXELS = torch.randint(0, 256, (20, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = torch.arange(20) % 3
SET = (PIXELS, LABELS)
X = PIXELS[:7].double() / 255
SMALL = dict(layers=(1, 1, 1, 1), channels=(8, 8, 12, 16), num_classes=3)
BUILD = {  # of each family that has no BatchNorm, or can be built without by JSON
    "resnet18": dict(SMALL, norm_layer="groupnorm1"),
    "resnet50": dict(SMALL, norm_layer="groupnorm1"),
    "vit_cifar": dict(embed_dim=16, depth=2, num_heads=2, num_classes=3),
    "swin_cifar": dict(embed_dim=12, depths=(1, 1), num_heads=(1, 2), num_classes=3),
    "convnext_cifar": dict(depths=(1, 1, 1, 1), dims=(8, 8, 12, 16), num_classes=3),
}


def build(name="resnet18", **more):
    return models.build(name, seed=1, **BUILD[name] | more)


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, 3)).double()


def fit(model, *defences, recipe=RECIPE, **more):
    return training.fit(model, SET, recipe, seed=0, defences=defences, progress=False, **more)


def one_by_one(model, x, labels):
    """The gradient of each image by itself, (n, parameters)."""
    rows = []
    for image, label in zip(x, labels, strict=True):
        loss = F.cross_entropy(model(image[None]), label[None])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*model.parameters()])]))
    return torch.stack(rows)


def left(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# -- the gradient of a step ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILD)
def test_gradients_image_by_image(name):
    """Of every family, in-place activations and additions among them, against backward() on one image at a time."""
    model = build(name).double().train()
    each = one_by_one(model, X, LABELS[:7])
    norms = each.norm(dim=1)
    for clip in (1e9, norms.median().item()):
        private_gradients(model, X, LABELS[:7], clip=clip, noise=0.0, size=7)
        expected = (each * (clip / norms).clamp(max=1)[:, None]).mean(0)
        torch.testing.assert_close(left(model), expected, rtol=1e-4, atol=1e-8)
    assert not any(hasattr(p, name) for p in model.parameters() for name in ("grad_sample", "summed_grad"))


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
    order = dp(8, 1e-5).order(recipe, 400, torch.Generator().manual_seed(0))
    sizes = torch.tensor([len(rows) for rows in order], dtype=torch.float64)
    assert len(order) == recipes.steps(recipe, 400) == 200 and (sizes == 0).any()
    assert sizes.mean().item() == pytest.approx(2, abs=0.3) and sizes.var().item() == pytest.approx(2, abs=0.6)
    assert len(torch.cat(order).unique()) < 400


def test_the_noise_is_of_the_clips_size_and_there_for_empty_batches():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 30))
    loss = private_gradients(model, torch.zeros(0, 3, 32, 32), LABELS[:0], clip=0.5, noise=3.0, size=4)
    assert loss.item() == 0
    assert left(model).std().item() == pytest.approx(3.0 * 0.5 / 4, rel=0.01)
    assert left(model).mean().abs().item() < 0.01


def test_without_noise_and_clip_a_training_is_that_of_poisson_batches(monkeypatch):
    """Two epochs of SGD, each gradient by hand: sums over the batches drawn, divided by the expected size."""
    monkeypatch.setattr(dp_sgd, "_noise", lambda *given: 0.0)
    recipe = Recipe(epochs=2, batch_size=8, optimiser="sgd", lr=0.05, momentum=0, weight_decay=0, schedule="constant")
    got, expected, sizes = linear(), linear(), []
    fit(got, dp(8, 1e-5, clip=1e9), recipe=recipe)
    for epoch in range(2):
        with trainer._own_generators(torch.device("cpu")):
            generator = trainer._seed(torch.device("cpu"), 0, epoch)
        order = [(torch.rand(20, generator=generator) < 8 / 20).nonzero()[:, 0] for _ in range(3)]
        for rows in order:
            sizes.append(len(rows))
            loss = F.cross_entropy(expected(PIXELS[rows].double() / 255), LABELS[rows], reduction="sum") / 8
            with torch.no_grad():
                for p, g in zip(
                    expected.parameters(), torch.autograd.grad(loss, [*expected.parameters()]), strict=True
                ):
                    p -= 0.05 * g
    assert len(set(sizes)) > 1
    for p, q in zip(got.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("augment", ["none", "crop_flip", "resized_crop"])
def test_empty_batches_are_steps_too(augment, monkeypatch):
    """Two images, each in a batch with a chance of a half: empty ones are among the twelve steps."""
    monkeypatch.setattr(dp_sgd, "_noise", lambda *given: 1.0)
    recipe, few = Recipe(epochs=6, batch_size=1, augment=augment), (PIXELS[:2], LABELS[:2])
    objective = training.fit(linear(), few, recipe, seed=0, defences=(dp(8, 1e-5),), progress=False)
    assert all(map(math.isfinite, objective))


def test_an_interrupted_training_goes_on_with_the_same_noise_and_the_same_account(tmp_path):
    whole, rest, defence = build(), build(), dp(8, 1e-5)
    fit(whole, defence, run=compute.Run("victim", {"n": 0}, tmp_path))
    run = compute.Run("victim", {"n": 1}, tmp_path)

    def watch(epoch):
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(build(), defence, run=run, watch=watch)
    fit(rest, defence, run=run)
    assert all(torch.equal(p, q) for p, q in zip(whole.parameters(), rest.parameters(), strict=True))
    assert run.read("defences") == compute.Run("victim", {"n": 0}, tmp_path).read("defences")
    assert run.read("defences")["dp"]["steps"] == 9


# -- epsilon -------------------------------------------------------------------------------------------------------------------


def test_epsilon_agrees_with_the_accountant_step_by_step(tmp_path, capsys):
    run = compute.Run("victim", {}, tmp_path)
    training.fit(build("vit_cifar"), SET, RECIPE, seed=0, defences=(dp(8, 1e-5),), run=run)
    told = run.read("defences")["dp"]
    accountant = RDPAccountant()
    for _ in range(9):  # three epochs of 8, 8 and 4 images
        accountant.step(noise_multiplier=told["noise"], sample_rate=8 / 20)
    assert told["epsilon"] == pytest.approx(accountant.get_epsilon(1e-5)) and told["rate"] == 0.4
    assert 8 - 0.011 <= told["epsilon"] <= 8 and told["delta"] == 1e-5
    assert f"dp: epsilon {told['epsilon']:.4g}, delta 1e-05, noise {told['noise']:.4g}" in capsys.readouterr().out


def test_epsilon_of_whole_batches_by_hand():
    """Without sampling a step has the Renyi divergence a / (2 noise^2) at each order a, and steps add up; Balle et al. 2020, Theorem 21."""
    orders = [a for a in RDPAccountant.DEFAULT_ALPHAS if a > 1]
    noise, steps, delta = 5.0, 12, 1e-5
    expected = min(
        steps * a / (2 * noise**2) + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1) for a in orders
    )
    assert dp_sgd.spent(noise, 1.0, steps, delta) == pytest.approx(expected, rel=1e-9)


# -- bad input -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dp(0, 1e-5), "epsilon=0 is out of range; give a number above 0"),
        (lambda: dp(8, 1), "delta=1 is out of range; give a number above 0 and below 1"),
        (lambda: fit(models.build("resnet18", **SMALL), dp(8, 1e-5)), "model: 'bn1' is a BatchNorm.*\"groupnorm1\""),
        (lambda: fit(build(), dp(8, 0.05)), "delta=0.05 may give one of 20 images away; give less than 0.05"),
        (lambda: fit(build(), dp(8, 1e-5), recipe=replace(RECIPE, mixup=0.8)), "mixup=0.8, cutmix=0 cannot go with DP"),
        (lambda: fit(build(), dp(8, 1e-5), regularisers.bido(1, 1)), "DP.* cannot go with BiDO"),
        (lambda: dp(0.01, 1e-5).check(linear(), RECIPE, 20), "epsilon=0.01 with delta=1e-05: no noise keeps 3 epochs"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_without_opacus_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus", None)
    with pytest.raises(ImportError, match=r"needs Opacus, which is not installed here: pip install -e '\.\[dp\]'"):
        fit(build(), dp(8, 1e-5))
