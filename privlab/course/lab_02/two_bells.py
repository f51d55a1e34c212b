"""Slide the victim's confidence in one picture across its two Gaussians, and see the likelihood ratio and two verdicts change."""

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from IPython.display import HTML
from scipy.special import expit
from scipy.stats import norm
from torch import Tensor

from privlab.attacks.membership_inference import lira
from privlab.notebook.explore import Explorer
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sentences import Sentence

# In words -> a variance of `lira`
SPREADS = {"shared by all pictures": "fixed", "of this picture alone": "per-example"}
CONTROLS, STEPS = ("picture", "spread_of_the_Gaussians", "the_victim's_margin"), 21  # places of the slider
SAYS = {True: "a member", False: "not a member"}
DASHED = 'stroke-dasharray="4 3"'


class TwoBells(Explorer):
    """The slider.  `ratio` is the logarithm of the likelihood ratio, as the chart tells it."""

    def __init__(
        self, names: Sequence[str], margins: Tensor, members: Tensor, shown: Sequence[int], threshold: float
    ) -> None:
        """names: of the pictures in `shown`.  margins, members: (models, n).

        The first model is the victim, and the second its partner, which is left out; all others are shadow models.
        shown: places of the pictures to choose from.  threshold: on the margin; from there on it says "member".
        """
        self.names, self.threshold = names, threshold
        self.own, self.truth = margins[0, shown].tolist(), members[0, shown].tolist()
        self.shadows, self.keep = margins[2:, shown], members[2:, shown]
        self.bells = {}
        for kind in SPREADS.values():
            fit = lira.gaussians(margins[2:, :, None], members[2:], kind)
            for one, at in enumerate(shown):
                mean_in, std_in, mean_out, std_out = (field[at, 0].item() for field in fit)
                self.bells[one, kind] = {"in": norm(mean_in, std_in), "out": norm(mean_out, std_out)}
        there = [*self.own, *self.shadows.flatten().tolist()]
        self.low, self.high = math.floor(min(there) - 1), math.ceil(max(there) + 1)
        places = [round(margin, 1) for margin in np.linspace(self.low, self.high, STEPS).tolist()]
        controls: dict[str, Any] = dict(zip(CONTROLS, map(tuple, (names, SPREADS, places)), strict=True))
        start = {CONTROLS[-1]: min(places, key=abs)}
        super().__init__(lambda **values: self._draw(*values.values()), start, **controls)

    def ratio(self, one: int, kind: str, margin: float) -> float:
        """The logarithm of the likelihood ratio at this margin, of the picture number `one` of those shown."""
        inside, outside = self.bells[one, kind].values()
        return float(inside.logpdf(margin) - outside.logpdf(margin))

    def _draw(self, name: str, spread: str, margin: float) -> tuple[Sentence, HTML, Sentence]:
        one, kind = self.names.index(name), SPREADS[spread]
        ratio, own = self.ratio(one, kind, margin), self.own[one]
        said = (
            f"The victim is {_percent(margin)} sure (margin {margin:+.1f}): {_times(ratio)}. "
            f"The ratio says **{SAYS[ratio > 0]}**, the threshold **{SAYS[margin >= self.threshold]}**."
        )
        look = f"The victim was {_percent(own)} sure (margin {own:+.1f}). The picture is {SAYS[self.truth[one]]}."
        folded = f"<details><summary>Look it up</summary>{look}</details>"
        return Sentence(said), self._chart(one, kind, margin), Sentence(folded)

    def _chart(self, one: int, kind: str, margin: float) -> HTML:
        """Two bell curves with the shadow models below, the threshold, and a line where the victim is; 2 KB, since there are hundreds."""
        bells, grid = self.bells[one, kind], np.linspace(self.low, self.high, 61)
        tall = 90 / max(bell.pdf(bell.mean()) for bell in bells.values())  # of the chart, for the higher peak
        bar, here = self._x(self.threshold), self._x(margin)
        parts = f'<path d="M{bar} 18V112" stroke="currentColor" {DASHED}/><text x="{bar}" y="13">threshold</text>'
        looks = {"in": (COLOURS[2], "", 0, self.keep[:, one]), "out": (COLOURS[0], DASHED, 1, ~self.keep[:, one])}
        for side, (colour, dash, row, models) in looks.items():
            bell = bells[side]
            curve = " ".join(f"{self._x(m)},{112 - tall * y:.0f}" for m, y in zip(grid, bell.pdf(grid), strict=True))
            ticks = "".join(f"M{self._x(m)} {117 + 13 * row}v10" for m in self.shadows[models, one].tolist())
            parts += (
                f'<polyline points="{curve}" fill="none" stroke="{colour}" stroke-width="2" {dash}/>'
                f'<path d="{ticks}" stroke="{colour}" stroke-width="2"/>'
                f'<text x="{self._x(bell.mean())}" y="{104 - 16 * row}" fill="{colour}">{side}</text>'
                f'<circle cx="{here}" cy="{112 - tall * bell.pdf(margin):.0f}" r="5" fill="{colour}"/>'
            )
        parts += f'<path d="M0 112H480" stroke="currentColor"/><path d="M{here} 18V112" stroke="{COLOURS[1]}" stroke-width="2"/>'
        for mark in range(math.ceil(self.low / 4) * 4, self.high + 1, 4):
            parts += f'<text x="{self._x(mark)}" y="158">{_percent(mark)}</text>'
        inside, outside = (f"{bell.mean():.1f} ± {bell.std():.1f}" for bell in bells.values())
        words = (
            f"Two bell curves over the confidence in {self.names[one]}. In, solid: margin {inside}. "
            f"Out, dashed: {outside}. A line marks the victim's, {margin:+.1f}."
        )
        return HTML(
            f'<svg viewBox="-20 0 520 164" role="img" aria-label="{html.escape(words)}" font-size="12" text-anchor="middle" '
            f'fill="currentColor" style="width:520px;max-width:100%">{parts}</svg>'
        )

    def _x(self, margin: float) -> int:
        return round(480 * (margin - self.low) / (self.high - self.low))


def _percent(margin: float) -> str:
    """A margin as a confidence, with as many digits as tell it from 0 and from 100%."""
    sure = 100 * float(expit(margin))
    rest = min(sure, 100 - sure)
    return f"{sure:.0f}%" if rest >= 1 else f"{sure:.{min(4, 1 - math.floor(math.log10(rest)))}f}%"


def _times(ratio: float) -> str:
    """A log-likelihood ratio in words."""
    times = f"{math.exp(abs(ratio)):,.1f}" if abs(ratio) < 9 else f"e^{abs(ratio):.0f}"
    more, less = ("in", "out") if ratio > 0 else ("out", "in")
    return f'{times} times as likely "{more}" as "{less}"'
