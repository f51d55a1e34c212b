"""Checks of lab 14: what repeats say of a claim, how many of them a difference takes, and which flaw."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit  # scipy.stats takes 2 s to import

from privlab.notebook.kit import OPEN, a_function, each, function, in_turn, one

# fmt: off
REPEATS = [(np.array(values), bar) for values, bar in (  # each slip turns a verdict in one of them at least
    ([1.75, 0.5, 2.25, 2.75], 3.0), ([2.75, 1.5], 0.0), ([10.0, 12.5], 1.0), ([-0.5, 0.75], 1.5), ([2.75, 1.5, 6.0], 10.0),
    ([-2.75, -2.75, 7.5], 10.0), ([-8.0, -2.25, 6.75, -0.75, 1.0], 10.0), ([16.0, 11.5, 11.5, 12.0, 9.5], 10.0),
)]


def _verdict(values: Any, bar: float, ddof: int = 1, root: float = 0.5, side: int = 1, normal: bool = False) -> str:
    """root: the power of n that the deviation is divided by.  side: -1 for the share below the bar."""
    n = len(values)
    widths = side * (values.mean() - bar) / (values.std(ddof=ddof) / n**root)
    share = ndtr(widths) if normal else stdtr(n - 1, widths)
    return "reproduced" if share >= 0.95 else "not reproduced" if share <= 0.05 else "inconclusive"


verdict = function(
    _verdict,
    REPEATS,
    {
        "Your deviation divides by n. The repeats lie closer to their own mean than to the true one: divide by n - 1 (in NumPy `ddof=1`).":
            partial(_verdict, ddof=0),
        "So wide is the spread of single repeats. A mean of n is surer than one of them: divide by sqrt(n).": partial(_verdict, root=0),
        "You took the normal distribution. A few repeats may lie closer together than they should, and Student's t has room for that.":
            partial(_verdict, normal=True),
        "Yours says the opposite. Did you take the share *below* `bar`, or a p-value? That is small where a claim holds; this is large.":
            partial(_verdict, side=-1),
    },
    "How many widths lies the mean above the bar, and which share of Student's t with n - 1 degrees of freedom is that?",
)


def _repeats(effect: float, spread: float, root: float = 0.5) -> int:
    """The first n whose limit is small enough.  root: the power of n that the spread is divided by."""
    n = np.arange(2, 3_000)
    return int(n[stdtrit(n - 1, 0.95) * spread / n**root <= effect][0])


def _ends(answer: Callable[[float, float], Any]) -> Iterator[str]:
    cases = [(2.5, 1.0), (1.025, 0.5)]  # first of all: even a limit that n does not make smaller is below these effects
    if [answer(*case) for case in cases] == [_repeats(*case, root=0) for case in cases]:
        yield "The number of repeats does not make your limit smaller, beyond what Student's t does. A mean of n is surer by sqrt(n)."


_several = function(
    _repeats,
    [(0.5, 0.5), (1.0, 3.0), (0.5, 0.75), (2.0, 4.5), (1.25, 2.0), (10.0, 2.0), (3.0, 0.5)],
    {
        "You took the normal distribution. A few repeats may lie closer together than they should, and Student's t has room for that.":
            lambda effect, spread: max(2, math.ceil((1.645 * spread / effect) ** 2)),
        "You divide by n where its root belongs. Four times as many repeats make a mean twice as sure, not four times.":
            partial(_repeats, root=1),
        "Yours gives 1: with one repeat Student's t is nan, no comparison with nan holds, and a `while` ends at once. Start at 2.":
            lambda effect, spread: 1,
    },
    "Work out the limit for this n, and for the one before. Two repeats have one degree of freedom, and that can be enough.",
)
repeats = in_turn(a_function, _ends, _several)

_letters = each(
    one("q", dict.fromkeys("prs", "Study A: look at the mean of public photographs. It sees no gradient; where do both attacks lie?")),
    one("p", dict.fromkeys("qrs", "Study B: what differs from repeat to repeat? Other photographs or weights could turn the order.")),
    one("r", dict.fromkeys("pqs", "Study C: when was it fixed that twelve repeats decide? Three looks at 5% err oftener than once in 20.")),
    one("s", dict.fromkeys("pqr", "Study D: both beat what sees no gradient, each repeat draws anew, and their number was fixed before.")),
    ask="Give a letter for each study.",
)


def flaws(answer: Any) -> Iterator[str]:
    if ... in answer.values():
        yield OPEN
    yield from _letters([answer.get(study) for study in "ABCD"])
