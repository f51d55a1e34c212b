from . import checks, drawings, flipbook, guesses, player, plots, user_study, widgets
from .sentences import text

__all__ = ["checks", "drawings", "flipbook", "guesses", "player", "plots", "text", "user_study", "widgets"]
