from .auditing import audit

__all__ = ["audit"]
__version__: str
