"""Numbers of an audit as words."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from privlab.auditing.exposure import Solve


def dB(value: float | None) -> str:
    if value is None:
        return ""
    return "exact" if math.isinf(value) else f"{value:.1f} dB"


def span(values: Sequence[float]) -> str:
    spread = f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else ""
    return dB(statistics.median(values)) + spread


def rank(solves: Sequence[Solve]) -> str:
    if not solves:
        return ""
    least = min(solves, key=lambda s: s.rank)
    hidden = least.unknowns - least.rank
    return f"{least.rank} of {least.unknowns}" + (f", {hidden} hidden" if hidden else "")


def two(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def short(number: float) -> str:
    digits = ".2g" if number < 100 else ",.0f" if number < 1e5 else ".0e"
    return "infinite" if math.isinf(number) else f"{number:{digits}}"
