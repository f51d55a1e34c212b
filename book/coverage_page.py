"""Every table and figure of the four papers as a page: the claims on it with their verdicts, or why nothing of it is tested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privlab.ledger.judging import Judgement
from privlab.ledger.papers import PAPERS, Place
from privlab.ledger.report import id_in_markdown, in_markdown, verdict

_TABLE = "```{table}\n:class: privlab-coverage\n:widths: 12 30 58"  # the stylesheet stacks its cells on a narrow screen


def page(places: Sequence[Place], judgements: Iterable[Judgement]) -> str:
    """The page in Markdown: a table a paper, and how many of its places have claims."""
    judged = {j.claim.id: j for j in judgements if j.claim.paper != "privlab"}
    lines = ["# Every table and figure", ""]
    listed = {name for place in places for name in place.claims}
    lines += [
        f"The four papers have {len(places)} numbered tables, figures, theorems and algorithms, appendices included. "
        f"{_tested(places)} have claims; each of the other {len(places) - _tested(places)} has the reason why nothing of it is tested. "
        f"Of the {len(judged)} claims on these papers {len(listed)} speak about one of them or more, "
        f"and {len(judged) - len(listed)} rest on the text alone.",
        "",
        "A verdict is that of a claim. A table of which one claim is reproduced is not reproduced as a whole: "
        "what of it no claim asks stands below its claims. "
        "[The ledger](ledger.md) has each claim in words, with the paper's numbers and ours.",
    ]
    for paper in dict.fromkeys(place.paper for place in places):
        mine = [place for place in places if place.paper == paper]
        alone = [j for j in judged.values() if j.claim.paper == paper and j.claim.id not in listed]
        lines += [
            "",
            f"## {in_markdown(PAPERS[paper])}",
            "",
            f"{_tested(mine)} of {len(mine)} have claims.",
            "",
            _TABLE,
            "",
        ]
        lines += ["| place | what it shows | claims, or why not |", "| --- | --- | --- |"]
        for place in mine:
            cell = [*_by_verdict([judged[name] for name in place.claims]), *filter(None, [in_markdown(place.why_not)])]
            lines.append(f"| **{in_markdown(place.place)}** | {in_markdown(place.shows)} | {' <br>'.join(cell)} |")
        lines.append("```")
        if alone:
            lines += ["", " <br>".join(["On the text alone:", *_by_verdict(alone)])]
    return "\n".join(lines) + "\n"


def _tested(places: Sequence[Place]) -> int:
    """How many have claims."""
    return sum(bool(place.claims) for place in places)


def _by_verdict(judgements: Iterable[Judgement]) -> list[str]:
    """The ids under each verdict and scope, each group in a line; an id leads to the claim's page."""
    groups: dict[str, list[str]] = {}
    for j in judgements:
        groups.setdefault(verdict(j), []).append(id_in_markdown(j.claim, "../"))
    return [f"**{in_markdown(head)}**: {' '.join(ids)}" for head, ids in groups.items()]
