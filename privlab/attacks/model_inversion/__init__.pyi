from . import evaluation, gans, generators, gradient_flow, losses, search, stylegan2
from .gans import GANRecipe
from .presets import gmi, kedmi, lomma, plg_mi, ppa
from .search import ModelInversion

__all__ = ["GANRecipe", "ModelInversion", "gmi", "kedmi", "lomma", "plg_mi", "ppa"]
__all__ += ["evaluation", "gans", "generators", "gradient_flow", "losses", "search", "stylegan2"]
