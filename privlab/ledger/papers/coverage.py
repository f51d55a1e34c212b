"""Every table, figure, theorem and algorithm of the four papers: the claims that speak about it, or why there are none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from privlab.ledger import papers

__all__ = ["Place", "named", "places"]

_ONE = r"(?:S\.?)?\d+[a-d]?"
_NAMED = re.compile(rf"\b(Theorem|Algorithm|Table|Figure)s? ({_ONE}(?:(?:, | and |, and ){_ONE})*)")


@dataclass(frozen=True)
class Place:
    """A table, figure, theorem or algorithm.

    paper, place: such as zhang2024, Table 5.  shows: what it holds.
    claims: ids of those that speak about it: their `where` names it, or they rest on a number printed in it.
    why_not: why there are none; beside claims, what of it no claim asks.
    """

    paper: str
    place: str
    shows: str
    claims: tuple[str, ...] = ()
    why_not: str = ""


def places(path: Path | None = None) -> list[Place]:
    """All of them, paper by paper.

    path: another list in the same format; the package's own if not given.
    Raises ValueError, naming the entry, for an unknown paper or field, a missing text, a place that is listed twice, and an entry with
    neither claims nor a reason.
    """
    about: dict[tuple[str, str], list[str]] = defaultdict(list)
    for claim in papers.claims():
        for name in named("; ".join([claim.where, *(number.where for number in claim.numbers)])):
            about[claim.paper, name].append(claim.id)
    found: dict[tuple[str, str], Place] = {}
    for entry in papers.entries(path or Path(__file__).with_suffix(".yaml"))["coverage"]:
        place = _place(entry, about)
        if (place.paper, place.place) in found:
            raise ValueError(f"coverage of {place.paper}, {place.place} is listed twice; join the two")
        found[place.paper, place.place] = place
    return list(found.values())


def named(where: str) -> set[str]:
    """The places that a claim's `where`, or a printed number's, names; panels belong to their figure."""
    return {
        f"{kind} {re.sub(r'^S(?=[0-9])', 'S.', number)}"
        for kind, numbers in _NAMED.findall(where)
        for number in re.findall(r"(?:S\.?)?\d+", numbers)
    }


def _place(entry: dict[str, Any], about: Mapping[tuple[str, str], list[str]]) -> Place:
    name = f"coverage of {entry.get('paper')}, {entry.get('place')}"
    names = [f.name for f in fields(Place) if f.name != "claims"]
    if unknown := sorted(entry.keys() - set(names)):
        raise ValueError(f"{name} has a field {unknown[0]!r}; the fields are {', '.join(names)}")
    if entry.get("paper") not in papers.PAPERS or entry["paper"] == "privlab":
        raise ValueError(f"{name}: paper={entry.get('paper')!r}; try one of {', '.join(list(papers.PAPERS)[:4])}")
    if missing := [field for field in ("place", "shows") if not str(entry.get(field) or "").strip()]:
        raise ValueError(f"{name}: {missing[0]}={entry.get(missing[0])!r}; give it as text")
    claims = tuple(about.get((entry["paper"], entry["place"]), ()))
    if not claims and not entry.get("why_not"):
        raise ValueError(f"{name} has neither claims nor a reason; say in why_not why nothing of it is tested")
    return Place(entry["paper"], entry["place"], entry["shows"], claims, entry.get("why_not") or "")
