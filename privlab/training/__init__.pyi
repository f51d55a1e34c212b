from . import batches, shadow_models
from .recipes import RECIPES, Recipe
from .trainer import evaluate, fit, logits, subset, victim

__all__ = ["RECIPES", "Recipe", "batches", "evaluate", "fit", "logits", "shadow_models", "subset", "victim"]
