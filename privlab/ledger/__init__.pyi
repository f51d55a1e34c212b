from . import canaries, comparison, evidence, headlines, judging, panel, papers, report, rule
from .judging import judgements
from .panel import show

__all__ = [
    "canaries",
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
