"""The committed measurements of `make bench` and `make soak` as tables, which benchmarks.md includes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from dots import number

from privlab.ledger.report import grid


def tables(baselines: Path) -> Iterator[tuple[str, str]]:
    """Name and Markdown of each.  baselines: the folder of bench_*.json and soak.json."""
    for path in baselines.glob("bench_*.json"):
        yield path.stem.removeprefix("bench_"), _bench(json.loads(path.read_text(encoding="utf-8")))
    yield "soak", _soak(json.loads((baselines / "soak.json").read_text(encoding="utf-8")))


def _bench(found: dict[str, Any]) -> str:
    rows = [["what", "median", "range", "n", "promised", "beside"]]
    for row in found["rows"]:
        holds = {True: "holds", False: "**does not hold**", None: "not decided"}[row["holds"]]
        promise = f"{row['promise']}: {holds}" if row["promise"] else ""
        day = f"; of {row['date']}" if row.get("date", found["date"]) != found["date"] else ""
        none = "never" if row["unit"] == "steps" else "no number"
        middle, low, high = (none if row[end] is None else number(row[end]) for end in ("median", "low", "high"))
        unit = "" if row["median"] is None else f" {row['unit']}"
        rows.append([row["what"], f"{middle}{unit}", f"{low} to {high}", str(row["n"]), promise, f"{row['note']}{day}"])
    table = "\n".join(grid(rows, escape=False))
    return f"Measured on {found['date']}: {_machine(found['machine'])}.\n\n{table}\n"


def _machine(at: dict[str, Any]) -> str:
    return f"{at['device_name']}, {at['cpus']} cores, {at.get('threads', 1)} thread(s), torch {at['torch']}, timm {at['timm']}"


def _soak(found: dict[str, Any]) -> str:
    labs = pd.DataFrame(found["labs"]).T
    return (
        f"{found['rounds']} rounds, in {len(found['trained'])} of which nothing had been trained before: of {labs.runs.sum()} runs "
        f"{labs.failed.sum()} failed; figures that moved: {'; '.join(found['differ']) or 'none'}. {_machine(found['machine'])}.\n"
    )
