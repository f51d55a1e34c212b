"""What labs there are, which of them a person means, and what each costs at a profile.

A lab is labs/NN_topic.py. What does not fit into it goes deeper: labs/deeper/NN_topic.py, several a lab, which nothing later needs.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from privlab.compute.files import write_atomic
from privlab.data.sources import nearest

HOUSE = Path(__file__).parents[1]
_COST = re.compile(r"^# \|\s*(\w+)\s*\|\s*([\d.]+)\s*\|\s*([\d.]+)\s*GB\s*\|", re.MULTILINE)
_CODE = re.compile(r"^# %%(?! \[markdown\])", re.MULTILINE)
_PARAMETERS = re.compile(r'^# %% tags=\["parameters"\]\n(.*?)(?=^# %%|\Z)', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Lab:
    """One lab, or a notebook that goes deeper into it, by its source: labs/NN_topic.py, labs/deeper/NN_topic.py."""

    path: Path

    @property
    def name(self) -> str:
        """NN_topic, or deeper/NN_topic: where it stands in the folder of the labs, and its results in that of a run."""
        return f"deeper/{self.path.stem}" if self.goes_deeper else self.path.stem

    @property
    def number(self) -> str:
        """The two digits that claims name it by; what goes deeper has those of its lab."""
        return self.path.stem[:2]

    @property
    def goes_deeper(self) -> bool:
        return self.path.parent.name == "deeper"

    @cached_property
    def text(self) -> str:
        """The source, as it was when first read."""
        return self.path.read_text(encoding="utf-8-sig")

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def parameters(self) -> list[str]:
        """What can be set from outside: the names that its cell tagged "parameters" gives a value."""
        cell = _PARAMETERS.search(self.text)
        return re.findall(r"^(\w+)\s*(?::[^=\n]*)?=", cell[1], re.MULTILINE) if cell else []

    @property
    def costs(self) -> dict[str, tuple[float, float]]:
        """Profile -> minutes and peak memory in GB, from rows like `| smoke | 0.4 | 1.1 GB |` above the first code."""
        rows = _COST.findall(_CODE.split(self.text)[0])
        return {profile: (float(minutes), float(gb)) for profile, minutes, gb in rows}


def copy(to: Path) -> None:
    """Copy the labs out of this checkout or installed package into a new folder.

    Raises FileExistsError for a folder that is there: it may hold somebody's work.
    """
    source = next(folder for folder in (HOUSE.parent / "labs", HOUSE / "labs") if folder.is_dir())
    if to.exists():
        raise FileExistsError(f"to={str(to)!r} is there already; choose a new folder")
    for lab in everything(source):
        for path in (lab.path, lab.path.with_suffix(".ipynb")):
            write_atomic(to / path.relative_to(source), path.read_bytes())


def everything(folder: Path) -> list[Lab]:
    """Every lab of a folder, each with what goes deeper behind it.  Raises FileNotFoundError where there is none."""
    shelf = [Lab(path) for place in (folder, folder / "deeper") for path in place.glob("[0-9][0-9]_*.py")]
    if all(lab.goes_deeper for lab in shelf):
        raise FileNotFoundError(f"labs={str(folder)!r} holds no lab (NN_topic.py); run from the repository")
    return sorted(shelf, key=lambda lab: (lab.number, lab.goes_deeper, lab.name))


def pick(shelf: list[Lab], words: Sequence[str] = (), deeper: bool = False) -> list[Lab]:
    """Labs by number ("5", "05"), name ("05_april") or path, and what goes deeper by its name ("faces"); all labs where none is named.

    deeper: whether each lab brings all that goes deeper into it.  Raises ValueError with the nearest name for one that is not there.
    """
    by_name = {key: lab for lab in reversed(shelf) for key in (lab.path.stem[3:], lab.path.stem)}
    by_name |= {lab.number: lab for lab in shelf if not lab.goes_deeper}
    chosen = [] if words else [lab for lab in shelf if not lab.goes_deeper]
    for name in words:
        stem = Path(name).stem.zfill(2)
        if stem not in by_name:
            raise ValueError(f"lab={name!r} is not a lab{nearest(stem, [lab.path.stem for lab in shelf])}")
        chosen.append(by_name[stem])
    numbers = {lab.number for lab in chosen if deeper and not lab.goes_deeper}
    return [lab for lab in shelf if lab in chosen or lab.number in numbers]
