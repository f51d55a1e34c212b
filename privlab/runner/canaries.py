"""What moved against the committed evidence: a lab's live run at smoke is the first repeat of its experiments, which is committed too.

A value that moved on the same processor and releases tells of a change in behaviour that nobody named by a higher `protocol`. On others a
search or a training may go another way; then only exact values are held against what is committed. Two machines of one kind may round a
last digit otherwise, too, and the signed steps of a search by differences turn that into whole ones: a value beside a PSNR may move 0.02.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from privlab.ledger import evidence
from privlab.ledger.evidence import Repeat
from privlab.ledger.rule import exact

ALIKE = ("torch", "timm", "processor", "threads", "card")  # where these are the same, the values are


def _machine(row: Repeat) -> list[str | None]:
    """The kind of device, and of what `ALIKE` names, that it was measured with."""
    return [row.device.partition(":")[0], *map(row.versions.get, ALIKE)]


def nearest(now: Repeat, lines: Sequence[Repeat]) -> Repeat:
    """Of the committed lines of a repeat, at least one, that which was measured as this was; the first where none was."""
    return next((line for line in lines if _machine(line) == _machine(now)), lines[0])


def moved(now: Repeat, before: Repeat) -> list[str]:
    """What is not what it was between two measurements of one repeat, a line each."""
    moves, same = [], _machine(now) == _machine(before)
    relative, absolute = (0.02, 0.02) if any(name.startswith("psnr") for name in before.values) else (1e-6, 1e-9)
    for name, old in before.values.items():
        new = now.values.get(name)
        if new is None:
            moves.append(f"canary: {name}, no longer measured")
        elif exact(name, old) and not exact(name, new):
            moves.append(f"exact value: {name}, {old:g} before, {new:.6g} now")
        elif same and not math.isclose(new, old, rel_tol=relative, abs_tol=absolute):
            moves.append(f"canary: {name}, {old:.7g} before, {new:.7g} now")
    return moves + [f"canary: {name}, new" for name in now.values if name not in before.values]


def live(folder: Path) -> dict[str, list[Repeat]]:
    """What labs measured live at smoke in a run: experiment -> its repeats.  folder: of the run."""
    found: dict[str, list[Repeat]] = {}
    for file in sorted(folder.glob("live/**/smoke/*.jsonl")):
        found.setdefault(file.stem, []).extend(evidence.read(file.stem, "smoke", root=file.parents[1]))
    return found


def moves(folder: Path) -> tuple[int, list[str]]:
    """What moved in a run of labs at smoke: how many values were compared, and what is not what it was."""
    compared, found = 0, list[str]()
    for experiment, rows in live(folder).items():
        for row in rows:
            before = evidence.lines(experiment, "smoke", row.digest).get(row.repeat)
            if not before:
                found.append(f"canary: {experiment}, repeat {row.repeat} of this protocol has no committed line")
                continue
            compared += len(row.values)
            found += moved(row, nearest(row, before))
    return compared, found
