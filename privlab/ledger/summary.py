"""What a run says at its end: how each lab went, and each claim beside what was measured, as tables of plain text."""

from __future__ import annotations

import csv
import io
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat

from privlab.compute import reading
from privlab.ledger import lab_notes, report, runs
from privlab.ledger.records import Record
from privlab.ledger.verdicts import NOT_RUN, VERDICTS, parse

_GAP = "  "


def book(out: Path, names: Sequence[str], profile: str) -> tuple[runs.Ledger, dict[str, str]]:
    """Judge the claims by what the notebooks of a run recorded (a failed lab's included), and write out/ledger.json.

    names: of the labs that count.  Returns the ledger, and lab -> why its records could not be read.
    """
    records: list[Record] = []
    unread = {}
    for name in names:
        try:
            records += runs.collect(executed(out / f"{name}.ipynb"))
        except (OSError, ValueError) as error:
            unread[name] = f"its records: {error}"
    labs = {name[:2]: _took(out / f"{name}.json") for name in names}
    ledger = runs.summarise(records, profile, ran=list(labs), labs=labs)
    runs.write(out / "ledger.json", ledger)
    return ledger, unread


def executed(path: Path) -> nbformat.NotebookNode:
    """A notebook that a run left.  Raises an OSError, or ValueError where it is none any more."""
    with reading.guarded(path, "is no notebook that can be read here", "run the lab again"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        return notebook


def _took(note: Path) -> dict[str, float | None]:
    costs = lab_notes.read(note) if note.exists() else {}
    return {what: costs.get(what) for what in ("seconds", "peak_gb", "gpu_peak_gb", "threads")}


def of_labs(results: Mapping[str, Mapping[str, Any]], ledger: runs.Ledger) -> str:
    """A line a lab: status, seconds, peak memory, and its claims by verdict; below, why a lab failed."""
    rows = [["lab", "status", "seconds", "peak GB", *(v.split(" at ")[0] for v in VERDICTS)]]
    for name, result in results.items():
        counts = report.tally(j for j in ledger.judgements if j.claim.lab == name[:2])
        memory = f"{result['peak_gb']:.2f}" if result.get("peak_gb") else "?"
        seconds = f"{result['seconds']:.1f}"
        rows.append([name, result["status"], seconds, memory, *(str(n or "-") for n in counts.values())])
    return "\n".join([columns(rows), *(f"{name}: {r['error']}" for name, r in results.items() if r["error"])])


def of_claims(ledger: runs.Ledger, names: Sequence[str], width: int | None = None) -> str:
    """The ledger as a table "claim, the paper, here, verdict" for the labs that were run.

    names: of those labs.  width: characters a line; the terminal's if not given, 120 where there is none.
    """
    width = max(72, width or shutil.get_terminal_size((120, 24)).columns)
    labs = {name[:2] for name in names}
    judged = [j for j in ledger.judgements if j.claim.lab in labs]
    if not judged:
        return "no claim is tested by these labs"
    free = width - 3 * len(_GAP)
    widths = [free * 34 // 100, free * 20 // 100, free * 24 // 100]
    widths.append(free - sum(widths))
    lines = [*_wrapped(["claim", "the paper", "here", "verdict"], widths), _GAP.join("-" * w for w in widths)]
    for row in csv.DictReader(io.StringIO(report.as_csv({"": judged}))):
        lines += textwrap.wrap(f"{row['id']} ({row['where']})", width)
        verdict = f"{row['verdict'].upper()}: {row['reason']}"
        lines += [*_wrapped([row["statement"], row["printed"], row["ours"], verdict], widths), ""]
    others = sum(j.claim.lab not in labs and j.verdict == NOT_RUN for j in ledger.judgements)
    return "\n".join(lines + ([f"and {others} claims of labs that were not run"] if others else [])).rstrip()


def unrecorded(ledger: runs.Ledger, names: Sequence[str]) -> str:
    """The claims that name what their lab did not record, in lines; nothing where there is none.

    names: of the labs that ran to their end.
    """
    labs = {name[:2] for name in names}
    recorded = {(r.lab, r.name) for r in ledger.records}
    lines = []
    for j in ledger.judgements:
        missing = [n for n in parse(j.claim.compare, j.claim.id).names if (j.claim.lab, n) not in recorded]
        if j.claim.lab in labs and not j.claim.experiments and j.verdict != NOT_RUN and missing:
            lines.append(f"claim {j.claim.id} names what lab {j.claim.lab} did not record: {', '.join(missing)}")
    return "\n".join(lines)


def columns(rows: list[list[str]]) -> str:
    """Rows as aligned columns under a ruled head, numbers to the right."""
    turned = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in turned]
    right = [all(cell in ("-", "?") or cell.replace(".", "").isdigit() for cell in column[1:]) for column in turned]
    lines = [
        _GAP.join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], _GAP.join("-" * w for w in widths), *lines[1:]])


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The lines of one row whose cells are wrapped to the width of their column."""
    cells = [textwrap.wrap(cell, w, break_on_hyphens=False) for cell, w in zip(row, widths, strict=True)]
    height = max(map(len, cells))
    full = [[*cell, *[""] * (height - len(cell))] for cell in cells]
    return [
        _GAP.join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in zip(*full, strict=True)
    ]
