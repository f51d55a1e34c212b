from . import (
    checks,
    drawings,
    flipbook,
    guesses,
    line_up,
<<<<<<< HEAD
    member_game,
=======
    morphing,
>>>>>>> m4
    pad,
    player,
    plots,
    referee,
    switchboard,
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
<<<<<<< HEAD
    "member_game",
=======
    "morphing",
>>>>>>> m4
    "pad",
    "player",
    "plots",
    "referee",
    "switchboard",
    "text",
    "user_study",
    "widgets",
]
