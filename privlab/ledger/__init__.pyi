from . import comparison, evidence, headlines, judging, papers, report, rule
from .judging import judgements

__all__ = ["comparison", "evidence", "headlines", "judgements", "judging", "papers", "report", "rule"]
