"""privlab: how does a vision model's architecture change what it leaks about its training data?

The rooms, from the ground up: compute, data, models, metrics and leak, training, defences, ledger, attacks, experiments, notebook,
course, auditing, runner, teaching. A module imports from its own room or from below it; pyproject.toml has the contracts.

`privlab.audit(model, images, labels)` turns the whole book on one model of yours; see `privlab.auditing.attack`.
"""

import importlib
from typing import TYPE_CHECKING, Any

from privlab.compute import machine

if TYPE_CHECKING:
    from privlab.auditing import audit

__all__ = ["audit"]
__version__ = "0.2.0"

machine.settle_threads()  # before anything brings torch: import privlab first


def __getattr__(name: str) -> Any:
    """`privlab.audit`, when it is first asked for: it brings torch, which `import privlab` alone should not wait for."""
    if name == "audit":
        return importlib.import_module("privlab.auditing").audit
    raise AttributeError(f"module 'privlab' has no attribute {name!r}")
