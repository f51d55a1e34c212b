from . import canaries, evidence, history, judging, papers, report
from .judging import judgements
from .report import show

__all__ = [
    "canaries",
    "evidence",
    "history",
    "judgements",
    "judging",
    "papers",
    "report",
    "show",
]
