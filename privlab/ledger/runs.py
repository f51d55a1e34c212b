"""The ledger of a run: what its labs measured, held against what the papers claim.

The runner collects the records of executed notebooks and writes `ledger.json`; a report is made from one or more of those.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from privlab.compute import atomic, reading
from privlab.ledger import judging, papers
from privlab.ledger.evidence import SIZES
from privlab.ledger.papers import Claim
from privlab.ledger.records import MIME, Record
from privlab.ledger.verdicts import VERDICTS, Judgement, judge, parse

if TYPE_CHECKING:
    from nbformat import NotebookNode  # two seconds that a lab need not wait

FORMAT = 1


def collect(notebook: NotebookNode) -> list[Record]:
    """Read the records back from an executed notebook (nbformat 4).

    Raises ValueError where two cells recorded the same name, or a record was written by another version of the format.
    """
    records: dict[str, Record] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if (content := output.get("data", {}).get(MIME)) is not None:
                record = Record.read(content)
                if record.name in records:
                    raise ValueError(f"lab {record.lab} records {record.name} twice; give one of them another key")
                records[record.name] = record
    return list(records.values())


@dataclass(frozen=True)
class Ledger:
    """One run of the book, judged.  when: ISO 8601, UTC.  records: all that was measured, used by a claim or not.

    labs: what each took, lab -> {"seconds", "peak_gb", "gpu_peak_gb", "threads"}; some lack in runs of before.
    """

    profile: str
    when: str
    judgements: tuple[Judgement, ...]
    records: tuple[Record, ...]
    labs: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


def summarise(
    records: Iterable[Record],
    profile: str,
    ran: Collection[str] | None = None,
    claims: Iterable[Claim] | None = None,
    labs: Mapping[str, Mapping[str, float | None]] | None = None,
) -> Ledger:
    """Judge every claim by what a run of the book recorded.

    ran: labs that were run ("05"), whether they recorded anything or not; those with records if not given.
    claims: the package's own if not given.  labs: what each took, see `Ledger`.
    """
    records = tuple(records)
    ran = {r.lab for r in records} if ran is None else ran
    chosen = papers.claims() if claims is None else claims
    shelf = judging.Shelf()
    judgements = tuple(
        judging.judge(c, shelf) if c.experiments else judge(c, records, profile, ran=c.lab in ran) for c in chosen
    )
    return Ledger(profile, datetime.now(UTC).isoformat(timespec="seconds"), judgements, records, dict(labs or {}))


def write(path: Path | str, ledger: Ledger) -> None:
    """Write a ledger.json, whole or not at all."""
    atomic.write_atomic(path, (_dumps(ledger) + "\n").encode())


def read(path: Path | str) -> Ledger:
    """Read a ledger.json back, with the verdicts that were passed then.

    Raises FileNotFoundError, or ValueError for a file that is no ledger of this format.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; a run of the labs writes it")
    with reading.guarded(path, "is no ledger that can be read here", "run the labs again"):
        content = reading.json_file(path)
        if not isinstance(content, dict) or "format" not in content:
            raise ValueError("it has no field 'format'")
        if (number := content.pop("format")) != FORMAT:
            raise ValueError(f"it has the format {number}, this privlab reads {FORMAT}")
        ledger = reading.typed(Ledger, content)
        _sound(ledger)
    return ledger


def _sound(ledger: Ledger) -> None:
    """Raises ValueError for what no run can have written."""
    datetime.fromisoformat(ledger.when)
    words = (*VERDICTS, *judging.VERDICTS)
    judged = [("profile", ledger.profile, SIZES), *(("verdict", j.verdict, words) for j in ledger.judgements)]
    for what, word, known in judged:
        if word not in known:
            raise ValueError(f"it has the {what} {word!r}, not one of {', '.join(known)}")
    for judgement in ledger.judgements:
        parse(judgement.claim.compare, judgement.claim.id)
    for each in ledger.records:
        each.check()


def _dumps(ledger: Ledger) -> str:
    return json.dumps({"format": FORMAT, **asdict(ledger)}, indent=1, ensure_ascii=False, allow_nan=False)
