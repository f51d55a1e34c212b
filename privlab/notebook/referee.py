"""Be the referee: rule on a claim from its dots alone, then see what the ledger's rule says of the same dots."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import ipywidgets
import numpy as np

from privlab.ledger import comparison, judging
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Judgement
from privlab.notebook import plots
from privlab.notebook.live import WRAP, Live, button
from privlab.notebook.pages import Control, turned

__all__ = ["RULINGS", "Case", "Referee", "cases", "referee"]

RULINGS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)
MOST = 30.0  # standard deviations from the bar, beyond which nobody would doubt


@dataclass(frozen=True)
class Case:
    """A claim whose comparison is about one number.

    judgement: of the ledger.  text: the number, such as psnr[a] - psnr[b].  values: it, a repeat each, (repeats,).
    low, high: the claim wants its mean between them; one of them may be infinite.
    """

    judgement: Judgement
    text: str
    values: np.ndarray
    low: float
    high: float

    @property
    def wants(self) -> str:
        """Where the claim wants the mean, in words."""
        if math.isinf(self.high):
            return f"above {self.low:g}"
        return f"below {self.high:g}" if math.isinf(self.low) else f"between {self.low:g} and {self.high:g}"

    def chart(self) -> plots.Picture:
        """A dot for each repeat, and a line at what the claim asks for."""
        bars = {f"{bar:g}": bar for bar in (self.low, self.high) if math.isfinite(bar)}
        spoken = ", ".join(f"{value:.3g}" for value in self.values)
        return plots.dots(
            {f"{len(self.values)} repeats": self.values}, xlabel=self.text, xthresholds=bars,
            alt=f"{self.text}, repeat by repeat: {spoken}. The claim wants the mean {self.wants}.",
        )  # fmt: skip


def cases(judgements: Sequence[Judgement], number: int = 8, seed: int = 0) -> list[Case]:
    """So many claims to rule on, of each verdict as many as there are for it, in an order drawn from the seed.

    Only claims whose needs hold, which are about one number with at least three repeats, and about no quotient of errors, since these are
    judged on another scale. Fewer, where there are no more; none, where nothing is judged yet.
    """
    shelf = judging.Shelf()
    found: dict[str, list[Case]] = {ruling: [] for ruling in RULINGS}
    draw = np.random.default_rng(seed)
    for k in draw.permutation(len(judgements)):
        judgement = judgements[k]
        if judgement.verdict in RULINGS and judgement.claim.kind != "identity" and not judgement.exploratory:
            found[judgement.verdict] += _case(judgement, shelf)
    turns = [case for ruling in found.values() for case in enumerate(ruling)]
    chosen = [case for _, case in sorted(turns, key=lambda turn: turn[0])[:number]]  # one of each, then another of each
    return [chosen[k] for k in draw.permutation(len(chosen))]


def _case(judgement: Judgement, shelf: judging.Shelf) -> list[Case]:
    compare = comparison.parse(judgement.claim.compare)
    about = comparison.ranges(compare)
    (one, *_), _ = judging.tries(judgement.claim, shelf)
    if len(about) != 1 or len(one.tables) != 1 or any(atom.logs for atom in comparison.atoms(compare)):
        return []
    text, low, high = about[0]
    values = comparison.value(text, one.tables[0]).to_numpy()
    if len(values) < 3 or not np.isfinite(values).all() or np.ptp(values) == 0:
        return []
    far = min(abs(values.mean() - bar) for bar in (low, high) if math.isfinite(bar)) / values.std(ddof=1)
    return [Case(judgement, text, values, low, high)] if far < MOST else []


class Referee(Live):
    """What `referee` gives.  rulings: the reader's, by case; `rule` and `go_on` are what its buttons do."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases, self.at, self.rulings = list(cases), 0, dict[int, str]()
        self.claim, self.dots, self.verdict = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        rulings = [
            button(ruling, f"You would call the claim {ruling}", partial(self.rule, ruling), width="auto")
            for ruling in RULINGS
        ]
        further = button("next claim", "Go on to the next claim", self.go_on, width="auto")
        row = ipywidgets.HBox([*rulings, further], layout=WRAP)
        super().__init__([self.claim, self.dots, row, self.verdict])
        self._show()

    def rule(self, ruling: str) -> None:
        """Rule on the claim on show; the first ruling counts. Raises ValueError for a ruling that there is not."""
        if ruling not in RULINGS:
            raise ValueError(f"ruling={ruling!r}; try one of {', '.join(RULINGS)}")
        if self.cases:
            self.rulings.setdefault(self.at, ruling)
            self._show()

    def go_on(self) -> None:
        """Show the next claim, behind the last the first."""
        if self.cases:
            self.at = (self.at + 1) % len(self.cases)
            self._show()

    @property
    def agreed(self) -> int:
        """On how many claims the reader ruled as the ledger does."""
        return sum(self.cases[k].judgement.verdict == ruling for k, ruling in self.rulings.items())

    def __repr__(self) -> str:  # what a page shows that can show no widget
        return f"A referee's desk with {len(self.cases)} claims; it needs a running kernel."

    def _show(self) -> None:
        if not self.cases:
            self.claim.value = "No claim is judged yet, so there is nothing to rule on."
            return
        case = self.cases[self.at]
        self.claim.value = self._claim(self.at)
        self.dots.value = case.chart().tag()
        mine = self.rulings.get(self.at)
        self.verdict.value = "<p>Rule from the dots.</p>" if mine is None else self._compared(case, mine)

    def page(self, seconds: float, room: int) -> str:
        """Claim by claim, with the ledger's ruling folded."""
        if not self.cases:
            return str(self.claim.value)
        slider = Control.counted("claim", len(self.cases))
        return turned(
            [slider], self._still, "In the notebook you rule, and it counts how often you and the rule agree."
        )

    def _still(self, at: int) -> str:
        case = self.cases[at]
        says = f"The rule says <b>{case.judgement.verdict}</b>.{_chance(case)}"
        folded = f"<details><summary>Rule from the dots; then see what the rule says</summary>{says}</details>"
        return self._claim(at) + case.chart().tag() + folded

    def _claim(self, at: int) -> str:
        case = self.cases[at]
        return (
            f"<p><b>Claim {at + 1} of {len(self.cases)}.</b> {html.escape(case.judgement.claim.statement)}</p>"
            f"<p>The claim wants the mean of <code>{html.escape(case.text)}</code> {case.wants}.</p>"
        )

    def _compared(self, case: Case, mine: str) -> str:
        due = case.judgement.verdict
        says = (
            f"You say <b>{mine}</b>, and so does the rule."
            if mine == due
            else f"You say <b>{mine}</b>; the rule says <b>{due}</b>."
        )
        score = f"You agree on {self.agreed} of the {len(self.rulings)} that you have ruled on."
        return f'<p role="status">{says}{_chance(case)} {score}</p>'


def _chance(case: Case) -> str:
    if case.judgement.p is None:
        return ""
    return f" Were the claim just false, values as clear as these would have a chance of {case.judgement.p:.2g}."


def referee(judgements: Sequence[Judgement], number: int = 8, seed: int = 0) -> Referee:
    """A desk with claims to rule on, see `cases`: statement, dots and three buttons; the ledger's verdict is shown after yours."""
    return Referee(cases(judgements, number, seed))
