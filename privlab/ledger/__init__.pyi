from . import baselines, comparison, evidence, history, judging, papers, records, report, verdicts
from .judging import judgements
from .page import Page, key
from .report import show
from .runs import Ledger, collect, read, render, summarise, write

__all__ = [
    "Ledger",
    "Page",
    "baselines",
    "collect",
    "comparison",
    "evidence",
    "history",
    "judgements",
    "judging",
    "key",
    "papers",
    "read",
    "records",
    "render",
    "report",
    "show",
    "summarise",
    "verdicts",
    "write",
]
