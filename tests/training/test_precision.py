"""Training in bfloat16: the forward pass is torch's autocast, weights and steps stay in float32, and the key of a run knows."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from privlab import training
from privlab.defences import dp_sgd
from privlab.training import Recipe, batches, recipes, shadow_models, trainer

PIXELS = torch.randint(0, 256, (24, 3, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
SET = (PIXELS, torch.arange(24) % 3)
BF16 = Recipe(epochs=3, batch_size=8, lr=0.01, precision="bf16", augment="flip")
SGD = Recipe(
    epochs=1, batch_size=24, optimiser="sgd", lr=0.5, weight_decay=0, momentum=0, schedule="constant", precision="bf16"
)


def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 3))


def fit(model, recipe, **more):
    return training.fit(model, SET, recipe, seed=0, **more)


def test_a_step_is_that_of_the_loss_under_autocast_and_the_weights_stay_float32():
    model, by_hand = network(), network().train().to(memory_format=torch.channels_last)
    (rows,) = batches.order(24, SGD, trainer._seed(torch.device("cpu"), 0, 0))  # a sum in bfloat16 depends on its order
    x = (PIXELS[rows].float() / 255).contiguous(memory_format=torch.channels_last)
    with torch.autocast("cpu", torch.bfloat16):
        answers = by_hand(x)
    assert answers.dtype == torch.bfloat16
    F.cross_entropy(answers.float(), SET[1][rows]).backward()
    fit(model, SGD)
    for name, p in by_hand.named_parameters():
        moved = model.get_parameter(name)
        assert moved.dtype == torch.float32
        torch.testing.assert_close(moved, p - 0.5 * p.grad, rtol=1e-3, atol=1e-4)


def test_full_precision_is_the_key_of_before():
    full = replace(BF16, precision="full").settings()
    assert "precision" not in full and BF16.settings()["precision"] == "bf16"
    assert Recipe(**BF16.settings()) == BF16 and Recipe(**full).precision == "full"


@pytest.mark.parametrize(("native", "precision"), [(True, "bf16"), (False, "full")])
def test_auto_is_settled_before_the_key_is_made(native, precision, monkeypatch):
    monkeypatch.setattr(recipes, "computes_bf16", lambda device: native)
    auto = replace(BF16, precision="auto")
    fleet = shadow_models.make("vit_cifar", auto, SET, torch.ones(1, 24, dtype=torch.bool))
    assert fleet.settings["recipe"].get("precision", "full") == precision


def test_dp_sgd_takes_its_steps_in_full_precision():
    defences = (dp_sgd.DP(epsilon=8, delta=1e-5, clip=1.0),)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
    with pytest.raises(ValueError, match=r"precision='bf16'.*'full' or 'auto'"):
        fit(model, BF16, defences=defences)
    assert recipes.settled(replace(BF16, precision="auto"), "cpu", defences).precision == "full"
