from . import comparison, evidence, headlines, judging, panel, papers, report, rule
from .judging import judgements
from .panel import show

__all__ = [
    "comparison",
    "evidence",
    "headlines",
    "judgements",
    "judging",
    "panel",
    "papers",
    "report",
    "rule",
    "show",
]
