from .attack import audit
from .report import Audit

__all__ = ["Audit", "audit"]
