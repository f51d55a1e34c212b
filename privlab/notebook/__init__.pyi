from . import (
    checks,
    drawings,
    flipbook,
    guesses,
    line_up,
    member_game,
    pad,
    player,
    plots,
    referee,
    user_study,
    widgets,
)
from .sentences import text

__all__ = [
    "checks",
    "drawings",
    "flipbook",
    "guesses",
    "line_up",
    "member_game",
    "pad",
    "player",
    "plots",
    "referee",
    "text",
    "user_study",
    "widgets",
]
