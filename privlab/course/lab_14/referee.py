"""Be the referee: rule on a claim from its dots alone, then see what the ledger's rule says of the same dots."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privlab.ledger import comparison, judging
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Judgement
from privlab.notebook import plots
from privlab.notebook.game import Game, Round

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


class Referee(Game):
    """The desk: claim by claim its statement, its dots and three answers; the ledger's ruling is told after the reader's."""

    def __init__(self, cases: Sequence[Case]) -> None:
        count = len(cases)
        rounds = [
            Round(_shown(k, case, count), case.judgement.verdict, _chance(case)) for k, case in enumerate(cases, 1)
        ]
        super().__init__(rounds, {ruling: ruling for ruling in RULINGS}, "What do you rule?")
        self.cases = list(cases)

    @property
    def score(self) -> str:
        if not self.rounds:
            return "No claim is judged yet, so there is nothing to rule on."
        return f"You agree with the rule on {sum(self.right)} of {len(self.rounds)} claims."


def _shown(number: int, case: Case, count: int) -> str:
    return (
        f"<p><b>Claim {number} of {count}.</b> {html.escape(case.judgement.claim.statement)}</p>"
        f"<p>The claim wants the mean of <code>{html.escape(case.text)}</code> {case.wants}.</p>{case.chart().tag()}"
    )


def _chance(case: Case) -> str:
    if case.judgement.p is None:
        return ""
    return f"Were the claim just false, values as clear as these would have a chance of {case.judgement.p:.2g}."
