"""Recipes are data that can be checked: against the paper's table, against hand values, against torch's own schedule."""

import math

import pytest

from privlab.ledger import papers
from privlab.training import RECIPES, Recipe
from privlab.training.recipes import learning_rate, steps

NUMBERS = {"learning rate": "lr", "weight decay": "weight_decay", "batch size": "batch_size"}
NUMBERS |= {"training epochs": "epochs", "epochs": "epochs", "mixup": "mixup", "cutmix": "cutmix"}
NAMES = {  # as the tables have them -> ours
    "RandomResizedCrop; ColorJitter; RandomHorizontalFlip": "resized_crop", "RandomHorizontalFlip": "flip", "None": "none",
    "cosine annealing": "cosine", "MultiStepLR": "steps", "": "constant",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "table", "column", "of"),
    [
        ("zhang2024_membership", "zhang2024_table1", "recipe", "membership inference"),
        ("zhang2024_attribute", "zhang2024_table1", "recipe", "attribute inference"),
        ("koh2024_ppa", "koh2024_table12", "architectures", "ResNet-34"),
        ("koh2024_ir152", "koh2024_table12", "architectures", "IR152"),
    ],
)
def test_the_recipes_of_the_papers_are_theirs(name, table, column, of):
    table, recipe = papers.table(table), RECIPES[name]
    row = dict(table[table[column].str.startswith(of)][["setting", "value"]].fillna("").itertuples(index=False))
    row.pop("input size", None)  # is the data's
    assert row.pop("optimizer").lower() == recipe.optimiser
    assert NAMES[row.pop("learning rate schedule", "")] == recipe.schedule
    assert NAMES[row.pop("transformation", row.pop("random augmentation", "None"))] == recipe.augment
    if said := row.pop("optimizer momentum", ""):
        assert tuple(map(float, said.split(", "))) == ((recipe.momentum,) if said == "0.9" else recipe.betas)
    assert row.pop("label smoothing", "None") == "None" and recipe.label_smoothing == recipe.warmup_epochs == 0
    assert {name: float(value) for name, value in row.items()} == {name: vars(recipe)[NUMBERS[name]] for name in row}
    assert "mixup" in row or recipe.mixup == recipe.cutmix == 0


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
    for given, expected in (
        (dict(epochs=1, lr=1.0), cosine),
        (dict(epochs=2, lr=1.0, warmup_epochs=1), [1 / 4, 2 / 4, 3 / 4, 1, *cosine]),
        (dict(epochs=1, lr=0.3, schedule="constant", warmup_epochs=0.5), [0.15, 0.3, 0.3, 0.3]),
    ):
        assert rates(Recipe(batch_size=2, **given), 8) == pytest.approx(expected)


def test_steps_by_hand():
    """A tenth behind three quarters of the epochs, a hundredth behind nine tenths, whatever the number of steps in an epoch."""
    recipe = Recipe(epochs=100, batch_size=2, lr=0.4, schedule="steps")
    for epoch, rate in {0: 0.4, 74: 0.4, 75: 0.04, 89: 0.04, 90: 0.004, 99: 0.004}.items():
        assert [learning_rate(recipe, 5 * epoch + step, 10) for step in range(5)] == pytest.approx([rate] * 5)
    warm = Recipe(epochs=20, batch_size=10, lr=1.0, schedule="steps", warmup_epochs=2)
    assert rates(warm, 10) == pytest.approx([0.5, 1.0] + [1.0] * 13 + [0.1] * 3 + [0.01] * 2)
