from . import (
    checks,
    drawings,
    morphing,
    pad,
    plots,
    redaction,
    switchboard,
    two_bells,
    user_study,
    widgets,
)
from .sentences import text

__all__ = [
    "checks",
    "drawings",
    "morphing",
    "pad",
    "plots",
    "redaction",
    "switchboard",
    "text",
    "two_bells",
    "user_study",
    "widgets",
]
