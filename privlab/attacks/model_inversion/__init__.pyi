from . import distillation, evaluation, gans, generators, gradient_flow, losses, search, stylegan2
from .gans import GANRecipe
from .presets import gmi, kedmi, lomma, plg_mi, ppa
from .search import ModelInversion

__all__ = [
    "GANRecipe",
    "ModelInversion",
    "distillation",
    "evaluation",
    "gans",
    "generators",
    "gmi",
    "gradient_flow",
    "kedmi",
    "lomma",
    "losses",
    "plg_mi",
    "ppa",
    "search",
    "stylegan2",
]
