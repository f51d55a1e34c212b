"""The runs that are committed with the book, and those that the reader made: ledgers found by their place beside the package."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from privlab.ledger import runs
from privlab.ledger.evidence import SIZES
from privlab.ledger.runs import Ledger

HOUSE = Path(__file__).parents[2]


def committed(folder: Path | str = HOUSE / "book/baselines") -> dict[str, Ledger]:
    """The ledgers that came with the book, from the cheapest profile up; none where the package was installed without it."""
    return {name: runs.read(path) for name in SIZES if (path := Path(folder) / f"{name}.json").exists()}


def own(folder: Path | str = HOUSE / "runs") -> dict[str, Ledger]:
    """The runs found in a folder of runs, by the name of theirs, the latest first. One that cannot be read is left out."""
    ledgers = {}
    for path in Path(folder).glob("*/ledger.json"):
        try:
            ledgers[path.parent.name] = runs.read(path)
        except ValueError:  # of another version, or half of a file
            continue
    return dict(sorted(ledgers.items(), key=lambda run: run[1].when, reverse=True))


def provenance(run: Ledger) -> list[dict[str, Any]]:
    """Where the numbers of a run come from: for each lab its figures and their repeats, what it took, machine and versions.

    Records of a lab that came from several machines or versions give a row for each.
    """
    rows: list[dict[str, Any]] = []
    for (lab, machine), count in sorted(Counter((r.lab, r.machine) for r in run.records).items(), key=repr):
        mine = [r for r in run.records if (r.lab, r.machine) == (lab, machine)]
        took = run.labs.get(lab, {})
        rows.append(
            {
                "lab": lab,
                "figures": count,
                "repeats": sum(len(r.values) for r in mine),
                "seconds": took.get("seconds"),
                "peak GB": took.get("peak_gb"),
                "device": machine.device_name,
                "cores": machine.cpus,
                "threads": machine.threads,
                "python": machine.python,
                "torch": machine.torch,
                "timm": machine.timm,
                "privlab": machine.privlab,
            }
        )
    return rows
