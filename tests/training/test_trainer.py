"""The trainer: steps against formulas by hand, resume to the bit, victims trained once, the caller's random states untouched."""

import multiprocessing
import random
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from awkward_networks import Tokens
from small_training import linear
from timm.data import Mixup
from torch import nn
from weights import same

from privlab import compute, data, models, training
from privlab.training import Recipe, batches, epoch_loop, trainer

DRAWN = torch.Generator().manual_seed(0)
LABELS = torch.arange(24) % 3
PIXELS = torch.randint(0, 256, (24, 1, 8, 8), generator=DRAWN, dtype=torch.uint8)
SET = (PIXELS, LABELS)
# Everything that draws or that a checkpoint could forget: mixing, both kinds of augmentation, dropout (in `tiny`), warm-up, momenta.
BUSY = Recipe(
    epochs=5, batch_size=7, lr=0.01, mixup=0.8, cutmix=1.0, augment="crop_flip", warmup_epochs=1, label_smoothing=0.1
)


def tiny(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2)
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 3)).eval()


def fit(model, recipe, images=SET, seed=0, **more):
    return training.fit(model, images, recipe, seed=seed, **more)


@pytest.fixture
def epochs(monkeypatch):
    """Counts the epochs that are really trained."""
    trained = []
    real = trainer._epoch
    monkeypatch.setattr(trainer, "_epoch", lambda *a: trained.append(a[5]) or real(*a))
    return trained


def test_a_step_on_one_image_is_that_on_the_same_image_twice():
    once, twice = (Tokens(1, 2, nn.InstanceNorm2d(4, affine=True), 3).double() for _ in range(2))
    for model, n in ((once, 1), (twice, 2)):
        recipe = Recipe(epochs=1, batch_size=n, lr=0.1, optimiser="sgd", weight_decay=0, schedule="constant")
        fit(model, recipe, (PIXELS[:1].repeat(n, 1, 1, 1), LABELS[:1].repeat(n)))
    for a, b in zip(once.parameters(), twice.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def gradient(weight, bias):
    """Of the mean cross-entropy of a linear layer over SET, by hand: (softmax - onehot)^T x / n."""
    x = PIXELS.double().flatten(1) / 255
    error = (torch.softmax(x @ weight.T + bias, dim=1) - torch.eye(3, dtype=torch.float64)[LABELS]) / len(x)
    return error.T @ x, error.sum(0)


def test_two_steps_of_adamw_by_hand():
    """Loshchilov & Hutter 2019, algorithm 2, on a cosine: the rates of two steps are lr and lr / 2."""
    recipe = Recipe(epochs=2, batch_size=24, lr=0.1, weight_decay=0.3, betas=(0.8, 0.95))
    model = linear(64)
    values = [p.detach().clone() for p in model.parameters()]
    fit(model, recipe)
    m, v = [torch.zeros_like(p) for p in values], [torch.zeros_like(p) for p in values]
    for t, rate in ((1, 0.1), (2, 0.05)):
        for i, g in enumerate(gradient(*values)):
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.95 * v[i] + 0.05 * g**2
            step = (m[i] / (1 - 0.8**t)) / ((v[i] / (1 - 0.95**t)).sqrt() + 1e-8)
            values[i] = values[i] - rate * 0.3 * values[i] - rate * step
    for got, expected in zip(model.parameters(), values, strict=True):
        torch.testing.assert_close(got.detach(), expected, rtol=1e-10, atol=1e-12)


def test_the_objective_is_that_of_timms_mixed_images_and_targets():
    recipe = Recipe(epochs=1, batch_size=24, lr=1e-300, weight_decay=0, mixup=0.8, cutmix=1.0, label_smoothing=0.1)
    model = linear(64)
    objective = fit(model, recipe, seed=7)
    with trainer._own_generators(torch.device("cpu")):
        (rows,) = batches.order(24, recipe, trainer._seed(torch.device("cpu"), 7, 0))
        x, targets = Mixup(0.8, 1.0, label_smoothing=0.1, num_classes=3)(PIXELS[rows].double() / 255, LABELS[rows])
    expected = -(targets * F.log_softmax(model(x), dim=1)).sum(1).mean().item()
    assert objective == [pytest.approx(expected, rel=1e-7)]


def test_the_seed_alone_decides():
    first, second, other = tiny(), tiny(), tiny()
    objective = fit(first, BUSY)
    torch.manual_seed(99)
    np.random.seed(99)
    # what is measured on the way changes nothing
    again = fit(second, BUSY, watch=lambda epoch: training.evaluate(second, SET))
    fit(other, BUSY, seed=1)
    assert same(first, second) and objective == again
    assert not same(first, other)


def test_the_callers_random_states_are_left_alone_by_an_interrupted_training(monkeypatch):
    def states():
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

    before, cudnn, model = states(), torch.backends.cudnn, tiny()
    monkeypatch.setattr(cudnn, "deterministic", False)
    monkeypatch.setattr(cudnn, "benchmark", True)
    stop_at(model, 6)
    with pytest.raises(KeyboardInterrupt):
        fit(model, BUSY)
    assert states() == before and not cudnn.deterministic and cudnn.benchmark
    assert not any(module.training for module in model.modules())


def stop_at(model, forward_pass, kill=False):
    """Raise KeyboardInterrupt, or kill this process, at a forward pass in train mode, counted from 1: four are an epoch of BUSY."""
    seen = []

    def hook(module, _):
        seen.append(module.training)
        if sum(seen) == forward_pass and module.training:
            if kill:
                signal.raise_signal(signal.SIGKILL)
            raise KeyboardInterrupt

    model.register_forward_pre_hook(hook)


FORKS = pytest.mark.skipif(torch.cuda.is_available(), reason="a fork does not take autograd's threads along")


@pytest.mark.parametrize(
    ("optimiser", "forward_pass", "kill"),
    [
        *[("adamw", 1, False), ("adamw", 11, False), ("adam", 4, False), ("adam", 20, False), ("sgd", 11, False)],
        pytest.param("adamw", 11, True, marks=FORKS),  # as where memory runs out: no line of Python is run any more
    ],
)
def test_an_interrupted_training_goes_on_to_the_same_bits(tmp_path, epochs, optimiser, forward_pass, kill):
    recipe = replace(BUSY, optimiser=optimiser)
    whole, stopped = tiny(), tiny()
    expected, run = fit(whole, recipe), compute.Run("victim", {}, tmp_path)
    stop_at(stopped, forward_pass, kill)
    if kill:
        child = multiprocessing.get_context("fork").Process(target=fit, args=(stopped, recipe), kwargs=dict(run=run))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
    else:
        with pytest.raises(KeyboardInterrupt):
            fit(stopped, recipe, run=run)
    assert not run.complete
    epochs.clear()
    resumed = tiny(seed=3 if forward_pass > 4 else 0)  # its weights come from the checkpoint, if there is one
    objective = fit(resumed, recipe, run=compute.Run("victim", {}, tmp_path))
    assert epochs == list(range((forward_pass - 1) // 4, 5))
    assert objective == expected and same(resumed, whole)
    assert run.complete and same(run.load("weights"), whole)


def test_logits_are_the_models_in_eval_mode_and_its_mode_is_kept():
    model = tiny().train()
    model[1].eval()  # a BatchNorm that someone froze
    modes = [module.training for module in model.modules()]
    got = training.logits(model, SET, batch_size=5)
    assert [module.training for module in model.modules()] == modes and not got.requires_grad
    torch.testing.assert_close(got, tiny()(PIXELS.float() / 255))
    assert torch.equal(got, training.logits(model, PIXELS, batch_size=5)) and got.shape == (24, 3)


def test_evaluate_by_hand():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3, bias=False))
    model[1].weight.data.zero_()[2, 0] = 1.0  # the first pixel speaks for the last class, black for the first
    pixels = torch.zeros(4, 1, 8, 8)
    pixels[:3, 0, 0, 0] = 1.0
    assert training.evaluate(model, (pixels, torch.tensor([2, 2, 1, 0]))) == 0.75


def test_what_cannot_be_trained_is_named():
    with pytest.raises(ValueError, match="batch_size=25 is more than the 24 images; give 24 or less"):
        fit(tiny(), replace(BUSY, batch_size=25))
    with pytest.raises(ValueError, match="labels go from 1 to 3; this model knows the classes 0 to 2"):
        fit(tiny(), BUSY, (PIXELS, LABELS + 1))


def test_divergence_says_where_and_what_to_try(tmp_path):
    recipe = Recipe(epochs=3, batch_size=8, optimiser="sgd", lr=1e30)
    run = compute.Run("victim", {}, tmp_path)
    with pytest.raises(FloatingPointError, match=r"in epoch 1 of 3: training diverged; try lr=1e\+29, or clip"):
        fit(linear(64, torch.float32), recipe, run=run)
    assert run.names() == []  # what diverged is no checkpoint


QUICK = Recipe(epochs=2, batch_size=4)


def test_a_victim_is_trained_once_for_each_thing_that_its_result_depends_on(tmp_path, monkeypatch, epochs):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    small, images = dict(depth=1, embed_dim=16, num_heads=1), torch.arange(10)
    settings = dict(recipe=QUICK, images=images, model=small, test=210)
    first, accuracy = training.victim("vit_cifar", **settings)
    second, again = training.victim("vit_cifar", **settings)
    assert epochs == [0, 1] and same(first, second) and accuracy == again
    assert not second.training and second.normalise == models.build("vit_cifar").normalise
    drawn = torch.randperm(210, generator=torch.Generator().manual_seed(0))[:200]
    assert accuracy == training.evaluate(second, batches.subset(data.load("cifar10", "test"), drawn))
    moved = dict(model={**small, "position_std": 1.0})  # shows in no shape
    for other in (dict(seed=1), dict(images=images.flip(0)), moved):
        epochs.clear()
        training.victim("vit_cifar", **{**settings, **other})
        assert len(epochs) == 2, other


def test_each_epoch_of_the_loop_draws_from_its_own_seed_and_leaves_the_callers_alone(tmp_path):
    network, seeds, before = nn.Linear(1, 1), [], torch.get_rng_state()
    optimiser, run = torch.optim.SGD(network.parameters()), compute.Run("loop", {}, tmp_path)

    def step(rows, draw):
        seeds.append((len(rows), draw.initial_seed(), torch.initial_seed()))

    settings = dict(epochs=2, batch_size=2, seed=1, run=run, title="", progress=False)
    epoch_loop.train({"net": network}, {"net": optimiser}, step, 5, **settings)
    assert seeds == [(2, s, s) for s in (1_000_003, 1_000_003, 1_000_004, 1_000_004)]
    assert torch.equal(torch.get_rng_state(), before)
