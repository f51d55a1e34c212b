"""The checks of the labs. A check takes an answer and yields what is wrong with it; nothing means right.

Those of lab 04 lie in privlab/course/lab_04/checks.py, or, until they are on the kit, in lab_04.py here. CHECKS of such a file has them by
the names of their exercises. Where some of these stand in notebooks that go deeper, DEEPER says which: the topic of
labs/deeper/NN_topic.py -> names. BECAUSE, where a file has it, says of an exercise why what is right is right.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

_COURSE = Path(__file__).parents[2] / "course"

Check = Callable[[object], Iterator[str]]


def labs() -> list[str]:
    """The numbers of the labs that have exercises, such as "00"."""
    return sorted({path.stem[4:] for folder in (Path(__file__).parent, _COURSE) for path in folder.glob("lab_*")})


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
    moved = f"privlab.course.lab_{lab}.checks"
    return importlib.import_module(moved if importlib.util.find_spec(moved) else f"{__name__}.lab_{lab}")
