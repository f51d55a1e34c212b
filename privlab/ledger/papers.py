"""What the four papers print, and the claims that a lab can put to the test; privlab/course/papers/README.md says what the fields mean."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import pandas as pd
import yaml

PAPERS = {
    "zhang2024": "Zhang et al. 2024, How Does a Deep Learning Model Architecture Impact Its Privacy?",
    "koh2024": "Koh et al. 2024, On the Vulnerability of Skip Connections to Model Inversion Attacks",
    "lu2022": "Lu et al. 2022, APRIL: Finding the Achilles' Heel on Privacy for Vision Transformers",
    "hatamizadeh2022": "Hatamizadeh et al. 2022, GradViT: Gradient Inversion of Vision Transformers",
    "privlab": "Beyond the papers",
}
COURSE = Path(__file__).parents[1] / "course"  # data of the labs and of the papers; nothing is imported from there
TABLES = COURSE / "papers"


def entries(of: str, file: Path | None = None) -> Any:
    """A list of the book's, such as "coverage".  file: where it stands; beside the tables if not given."""
    return yaml.load((file or TABLES / f"{of}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)[of]


def table(name: str) -> pd.DataFrame:
    """One published table, a row a printed cell: settings are text, `mean` and `std` numbers (NaN where the paper prints none).

    name: such as "lu2022_table1", of a file in privlab/course/papers.  Raises FileNotFoundError for one that is not there.
    """
    kinds, gaps = defaultdict[str, type](lambda: str, mean=float, std=float), {"mean": "", "std": ""}
    return pd.read_csv(TABLES / f"{name}.csv", dtype=kinds, na_values=gaps, keep_default_na=False)


_rows = cache(lambda name: table(name).to_dict("records"))


class Printed(NamedTuple):
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
    def of(cls, name: str, cell: Mapping[str, Any], file: str = "", **told: Any) -> Self:
        """As a claim names it: a cell of a table, which then is the one source, or a place in prose with its mean."""
        if not file:
            return cls(name, float(told["mean"]), told.get("std"), told.get("unit"), cell["prose"])
        stem, wanted = file.removesuffix(".csv"), {column: str(value) for column, value in cell.items()}
        (row,) = (row for row in _rows(stem) if wanted.items() <= row.items())
        std = None if math.isnan(row["std"]) else row["std"]
        return cls(name, row["mean"], std, row["unit"], f"Table {stem.split('_table')[1]}")


@dataclass(frozen=True)
class Claim:
    """Something a paper says (or, where its id begins with "privlab", this book) that a lab can test."""

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


@cache
def claims(lab: str | None = None) -> Sequence[Claim]:
    """The claims of one lab ("05"), or of all."""
    found = []
    for file in sorted(COURSE.glob(f"lab_{lab or '*'}/claims.yaml")):
        for entry in entries("claims", file):
            entry["numbers"] = [Printed.of(**number) for number in entry.get("numbers", ())]
            ours = {"printed": "not in the papers"} if entry["id"].startswith("privlab.") else {}
            found.append(Claim(**(ours | entry)))
    return found
