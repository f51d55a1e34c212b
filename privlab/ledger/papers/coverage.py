"""Every table, figure, theorem and algorithm of the four papers: the claims that speak about it, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from privlab.ledger import papers

__all__ = ["Place", "places"]


@dataclass(frozen=True)
class Place:
    """A table, figure, theorem or algorithm.

    paper, place: such as zhang2024, Table 5.  shows: what it holds.  claims: ids of those that speak about it.
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
    Raises ValueError, naming the entry, for an unknown paper, field or claim, a missing text, a claim of another paper, a place that is
    listed twice, and an entry with neither claims nor a reason.
    """
    found: dict[tuple[str, str], Place] = {}
    for entry in papers.entries(path or Path(__file__).with_suffix(".yaml"))["coverage"]:
        place = _place(entry)
        if (place.paper, place.place) in found:
            raise ValueError(f"coverage of {place.paper}, {place.place} is listed twice; join the two")
        found[place.paper, place.place] = place
    return list(found.values())


@cache
def _paper_of() -> dict[str, str]:
    """Claim -> paper."""
    return {claim.id: claim.paper for claim in papers.claims()}


def _place(entry: dict[str, Any]) -> Place:
    name = f"coverage of {entry.get('paper')}, {entry.get('place')}"
    names = [f.name for f in fields(Place)]
    if unknown := sorted(entry.keys() - set(names)):
        raise ValueError(f"{name} has a field {unknown[0]!r}; the fields are {', '.join(names)}")
    if entry.get("paper") not in papers.PAPERS or entry["paper"] == "privlab":
        raise ValueError(f"{name}: paper={entry.get('paper')!r}; try one of {', '.join(list(papers.PAPERS)[:4])}")
    if missing := [field for field in ("place", "shows") if not str(entry.get(field) or "").strip()]:
        raise ValueError(f"{name}: {missing[0]}={entry.get(missing[0])!r}; give it as text")
    claims = tuple(entry.get("claims") or ())
    if wrong := [c for c in claims if _paper_of().get(c) != entry["paper"]]:
        what = f"is a claim of {_paper_of()[wrong[0]]}" if wrong[0] in _paper_of() else "is no claim"
        raise ValueError(f"{name}: {wrong[0]!r} {what}; give ids of {entry['paper']}")
    if not claims and not entry.get("why_not"):
        raise ValueError(f"{name} has neither claims nor a reason; say in why_not why nothing of it is tested")
    return Place(entry["paper"], entry["place"], entry["shows"], claims, entry.get("why_not") or "")
