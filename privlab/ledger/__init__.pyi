from . import comparison, evidence, judging, papers, report, rule
from .judging import judgements

__all__ = ["comparison", "evidence", "judgements", "judging", "papers", "report", "rule"]
