from . import canaries, evidence, headlines, history, judging, panel, papers, report
from .judging import judgements
from .panel import show

__all__ = [
    "canaries",
    "evidence",
    "headlines",
    "history",
    "judgements",
    "judging",
    "panel",
    "papers",
    "report",
    "show",
]
