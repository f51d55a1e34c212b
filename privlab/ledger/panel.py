"""Claims beside what was measured, as a notebook shows them: verdict first, the most asked of them, the others folded."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from privlab.ledger import judging
from privlab.ledger.judging import MEASURING, NOT_TESTED, Judgement
from privlab.ledger.papers import page
from privlab.ledger.report import EDGES, ICONS, ours, printed, reasons, verdict

__all__ = ["SHOWN", "Panel", "mse_of", "plain", "show"]

SHOWN = 8  # rows of a panel; the others are folded
GUIDE = (
    "A <em>stand-in</em> is smaller than what the paper ran (a smaller network, fewer steps); its verdict is about that alone. "
    "<em>p</em> is how likely repeats as clear as these would be if there were no effect; below 0.05 they decide. "
    "More: <code>ledger_guide.html</code> in the book"
)
FIGURES = 4  # numbers of ours in a row; all of them are in its fold
_CELL = "text-align:left;vertical-align:top;white-space:normal;overflow-wrap:break-word;padding:.3em .5em"
_TABLE = "table-layout:fixed;width:100%;margin:0;border-collapse:collapse;font-size:.9em;line-height:1.4"
_NAME = re.compile(r"\b([a-z][a-z0-9_]*)\[([^\]]*)\]")
_WORDS = dict(acc="accuracy", attacc="attack accuracy", vit="ViT", cifar10="CIFAR-10", cifar100="CIFAR-100")
_INITIALS = {
    "psnr",
    "ssim",
    "lpips",
    "mse",
    "auc",
    "tpr",
    "fpr",
    "iip",
    "fft2d",
    "knn",
    "mnist",
    "orl",
    "dlg",
    "ig",
    "ln",
    "bn",
}


@dataclass(frozen=True, repr=False)
class Panel:
    """Claims beside what was measured, as a notebook shows them: a table in HTML, lines in a terminal."""

    title: str
    judgements: tuple[Judgement, ...]
    first: int = SHOWN

    def __repr__(self) -> str:
        lines = [self.title]
        for j in self.judgements:
            lines += [f"  {verdict(j).upper()}: {j.claim.statement}", f"    {j.claim.where}: {printed(j.claim)}"]
            lines += [f"    here: {ours(j)}", *(f"    {text}" for text in reasons(j))]
            lines += [f"    more: {page(j.claim.id)} in the book"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The most asked first, `first` of them; the others folded. Two columns that fit a telephone, and at most 700 pixels."""
        order = sorted(self.judgements, key=_less_asked)
        caption = f'<caption style="{_CELL};caption-side:top">{html.escape(self.title)}</caption>'
        parts = [self._table(order[: self.first], caption)]
        if rest := order[self.first :]:
            more = f"{len(rest)} more claim{'s' if len(rest) > 1 else ''}"
            parts.append(f"<details><summary>{more}</summary>{self._table(rest)}</details>")
        return f'<div style="max-width:700px">{"".join(parts)}<p><small>{GUIDE}.</small></p></div>'

    def _table(self, judgements: Sequence[Judgement], caption: str = "") -> str:
        head = f'<th scope="col" style="{_CELL};width:9.8em">verdict</th><th scope="col" style="{_CELL}">claim</th>'
        rows = []
        for j in judgements:
            c, edge = j.claim, f";border-left:.5em solid {EDGES[j.verdict]}"
            about = [
                f"the paper ({c.where}): {plain(printed(c))}"
                if c.paper != "privlab" or c.numbers
                else "a claim of this book",
                f"here: {plain(_compared(j))}",
            ]
            why = [*map(html.escape, reasons(j)), f"compared: <code>{html.escape(c.compare)}</code>"]
            why += [html.escape(f"all of it: {ours(j)}")] if j.ours else []
            why.append(f"more: <code>{html.escape(page(c.id))}</code> in the book")
            told, _, scope = verdict(j).partition(", ")
            rows.append(
                f'<tr style="border-top:1px solid #9996"><td style="{_CELL}{edge}"><strong>{ICONS[j.verdict]}\u00a0{told}</strong>'
                f"{f'<br><small>{scope}</small>' if scope else ''}</td>"
                f'<th scope="row" style="{_CELL};font-weight:normal">{html.escape(c.statement)}<br>'
                f"<small>{'<br>'.join(map(html.escape, about))}</small>"
                f"<details><summary><small>why</small></summary><small>{'<br>'.join(why)}</small></details></th></tr>"
            )
        return f'<table style="{_TABLE}">{caption}<thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _less_asked(judgement: Judgement) -> tuple[bool, ...]:
    """Of claims the smaller is shown first: a headline's, a paper's, one that is judged; the verdict itself plays no part."""
    c = judgement.claim
    judged = judgement.verdict not in (MEASURING, NOT_TESTED)
    return not judged, judgement.exploratory, c.headline is None, c.paper == "privlab"


def _compared(judgement: Judgement) -> str:
    """What was measured of the names in the comparison, the first few of them, and how many repeats."""
    names = {match[0] for match in _NAME.finditer(judgement.claim.compare)}
    mine = [figure for figure in judgement.ours if figure.name in names]
    if not mine:
        return "not measured yet"
    counts = {figure.n for figure in mine}
    repeats = f" in {counts.pop()} repeats" if len(counts) == 1 and max(counts) > 1 else ""
    texts = [re.sub(r" \(n=\d+\)$", "", str(figure)) if repeats else str(figure) for figure in mine]
    return "; ".join(texts[:FIGURES]) + (f" and {len(texts) - FIGURES} more" * (len(texts) > FIGURES)) + repeats


def plain(text: str) -> str:
    """A text with the names of measured values as words: psnr[gaussian, relative_0p01] is PSNR (gaussian, relative 0.01).

    An MSE says of what it is, see `mse_of`.
    """
    return _NAME.sub(lambda match: f"{_metric(*match.groups())} ({', '.join(map(_words, match[2].split(', ')))})", text)


def _metric(name: str, keys: str) -> str:
    return f"MSE of {mse_of(keys)}" if name == "mse" else _words(name)


def mse_of(keys: str) -> str:
    """What the MSE of these keys compares: a closed form's pixels in [0, 1]; else normalised images, as the papers print it."""
    return "pixels" if keys.startswith("closed_form") else "normalised images"


def _words(name: str) -> str:
    words = re.sub(r"(?<=\d)p(?=\d)", ".", name).split("_")
    return " ".join(_WORDS.get(word, word.upper() if word in _INITIALS else word) for word in words)


def show(lab: str, paper: str | None = None, first: int = SHOWN) -> Panel:
    """Every claim of a lab ("04"), or those of one paper, with the paper's number, ours and the verdict from the committed evidence.

    first: how many are shown; the others are folded.  Raises ValueError for a lab out of form.
    """
    if not (isinstance(lab, str) and len(lab) == 2 and lab.isdigit()):
        raise ValueError(f"lab={lab!r}; give its two digits as text, such as '05'")
    title = (
        f"Lab {lab}: what was claimed, and what the committed evidence says. "
        "± is a standard deviation over n repeats. Errors are averaged as logarithms; their spread is a factor, written ×÷."
    )
    return Panel(title, tuple(j for j in judging.judgements(lab) if paper in (None, j.claim.paper)), first)
