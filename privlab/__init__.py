"""privlab: how does a vision model's architecture change what it leaks about its training data?

The floors, from the ground up: metrics, sources, data, papers and store; models and leak; training; attacks and defences;
ledger, plots, widgets and the audit; runner. A module imports from its own floor or from below it.

`privlab.audit(model, images, labels)` turns the whole book on one model of yours; see `privlab.auditing.stages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privlab.auditing import audit

__all__ = ["audit"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`privlab.audit`, when it is first asked for: it brings torch, which `import privlab` alone should not wait for."""
    if name == "audit":
        from privlab.auditing import audit

        return audit
    raise AttributeError(f"module 'privlab' has no attribute {name!r}")
