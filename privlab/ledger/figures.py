"""Centre and spread of repeats, in one line; errors in logs, and images without any error counted."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from privlab.ledger.evidence import EXACT_PSNR

__all__ = ["EXACT_ERROR", "IN_LOGS", "IN_PERCENT", "Figure", "exact"]

EXACT_ERROR = 1e-32  # the mean squared error that goes with it
# Errors and distances, which spread over decades. One bad repeat would be all there is to their mean, so they are averaged in logs, as
# PSNR has always done with MSE; centre and spread are then the geometric mean and a factor.
IN_LOGS = frozenset({"mse", "relative_error", "relative_residual", "max_abs_error", "from_grey"})
IN_PERCENT = frozenset({"acc", "attacc"})  # shares of people or of their photographs
_HIGHEST = 700.0  # a log, above which there is no float


@dataclass(frozen=True)
class Figure:
    """What was measured under one name: centre and spread of its repeats.

    centre, spread: mean and standard deviation; for a name in IN_LOGS the geometric mean and the factor that covers one
    standard deviation of the logs. spread is None for a single repeat.  exact: repeats without any error.
    """

    name: str
    centre: float
    spread: float | None
    n: int
    exact: int = 0
    logs: bool = False

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ×÷ {self.spread:.2g}" if self.logs else f" ± {self.spread:.2g}"
        exact = f", {self.exact} of them exact" if self.exact else ""
        return f"{self.name} = {self.centre:.4g}{spread} (n={self.n}{exact})"

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the centre, by Student's t; None for a single repeat."""
        if self.spread is None:
            return None
        half = float(stdtrit(self.n - 1, 0.975)) / math.sqrt(self.n)
        if self.logs:
            factor = self.spread**half if half * math.log(self.spread) < _HIGHEST else math.exp(_HIGHEST)
            return self.centre / factor, self.centre * factor
        return self.centre - half * self.spread, self.centre + half * self.spread

    @classmethod
    def of(cls, name: str, values: Sequence[float], logs: bool | None = None) -> Figure:
        """Of the repeats of a name such as psnr[a, b].  logs: whether they are averaged in logs; as its metric is if not given."""
        logs = name.partition("[")[0] in IN_LOGS if logs is None else logs
        rows = [math.log(max(v, EXACT_ERROR)) for v in values] if logs else list(values)
        centre = statistics.fmean(rows)
        spread = statistics.stdev(rows) if len(rows) > 1 else None
        if logs:
            centre, spread = math.exp(centre), None if spread is None else math.exp(min(spread, _HIGHEST))
        return cls(name, centre, spread, len(rows), sum(exact(name, value) for value in values), logs)


def exact(name: str, value: float) -> bool:
    """Whether a value says that there is no error at all: a PSNR of 320 dB, which stands for infinity, or an error of 0."""
    metric = name.partition("[")[0]
    return value >= EXACT_PSNR if metric == "psnr" else metric in IN_LOGS and value == 0
