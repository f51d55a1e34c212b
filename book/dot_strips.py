"""Dots as SVG inside the page: a strip for each name, every repeat a dot, above the mean with its interval and the paper's number.

All is drawn in the text's own colour, so it can be read in light and dark. Places along the axis are percent of the width and all else is
in pixels, so that dots and letters keep their size on a telephone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from matplotlib.ticker import LogLocator, MaxNLocator

from privlab.ledger.figures import Figure

_EDGE = 6  # percent of the width that stays free on either side, for half a dot and half a number
_NEAR = 2.2  # percent; dots nearer to each other than this stand above each other
_LEVELS = (0, -7, 7, -14, 14)  # pixels


@dataclass(frozen=True)
class Strip:
    """One row: the repeats of a number.

    label: its name.  values: one a repeat.  logs: whether they are averaged, and drawn, in logs.  printed: the paper's number and its
    spread.  low, high: where the claim wants the mean; infinite on a side without an end.  marks: other places for a dashed line.
    """

    label: str
    values: tuple[float, ...]
    logs: bool = False
    printed: tuple[float, float | None] | None = None
    low: float = -math.inf
    high: float = math.inf
    marks: tuple[float, ...] = ()

    @property
    def figure(self) -> Figure:
        return Figure.of(self.label, self.values, self.logs)

    @property
    def bounds(self) -> list[float]:
        ends = [bound for bound in (self.low, self.high) if math.isfinite(bound) and (bound > 0 or not self.logs)]
        return [*ends, *self.marks]

    @property
    def spread(self) -> tuple[float, float] | None:
        """What the printed spread covers; on a log axis not below a tenth of the number."""
        if not self.printed or self.printed[1] is None:
            return None
        mean, std = self.printed
        return max(mean - std, mean / 10) if self.logs else mean - std, mean + std

    @property
    def mean(self) -> str:
        """The mean as a sentence wants it, with one digit of half its interval."""
        return number(self.figure.centre, 10 * self._half if self._half else None)

    @property
    def error(self) -> str:
        """The standard error of the mean, with one digit; nothing for a single repeat."""
        one = None if self.figure.spread is None else self.figure.spread / self.figure.n**0.5
        return "" if one is None else number(one, 10 * one)

    @property
    def _half(self) -> float | None:
        interval = self.figure.interval
        return (interval[1] - interval[0]) / 2 if interval and not self.logs else None

    def words(self) -> list[str]:
        """The mean with its interval, the number of repeats, the paper's number, and where the claim wants the mean."""
        figure, n, half = self.figure, len(self.values), self._half
        constant = n > 1 and min(self.values) == max(self.values)
        centre = f"{'geometric ' * self.logs}mean {number(figure.centre, half)}"
        if figure.interval:
            centre += " (95% interval {} to {})".format(*(number(end, half) for end in figure.interval))
        first = f"{number(figure.centre)} in every repeat" if constant else centre if n > 1 else number(figure.centre)
        said = [first, f"{n} repeat{'s' * (n != 1)}"]
        if self.printed:
            mean, std = self.printed
            said.append(f"the paper: {mean:g}" + ("" if std is None else f" ± {std:g}"))  # digits as printed
        return said + ([f"wanted {self.wanted}"] if self.wanted else [])

    @property
    def wanted(self) -> str:
        """Where the claim wants the mean, in words."""
        low, high = number(self.low), number(self.high)
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"between {low} and {high}" if self.low <= self.high else f"below {high} or above {low}"
        return f"above {low}" if math.isfinite(self.low) else f"below {high}" if math.isfinite(self.high) else ""


def number(value: float, half: float | None = None) -> str:
    """A number as a reader wants it: whole numbers whole, else three digits; or with two digits of half its interval."""
    if half:
        digits = 1 - math.floor(math.log10(half))
        text = f"{value:.{max(digits, 0)}f}" if digits < 6 else f"{value:.3g}"
    else:
        text = f"{value:,.0f}" if value % 1 == 0 and abs(value) < 1e9 else f"{value:.3g}"
    return f"−{text[1:]}" if text.startswith("-") else text


def drawn(strips: Sequence[Strip]) -> tuple[list[str], str]:
    """An SVG for each strip, and one for the axis that they share."""
    scale = _Scale.of(strips)
    return [_strip(strip, scale) for strip in strips], _axis(scale)


@dataclass(frozen=True)
class _Scale:
    """From values to percent of the width."""

    low: float
    high: float
    logs: bool
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, strips: Sequence[Strip]) -> _Scale:
        logs = any(strip.logs for strip in strips)
        shown = [v for s in strips for v in (*s.values, *s.bounds, *(s.figure.interval or ()), *(s.spread or ()))]
        shown += [s.printed[0] for s in strips if s.printed]
        low, high = min(shown), max(shown)
        if high - low <= 1e-9 * max(abs(low), abs(high), 1e-30):
            low, high = (low / 2, high * 2) if logs else (low - 0.5, high + 0.5)
        decades = logs and high / low > 20
        places = LogLocator(numticks=5) if decades else MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
        ticks = tuple(float(t) for t in places.tick_values(low, high) if low <= t <= high)
        return cls(low, high, logs, ticks)

    def __call__(self, value: float) -> str:
        low, high, value = map(math.log, (self.low, self.high, value)) if self.logs else (self.low, self.high, value)
        return f"{_EDGE + (100 - 2 * _EDGE) * (value - low) / (high - low):.2f}"


def _line(x1: str, x2: str, y1: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1}%" x2="{x2}%" y1="{y1:g}" y2="{y2:g}" class="{kind}"/>'


def _strip(strip: Strip, scale: _Scale) -> str:
    height = 66 if strip.printed else 54
    parts = [_line(scale(tick), scale(tick), 0, height, "grid") for tick in scale.ticks]
    parts += [_line(scale(bound), scale(bound), 0, height, "bound") for bound in strip.bounds]
    levels = dict.fromkeys(_LEVELS, -100.0)  # where the last dot at each height stands
    for value in sorted(strip.values):
        x = float(scale(value))
        level = next((y for y in _LEVELS if x - levels[y] > _NEAR), min(_LEVELS, key=lambda y: levels[y]))
        levels[level] = x
        parts.append(f'<circle cx="{x:.2f}%" cy="{20 + level}" r="4"><title>{number(value)}</title></circle>')
    figure = strip.figure
    if figure.interval:
        low, high = map(scale, figure.interval)
        parts += [_line(low, high, 46, 46, "mean"), _line(scale(figure.centre), scale(figure.centre), 41, 51, "mean")]
    if strip.printed:
        if strip.spread:
            parts.append(_line(*map(scale, strip.spread), 59, 59, "spread"))
        diamond = '<path class="paper" d="M0 53 L6 59 L0 65 L-6 59 Z"/>'
        parts.append(f'<svg x="{scale(strip.printed[0])}%" overflow="visible">{diamond}</svg>')
    spoken = f"{strip.label}: {_spoken(strip)}"
    return (
        f'<svg class="privlab-strip" height="{height}" role="img" aria-label="{escape(spoken)}">{"".join(parts)}</svg>'
    )


def _spoken(strip: Strip) -> str:
    """The strip in words, for who cannot see it."""
    reach = f"from {number(min(strip.values))} to {number(max(strip.values))}"
    first, count, *more = strip.words()
    return "; ".join([f"{count}, {reach}" if len(strip.values) > 1 else count, first, *more])


def _axis(scale: _Scale) -> str:
    parts = [_line(str(_EDGE), str(100 - _EDGE), 1, 1, "axis")]
    for tick in scale.ticks:
        text = number(round(tick, 12)) if tick == 0 or abs(tick) >= 1e-4 else f"{tick:.0e}"
        parts += [_line(scale(tick), scale(tick), 1, 6, "axis"), f'<text x="{scale(tick)}%" y="19">{text}</text>']
    return f'<svg class="privlab-strip" height="24" aria-hidden="true">{"".join(parts)}</svg>'
