from . import checks, flipbook, player, plots, user_study, widgets
from .sentences import text

__all__ = ["checks", "flipbook", "player", "plots", "text", "user_study", "widgets"]
