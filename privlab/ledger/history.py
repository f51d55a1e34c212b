"""Weeks of ledgers as one table: each claim's verdicts and each figure's numbers in the order of the runs, and when it moved.

A figure is held against the run in which it last moved, not only against the week before, so a slow drift is found too.
What "moved" means is said in `comparison`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privlab.ledger import runs
from privlab.ledger.comparison import MOVED, NO_SPREAD, OTHERWISE, shifts
from privlab.ledger.evidence import SIZES, checked
from privlab.ledger.judging import MEASURING, NOT_TESTED
from privlab.ledger.records import Figure, Record
from privlab.ledger.report import in_latex, in_markdown
from privlab.ledger.verdicts import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, parse

__all__ = ["FORMS", "Line", "Run", "lines", "read", "render"]

FORMS = ("md", "json", "csv", "tex")
LETTERS = {
    REPRODUCED: "R",
    NOT_REPRODUCED: "N",
    INCONCLUSIVE: "I",
    NOT_TESTED: "T",
    MEASURING: "M",
    NOT_RUN: "-",
    None: ".",
}
_KEY = "R reproduced, N not reproduced, I inconclusive, T not tested, M measuring, - not run at this profile, . not in that run"


@dataclass(frozen=True)
class Run:
    """A ledger and what it is called here: the name of its folder, or of its file."""

    label: str
    ledger: runs.Ledger


@dataclass(frozen=True)
class Line:
    """A claim or a figure over the runs.

    cells: one a run, a verdict or a figure; None where that run has none.  moved: labels of the runs in which it is not what it was.
    shown: whether a page has room for it: claims, the figures that they use, and those that moved.
    """

    kind: str
    lab: str
    name: str
    cells: tuple[str | Figure | None, ...]
    moved: tuple[str, ...]
    shown: bool


def read(paths: Iterable[Path], profile: str | None = None) -> list[Run]:
    """Every ledger under these paths, the oldest first.

    paths: ledger files, folders of a run, and folders of such folders.  profile: the only one to keep, needed where there are several.
    Raises FileNotFoundError for a path without a ledger; ValueError for a file that is none, or runs of several profiles.
    """
    files = dict.fromkeys(file for path in paths for file in _files(path))
    labels = [file.parent.name if file.name == "ledger.json" else file.stem for file in files]
    every = [Run(label, runs.read(file)) for label, file in zip(labels, files, strict=True)]
    if profile is not None:
        checked(profile, "profile")
    chosen = [run for run in every if profile in (None, run.ledger.profile)]
    profiles = sorted({run.ledger.profile for run in chosen}, key=SIZES.index)
    if len(profiles) != 1:
        there = ", ".join(profiles) or ", ".join(sorted({run.ledger.profile for run in every}))
        raise ValueError(
            f"profile={profile!r}: the runs given are of the profiles {there}; give one of them with --profile"
        )
    if len({run.label for run in chosen}) < len(chosen):
        chosen = [Run(f"{run.label} {run.ledger.when}", run.ledger) for run in chosen]
    return sorted(chosen, key=lambda run: run.ledger.when)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = [path / "ledger.json"] if (path / "ledger.json").exists() else sorted(path.glob("*/ledger.json"))
    if not files:
        raise FileNotFoundError(
            f"run={str(path)!r} holds no ledger.json, nor does a folder in it; a run of the labs writes it"
        )
    return files


def lines(series: Sequence[Run]) -> list[Line]:
    """A line for each claim, in the order of the newest run, then one for each figure."""
    claims = {j.claim.id: j.claim for run in series for j in run.ledger.judgements}
    verdicts = [{j.claim.id: j.verdict for j in run.ledger.judgements} for run in series]
    claim_lines = []
    for name, claim in claims.items():
        cells = tuple(there.get(name) for there in verdicts)
        claim_lines.append(Line("claim", claim.lab, name, cells, _changed(series, cells), True))
    used = {(claim.lab, name) for claim in claims.values() for name in parse(claim.compare, claim.id).names}
    return claim_lines + _figures(series, used)


def _changed(series: Sequence[Run], cells: Sequence[str | None]) -> tuple[str, ...]:
    """Labels of the runs whose verdict is not the last one before."""
    moved, last = [], None
    for run, verdict in zip(series, cells, strict=True):
        if last is not None and verdict not in (None, last):
            moved.append(run.label)
        last = verdict or last
    return tuple(moved)


def _figures(series: Sequence[Run], used: set[tuple[str, str]]) -> list[Line]:
    since: dict[tuple[str, str], Record] = {}  # each figure as it was when it last moved
    moved: dict[tuple[str, str], list[str]] = {}
    for run in series:
        here = {(r.lab, r.name): r for r in run.ledger.records}
        marks = {MOVED: "", NO_SPREAD: " (no spread known)", OTHERWISE: " (measured otherwise)"}
        for shift in shifts(here.values(), since.values()):
            if shift.what in marks:
                moved.setdefault((shift.lab, shift.name), []).append(run.label + marks[shift.what])
                since[shift.lab, shift.name] = here[shift.lab, shift.name]
        since = here | since
    cells = [{(r.lab, r.name): r.figure for r in run.ledger.records} for run in series]
    return [
        Line(
            "figure",
            *key,
            tuple(there.get(key) for there in cells),
            tuple(moved.get(key, ())),
            key in used or key in moved,
        )
        for key in sorted(since)
    ]


# -- the formats ---------------------------------------------------------------------------------------------------------


def render(series: Sequence[Run], form: str) -> str:
    """The history of these runs: a page ("md"), two tabulars ("tex"), or every line and run as "csv" or "json"."""
    if form not in FORMS:
        raise ValueError(f"form={form!r}; try one of {', '.join(FORMS)}")
    if form in ("md", "tex"):
        return _page(series, lines(series)) if form == "md" else _tabulars(series, lines(series))
    rows = list(_rows(series, lines(series)))
    if form == "json":
        return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _rows(series: Sequence[Run], history: Sequence[Line]) -> Iterable[dict[str, Any]]:
    """One row for each line and run."""
    for line in history:
        for run, cell in zip(series, line.cells, strict=True):
            figure = cell if isinstance(cell, Figure) else None
            yield {
                "profile": run.ledger.profile, "run": run.label, "when": run.ledger.when, "kind": line.kind, "lab": line.lab,
                "name": line.name, "verdict": cell if isinstance(cell, str) else None,
                "centre": figure and figure.centre, "spread": figure and figure.spread, "n": figure and figure.n,
                "moved": any(mark.split(" (")[0] == run.label for mark in line.moved),
            }  # fmt: skip


def _page(series: Sequence[Run], history: Sequence[Line]) -> str:
    out = [f"# History, profile {series[0].ledger.profile}", ""]
    for number, run in enumerate(series, start=1):
        out.append(f"{number}. {in_markdown(run.label)}: {in_markdown(f'{run.ledger.when}; {_made_on(run)}')}")
    for title, head, rows in _tables(history, in_markdown):
        out += ["", f"## {title}", "", f"| {' | '.join(head)} |", "|" + " --- |" * len(head)]
        out += [f"| {' | '.join(row)} |" for row in rows]
        out += ["", f"({_KEY})"] if title == "Claims" else []
    return "\n".join(out) + "\n"


def _tabulars(series: Sequence[Run], history: Sequence[Line]) -> str:
    out = [
        f"% {number}: {' '.join(f'{run.label}, {run.ledger.when}'.split())}"
        for number, run in enumerate(series, start=1)
    ]
    for _, head, rows in _tables(history, in_latex):
        out += [rf"\begin{{tabular}}{{{'l' * len(head)}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
        out += [" & ".join(row) + r" \\" for row in rows] + [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*out, f"% {_KEY}"]) + "\n"


def _tables(history: Sequence[Line], escape: Callable[[str], str]) -> Iterable[tuple[str, list[str], list[list[str]]]]:
    """(title, head, rows) of the claims, then of the figures that have room."""
    claims = [line for line in history if line.kind == "claim"]
    letters = [" ".join(LETTERS[c] for c in line.cells if not isinstance(c, Figure)) for line in claims]
    rows = [[line.name, text, ", ".join(line.moved)] for line, text in zip(claims, letters, strict=True)]
    yield "Claims", ["claim", "verdicts", "changed"], [[escape(cell) for cell in row] for row in rows]
    rows = []
    for line in [line for line in history if line.kind == "figure" and line.shown]:
        figures = [c for c in line.cells if isinstance(c, Figure)]
        numbers = [f"{c.centre:.4g}" if isinstance(c, Figure) else "." for c in line.cells]
        rows.append(
            [
                f"lab {line.lab}: {line.name}",
                ", ".join(numbers),
                str(figures[-1]).partition(" = ")[2],
                ", ".join(line.moved),
            ]
        )
    yield "Figures", ["figure", "centres", "the last one", "moved"], [[escape(cell) for cell in row] for row in rows]


def _made_on(run: Run) -> str:
    machines = {
        f"torch {r.machine.torch}, timm {r.machine.timm}, {r.machine.device_name}": None for r in run.ledger.records
    }
    return " and ".join(machines) or "nothing recorded"
