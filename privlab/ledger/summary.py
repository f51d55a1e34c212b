"""The records that the notebooks of a run left, judged: for labs whose numbers are not measured by experiments yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import nbformat

from privlab.compute import reading
from privlab.ledger import lab_notes, runs
from privlab.ledger.records import Record


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
