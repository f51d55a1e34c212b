"""The checks of the labs, a file lab_NN.py for each. A check takes an answer and yields what is wrong with it; nothing means right.

CHECKS of such a file has them by the names of their exercises. Where some of these stand in notebooks that go deeper, DEEPER says which:
the topic of labs/deeper/NN_topic.py -> names. BECAUSE, where a file has it, says of an exercise why what is right is right.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType

Check = Callable[[object], Iterator[str]]


def labs() -> list[str]:
    """The numbers of the labs that have exercises, such as "00"."""
    return sorted(name[4:] for _, name, _ in pkgutil.iter_modules(__path__) if name.startswith("lab_"))


def of(lab: str) -> dict[str, Check]:
    """The checks of one lab, by name; only its own file is loaded, since some need what takes a second to import."""
    return _file(lab).CHECKS


def because(name: str) -> str:
    """What is said after a right answer to an exercise; "" where nothing is."""
    return getattr(_file(name[:2]), "BECAUSE", {}).get(name, "")


def parts(lab: str) -> list[list[str]]:
    """The exercises of a lab by notebook: those of the lab itself, then those of each that goes deeper."""
    deeper = getattr(_file(lab), "DEEPER", {})
    below = [list(names) for names in deeper.values()]
    return [[name for name in of(lab) if not any(name in names for names in below)], *below]


def _file(lab: str) -> ModuleType:
    return importlib.import_module(f"privlab.notebook.exercises.lab_{lab}")
