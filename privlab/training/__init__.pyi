from . import batches, shadow_models, trainer
from .recipes import RECIPES, History, Recipe
from .trainer import evaluate, fit, logits, subset, victim

__all__ = [
    "RECIPES",
    "History",
    "Recipe",
    "batches",
    "evaluate",
    "fit",
    "logits",
    "shadow_models",
    "subset",
    "trainer",
    "victim",
]
