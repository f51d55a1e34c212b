"""Slide the victim's confidence in one picture across its two Gaussians, and see the likelihood ratio and two verdicts change.

It is HTML with a few lines of script, as a flipbook is, so that it moves in the static book as in a notebook, by mouse or keys. Every
place that the slider can take is computed before, in Python; the script shows it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from privlab.attacks.membership_inference import lira
from privlab.notebook import plots, sheet
from privlab.notebook.drawings.canvas import BLUE, DASHES, GREEN, PLAIN, RED, WIDTH, Canvas

SPREADS = {
    "fixed": "shared by all pictures",
    "per-example": "of this picture alone",
}  # a variance of `lira` -> in words
STEPS = 41  # places of the slider
LEFT, RIGHT, FLOOR, TALL = 8, WIDTH - 8, 128, 104  # of the chart, in units of a drawing
SAYS = {True: "a member", False: "not a member"}

# All the script there is. It starts from the control that moved, so two of these on one page cannot meddle with each other.
SLIDE = (
    "const all = this.closest('figure'), [one, spread] = [...all.querySelectorAll('select')].map(each => each.value);"
    "const at = all.querySelector('input'), key = one + '-' + spread, said = key + '-' + at.value;"
    "all.querySelectorAll('[data-photo]').forEach(each => each.hidden = each.dataset.photo !== one);"
    "all.querySelectorAll('[data-bells]').forEach(each => each.hidden = each.dataset.bells !== key);"
    "all.querySelectorAll('[data-said]').forEach(each => each.hidden = each.dataset.said !== said);"
    "const now = all.querySelector(`[data-said='${said}']`), bells = all.querySelector(`[data-bells='${key}']`);"
    "bells.querySelector('[data-line]').setAttribute('transform', `translate(${now.dataset.x} 0)`);"
    "['in', 'out'].forEach(side => bells.querySelector(`[data-${side}]`).setAttribute('cy', now.dataset[side]));"
    "at.setAttribute('aria-valuetext', now.textContent.split(':')[0]);"
)


class TwoBells:
    """The slider.  `places` are the margins that it can take; `ratio` is what the chart says of one of them."""

    def __init__(
        self, photos: Tensor, names: Sequence[str], margins: Tensor, members: Tensor, shown: Sequence[int], threshold: float
    ) -> None:  # fmt: skip
        """photos: (n, 3, height, width) in [0, 1].  names: of the pictures in `shown`.  margins, members: (models, n).

        The first model is the victim, and the second its partner, which is left out; all others are shadow models.
        shown: places of the pictures to choose from.  threshold: on the margin; from there on it says "member".
        Raises ValueError for lengths that differ, or for a side with fewer than two shadow models.
        """
        if len(names) != len(shown) or not len(shown):
            raise ValueError(
                f"names: {len(names)} for {len(shown)} pictures in shown; give one for each, and one at least"
            )
        if len({len(photos), *(each.shape[1] for each in (margins, members))}) > 1:
            raise ValueError(
                f"photos, margins and members are of {len(photos)}, {margins.shape[1]} and {members.shape[1]} pictures"
            )
        shadows, keep = margins[2:], members[2:]
        fewest = min(int(keep.sum(0).min()), int((~keep).sum(0).min()))
        if fewest < 2:
            raise ValueError(
                f"members: a picture has {fewest} shadow models on one side; two have a spread, so give more"
            )
        self.photos, self.names, self.shown, self.threshold = photos, list(names), list(shown), threshold
        self.answers, self.truth = margins[0], members[0]
        self.sides = [(shadows[keep[:, at], at], shadows[~keep[:, at], at]) for at in self.shown]
        self.fits = {kind: lira.gaussians(shadows[..., None], keep, kind) for kind in SPREADS}  # each field (n, 1)
        there = torch.cat([self.answers[self.shown], *(side for both in self.sides for side in both)])
        self.low, self.high = math.floor(there.min() - 1), math.ceil(there.max() + 1)

    @cached_property
    def places(self) -> list[float]:
        """Margins, from the lowest to the highest."""
        return np.linspace(self.low, self.high, STEPS).tolist()

    @property
    def start(self) -> int:
        """The place of the slider that is shown first: nearest to a confidence of one half."""
        return min(range(STEPS), key=lambda n: abs(self.places[n]))

    def fit(self, one: int, kind: str) -> lira.Fit:
        """Mean and standard deviation, in and out, of the picture number `one` of those shown."""
        return lira.Fit(*(field[self.shown[one], 0] for field in self.fits[kind]))

    def ratio(self, one: int, kind: str, margin: float) -> float:
        """The logarithm of the likelihood ratio at this margin."""
        return lira.statistic(torch.tensor(margin, dtype=torch.float64), self.fit(one, kind), True, "paper").item()

    def __repr__(self) -> str:
        own = [self.ratio(one, "fixed", float(self.answers[at])) for one, at in enumerate(self.shown)]
        said = ", ".join(f"{name} {value:+.1f}" for name, value in zip(self.names, own, strict=True))
        return f"log-likelihood ratio of the victim's own answers: {said}"

    def tag(self) -> str:
        """The <figure>: what to choose and to slide, the picture, its two Gaussians, and what they say there."""
        script = html.escape(SLIDE)
        chosen = {
            "picture": dict(enumerate(self.names)),
            "spread of the Gaussians": dict(enumerate(SPREADS.values())),
        }
        menus = "".join(
            f'<label style="margin-right:1em">{name} <select autocomplete="off" onchange="{script}">'
            + "".join(f'<option value="{k}">{html.escape(words)}</option>' for k, words in options.items())
            + "</select></label>"
            for name, options in chosen.items()
        )
        slider = (
            f'<label style="display:block;margin:.6em 0">the victim\'s confidence <input type="range" min="0" max="{STEPS - 1}" step="1" '
            f'value="{self.start}" autocomplete="off" aria-valuetext="{_sure(self.places[self.start])}" oninput="{script}" '
            'style="vertical-align:middle;width:min(26em,60%)"></label>'
        )
        photos = "".join(map(self._photo, range(len(self.shown))))
        keys = [(one, k) for one in range(len(self.shown)) for k in range(len(SPREADS))]
        bells = "".join(
            f'<div data-bells="{one}-{k}"{_hidden((one, k) != (0, 0))}>{self._bells(one, k)}</div>' for one, k in keys
        )
        said = "".join(self._said(one, k, n) for one, k in keys for n in range(STEPS))
        return (
            '<figure class="privlab-bells" style="margin:0;text-align:left;color:inherit;font-size:inherit;max-width:44em">'
            f'{menus}{slider}<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:center">{photos}'
            f'<div style="flex:1 1 20em;min-width:0">{bells}</div></div><div aria-live="polite">{said}</div></figure>'
        )

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": repr(self)}

    def _x(self, margin: float) -> float:
        return LEFT + (RIGHT - LEFT) * (margin - self.low) / (self.high - self.low)

    def _heights(self, one: int, kind: str, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """y of the curve "in" and of the curve "out"; the higher peak is as tall as the chart."""
        fit = self.fit(one, kind)
        peak = 1 / min(float(fit.std_in), float(fit.std_out))
        both = ((fit.mean_in, fit.std_in), (fit.mean_out, fit.std_out))
        curves = [np.exp(-(((margins - float(mean)) / float(std)) ** 2) / 2) / float(std) for mean, std in both]
        return FLOOR - TALL * curves[0] / peak, FLOOR - TALL * curves[1] / peak

    def _photo(self, one: int) -> str:
        at = self.shown[one]
        picture = plots.face(self.photos[at], f"Photograph {self.names[one]}.", sheet.SIDE).tag(";display:block")
        look = f"The victim was {_sure(float(self.answers[at]))}. The picture is {SAYS[bool(self.truth[at])]}."
        return (
            f'<div data-photo="{one}"{_hidden(one > 0)}>{picture}<details style="width:{sheet.SIDE}px"><summary>Look it up</summary>'
            f"{look}</details></div>"
        )

    def _bells(self, one: int, k: int) -> str:
        kind, canvas = [*SPREADS][k], Canvas()
        grid = np.linspace(self.low, self.high, 97)
        for side, colour, ys, values, row in zip(
            ("in", "out"), (GREEN, BLUE), self._heights(one, kind, grid), self.sides[one], (0, 1), strict=True
        ):
            points = [(round(self._x(m), 1), round(float(y), 1)) for m, y in zip(grid, ys, strict=True)]
            path = " ".join(f"{x},{y}" for x, y in [(LEFT, FLOOR), *points, (RIGHT, FLOOR)])
            canvas.add(f'<polygon points="{path}" fill="{colour}" fill-opacity=".15"/>')
            canvas.line(*points, colour=colour, dashed=side == "out", width=2)
            for value in values.tolist():
                canvas.line(
                    (self._x(value), FLOOR + 5 + 12 * row),
                    (self._x(value), FLOOR + 14 + 12 * row),
                    colour=colour,
                    width=2.4,
                )
        cut = round(self._x(min(max(self.threshold, self.low), self.high)), 1)
        canvas.add(f'<line x1="{cut}" x2="{cut}" y1="14" y2="{FLOOR}" stroke="{PLAIN}" stroke-opacity=".55"{DASHES}/>')
        canvas.label(cut, 10, "threshold", anchor="middle" if LEFT + 30 < cut < RIGHT - 30 else "end")
        canvas.line((LEFT, FLOOR), (RIGHT, FLOOR))
        fit = self.fit(one, kind)
        apart = 14 if abs(self._x(float(fit.mean_in)) - self._x(float(fit.mean_out))) < 28 else 0
        for name, mean, shift in (("in", fit.mean_in, apart), ("out", fit.mean_out, -apart)):
            canvas.label(min(max(self._x(float(mean)) + shift, 16), WIDTH - 16), FLOOR - 6, name, bold=name == "in")
        for margin in range(math.ceil(self.low / 4) * 4, self.high + 1, 4):
            if LEFT + 12 < self._x(margin) < RIGHT - 12:
                canvas.label(self._x(margin), FLOOR + 40, _percent(margin))
        line, (up, down) = self.places[self.start], self._at(one, kind, self.start)
        canvas.add(
            f'<g data-line transform="translate({self._x(line):.1f} 0)"><line y1="18" y2="{FLOOR}" stroke="{RED}" stroke-width="2.6"/>'
            f'<circle data-in cy="{up}" r="5" fill="{GREEN}"/><circle data-out cy="{down}" r="5" fill="{BLUE}"/></g>'
        )
        alt = (
            f"Two bell curves over the confidence in {self.names[one]}, the spread {SPREADS[kind]}. In, solid: margin {fit.mean_in:.1f} "
            f"± {fit.std_in:.1f}. Out, dashed: {fit.mean_out:.1f} ± {fit.std_out:.1f}. A line marks the victim's confidence."
        )
        return canvas.done(FLOOR + 46, alt).svg

    def _at(self, one: int, kind: str, n: int) -> tuple[float, float]:
        up, down = self._heights(one, kind, np.array([self.places[n]]))
        return round(float(up[0]), 1), round(float(down[0]), 1)

    def _said(self, one: int, k: int, n: int) -> str:
        kind, margin = [*SPREADS][k], self.places[n]
        ratio, (up, down) = self.ratio(one, kind, margin), self._at(one, kind, n)
        return (
            f'<p data-said="{one}-{k}-{n}" data-x="{self._x(margin):.1f}" data-in="{up}" data-out="{down}" '
            f"{_hidden((one, k, n) != (0, 0, self.start))}>The victim is {_sure(margin)}: {_times(ratio)}. "
            f"The ratio says <b>{SAYS[ratio > 0]}</b>, the threshold <b>{SAYS[margin >= self.threshold]}</b>.</p>"
        )


def _hidden(yes: bool) -> str:
    return " hidden" if yes else ""


def _percent(margin: float) -> str:
    """A margin as a confidence, with as many digits as tell it from 0 and from 100%."""
    sure = 100 * float(expit(margin))
    rest = min(sure, 100 - sure)
    return f"{sure:.0f}%" if rest >= 1 else f"{sure:.{min(4, 1 - math.floor(math.log10(rest)))}f}%"


def _sure(margin: float) -> str:
    return f"{_percent(margin)} sure (margin {margin:+.1f})"


def _times(ratio: float) -> str:
    """A log-likelihood ratio in words."""
    times = f"{math.exp(abs(ratio)):,.1f}" if abs(ratio) < 9 else f"e^{abs(ratio):.0f}"
    return f'{times} times as likely "{"in" if ratio > 0 else "out"}" as "{"out" if ratio > 0 else "in"}"'
