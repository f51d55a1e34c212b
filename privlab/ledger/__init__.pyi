from . import baselines, comparison, history, papers, records, report, verdicts
from .page import Page, key
from .runs import Ledger, collect, read, render, summarise, write

__all__ = [
    "Ledger",
    "Page",
    "baselines",
    "collect",
    "comparison",
    "history",
    "key",
    "papers",
    "read",
    "records",
    "render",
    "report",
    "summarise",
    "verdicts",
    "write",
]
