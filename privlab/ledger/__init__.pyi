from . import baselines, canaries, evidence, history, judging, papers, records, report, verdicts
from .judging import judgements
from .page import Page, key
from .report import show
from .runs import Ledger, collect, read, summarise, write

__all__ = [
    "Ledger",
    "Page",
    "baselines",
    "canaries",
    "collect",
    "evidence",
    "history",
    "judgements",
    "judging",
    "key",
    "papers",
    "read",
    "records",
    "report",
    "show",
    "summarise",
    "verdicts",
    "write",
]
