from . import checks, flipbook, player, plots, user_study, widgets

__all__ = ["checks", "flipbook", "player", "plots", "user_study", "widgets"]
