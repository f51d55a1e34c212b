from .report import Audit
from .stages import audit

__all__ = ["Audit", "audit"]
