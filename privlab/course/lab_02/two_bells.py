"""Slide the victim's confidence in one picture across its two Gaussians, and see the likelihood ratio and two verdicts change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import expit
from scipy.stats import norm
from torch import Tensor

from privlab.attacks.membership_inference import lira
from privlab.notebook import plots
from privlab.notebook.explore import Explorer
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sentences import Sentence

SPREADS = {
    "shared by all pictures": "fixed",
    "of this picture alone": "per-example",
}  # in words -> a variance of `lira`
STEPS = 21  # places of the slider
SAYS = {True: "a member", False: "not a member"}


class TwoBells(Explorer):
    """The slider.  `ratio` is the logarithm of the likelihood ratio, as the chart tells it."""

    def __init__(
        self, photos: Tensor, names: Sequence[str], margins: Tensor, members: Tensor, shown: Sequence[int], threshold: float
    ) -> None:  # fmt: skip
        """photos: (n, 3, height, width) in [0, 1].  names: of the pictures in `shown`.  margins, members: (models, n).

        The first model is the victim, and the second its partner, which is left out; all others are shadow models.
        shown: places of the pictures to choose from.  threshold: on the margin; from there on it says "member".
        Raises ValueError for lengths that differ.
        """
        if len(names) != len(shown) or {margins.shape[1], members.shape[1]} != {len(photos)}:
            raise ValueError(
                f"names: {len(names)} for {len(shown)} pictures in shown, of {len(photos)} photos, {margins.shape[1]} margins and "
                f"{members.shape[1]} members; give one for each"
            )
        self.photos, self.names, self.shown, self.threshold = photos, list(names), list(shown), threshold
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

    def _draw(self, name: str, spread: str, margin: float) -> tuple[Sentence, plots.Picture, plots.Picture, Sentence]:
        one, kind = self.names.index(name), SPREADS[spread]
        at, ratio = self.shown[one], self.ratio(one, kind, margin)
        said = (
            f"The victim is {_percent(margin)} sure (margin {margin:+.1f}): {_times(ratio)}. "
            f"The ratio says **{SAYS[ratio > 0]}**, the threshold **{SAYS[margin >= self.threshold]}**."
        )
        own = float(self.answers[at])
        look = f"The victim was {_percent(own)} sure (margin {own:+.1f}). The picture is {SAYS[bool(self.truth[at])]}."
        folded = Sentence(f"<details><summary>Look it up</summary>{look}</details>")
        return (
            Sentence(said),
            self._chart(one, kind, margin),
            plots.face(self.photos[at], f"Photograph {name}.", 112),
            folded,
        )

    def _chart(self, one: int, kind: str, margin: float) -> plots.Picture:
        """Two bell curves with the shadow models below, the threshold, and a line where the victim is."""
        figure, ax = picture.empty_chart("margin of the victim's confidence", "density", "", height=2.4)
        fit, grid = self.fit(one, kind), np.linspace(self.low, self.high, 200)
        bells = {"in": (fit.mean_in, fit.std_in, "-"), "out": (fit.mean_out, fit.std_out, "--")}
        for k, ((side, (mean, std, dash)), models) in enumerate(zip(bells.items(), self.sides[one], strict=True)):
            curve = norm(float(mean), float(std))
            ax.plot(grid, curve.pdf(grid), dash, color=(COLOURS[2], COLOURS[0])[k], label=side)
            ax.plot(margin, curve.pdf(margin), "o", color=(COLOURS[2], COLOURS[0])[k])
            ax.plot(models, np.zeros(len(models)), "|", ms=12, color=(COLOURS[2], COLOURS[0])[k])
        ax.axvline(margin, color=COLOURS[1])
        picture.draw_thresholds(ax, {}, {"threshold": self.threshold})
        picture.legend_above(figure)
        return picture.render(
            figure,
            f"Two bell curves over the margin of {self.names[one]}. In, solid: {fit.mean_in:.1f} ± {fit.std_in:.1f}. "
            f"Out, dashed: {fit.mean_out:.1f} ± {fit.std_out:.1f}. A line marks the victim's margin, {margin:+.1f}.",
        )


def _percent(margin: float) -> str:
    """A margin as a confidence, with as many digits as tell it from 0 and from 100%."""
    sure = 100 * float(expit(margin))
    rest = min(sure, 100 - sure)
    return f"{sure:.0f}%" if rest >= 1 else f"{sure:.{min(4, 1 - math.floor(math.log10(rest)))}f}%"


def _times(ratio: float) -> str:
    """A log-likelihood ratio in words."""
    times = f"{math.exp(abs(ratio)):,.1f}" if abs(ratio) < 9 else f"e^{abs(ratio):.0f}"
    return f'{times} times as likely "{"in" if ratio > 0 else "out"}" as "{"out" if ratio > 0 else "in"}"'
