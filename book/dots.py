"""Repeats as dots: of each number a line in words and an SVG below it, all rows of a chart on one axis.

Places along the axis are percent of the width and all else is in pixels, so that dots and letters keep their size on a telephone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import templates
from markupsafe import Markup
from matplotlib.ticker import LogLocator, MaxNLocator

from privlab.ledger.rule import Figure


@dataclass(frozen=True)
class Dots:
    """The repeats of a number.

    label: its name.  values: one a repeat.  printed: the paper's number.
    marks: places for a dashed line, such as where the claim wants the mean.  wanted: that in words.
    """

    label: str
    values: Sequence[float] = field(repr=False)
    printed: float | None = None
    marks: Sequence[float] = ()
    wanted: str = ""

    @cached_property
    def figure(self) -> Figure:
        return Figure.of(self.label, self.values)

    @property
    def mean(self) -> str:
        """The mean as a sentence wants it, with one digit of half its interval."""
        low, high = self.figure.interval or (0.0, 0.0)
        return number(self.figure.centre, 5 * (high - low))

    @property
    def error(self) -> str:
        """The standard error of the mean, with one digit; nothing for a single repeat."""
        one = (self.figure.spread or 0.0) / self.figure.n**0.5
        return number(one, 10 * one) if self.figure.spread is not None else ""

    @property
    def told(self) -> str:
        """The mean, and between brackets its 95% interval."""
        low, high = self.figure.interval or (0.0, 0.0)
        half = 0.0 if self.figure.logs else (high - low) / 2
        ends = f" ({number(low, half)} to {number(high, half)})" if low < high else ""
        return number(self.figure.centre, half) + ends


def number(value: float, half: float = 0.0) -> str:
    """A number as a reader wants it: whole numbers and large ones whole, else three digits; or with two digits of half its interval."""
    if half:
        digits = 1 - math.floor(math.log10(half))
        text = f"{value:.{max(digits, 0)}f}" if digits < 6 else f"{value:.3g}"
    else:
        text = f"{value:,.0f}" if (value % 1 == 0 or abs(value) >= 1e3) and abs(value) < 1e9 else f"{value:.3g}"
    return f"−{text[1:]}" if text.startswith("-") else text


def within(low: float, high: float) -> str:
    """Where a claim wants a number, in words; an end may be infinite."""
    ends = [f"above {number(low)}"] * math.isfinite(low) + [f"below {number(high)}"] * math.isfinite(high)
    return (" and " if low <= high else " or ").join(ends)


def chart(rows: Sequence[Dots], axis: str = "") -> Markup:
    """The rows above their axis.  axis: what is said below it."""
    logs = any(row.figure.logs for row in rows)
    shown = [v for r in rows for v in (*r.values, *r.marks, *(r.figure.interval or ()))]
    shown = [v for v in [*shown, *(r.printed for r in rows if r.printed is not None)] if v > 0 or not logs]
    low, high = min(shown), max(shown)
    places = LogLocator(numticks=5) if logs and high > 20 * low else MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    ticks = [float(tick) for tick in places.tick_values(low, high) if low <= tick <= high]

    def at(value: float) -> str:
        ends = [math.log(max(v, low)) for v in (low, high, value)] if logs else [low, high, value]
        return (
            f"{6 + 88 * (ends[2] - ends[0]) / ((ends[1] - ends[0]) or 1):.2f}%"  # on either side half a number has room
        )

    return templates.fill("dots.html", rows=rows, ticks=ticks, at=at, short=number, axis=axis)
