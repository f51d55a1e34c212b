"""Centre and spread of repeats, in one line; errors in logs, and images without any error counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["EXACT_ERROR", "EXACT_PSNR", "IN_LOGS", "IN_PERCENT", "Figure", "exact"]

EXACT_PSNR = 320.0  # dB, stands for the infinite PSNR of an image without any error; float64 reaches about 310
EXACT_ERROR = 1e-32  # the mean squared error that goes with it
# Errors and distances, which spread over decades. One bad repeat would be all there is to their mean, so they are averaged in logs, as
# PSNR has always done with MSE; centre and spread are then the geometric mean and a factor.
IN_LOGS = frozenset({"mse", "relative_error", "relative_residual", "max_abs_error", "from_grey"})
IN_PERCENT = frozenset({"acc", "attacc"})  # shares of people or of their photographs


@dataclass(frozen=True)
class Figure:
    """What was measured under one name: mean and standard deviation of its repeats.

    For a name in IN_LOGS the geometric mean, and the factor that covers one standard deviation of the logs. spread is None for a single
    repeat.  exact: repeats without any error.  interval: the 95% interval of the centre, by Student's t; None for a single repeat.
    """

    name: str
    centre: float
    spread: float | None
    n: int
    exact: int
    logs: bool
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" ×÷ {self.spread:.2g}" if self.logs else f" ± {self.spread:.2g}"
        exact = f", {self.exact} of them exact" if self.exact else ""
        return f"{self.name} = {self.centre:.4g}{spread} (n={self.n}{exact})"

    @classmethod
    def of(cls, name: str, values: Sequence[float] | np.ndarray, logs: bool | None = None) -> Figure:
        """Of the repeats of a name such as psnr[a, b].  logs: whether they are averaged in logs; as its metric is if not given."""
        logs = name.partition("[")[0] in IN_LOGS if logs is None else logs
        rows = np.log(np.maximum(values, EXACT_ERROR)) if logs else np.asarray(values, float)
        found = [rows.mean()]
        if len(rows) > 1:
            half = stats.t.ppf(0.975, len(rows) - 1) * stats.sem(rows)
            found += [rows.std(ddof=1), rows.mean() - half, rows.mean() + half]
        centre, *more = map(float, np.exp(np.minimum(found, 700)) if logs else found)
        spread, interval = (more[0], (more[1], more[2])) if more else (None, None)
        return cls(name, centre, spread, len(rows), sum(exact(name, value) for value in values), logs, interval)


def exact(name: str, value: float) -> bool:
    """Whether a value says that there is no error at all: a PSNR of 320 dB, which stands for infinity, or an error of 0."""
    metric = name.partition("[")[0]
    return value >= EXACT_PSNR if metric == "psnr" else metric in IN_LOGS and value == 0
