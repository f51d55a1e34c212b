"""All that the ledger knows of each claim: a page a paper, an anchor a claim.

They are no sources of Sphinx: the search knows the ledger page, which has every statement and id, and leads here.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dots
import numpy as np
import pandas as pd
import templates
from dots import Dots
from markupsafe import Markup
from sphinx.application import Sphinx

from privlab.ledger import judging, papers, report
from privlab.ledger.comparison import atoms, bar, names, parse, value
from privlab.ledger.judging import Judgement
from privlab.ledger.papers import Claim
from privlab.ledger.rule import exact, of_errors

_SHOWN = ("The repeats show it", "The repeats show its opposite", "Neither it nor its opposite is shown")
MEANS = dict(zip(judging.VERDICTS, (*_SHOWN, "It could not be put to the test", "Not judged yet"), strict=True))


def collect(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of the papers, for Sphinx's html-collect-pages."""
    labs = {Path(doc).name[:2]: f"../{doc}.html" for doc in app.env.found_docs if doc.startswith("_generated/labs/")}
    wide = {"html_theme.sidebar_secondary.remove": "true"}
    for paper, body in pages(labs):
        yield f"claims/{paper}", {"title": f"The claims of {paper}", "body": body, "meta": wide}, "page.html"


def pages(labs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each paper's key, and its page in HTML.  labs: number -> where its page lies."""
    judged, have = {j.claim.id: j for j in judging.judgements()}, judging.shelf()
    explained = papers.entries("explanations")
    for why in explained.values():
        why["rests_on"] = [*why.get("evidence", ()), *why.setdefault("refuted", [])]
    questions = {h.number: h for h in report.headlines([*judged.values()])}
    told = {}
    for name, j in judged.items():
        told[name] = {
            "j": j,
            "means": MEANS[j.verdict],
            "reason": j.reason.removeprefix(f"does not appear in {j.stands_for}: "),  # which stands beside it
            "charts": charts(j),
            "explains": [judged[one] for one, e in explained.items() if name in e["rests_on"]],
            "tries": [*judging.tries(j.claim, have)][::-1],
            "question": questions.get(j.claim.headline),
        }
    for paper, title in papers.PAPERS.items():
        if claims := [one for name, one in told.items() if judged[name].claim.paper == paper]:
            more = {"labs": labs, "ids": judged, "explained": explained}
            yield paper, templates.fill("claims.html", paper=title, claims=claims, **more)


def charts(j: Judgement) -> list[Markup]:
    """What the comparison is about in the repeats that decide, a chart for what has the same metrics; none for an identity."""
    groups: dict[str, dict[str, Dots]] = defaultdict(dict)
    if j.claim.kind != "identity":
        for row in rows(j.claim, j.tables):
            metrics = " ".join(dict.fromkeys(name.partition("[")[0] for name in names(row.label)))
            groups[metrics].setdefault(row.label, row)
    return [dots.chart([*group.values()]) for group in groups.values()]


def rows(claim: Claim, tables: Sequence[pd.DataFrame]) -> Iterator[Dots]:
    """A row for each number that a comparison holds against another; what is the same in every repeat, or exact, has none.

    Of a difference between errors, of which the quotient counts, or between what different experiments measure, each side has its row.
    """
    printed = {number.name: number.mean for number in claim.numbers}
    bars = pd.DataFrame(map(bar, atoms(parse(claim.compare))), columns=["text", "low", "high"])
    for text, low, high in bars.groupby("text", sort=False).agg({"low": "max", "high": "min"}).itertuples():
        parts, logs = names(text), of_errors(text)
        whole = next((table for table in tables if {*parts} <= {*table}), None)
        if whole is None or (logs and parts != [text]):
            found, wanted, marks = {part: table[part] for part in parts for table in tables if part in table}, "", ()
        else:
            found, wanted = {text: value(text, whole)}, dots.within(low, high)
            marks = [end for end in (low, high) if np.isfinite(end) and (end > 0 or not logs)]
        for label, repeats in found.items():
            if any(exact(part, v) for part in names(label) for table in tables if part in table for v in table[part]):
                continue
            if np.isfinite(repeats).all() and np.ptp(repeats) > 0:
                theirs = value(label, printed) if printed.keys() >= {*names(label)} else None
                yield Dots(label, [*map(float, repeats)], theirs, marks, wanted)
