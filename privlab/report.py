"""Verdicts as a page, a panel, a table for a paper or a spreadsheet, and what changed since a baseline.

Every function here takes judgements and returns text. `runs` is {label: judgements}, a column or two a run; the label is
usually the profile.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from privlab.papers import PAPERS, Claim
from privlab.verdicts import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, REPRODUCED, VERDICTS, Judgement

__all__ = ["Changes", "Panel", "as_csv", "as_latex", "as_markdown", "compare", "tally"]

Runs = Mapping[str, Sequence[Judgement]]

# Okabe and Ito's colours, told apart by colour-blind readers. They only edge a cell that says the verdict in words.
_EDGE = {REPRODUCED: "#0072B2", NOT_REPRODUCED: "#D55E00", INCONCLUSIVE: "#E69F00", NOT_RUN: "#999999"}


def tally(judgements: Iterable[Judgement]) -> dict[str, int]:
    """How many claims got each verdict, all four verdicts named."""
    counts = Counter(j.verdict for j in judgements)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _printed(claim: Claim) -> str:
    numbers = "; ".join(map(str, claim.numbers)) or claim.printed or "no number in print"
    return numbers + ("; these contradict the claim" if claim.holds_on_printed_numbers is False else "")


def _ours(judgement: Judgement | None) -> str:
    return "; ".join(map(str, judgement.ours)) if judgement and judgement.ours else "nothing measured"


def _verdict(judgement: Judgement | None) -> str:
    return f"{judgement.verdict} ({judgement.reason})" if judgement else "not in this run"


def _papers(runs: Runs) -> dict[str, list[Claim]]:
    """Claims of all runs in the order of the papers: {paper: claims}."""
    claims = {j.claim.id: j.claim for judgements in runs.values() for j in judgements}
    grouped = {paper: [c for c in claims.values() if c.paper == paper] for paper in PAPERS}
    return {paper: found for paper, found in grouped.items() if found}


def _by_id(runs: Runs) -> dict[str, dict[str, Judgement]]:
    return {label: {j.claim.id: j for j in judgements} for label, judgements in runs.items()}


# -- the formats ---------------------------------------------------------------------------------------------------------


def as_markdown(runs: Runs) -> str:
    """The ledger page: a section a paper, a row a claim, the paper's number beside ours and the verdict of each run."""
    lines = ["# The ledger", ""]
    for label, judgements in runs.items():
        counts = ", ".join(f"{n} {verdict}" for verdict, n in tally(judgements).items())
        lines.append(f"- **{_md(label)}**: {counts}")
    several = len(runs) > 1
    found = _by_id(runs)
    columns = [f"{what} ({_md(label)})" if several else what for label in runs for what in ("ours", "verdict")]
    for paper, claims in _papers(runs).items():
        lines += ["", f"## {_md(PAPERS[paper])}", ""]
        lines += [f"| statement | the paper's number | {' | '.join(columns)} |", "|" + " --- |" * (2 + len(columns))]
        for c in claims:
            cells = [f"{_md(c.statement)} <br>{_md(c.where)}; lab {c.lab}; `{c.id}`", _md(_printed(c))]
            for label in runs:
                judgement = found[label].get(c.id)
                cells += [_md(_ours(judgement)), _md(_verdict(judgement))]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def as_csv(runs: Runs) -> str:
    """One row for each run and claim."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = "run profile id paper where lab kind statement compare printed ours verdict reason share"
    writer.writerow(head.split())
    for label, judgements in runs.items():
        for j in judgements:
            c, share = j.claim, "" if j.share is None else f"{j.share:.4f}"
            row = [label, j.profile, c.id, c.paper, c.where, c.lab, c.kind, c.statement, c.compare, _printed(c)]
            writer.writerow([*row, _ours(j), j.verdict, j.reason, share])
    return out.getvalue()


def as_latex(runs: Runs) -> str:
    """A tabular for the booktabs package, to be put into a table or longtable; every text is escaped."""
    columns = [f"verdict, {_tex(label)}" if len(runs) > 1 else "verdict" for label in runs]
    found = _by_id(runs)
    lines = [rf"\begin{{tabular}}{{p{{.4\linewidth}}p{{.2\linewidth}}{'l' * len(runs)}}}", r"\toprule"]
    lines.append(" & ".join(["claim", "in print", *columns]) + r" \\")
    for paper, claims in _papers(runs).items():
        title = rf"\multicolumn{{{2 + len(runs)}}}{{l}}{{\emph{{{_tex(PAPERS[paper])}}}}} \\"
        lines += [r"\midrule", title, r"\midrule"]
        for c in claims:
            verdicts = [found[label][c.id].verdict if c.id in found[label] else "not in this run" for label in runs]
            lines.append(" & ".join(map(_tex, [f"{c.statement} ({c.where})", _printed(c), *verdicts])) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


@dataclass(frozen=True, repr=False)
class Panel:
    """Claims beside what was measured, as a notebook shows them: a table in HTML, lines in a terminal."""

    title: str
    judgements: tuple[Judgement, ...]

    def __repr__(self) -> str:
        lines = [self.title]
        for j in self.judgements:
            lines += [f"  {j.verdict.upper()}: {j.claim.statement}", f"    {j.claim.where}: {_printed(j.claim)}"]
            lines += [f"    here: {_ours(j)}", f"    {j.reason}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" style="text-align:left">{h}</th>' for h in ("claim", "the paper", "here", "verdict")
        )
        rows = []
        for j in self.judgements:
            c = j.claim
            edge = f"border-left:.5em solid {_EDGE[j.verdict]}"
            rows.append(
                f'<tr><th scope="row" style="text-align:left;font-weight:normal">{html.escape(c.statement)}<br>'
                f"<small>{html.escape(c.where)} · <code>{html.escape(c.compare)}</code></small></th>"
                f'<td style="text-align:left">{html.escape(_printed(c))}</td>'
                f'<td style="text-align:left">{html.escape(_ours(j))}</td>'
                f'<td style="text-align:left;{edge}"><strong>{j.verdict}</strong><br>{html.escape(j.reason)}</td></tr>'
            )
        caption = f'<caption style="text-align:left">{html.escape(self.title)}</caption>'
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


# -- against a baseline --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Changes:
    """What moved since a baseline, a line a claim.  status: 1 where a verdict got worse or stopped being run, else 0."""

    worsened: tuple[str, ...]
    stopped: tuple[str, ...]
    improved: tuple[str, ...]

    @property
    def status(self) -> int:
        return int(bool(self.worsened or self.stopped))

    def __repr__(self) -> str:
        parts = [("worse", self.worsened), ("no longer run", self.stopped), ("better", self.improved)]
        lines = [f"{what}: {line}" for what, found in parts for line in found]
        return "\n".join(lines) or "no verdict moved"


def compare(now: Iterable[Judgement], baseline: Iterable[Judgement]) -> Changes:
    """What became of each verdict of the baseline.

    Worse is reproduced -> inconclusive or not reproduced, and inconclusive -> not reproduced; the other way round is better.
    Stopped is any verdict -> not run, or a claim that is gone. Claims that the baseline did not run are no change.
    Raises ValueError where the two were run at different profiles.
    """
    now, baseline = list(now), list(baseline)
    profiles = [{j.profile for j in judgements} for judgements in (now, baseline)]
    if all(profiles) and profiles[0] != profiles[1]:
        here, there = (" and ".join(sorted(p)) for p in profiles)
        raise ValueError(f"baseline: it was run at the profile {there}, this at {here}; compare runs of one profile")
    order = [NOT_REPRODUCED, INCONCLUSIVE, REPRODUCED]
    current = {j.claim.id: j for j in now}
    worsened: list[str] = []
    stopped: list[str] = []
    improved: list[str] = []
    for old in baseline:
        if old.verdict == NOT_RUN:
            continue
        new = current.get(old.claim.id)
        if new is None or new.verdict == NOT_RUN:
            stopped.append(
                f"{old.claim.id}: was {old.verdict}, now {new.reason if new else 'not on the list of claims'}"
            )
            continue
        step = order.index(new.verdict) - order.index(old.verdict)
        line = f"{old.claim.id}: was {old.verdict}, now {new.verdict} ({new.reason})"
        if step:
            (improved if step > 0 else worsened).append(line)
    return Changes(tuple(worsened), tuple(stopped), tuple(improved))


# -- escaping ------------------------------------------------------------------------------------------------------------

_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "÷": r"$\div$",
    **{c: rf"\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in " ".join(text.split()))


def _md(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", " ".join(text.split()))
