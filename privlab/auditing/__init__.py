"""The whole book turned on one model of yours."""

from privlab.auditing.attack import audit
from privlab.auditing.report import Audit

__all__ = ["Audit", "audit"]
