"""Claims beside what was measured, as a notebook shows them: verdict first, the most asked of them, the others folded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from privlab import ledger  # whose parts are loaded when they are used: a lab begins with this module
from privlab.ledger.comparison import NAME, names

SHOWN = 8  # rows of a table; the others are folded
FIGURES = 4  # numbers of ours in a row; all of them are in its fold
GUIDE = (
    "A <em>stand-in</em> is smaller than what the paper ran (a smaller network, fewer steps); its verdict is about that alone. "
    "<em>p</em> is how likely repeats as clear as these would be if there were no effect; below 0.05 they decide. "
    "More: <code>ledger_guide.html</code> in the book"
)
CELL = "text-align:left;vertical-align:top;white-space:normal;overflow-wrap:break-word;padding:.3em .5em"
TABLE = "table-layout:fixed;width:100%;margin:0;border-collapse:collapse;font-size:.9em;line-height:1.4"
INITIALS = "psnr ssim lpips mse auc tpr fpr iip fft2d knn mnist orl dlg ig ln bn"
WORDS = {word: word.upper() for word in INITIALS.split()} | {
    "acc": "accuracy", "attacc": "attack accuracy", "vit": "ViT", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100",
}  # fmt: skip


def verdicts(lab: str, first: int = SHOWN) -> "Verdicts":
    """Every claim of a lab ("04") with the paper's number, ours, and the verdict from the committed evidence.

    first: how many are shown; the others are folded.
    """
    title = (
        f"Lab {lab}: what was claimed, and what the committed evidence says. "
        "± is a standard deviation over n repeats. Errors are averaged as logarithms; their spread is a factor, written ×÷."
    )
    return Verdicts(title, ledger.judgements(lab), first)


@dataclass(frozen=True, repr=False)
class Verdicts:
    """Claims beside what was measured: a table in HTML, and in a terminal what `report` prints.  first: how many rows are not folded."""

    title: str
    judgements: "Sequence[ledger.judging.Judgement]"
    first: int = SHOWN

    def __repr__(self) -> str:
        return f"{self.title}\n\n{ledger.report.render(self.judgements)}"

    def _repr_html_(self) -> str:
        """Two columns that fit a telephone, and at most 700 pixels; a claim that was judged, a headline's and a paper's come first."""
        undecided = (ledger.judging.MEASURING, ledger.judging.NOT_TESTED)
        order = sorted(
            self.judgements,
            key=lambda j: (j.verdict in undecided, j.exploratory, j.claim.headline is None, j.claim.paper == "privlab"),
        )
        caption = f'<caption style="{CELL};caption-side:top">{escape(self.title)}</caption>'
        parts = [_table(order[: self.first], caption)]
        if rest := order[self.first :]:
            more = f"{len(rest)} more claim{'s' if len(rest) > 1 else ''}"
            parts.append(f"<details><summary>{more}</summary>{_table(rest)}</details>")
        return f'<div style="max-width:700px">{"".join(parts)}<p><small>{GUIDE}.</small></p></div>'


def _table(judgements: "Sequence[ledger.judging.Judgement]", caption: str = "") -> str:
    head = f'<th scope="col" style="{CELL};width:9.8em">verdict</th><th scope="col" style="{CELL}">claim</th>'
    rows = "".join(map(_row, judgements))
    return f'<table style="{TABLE}">{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _row(j: "ledger.judging.Judgement") -> str:
    report, claim = ledger.report, j.claim
    told, _, scope = report.verdict(j).partition(", ")
    source = f"the paper ({claim.where}): {plain(report.printed(claim))}"
    if claim.paper == "privlab" and not claim.numbers:
        source = "a claim of this book"
    why = [*map(escape, report.reasons(j)), f"compared: <code>{escape(claim.compare)}</code>"]
    ours = "; ".join(map(str, j.ours)) or "nothing measured"
    why += [escape(f"all of it: {ours}"), f"more: <code>claims/{claim.paper}.html#{claim.id}</code> in the book"]
    return (
        f'<tr style="border-top:1px solid #9996"><td style="{CELL};border-left:.5em solid {report.EDGES[j.verdict]}">'
        f"<strong>{report.ICONS[j.verdict]}\u00a0{told}</strong>{f'<br><small>{scope}</small>' if scope else ''}</td>"
        f'<th scope="row" style="{CELL};font-weight:normal">{escape(claim.statement)}<br>'
        f"<small>{escape(source)}<br>{escape(f'here: {_compared(j)}')}</small>"
        f"<details><summary><small>why</small></summary><small>{'<br>'.join(why)}</small></details></th></tr>"
    )


def _compared(judgement: "ledger.judging.Judgement") -> str:
    """What was measured of the names in the comparison, the first few of them, and how many repeats."""
    mine = [figure for figure in judgement.ours if figure.name in names(judgement.claim.compare)]
    if not mine:
        return "not measured yet"
    alike = len({figure.n for figure in mine}) == 1 and mine[0].n > 1
    texts = [plain(str(figure).removesuffix(f" (n={figure.n})" * alike)) for figure in mine]
    more = f" and {len(texts) - FIGURES} more" if len(texts) > FIGURES else ""
    return f"{'; '.join(texts[:FIGURES])}{more}{f' in {mine[0].n} repeats' if alike else ''}"


def plain(text: str) -> str:
    """A text with the names of measured values as words: psnr[gaussian, relative_0p01] is PSNR (gaussian, relative 0.01).

    An MSE says of what it is: of a closed form's pixels in [0, 1], or else of normalised images, as the papers print it.
    """

    def words(name: str) -> str:
        return " ".join(WORDS.get(word, word) for word in re.sub(r"(?<=\d)p(?=\d)", ".", name).split("_"))

    def said(found: re.Match[str]) -> str:
        metric, _, keys = found[0].removesuffix("]").partition("[")
        of = f" of {'pixels' if keys.startswith('closed_form') else 'normalised images'}" if metric == "mse" else ""
        return f"{words(metric)}{of} ({', '.join(map(words, keys.split(', ')))})"

    return NAME.sub(said, text)
