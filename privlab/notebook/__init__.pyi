from . import checks, drawings, plots, widgets
from .sentences import text

__all__ = ["checks", "drawings", "plots", "text", "widgets"]
