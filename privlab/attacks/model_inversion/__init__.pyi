from . import (
    conditional_gan,
    dcgan,
    distillation,
    evaluation,
    gans,
    generators,
    gradient_flow,
    losses,
    results,
    stylegan2,
)
from .gan_training import GANRecipe
from .presets import gmi, kedmi, lomma, plg_mi, ppa
from .search import ModelInversion

__all__ = [
    "GANRecipe",
    "ModelInversion",
    "conditional_gan",
    "dcgan",
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
    "results",
    "stylegan2",
]
