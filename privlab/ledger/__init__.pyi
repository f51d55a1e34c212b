from . import canaries, evidence, headlines, history, judging, papers, report
from .judging import judgements
from .report import show

__all__ = [
    "canaries",
    "evidence",
    "headlines",
    "history",
    "judgements",
    "judging",
    "papers",
    "report",
    "show",
]
