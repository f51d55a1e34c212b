from . import queries, shadow_models
from .recipes import RECIPES, History, Recipe
from .trainer import evaluate, fit, logits, subset, victim

__all__ = ["RECIPES", "History", "Recipe", "evaluate", "fit", "logits", "queries", "shadow_models", "subset", "victim"]
