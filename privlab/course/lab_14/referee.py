"""Be the referee: rule on a claim from its dots alone, then see what the ledger's rule says of the same dots."""

import html
import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from privlab.ledger import comparison, rule
from privlab.ledger.judging import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED, Judgement
from privlab.notebook import plots
from privlab.notebook.game import Game, Round

RULINGS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE)
MOST = 30.0  # standard deviations from the bar, beyond which nobody would doubt


class Case(NamedTuple):
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


def cases(judgements: Sequence[Judgement], number: int = 8, seed: int = 0) -> list[Case]:
    """So many claims to rule on, of each verdict as many as there are for it, in an order drawn from the seed.

    Only claims whose needs hold, which are about one number with at least three repeats, and about no quotient of errors, since these are
    judged on another scale.
    """
    draw = np.random.default_rng(seed)
    found: dict[str, list[Case]] = {ruling: [] for ruling in RULINGS}
    for k in draw.permutation(len(judgements)):
        judgement = judgements[k]
        if judgement.verdict in RULINGS and judgement.claim.kind != "identity" and not judgement.exploratory:
            found[judgement.verdict] += _case(judgement)
    chosen = [case for turn in zip_longest(*found.values()) for case in turn if case][:number]
    return [chosen[k] for k in draw.permutation(len(chosen))]


def _case(judgement: Judgement) -> list[Case]:
    """The claim as a case, if it is one."""
    atoms = comparison.atoms(comparison.parse(judgement.claim.compare))
    (text, *others), lows, highs = zip(*map(comparison.bar, atoms), strict=True)
    if {*others} - {text} or len(judgement.tables) != 1 or rule.of_errors(text):
        return []
    low, high = max(lows), min(highs)
    values = comparison.value(text, judgement.tables[0]).to_numpy()
    gap = min(abs(values.mean() - low), abs(values.mean() - high))
    return [Case(judgement, text, values, low, high)] if len(values) >= 3 and gap < MOST * values.std(ddof=1) else []


class Referee(Game):
    """The desk: claim by claim its statement, its dots and three answers; the ledger's ruling is told after the reader's."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases, rounds = cases, []
        for number, case in enumerate(cases, 1):
            told = "Were the claim just false, values as clear as these would have a chance of {:.2g}."
            chance = "" if case.judgement.p is None else told.format(case.judgement.p)
            rounds.append(Round(self._asked(number, case), case.judgement.verdict, chance))
        super().__init__(rounds, {ruling: ruling for ruling in RULINGS}, "What do you rule?")

    def _asked(self, number: int, case: Case) -> str:
        """The claim, a dot for each repeat, and a line at what the claim asks for."""
        bars = {f"{bar:g}": bar for bar in (case.low, case.high) if math.isfinite(bar)}
        spoken = ", ".join(f"{value:.3g}" for value in case.values)
        alt = f"{case.text}, repeat by repeat: {spoken}. The claim wants the mean {case.wants}."
        dots = plots.dots({f"{len(case.values)} repeats": case.values}, xlabel=case.text, xthresholds=bars, alt=alt)
        return (
            f"<p><b>Claim {number} of {len(self.cases)}.</b> {html.escape(case.judgement.claim.statement)}</p>"
            f"<p>The claim wants the mean of <code>{html.escape(case.text)}</code> {case.wants}.</p>{dots.html}"
        )

    @property
    def score(self) -> str:
        return f"You agree with the rule on {sum(self.right)} of {len(self.rounds)} claims."
