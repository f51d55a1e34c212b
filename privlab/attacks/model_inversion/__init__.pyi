from . import (
    cases,
    conditional_gan,
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
from .search import ModelInversion, gmi, kedmi, lomma, plg_mi, ppa

__all__ = [
    "ModelInversion",
    "cases",
    "conditional_gan",
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
