from . import canaries, evidence, history, judging, papers, records, report
from .judging import judgements
from .page import Page, key
from .report import show

__all__ = [
    "Page",
    "canaries",
    "evidence",
    "history",
    "judgements",
    "judging",
    "key",
    "papers",
    "records",
    "report",
    "show",
]
