"""Checks of lab 14: what repeats say of a claim, how many of them a difference takes, which flaw, and many claims tested at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit  # scipy.stats takes 2 s to import

from privlab.notebook.kit import OPEN, Check, function, in_turn, keeps, pick, word

# -- what the repeats say ------------------------------------------------------------------------------------------------

# fmt: off
REPEATS = [(np.array(values), bar) for values, bar in (  # each slip turns a verdict in one of them at least
    ([-0.25, 0.25, -0.25], -1.0), ([2.75, 1.5], 0.0), ([-2.5, -2.75], 1.0), ([10.0, 12.5], 1.0), ([-0.5, 0.75], 1.5),
    ([1.75, 0.5, 2.25, 2.75], 3.0), ([-2.75, -2.75, 7.5], 10.0), ([-2.0, 10.0, 6.5, 6.0, 1.75], -1.0),
    ([3.25, 1.5, -3.5, -0.25, 3.5], -1.0), ([-8.0, -2.25, 6.75, -0.75, 1.0], 10.0),
    ([0.25, -0.75, -0.75, -0.25, 0.0, -0.25, -0.25, -0.5], -0.5), ([16.0, 11.5, 11.5, 12.0, 9.5], 10.0), ([-1.0, -0.5], -2.0),
    ([2.75, 1.5, 6.0], 10.0), ([1.5, -1.5, -6.0, -8.5, -1.5], -0.5), ([15.25, 13.0, 17.75], 1.5), ([0.0, 0.5, -0.25, 1.5], 3.0),
    ([2.25, 2.25, 4.0, 0.0, 4.5, 13.0, 4.25, -0.5], 0.5),
)]
# fmt: on


def _above(
    values: np.ndarray, bar: float, ddof: int = 1, root: bool = True, share: Any = lambda x, n: stdtr(n - 1, x)
) -> float:
    """The share of the distribution that lies above the bar.  root: whether the width goes with the root of n."""
    n = len(values)
    return float(share((values.mean() - bar) / (values.std(ddof=ddof) / (n**0.5 if root else 1)), n))


def _said(share: float, high: float = 0.95, low: float = 0.05) -> str:
    return "reproduced" if share >= high else "not reproduced" if share <= low else "inconclusive"


# fmt: off
_words = pick(
    lambda values, bar: _said(_above(values, bar)),
    REPEATS,
    {
        "Your deviation divides by n. These repeats are a sample, and their own mean lies closer to them than the true one: divide by "
        "n - 1. NumPy does so with `ddof=1`.": lambda values, bar: _said(_above(values, bar, ddof=0)),
        "So wide is the spread of single repeats. A mean of n is surer than one of them: divide by sqrt(n).":
            lambda values, bar: _said(_above(values, bar, root=False)),
        "You took the normal distribution. It holds where the deviation is known; yours comes from the same few repeats, which may lie "
        "closer together than they should. Student's t has room for that.":
            lambda values, bar: _said(_above(values, bar, share=lambda x, n: ndtr(x))),
        "Your limits are 97.5% and 2.5%, as for a test on two sides. The claim has one side, and 5% of doubt go there.":
            lambda values, bar: _said(_above(values, bar), 0.975, 0.025),
        "Yours says the opposite. Did you take the share *below* `bar`, or a p-value? That is small where a claim holds; this is large.":
            lambda values, bar: _said(1 - _above(values, bar)),
    },
    "How many widths lies the mean above the bar, which share of Student's t with n - 1 degrees of freedom is that, and which of the three "
    "words goes with it?",
)
verdict = in_turn(_words, keeps(*REPEATS[0]))
# fmt: on

# -- how many repeats ----------------------------------------------------------------------------------------------------

COUNTED = np.arange(2, 3_000)  # numbers of repeats


def _repeats(effect: float, spread: float, quantile: Any = lambda n: stdtrit(n - 1, 0.95), power: float = 0.5) -> float:
    """The first n whose limit is small enough.  power: what of n divides the spread."""
    enough = COUNTED[quantile(COUNTED) * spread / COUNTED**power <= effect]
    return float(enough[0]) if len(enough) else math.inf


# fmt: off
_several = function(
    _repeats,
    [(0.5, 0.5), (1.0, 3.0), (0.5, 0.75), (2.0, 4.5), (1.25, 2.0)],
    {
        "You took the normal distribution. It holds where the deviation is known; a few repeats may lie closer together than they should, "
        "and Student's t has room for that.": lambda effect, spread: math.ceil((1.645 * spread / effect) ** 2),
        "You took the limit on two sides, 97.5%. The difference has a sign, and 5% of doubt go to the one side: 95%.":
            lambda effect, spread: _repeats(effect, spread, lambda n: stdtrit(n - 1, 0.975)),
        "You divide by n where its root belongs. Four times as many repeats make a mean twice as sure, not four times.":
            lambda effect, spread: _repeats(effect, spread, power=1.0),
        "Yours gives 1, whatever it is asked. With one repeat there are no degrees of freedom: Student's t is nan there, and as no "
        "comparison with nan holds, a `while` ends at once. Start at 2.": lambda effect, spread: 1,
    },
    "Work out the limit for this n, and for the one before.",
)
_two = function(_repeats, [(10.0, 2.0), (3.0, 0.5)], {}, "Two repeats have one degree of freedom, and that can be enough.")
# fmt: on
UNENDING = [
    (2.5, 1.0),
    (1.025, 0.5),
]  # asked first: here even a limit that n does not make smaller comes below the effect


def repeats(answer: Any) -> Iterator[str]:
    if callable(answer) and [answer(*case) for case in UNENDING] == [_repeats(*case, power=0.0) for case in UNENDING]:
        yield "The number of repeats does not make your limit smaller, beyond what Student's t does. A mean of n is surer by sqrt(n)."
    yield from _several(answer)
    yield from _two(answer)


# -- which flaw ----------------------------------------------------------------------------------------------------------

FLAWS = {"a": "q", "b": "p", "c": "r", "d": "s"}
ASK = {  # of a study whose flaw was missed
    "a": "Look at the mean of public photographs: it looks at no gradient. Where do the two attacks lie beside it?",
    "b": "What differs from repeat to repeat? Another photograph, or other weights, could turn the order; sixteen seeds cannot tell.",
    "c": "When was it fixed that twelve repeats decide? Three looks at a level of 5% are wrong more often than one time in twenty.",
    "d": "Both attacks beat the picture that looks at no gradient, each repeat has a photograph and weights of its own, and the number was "
    "fixed before. Which of the flaws is left?",
}


def flaws(answer: Any) -> Iterator[str]:
    if not isinstance(answer, dict):
        yield f"Give a dict with a letter for each study; this is a {type(answer).__name__}."
        return
    if all(letter is ... for letter in answer.values()):
        yield OPEN
    letters = {word(study): word(letter) for study, letter in answer.items()}
    for study, flaw in FLAWS.items():
        if study not in letters:
            yield f"Study {study.upper()} has no letter yet."
        elif letters[study] not in FLAWS.values():
            yield f"{letters[study]!r} is none of the letters; give p, q, r or s."
        elif letters[study] != flaw:
            yield f"Study {study.upper()}: {ASK[study]}"


# -- many claims at once -------------------------------------------------------------------------------------------------

P = dict[str, float]
# fmt: off
FAMILIES: list[tuple[P] | tuple[P, float]] = [  # p-values, and a level that is not the one by default
    ({"skips": 0.0206, "norm": 0.0492, "width": 0.0174},),
    ({"width": 0.0482, "noise": 0.0304, "labels": 0.0156},),
    ({"norm": 0.0272, "width": 0.101, "depth": 0.00858, "labels": 0.0236, "noise": 0.00889}, 0.1),
    ({"norm": 0.0028, "skips": 0.00721, "depth": 0.622, "noise": 0.0253, "stem": 0.0128, "labels": 0.0126, "width": 0.00926},),
    ({"noise": 0.00265, "width": 0.00243, "labels": 0.00505, "stem": 0.422, "norm": 0.00981, "patch": 0.00107, "depth": 0.000845}, 0.01),
    ({"norm": 0.00337, "noise": 0.0046, "depth": 0.781, "width": 0.532, "skips": 0.00231, "patch": 0.0122}, 0.01),
    ({"stem": 0.00309, "depth": 0.0033, "labels": 0.00454}, 0.01), ({"depth": 0.0343, "width": 0.0505, "labels": 0.0386}, 0.1),
    ({"labels": 0.00116, "skips": 0.00344, "depth": 0.00278, "patch": 0.00671}, 0.01), ({"noise": 0.381, "norm": 0.132, "stem": 0.0505},),
]
EDGES: list[tuple[P] | tuple[P, float]] = [  # just at its bar; two that are equal; none
    ({"skips": 0.03125, "stem": 0.5}, 0.0625), ({"skips": 0.0078125, "stem": 0.0078125, "norm": 0.5}, 0.0625), ({},),
]
# fmt: on


def _rising(p: P) -> list[str]:
    return sorted(p, key=lambda name: p[name])


def _holm(p: P, level: float = 0.05) -> set[str]:
    passed = set()
    for k, name in enumerate(_rising(p)):
        if p[name] > level / (len(p) - k):
            break
        passed.add(name)
    return passed


def _benjamini_hochberg(p: P, level: float = 0.05) -> set[str]:
    names = _rising(p)
    last = max((k for k, name in enumerate(names, start=1) if p[name] <= level * k / len(p)), default=0)
    return set(names[:last])


HELD = "Holm's bars are level / m for the smallest p-value, level / (m - 1) for the next, and so on to level / 1"
# fmt: off
_families = pick(
    _holm,
    FAMILIES,
    {
        f"You hold each p-value against `level`, as if it were the only one: of 20 with nothing behind them one passes. {HELD}.":
            lambda p, level=0.05: {name for name in p if p[name] <= level},
        f"You hold each p-value against level / m, and that is Bonferroni's correction. {HELD}: never stricter, and as safe.":
            lambda p, level=0.05: {name for name in p if p[name] <= level / len(p)},
        "That is Benjamini and Hochberg's procedure. It holds down the *share* of false ones among those that pass, and lets more through; "
        f"Holm's holds down the chance of *any*. {HELD}, and it stops at the first that fails.": _benjamini_hochberg,
        "You do not stop at the first that fails. What comes after it does not pass any more, however far it lies below its own bar.":
            lambda p, level=0.05: {name for k, name in enumerate(_rising(p)) if p[name] <= level / (len(p) - k)},
        "`level` plays no part in yours: it is 0.05, whatever is asked.": lambda p, level=0.05: _holm(p),
    },
    f"{HELD}. The first that fails stops it all.",
)
_edges = pick(
    _holm,
    EDGES,
    {},
    "A p-value just *at* its bar passes, too: compare with <=. Of two that are equal both count. Where there is none, give set().",
)
holm = in_turn(_families, _edges, keeps(*FAMILIES[2]))
# fmt: on
CHECKS: dict[str, Check] = {"14.verdict": verdict, "14.repeats": repeats, "14.flaws": flaws, "14.holm": holm}
