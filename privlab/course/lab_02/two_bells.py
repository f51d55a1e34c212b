"""Slide the victim's confidence in one picture across its two Gaussians, and see the likelihood ratio and two verdicts change."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
import torch
from IPython.display import HTML
from scipy.special import expit
from scipy.stats import norm
from torch import Tensor

from privlab.attacks.membership_inference import lira
from privlab.notebook.explore import Explorer
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sentences import Sentence

SPREADS = {
    "shared by all pictures": "fixed",
    "of this picture alone": "per-example",
}  # in words -> a variance of `lira`
STEPS = 21  # places of the slider
DASHED = ' stroke-dasharray="4 3"'
SAYS = {True: "a member", False: "not a member"}


class TwoBells(Explorer):
    """The slider.  `ratio` is the logarithm of the likelihood ratio, as the chart tells it."""

    def __init__(
        self, names: Sequence[str], margins: Tensor, members: Tensor, shown: Sequence[int], threshold: float
    ) -> None:  # fmt: skip
        """names: of the pictures in `shown`.  margins, members: (models, n).

        The first model is the victim, and the second its partner, which is left out; all others are shadow models.
        shown: places of the pictures to choose from.  threshold: on the margin; from there on it says "member".
        Raises ValueError for lengths that differ.
        """
        if len(names) != len(shown) or margins.shape != members.shape:
            raise ValueError(
                f"names: {len(names)} for {len(shown)} pictures in shown; margins and members are {tuple(margins.shape)} and "
                f"{tuple(members.shape)}; give one for each"
            )
        self.names, self.shown, self.threshold = list(names), list(shown), threshold
        self.answers, self.truth = margins[0], members[0]
        shadows, keep = margins[2:], members[2:]
        self.sides = [(shadows[keep[:, at], at], shadows[~keep[:, at], at]) for at in self.shown]
        self.fits = {kind: lira.gaussians(shadows[..., None], keep, kind) for kind in SPREADS.values()}  # fields (n, 1)
        there = torch.cat([self.answers[self.shown], *(side for both in self.sides for side in both)])
        self.low, self.high = math.floor(there.min() - 1), math.ceil(there.max() + 1)
        places = [round(float(margin), 1) for margin in np.linspace(self.low, self.high, STEPS)]
        options = {
            "picture": tuple(self.names),
            "spread_of_the_Gaussians": tuple(SPREADS),
            "the_victim's_margin": tuple(places),
        }
        start = {name: values[0] for name, values in options.items()} | {"the_victim's_margin": min(places, key=abs)}
        super().__init__(lambda **values: self._draw(*values.values()), options, start)

    def fit(self, one: int, kind: str) -> lira.Fit:
        """Mean and standard deviation, in and out, of the picture number `one` of those shown."""
        return lira.Fit(*(field[self.shown[one], 0] for field in self.fits[kind]))

    def ratio(self, one: int, kind: str, margin: float) -> float:
        """The logarithm of the likelihood ratio at this margin."""
        return lira.statistic(torch.tensor(margin, dtype=torch.float64), self.fit(one, kind), True, "paper").item()

    def _draw(self, name: str, spread: str, margin: float) -> tuple[Sentence, HTML, Sentence]:
        one, kind = self.names.index(name), SPREADS[spread]
        at, ratio = self.shown[one], self.ratio(one, kind, margin)
        said = (
            f"The victim is {_percent(margin)} sure (margin {margin:+.1f}): {_times(ratio)}. "
            f"The ratio says **{SAYS[ratio > 0]}**, the threshold **{SAYS[margin >= self.threshold]}**."
        )
        own = float(self.answers[at])
        look = f"The victim was {_percent(own)} sure (margin {own:+.1f}). The picture is {SAYS[bool(self.truth[at])]}."
        folded = Sentence(f"<details><summary>Look it up</summary>{look}</details>")
        return Sentence(said), self._chart(one, kind, margin), folded

    def _chart(self, one: int, kind: str, margin: float) -> HTML:
        """Two bell curves with the shadow models below, the threshold, and a line where the victim is; 2 KB, since there are hundreds."""
        fit, grid = self.fit(one, kind), np.linspace(self.low, self.high, 61)
        tall = (
            90 * math.sqrt(2 * math.pi) * min(float(fit.std_in), float(fit.std_out))
        )  # of the chart, for the higher peak
        bells = {
            "in": (fit.mean_in, fit.std_in, COLOURS[2], ""),
            "out": (fit.mean_out, fit.std_out, COLOURS[0], DASHED),
        }
        parts = [f'<path d="M{self._x(self.threshold)} 18V112" stroke="currentColor"{DASHED}/>']
        parts += [f'<text x="{self._x(self.threshold)}" y="13" text-anchor="middle">threshold</text>']
        for row, (side, (mean, std, colour, dash)) in enumerate(bells.items()):
            bell = norm(float(mean), float(std))
            line = " ".join(f"{self._x(m)},{112 - tall * y:.0f}" for m, y in zip(grid, bell.pdf(grid), strict=True))
            ticks = "".join(f"M{self._x(float(m))} {117 + 13 * row}v10" for m in self.sides[one][row])
            parts += [
                f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>',
                f'<path d="{ticks}" stroke="{colour}" stroke-width="2"/>',
                f'<text x="{self._x(float(mean))}" y="{104 - 16 * row}" text-anchor="middle" fill="{colour}">{side}</text>',
                f'<circle cx="{self._x(margin)}" cy="{112 - tall * bell.pdf(margin):.0f}" r="5" fill="{colour}"/>',
            ]
        parts += ['<path d="M0 112H480" stroke="currentColor"/>']
        parts += [f'<path d="M{self._x(margin)} 18V112" stroke="{COLOURS[1]}" stroke-width="2"/>']
        marks = range(math.ceil(self.low / 4) * 4, self.high + 1, 4)
        parts += [f'<text x="{self._x(m)}" y="158" text-anchor="middle">{_percent(m)}</text>' for m in marks]
        words = (
            f"Two bell curves over the confidence in {self.names[one]}. In, solid: margin {fit.mean_in:.1f} ± {fit.std_in:.1f}. "
            f"Out, dashed: {fit.mean_out:.1f} ± {fit.std_out:.1f}. A line marks the victim's, {margin:+.1f}."
        )
        return HTML(
            f'<svg viewBox="-20 0 520 164" role="img" aria-label="{html.escape(words)}" font-size="12" fill="currentColor" '
            f'style="width:520px;max-width:100%">{"".join(parts)}</svg>'
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
    return f'{times} times as likely "{"in" if ratio > 0 else "out"}" as "{"out" if ratio > 0 else "in"}"'
