"""Recipes are data that can be checked: against the paper's table, against hand values, against torch's own schedule."""

import math

import pytest

from privlab.ledger import papers
from privlab.training import RECIPES, Recipe
from privlab.training.recipes import learning_rate, steps


def printed(recipe):
    table = papers.table("zhang2024_table1")
    return dict(table[table.recipe == recipe][["setting", "value"]].itertuples(index=False))


@pytest.mark.parametrize(("name", "of"), [("zhang2024_membership", "membership"), ("zhang2024_attribute", "attribute")])
def test_the_recipes_of_zhang2024_are_the_papers(name, of):
    row, recipe = printed(f"{of} inference"), RECIPES[name]
    assert row.pop("optimizer").lower() == recipe.optimiser and recipe.label_smoothing == 0
    assert row.pop("label smoothing", "None") == "None"
    assert row.pop("random augmentation", "None").lower() == recipe.augment
    assert row.pop("learning rate schedule", "constant").removesuffix(" annealing") == recipe.schedule
    momentum = recipe.betas if recipe.optimiser == "adamw" else (recipe.momentum,)
    assert tuple(map(float, row.pop("optimizer momentum").split(", "))) == momentum
    ours = {
        "learning rate": recipe.lr,
        "weight decay": recipe.weight_decay,
        "batch size": recipe.batch_size,
        "training epochs": recipe.epochs,
        "mixup": recipe.mixup,
        "cutmix": recipe.cutmix,
    }
    assert {name: float(value) for name, value in row.items()} == {n: v for n, v in ours.items() if v or n in row}


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


def test_steps_by_hand():
    """A tenth behind three quarters of the epochs, a hundredth behind nine tenths, whatever the number of steps in an epoch."""
    recipe = Recipe(epochs=100, batch_size=2, lr=0.4, schedule="steps")
    for epoch, rate in {0: 0.4, 74: 0.4, 75: 0.04, 89: 0.04, 90: 0.004, 99: 0.004}.items():
        assert [learning_rate(recipe, 5 * epoch + step, 10) for step in range(5)] == pytest.approx([rate] * 5)
    warm = Recipe(epochs=20, batch_size=10, lr=1.0, schedule="steps", warmup_epochs=2)
    assert rates(warm, 10) == pytest.approx([0.5, 1.0] + [1.0] * 13 + [0.1] * 3 + [0.01] * 2)
