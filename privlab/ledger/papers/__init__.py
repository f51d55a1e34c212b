"""What the four papers print: every numbered table as a CSV, and the claims that a lab can put to the test.

One row a printed cell, digits as printed. README.md beside this file says what the columns mean, what the extraction of the
papers' texts lost, and where the papers contradict themselves or each other.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from privlab.ledger import evidence
from privlab.ledger.grammar import parse

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "KINDS",
    "PAPERS",
    "Claim",
    "Explanation",
    "Printed",
    "claims",
    "entries",
    "explanations",
    "page",
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
KINDS = ("ordering", "magnitude", "identity", "trend")

_HERE = Path(__file__).parent


def tables() -> list[str]:
    """Names of all tables, such as "lu2022_table1"."""
    return sorted(p.stem for p in _HERE.glob("*.csv"))


def table(name: str) -> pd.DataFrame:
    """One published table, a row a printed cell.

    Settings are text. In a table of results, `mean` and `std` are numbers (NaN where the paper prints none, `note` says why)
    and `mean_text`, `std_text` are the same as printed, trailing zeros included.
    Raises ValueError for a name that is not one of `tables()`.
    """
    import pandas as pd  # here, so that whoever only wants the claims need not wait for it

    frame = pd.DataFrame(_rows(name), dtype=str)
    for column in [c for c in ("mean", "std") if c in frame]:
        frame[f"{column}_text"] = frame[column]
        frame[column] = pd.to_numeric(frame[column])
    return frame


@cache
def _rows(name: str) -> list[dict[str, str]]:
    if name not in tables():
        raise ValueError(f"name={name!r} is not a table of the papers; try one of {', '.join(tables())}")
    with open(_HERE / f"{name}.csv", encoding="utf-8", newline="") as file:
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


@dataclass(frozen=True)
class Claim:
    """Something a paper says (or, where paper is "privlab", this book) that a lab can test.

    id: paper.place.slug.  where: the table, figure, theorem or section.  lab: two digits.  kind: one of KINDS.
    statement: in our own words.  compare: the comparison that decides, in the grammar of `privlab.ledger.grammar`.
    experiments: "module.function", which measure the names in compare and needs, each name one of them.
    needs: comparisons that must hold for the question to make sense.  exploratory: the largest size whose evidence was looked at when
    compare was chosen, "" if none was; a larger size has repeats of its own, which nobody had seen.
    headline: number of the question, of those that a reader wants answered first.
    numbers: the printed values behind `compare`.  printed: what the paper shows where it prints no number.  note: ours.
    reading: what the paper leaves open, and how it is read here; a verdict on the paper's own networks then speaks of this reading.
    people: how many different people the shares in percent are of, see `rule`; 0 where the repeats alone are counted.
    holds_on_printed_numbers: whether `compare` holds on `numbers`; None where some name has no printed value. Worked out, as is the paper.
    """

    id: str
    paper: str
    where: str
    lab: str
    kind: str
    statement: str
    compare: str
    experiments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    exploratory: str = ""
    headline: int | None = None
    numbers: tuple[Printed, ...] = ()
    printed: str = ""
    note: str = ""
    reading: str = ""
    people: int = 0
    holds_on_printed_numbers: bool | None = None


def claims(lab: str | None = None, path: Path | None = None) -> list[Claim]:
    """The claims of one lab ("05"), or of all.

    path: another list in the same format; the package's own if not given.
    Raises ValueError for an entry that breaks the format, naming its id: an unknown field or kind, an id given
    twice, an experiment or need out of form, a printed number that is not in the table it points to.
    """
    by_id: dict[str, Claim] = {}
    for entry in entries(path or _HERE / "claims.yaml")["claims"]:
        claim = _claim(entry)
        if claim.id in by_id:
            raise ValueError(f"claim {claim.id} is listed twice; give each its own id")
        by_id[claim.id] = claim
    return [c for c in by_id.values() if lab in (None, c.lab)]


def page(claim: str) -> str:
    """Where the built book tells all about a claim, from the book's root: the page that book/claim_pages.py writes."""
    return f"claims/{claim}.html"


@dataclass(frozen=True)
class Explanation:
    """Why a claim did not reproduce, as far as we found out.

    evidence, refuted: ids of the claims that hold it up, by being reproduced and by not being reproduced; none of both makes it a guess.
    """

    because: str
    evidence: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()

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


def explanations(path: Path | None = None) -> dict[str, Explanation]:
    """The best explanation found, by the id of the claim that did not reproduce.

    path: another list in the same format; the package's own if not given.
    Raises ValueError for an id, among the claims or the evidence, that no claim has.
    """
    named = entries(path or _HERE / "explanations.yaml")["explanations"]
    ids = {claim.id for claim in claims()}
    for name, entry in named.items():
        if unknown := [n for n in (name, *entry.get("evidence", ()), *entry.get("refuted", ())) if n not in ids]:
            raise ValueError(f"explanation of {name}: there is no claim {unknown[0]!r}")
        if not entry.get("because"):
            raise ValueError(f"explanation of {name}: because={entry.get('because')!r} says nothing; give a sentence")
    lists = ("evidence", "refuted")
    return {n: Explanation(e["because"], *(tuple(e.get(of, ())) for of in lists)) for n, e in named.items()}


def entries(path: Path) -> dict[str, Any]:
    """A file of plain YAML, read by libyaml where it is there: ten times as fast as in Python."""
    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _claim(entry: dict[str, Any]) -> Claim:
    name = entry.get("id", "without an id")
    field_names = [f.name for f in fields(Claim) if f.name not in ("paper", "holds_on_printed_numbers")]
    if unknown := sorted(entry.keys() - set(field_names)):
        raise ValueError(f"claim {name} has a field {unknown[0]!r}; the fields are {', '.join(field_names)}")
    if missing := [f for f in field_names[:6] if not isinstance(entry.get(f), str)]:
        raise ValueError(f"claim {name}: {missing[0]}={entry.get(missing[0])!r}; give it as text")
    paper = name.partition(".")[0]
    for field, value, allowed in (("paper", paper, PAPERS), ("kind", entry["kind"], KINDS)):
        if value not in allowed:
            raise ValueError(f"claim {name}: {field}={value!r}; try one of {', '.join(allowed)}")
    for field, example in (("experiments", "gradient_inversion.architectures"), ("needs", "psnr[cifar10, swin] > 20")):
        value = entry.get(field, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"claim {name}: {field}={value!r}; give a list of texts such as {example}")
    if (looked := entry.get("exploratory", evidence.SIZES[0])) not in evidence.SIZES:
        raise ValueError(
            f"claim {name}: exploratory={looked!r}; give the largest size that was looked at: {', '.join(evidence.SIZES)}"
        )
    try:
        for experiment in entry.get("experiments", ()):
            evidence.path(experiment, "class")
    except ValueError as error:
        raise ValueError(f"claim {name}: {error}") from None
    if not (len(entry["lab"]) == 2 and entry["lab"].isdigit()):
        raise ValueError(f"claim {name}: lab={entry['lab']!r}; give two digits as text, such as '05'")
    parsed = {need: parse(need, name) for need in entry.get("needs", ())}
    if odd := [need for need, comparison in parsed.items() if not comparison.names]:
        raise ValueError(f"claim {name}: needs={odd[0]!r} names nothing that is measured")
    lists = {field: tuple(entry.get(field, ())) for field in ("experiments", "needs")}
    if name.count(".") < 2:
        raise ValueError(f"claim {name}: its id is paper.place.slug, as in lu2022.table1.cifar10_april_best")
    if (headline := entry.get("headline", 1)) not in range(1, 19) or not isinstance(headline, int):
        raise ValueError(
            f"claim {name}: headline={headline!r}; give the number of a question in headlines.yaml, 1 to 18"
        )
    if not isinstance(people := entry.get("people", 0), int) or people < 0:
        raise ValueError(f"claim {name}: people={people!r}; give how many there are")
    numbers = tuple(_printed(name, number) for number in entry.get("numbers", ()))
    made = Claim(
        **{"printed": "not in the papers" * (paper == "privlab"), **entry, **lists, "paper": paper, "numbers": numbers}
    )
    return replace(made, holds_on_printed_numbers=holds_on_printed_numbers(made)) if numbers else made


def holds_on_printed_numbers(claim: Claim) -> bool | None:
    """Whether the paper's own numbers satisfy the comparison; None where that is open, as one of its names has no number in print."""
    whole = parse(claim.compare, claim.id)
    printed = {n.name: n.mean for n in claim.numbers}
    match whole.tree:
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [parse(ast.unparse(value), claim.id) for value in values]
        case _:
            parts = [whole]
    known = [bool(part(printed)) for part in parts if printed.keys() >= set(part.names)]
    return False if not all(known) else True if len(known) == len(parts) else None


def _printed(claim: str, number: dict[str, Any]) -> Printed:
    """A printed number: looked up in its table, which then is the one source, or taken from the entry where it stands in prose."""
    where = f"claim {claim}: {number['name']}"
    if not number.get("file"):
        return Printed(
            number["name"], float(number["mean"]), number.get("std"), number.get("unit"), number["cell"]["prose"]
        )
    stem = number["file"].removesuffix(".csv")
    rows = _rows(stem)
    if unknown := [c for c in number["cell"] if c not in rows[0]]:
        raise ValueError(f"{where} names a column {unknown[0]!r}; {stem} has {', '.join(rows[0])}")
    cells = [row for row in rows if all(row[c] == str(value) for c, value in number["cell"].items())]
    if len(cells) != 1:
        raise ValueError(f"{where} fits {len(cells)} cells of {stem}; a cell is the one that {number['cell']} picks")
    (cell,) = cells
    if not cell["mean"]:
        raise ValueError(f"{where} points to an empty cell of {stem} ({cell['note']}); leave it out of numbers")
    if "mean" in number and float(number["mean"]) != float(cell["mean"]):
        raise ValueError(f"{where} is given as {number['mean']}; {stem} has {cell['mean']}")
    std = float(cell["std"]) if cell["std"] else None
    return Printed(number["name"], float(cell["mean"]), std, cell["unit"], f"Table {stem.split('_table')[1]}")
