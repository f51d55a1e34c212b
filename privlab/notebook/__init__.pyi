from . import (
    checks,
    drawings,
    plots,
    user_study,
    widgets,
)
from .sentences import text

__all__ = [
    "checks",
    "drawings",
    "plots",
    "text",
    "user_study",
    "widgets",
]
