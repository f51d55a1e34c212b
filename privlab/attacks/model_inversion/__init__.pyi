from . import (
    cases,
    conditional_gan,
    dcgan,
    distillation,
    evaluation,
    gans,
    generator_files,
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
    "cases",
    "conditional_gan",
    "dcgan",
    "distillation",
    "evaluation",
    "gans",
    "generator_files",
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
