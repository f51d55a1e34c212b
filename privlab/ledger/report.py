"""Verdicts as a page, a panel, a table for a paper or a spreadsheet.

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

from privlab.ledger import judging
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Judgement
from privlab.ledger.papers import PAPERS, Claim
from privlab.ledger.verdicts import VERDICTS

__all__ = ["Panel", "as_csv", "as_latex", "as_markdown", "in_latex", "in_markdown", "show", "tally"]

Runs = Mapping[str, Sequence[Judgement]]

# Okabe and Ito's colours, told apart by colour-blind readers. They only edge a cell that says the verdict in words.
_EDGE = {REPRODUCED: "#0072B2", NOT_REPRODUCED: "#D55E00", INCONCLUSIVE: "#E69F00"}  # all else is grey


def tally(judgements: Iterable[Judgement]) -> dict[str, int]:
    """How many claims got each verdict, all verdicts named."""
    counts = Counter(j.verdict for j in judgements)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def _printed(claim: Claim) -> str:
    numbers = "; ".join(map(str, claim.numbers)) or claim.printed or "no number in print"
    return numbers + ("; these contradict the claim" if claim.holds_on_printed_numbers is False else "")


def _ours(judgement: Judgement | None) -> str:
    return "; ".join(map(str, judgement.ours)) if judgement and judgement.ours else "nothing measured"


def _verdict(judgement: Judgement | None) -> str:
    return f"{_head(judgement)} ({judgement.reason})" if judgement else "not in this run"


def _head(judgement: Judgement) -> str:
    """The verdict with its scope: none of a stand-in stands without these words."""
    marks = [judgement.scope, "exploratory" if judgement.claim.exploratory else ""]
    return ", ".join(filter(None, [judgement.verdict, *marks]))


def _papers(runs: Runs) -> dict[str, list[Claim]]:
    """Claims of all runs in the order of the papers: {paper: claims}."""
    claims = {j.claim.id: j.claim for judgements in runs.values() for j in judgements}
    grouped = {paper: [c for c in claims.values() if c.paper == paper] for paper in PAPERS}
    return {paper: listed for paper, listed in grouped.items() if listed}


def _by_id(runs: Runs) -> dict[str, dict[str, Judgement]]:
    return {label: {j.claim.id: j for j in judgements} for label, judgements in runs.items()}


# -- the formats ---------------------------------------------------------------------------------------------------------


def as_markdown(runs: Runs) -> str:
    """The ledger page: a section a paper, a row a claim, the paper's number beside ours and the verdict of each run."""
    lines = ["# The ledger", ""]
    for label, judgements in runs.items():
        counts = ", ".join(f"{n} {verdict}" for verdict, n in tally(judgements).items())
        lines.append(f"- **{in_markdown(label)}**: {counts}")
    several = len(runs) > 1
    by_label = _by_id(runs)
    columns = [f"{what} ({in_markdown(label)})" if several else what for label in runs for what in ("ours", "verdict")]
    for paper, claims in _papers(runs).items():
        lines += ["", f"## {in_markdown(PAPERS[paper])}", ""]
        lines += [f"| statement | the paper's number | {' | '.join(columns)} |", "|" + " --- |" * (2 + len(columns))]
        for c in claims:
            cells = [
                f"{in_markdown(c.statement)} <br>{in_markdown(c.where)}; lab {c.lab}; `{c.id}`",
                in_markdown(_printed(c)),
            ]
            for label in runs:
                judgement = by_label[label].get(c.id)
                cells += [in_markdown(_ours(judgement)), in_markdown(_verdict(judgement))]
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
    ends = [f", {in_latex(label)}" if len(runs) > 1 else "" for label in runs]
    columns = [f"{name}{end}" for end in ends for name in ("ours", "verdict")]
    by_label = _by_id(runs)
    each = r"p{.2\linewidth}l" * len(runs)
    lines = [rf"\begin{{tabular}}{{p{{.4\linewidth}}p{{.2\linewidth}}{each}}}", r"\toprule"]
    lines.append(" & ".join(["claim", "in print", *columns]) + r" \\")
    for paper, claims in _papers(runs).items():
        title = rf"\multicolumn{{{2 + 2 * len(runs)}}}{{l}}{{\emph{{{in_latex(PAPERS[paper])}}}}} \\"
        lines += [r"\midrule", title, r"\midrule"]
        for c in claims:
            judged = [by_label[label].get(c.id) for label in runs]
            cells = [cell for j in judged for cell in (_ours(j), j.verdict if j else "not in this run")]
            lines.append(" & ".join(map(in_latex, [f"{c.statement} ({c.where})", _printed(c), *cells])) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


@dataclass(frozen=True, repr=False)
class Panel:
    """Claims beside what was measured, as a notebook shows them: a table in HTML, lines in a terminal."""

    title: str
    judgements: tuple[Judgement, ...]

    def __repr__(self) -> str:
        lines = [self.title]
        for j in self.judgements:
            lines += [f"  {_head(j).upper()}: {j.claim.statement}", f"    {j.claim.where}: {_printed(j.claim)}"]
            lines += [f"    here: {_ours(j)}", f"    {j.reason}", *(f"    {other}" for other in j.beside)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" style="text-align:left">{h}</th>' for h in ("claim", "the paper", "here", "verdict")
        )
        rows = []
        for j in self.judgements:
            c = j.claim
            edge = f"border-left:.5em solid {_EDGE.get(j.verdict, '#999999')}"
            rows.append(
                f'<tr><th scope="row" style="text-align:left;font-weight:normal">{html.escape(c.statement)}<br>'
                f"<small>{html.escape(c.where)} · <code>{html.escape(c.compare)}</code></small></th>"
                f'<td style="text-align:left">{html.escape(_printed(c))}</td>'
                f'<td style="text-align:left">{html.escape(_ours(j))}</td>'
                f'<td style="text-align:left;{edge}"><strong>{_head(j)}</strong><br>'
                f"{'<br>'.join(map(html.escape, [j.reason, *j.beside]))}</td></tr>"
            )
        caption = f'<caption style="text-align:left">{html.escape(self.title)}</caption>'
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def show(lab: str, paper: str | None = None) -> Panel:
    """Every claim of a lab ("04"), or those of one paper, with the paper's number, ours and the verdict from the committed evidence.

    Raises ValueError for a lab out of form.
    """
    if not (isinstance(lab, str) and len(lab) == 2 and lab.isdigit()):
        raise ValueError(f"lab={lab!r}; give its two digits as text, such as '05'")
    title = (
        f"Lab {lab}: what was claimed, and what the committed evidence says. "
        "± is a standard deviation over n repeats, ×÷ the same as a factor, for errors, which are averaged in logs."
    )
    return Panel(title, tuple(j for j in judging.judgements(lab) if paper in (None, j.claim.paper)))


# -- escaping ------------------------------------------------------------------------------------------------------------

_TEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "×": r"$\times$", "÷": r"$\div$",
    **{c: rf"\{c}" for c in "&%$#_{}"},
}  # fmt: skip


def in_latex(text: str) -> str:
    """Text as LaTeX sets it, on one line."""
    return "".join(_TEX.get(c, c) for c in " ".join(text.split()))


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table shows it."""
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", " ".join(text.split()))
