"""Recipes are data that can be checked: against the paper's table, against hand values, against torch's own schedule."""

import math

import pytest
import torch

from privlab.ledger import papers
from privlab.training import RECIPES, Recipe
from privlab.training.recipes import learning_rate, steps


def printed(recipe):
    table = papers.table("zhang2024_table1")
    return dict(table[table.recipe == recipe][["setting", "value"]].itertuples(index=False))


def test_the_recipe_for_membership_is_the_papers():
    row, recipe = printed("membership inference"), RECIPES["zhang2024_membership"]
    assert row.pop("optimizer").lower() == recipe.optimiser
    assert row.pop("learning rate schedule") == f"{recipe.schedule} annealing"
    assert row.pop("label smoothing") == "None" and recipe.label_smoothing == 0
    assert tuple(map(float, row.pop("optimizer momentum").split(", "))) == recipe.betas
    ours = {
        "learning rate": recipe.lr,
        "weight decay": recipe.weight_decay,
        "batch size": recipe.batch_size,
        "training epochs": recipe.epochs,
        "mixup": recipe.mixup,
        "cutmix": recipe.cutmix,
    }
    assert {name: float(value) for name, value in row.items()} == ours


def test_the_recipe_for_attributes_is_the_papers():
    row, recipe = printed("attribute inference"), RECIPES["zhang2024_attribute"]
    assert row.pop("optimizer").lower() == recipe.optimiser
    assert row.pop("random augmentation").lower() == recipe.augment
    ours = {
        "learning rate": recipe.lr,
        "weight decay": recipe.weight_decay,
        "optimizer momentum": recipe.momentum,
        "batch size": recipe.batch_size,
        "training epochs": recipe.epochs,
    }
    assert {name: float(value) for name, value in row.items()} == ours
    assert "learning rate schedule" not in row and recipe.schedule == "constant"
    assert recipe.mixup == recipe.cutmix == 0


TRANSFORMS = {  # torchvision's names, as the table has them
    "RandomResizedCrop; ColorJitter; RandomHorizontalFlip": "resized_crop",
    "RandomHorizontalFlip": "flip",
}


@pytest.mark.parametrize(
    ("name", "architecture", "schedule"), [("koh2024_ppa", "ResNet-34", "MultiStepLR"), ("koh2024_ir152", "IR152", "")]
)
def test_the_recipes_for_targets_of_model_inversion_are_the_papers(name, architecture, schedule):
    table, recipe = papers.table("koh2024_table12"), RECIPES[name]
    rows = table[table.architectures.str.startswith(architecture)]
    row = dict(rows[["setting", "value"]].fillna("").itertuples(index=False))
    assert row.pop("optimizer").lower() == recipe.optimiser
    assert TRANSFORMS[row.pop("transformation")] == recipe.augment
    assert row.pop("learning rate schedule") == schedule
    assert recipe.schedule == {"MultiStepLR": "steps", "": "constant"}[schedule]
    row.pop("input size")  # is the data's
    ours = {"learning rate": recipe.lr, "epochs": recipe.epochs, "batch size": recipe.batch_size}
    assert {key: float(value) for key, value in row.items()} == ours
    assert recipe.mixup == recipe.cutmix == recipe.label_smoothing == recipe.warmup_epochs == 0


def test_bad_settings_are_named():
    for change in (dict(epochs=0), dict(warmup_epochs=3)):
        with pytest.raises(ValueError, match="trains nothing; give 1 or more, and a warm-up of less than all epochs"):
            Recipe(**{"epochs": 3, **change})
    with pytest.raises(ValueError, match=r"optimiser='adamax' is not known; did you mean 'adam'\? Known: adamw, adam"):
        Recipe(epochs=3, optimiser="adamax")


def rates(recipe, images):
    return [learning_rate(recipe, step, images) for step in range(recipe.epochs * steps(recipe, images))]


def test_the_schedule_by_hand():
    """8 images by 2: 4 steps an epoch."""
    half = math.sqrt(0.5)
    cosine = [1, (2 + half + half) / 4, 1 / 2, (2 - half - half) / 4]
    assert rates(Recipe(epochs=1, batch_size=2, lr=1.0), 8) == pytest.approx(cosine)
    assert rates(Recipe(epochs=2, batch_size=2, lr=1.0, warmup_epochs=1), 8) == pytest.approx(
        [1 / 4, 2 / 4, 3 / 4, 1, *cosine]
    )
    assert rates(Recipe(epochs=1, batch_size=2, lr=0.3, schedule="constant", warmup_epochs=0.5), 8) == pytest.approx(
        [0.15, 0.3, 0.3, 0.3]
    )


def test_cosine_is_torchs():
    recipe = Recipe(epochs=3, batch_size=4, lr=0.2)
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.2)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=9)
    for ours in rates(recipe, 11):
        assert ours == pytest.approx(theirs.get_last_lr()[0], rel=1e-9)
        optimiser.step()
        theirs.step()


def test_steps_by_hand():
    """A tenth behind three quarters of the epochs, a hundredth behind nine tenths, whatever the number of steps in an epoch."""
    recipe = Recipe(epochs=100, batch_size=2, lr=0.4, schedule="steps")
    for epoch, rate in {0: 0.4, 74: 0.4, 75: 0.04, 89: 0.04, 90: 0.004, 99: 0.004}.items():
        assert [learning_rate(recipe, 5 * epoch + step, 10) for step in range(5)] == pytest.approx([rate] * 5)
    warm = Recipe(epochs=20, batch_size=10, lr=1.0, schedule="steps", warmup_epochs=2)
    assert rates(warm, 10) == pytest.approx([0.5, 1.0] + [1.0] * 13 + [0.1] * 3 + [0.01] * 2)
