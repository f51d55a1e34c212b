"""What the four papers print, and the claims that a lab can put to the test.

Every numbered table is a CSV, one row a printed cell, digits as printed. README.md beside them says what the columns mean, what the
extraction of the papers' texts lost, and where the papers contradict themselves or each other.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from privlab.ledger.comparison import Joined, atoms, each, parse

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "PAPERS",
    "Claim",
    "Explanation",
    "Place",
    "Printed",
    "claims",
    "entries",
    "explanations",
    "page",
    "places",
    "table",
    "tables",
]

PAPERS = {
    "zhang2024": "Zhang et al. 2024, How Does a Deep Learning Model Architecture Impact Its Privacy?",
    "koh2024": "Koh et al. 2024, On the Vulnerability of Skip Connections to Model Inversion Attacks",
    "lu2022": "Lu et al. 2022, APRIL: Finding the Achilles' Heel on Privacy for Vision Transformers",
    "hatamizadeh2022": "Hatamizadeh et al. 2022, GradViT: Gradient Inversion of Vision Transformers",
    "privlab": "Beyond the papers",
}
COURSE = Path(__file__).parents[1] / "course"  # data of the labs and of the papers; nothing is imported from there
_PAPERS = COURSE / "papers"
_ONE = r"(?:S\.?)?\d+[a-d]?"
_NAMED = re.compile(rf"\b(Theorem|Algorithm|Table|Figure)s? ({_ONE}(?:(?:, | and |, and ){_ONE})*)")


def entries(of: str, file: Path | None = None) -> Any:
    """A list of the book's, such as "coverage": plain YAML, read by libyaml where it is there, ten times as fast as in Python.

    file: where it stands; beside the tables if not given.
    """
    text = (file or _PAPERS / f"{of}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))[of]


def tables() -> list[str]:
    """Names of all tables, such as "lu2022_table1"."""
    return sorted(file.stem for file in _PAPERS.glob("*.csv"))


def table(name: str) -> pd.DataFrame:
    """One published table, a row a printed cell.

    Settings are text. In a table of results, `mean` and `std` are numbers (NaN where the paper prints none, `note` says why)
    and `mean_text`, `std_text` are the same as printed, trailing zeros included.
    Raises ValueError for a name that is not one of `tables()`.
    """
    import pandas as pd  # here, so that whoever only wants the claims need not wait for it

    if name not in tables():
        raise ValueError(f"name={name!r} is not a table of the papers; try one of {', '.join(tables())}")
    frame = pd.DataFrame(_rows(name), dtype=str)
    for column in [c for c in ("mean", "std") if c in frame]:
        frame[f"{column}_text"] = frame[column]
        frame[column] = pd.to_numeric(frame[column])
    return frame


@cache
def _rows(name: str) -> list[dict[str, str]]:
    with open(_PAPERS / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Printed:
    """A number in print, behind a name of a claim's comparison.  std, unit: None where the paper gives none."""

    name: str
    mean: float
    std: float | None
    unit: str | None
    where: str

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:g}"
        unit = f" {self.unit}" if self.unit in ("dB", "percent") else ""
        return f"{self.name} = {self.mean:g}{spread}{unit}"

    @classmethod
    def of(cls, name: str, cell: Mapping[str, Any], file: str = "", **told: Any) -> Printed:
        """As a claim names it: a cell of a table, which then is the one source, or a place in prose with its mean."""
        if not file:
            return cls(name, float(told["mean"]), told.get("std"), told.get("unit"), cell["prose"])
        stem = file.removesuffix(".csv")
        (row,) = (row for row in _rows(stem) if all(row[column] == str(value) for column, value in cell.items()))
        std = float(row["std"]) if row["std"] else None
        return cls(name, float(row["mean"]), std, row["unit"], f"Table {stem.split('_table')[1]}")


@dataclass(frozen=True)
class Claim:
    """Something a paper says (or, where its id begins with "privlab", this book) that a lab can test.

    id: paper.place.slug.  where: the table, figure, theorem or section.  lab: two digits.  kind: ordering, magnitude, identity, trend.
    statement: in our own words.  compare: the comparison that decides, in the grammar of `comparison`.
    experiments: "module.function", which measure the names in compare and needs, each name one of them.
    needs: comparisons that must hold for the question to make sense.  exploratory: the largest size whose evidence was looked at when
    compare was chosen, "" if none was; a larger size has repeats of its own, which nobody had seen.
    headline: number of the question, of those that a reader wants answered first.
    numbers: the printed values behind `compare`.  printed: what the paper shows where it prints no number.  note: ours.
    reading: what the paper leaves open, and how it is read here; a verdict on the paper's own networks then speaks of this reading.
    people: how many different people the shares in percent are of, see `rule`; 0 where the repeats alone are counted.
    """

    id: str
    where: str
    lab: str
    kind: str
    statement: str
    compare: str
    experiments: Sequence[str] = ()
    needs: Sequence[str] = ()
    exploratory: str = ""
    headline: int | None = None
    numbers: Sequence[Printed] = ()
    printed: str = ""
    note: str = ""
    reading: str = ""
    people: int = 0

    @property
    def paper(self) -> str:
        return self.id.partition(".")[0]

    @cached_property
    def holds_on_printed_numbers(self) -> bool | None:
        """Whether the paper's own numbers satisfy the comparison; None where that is open, as one of its names has no number in print."""
        if not self.numbers:
            return None
        compare, printed = parse(self.compare), {number.name: number.mean for number in self.numbers}
        parts = compare.parts if isinstance(compare, Joined) and compare.every else (compare,)
        needed = [{name for atom in atoms(part) for name in atom.names} for part in parts]
        known = [bool(each(part, printed)) for part, of in zip(parts, needed, strict=True) if of <= printed.keys()]
        return False if not all(known) else True if len(known) == len(parts) else None


def claims(lab: str | None = None) -> list[Claim]:
    """The claims of one lab ("05"), or of all."""
    return [claim for claim in _claims() if lab in (None, claim.lab)]


@cache
def _claims() -> tuple[Claim, ...]:
    listed = [entry for file in sorted(COURSE.glob("lab_*/claims.yaml")) for entry in entries("claims", file)]
    return tuple(map(_claim, listed))


def _claim(entry: dict[str, Any]) -> Claim:
    ours = entry["id"].startswith("privlab.")
    numbers = [Printed.of(**number) for number in entry.get("numbers", ())]
    return Claim(**{"printed": "not in the papers" * ours, **entry, "numbers": numbers})


def page(claim: str) -> str:
    """Where the built book tells all about a claim, from the book's root: on the page of its paper, which book/claim_pages.py writes."""
    return f"claims/{claim.partition('.')[0]}.html#{claim}"


@dataclass(frozen=True)
class Explanation:
    """Why a claim did not reproduce, as far as we found out.

    evidence, refuted: ids of the claims that hold it up, by being reproduced and by not being reproduced; none of both makes it a guess.
    """

    because: str
    evidence: Sequence[str] = ()
    refuted: Sequence[str] = ()

    @property
    def rests_on(self) -> tuple[str, ...]:
        """Every claim that it needs, one way or the other."""
        return (*self.evidence, *self.refuted)

    def standing(self, verdicts: Mapping[str, str]) -> str:
        """How well it stands, by the verdicts of the claims: "measured", "contradicted", "in part undecided" or "a conjecture"."""
        wanted = dict.fromkeys(self.evidence, "reproduced") | dict.fromkeys(self.refuted, "not reproduced")
        found = {name: verdicts.get(name) for name in wanted}
        if not wanted:
            return "a conjecture"
        if any(v in ("reproduced", "not reproduced") and v != wanted[name] for name, v in found.items()):
            return "contradicted"
        return "measured" if found == wanted else "in part undecided"


def explanations() -> dict[str, Explanation]:
    """The best explanation found, by the id of the claim that did not reproduce."""
    return {name: Explanation(**entry) for name, entry in entries("explanations").items()}


@dataclass(frozen=True)
class Place:
    """A numbered table, figure, theorem or algorithm of a paper.

    shows: what it holds.  claims: ids of those that speak about it: their `where` names it, or they rest on a number printed in it.
    why_not: why there are none; beside claims, what of it no claim asks.
    """

    paper: str
    place: str
    shows: str
    claims: Sequence[str] = ()
    why_not: str = ""


def places() -> list[Place]:
    """All of them, paper by paper."""
    about: dict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in claims():
        for name in named("; ".join([claim.where, *(number.where for number in claim.numbers)])):
            about[claim.paper, name].append(claim.id)
    listed = entries("coverage")
    return [Place(**entry, claims=tuple(about[entry["paper"], entry["place"]])) for entry in listed]


def named(where: str) -> set[str]:
    """The places that a claim's `where`, or a printed number's, names; panels belong to their figure."""
    return {
        f"{kind} {re.sub(r'^S(?=[0-9])', 'S.', number)}"
        for kind, numbers in _NAMED.findall(where)
        for number in re.findall(r"(?:S\.?)?\d+", numbers)
    }
