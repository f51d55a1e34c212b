"""Checks of lab 14: what repeats say of a claim, how many of them a difference takes, and many claims tested at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit  # scipy.stats takes 2 s to import

from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.holm import holm
from privlab.notebook.exercises.lab_01 import OPEN, combine, compare

# -- what the repeats say --------------------------------------------------------------------------------------------------

YES, NO, UNSURE = "reproduced", "not reproduced", "inconclusive"
THREE = f"{YES!r}, {NO!r} or {UNSURE!r}"


def _word(share: float, high: float = 0.95, low: float = 0.05, between: str = UNSURE) -> str:
    return YES if share >= high else NO if share <= low else between


# fmt: off
REPEATS: list[tuple[list[float], float]] = [  # values, bar; a slip is a verdict turned in at least one of them
    ([-0.25, 0.25, -0.25], -1.0), ([2.75, 1.5], 0.0), ([-2.5, -2.75], 1.0), ([10.0, 12.5], 1.0), ([-0.5, 0.75], 1.5),
    ([1.75, 0.5, 2.25, 2.75], 3.0), ([-2.75, -2.75, 7.5], 10.0), ([-2.0, 10.0, 6.5, 6.0, 1.75], -1.0),
    ([3.25, 1.5, -3.5, -0.25, 3.5], -1.0), ([-8.0, -2.25, 6.75, -0.75, 1.0], 10.0),
    ([0.25, -0.75, -0.75, -0.25, 0.0, -0.25, -0.25, -0.5], -0.5), ([16.0, 11.5, 11.5, 12.0, 9.5], 10.0), ([-1.0, -0.5], -2.0),
    ([2.75, 1.5, 6.0], 10.0), ([1.5, -1.5, -6.0, -8.5, -1.5], -0.5), ([15.25, 13.0, 17.75], 1.5), ([0.0, 0.5, -0.25, 1.5], 3.0),
    ([2.25, 2.25, 4.0, 0.0, 4.5, 13.0, 4.25, -0.5], 0.5),
]
CENTRES: dict[str, Callable[[np.ndarray, float], float]] = {  # how far above the bar
    "": lambda v, bar: v.mean() - bar,
    "`bar` plays no part in yours: you ask whether the mean lies above 0.": lambda v, bar: v.mean(),
    "You add `bar` where it should be taken off: how far above it does the mean lie?": lambda v, bar: v.mean() + bar,
    "You took the median. The claim is about the mean, and so is the width s / sqrt(n).": lambda v, bar: np.median(v) - bar,
    "You dropped the sign of mean less `bar`: a mean far *below* the bar speaks against the claim.": lambda v, bar: abs(v.mean() - bar),
    "You hold the best of the repeats against `bar`. Who shows the best of many reproduces anything.": lambda v, bar: v.max() - bar,
    "You hold the worst of the repeats against `bar`. The claim is about their mean.": lambda v, bar: v.min() - bar,
}
SPREADS: dict[str, Callable[[np.ndarray], float]] = {
    "": lambda v: v.std(ddof=1),
    "Your deviation divides by n. These repeats are a sample, and their own mean lies closer to them than the true one: divide by n - 1. "
    "NumPy does so with `ddof=1`.": np.std,
    "You left s under its square: that is the variance, and the width goes with the standard deviation.": lambda v: v.var(ddof=1),
}
WIDTHS: dict[str, Callable[[float, int], float]] = {
    "": lambda s, n: s / n**0.5,
    "So wide is the spread of single repeats. A mean of n is surer than one of them: divide by sqrt(n).": lambda s, n: s,
    "You divide s by n where its root belongs. Four times as many repeats make a mean twice as sure, not four times.": lambda s, n: s / n,
    "You divide by sqrt(n - 1). The n - 1 has its place within s, and among the degrees of freedom; here it is n.":
        lambda s, n: s / (n - 1) ** 0.5,
    "You multiply by sqrt(n): with yours a mean gets less sure the more repeats there are.": lambda s, n: s * n**0.5,
    "The width is missing: you take the distance to `bar` as it is, whatever the spread.": lambda s, n: 1.0,
}
SHARES: dict[str, Callable[[float, int], float]] = {
    "": lambda x, n: stdtr(n - 1, x),
    "You took the normal distribution. It holds where the deviation is known; yours comes from the same few repeats, which may lie closer "
    "together than they should. Student's t has room for that.": lambda x, n: ndtr(x),
    "You took n degrees of freedom. One of them went into the mean: n - 1 are left.": lambda x, n: stdtr(n, x),
    "You took n - 2 degrees of freedom. The mean is all that was taken from the repeats: n - 1 are left.":
        lambda x, n: stdtr(n - 2, x) if n > 2 else math.nan,
}
WORDS: dict[str, Callable[[float], str]] = {
    "": _word,
    "Yours says the opposite. Did you take the share *below* `bar`, or a p-value? That is small where a claim holds; this is large.":
        lambda share: _word(1 - share),
    "Your limits are 97.5% and 2.5%, as for a test on two sides. The claim has one side, and 5% of doubt go there.":
        lambda share: _word(share, 0.975, 0.025),
    "Your limits are 90% and 10%. An interval of 90% leaves 5% on *each* side; here it is 95% and 5% of the whole distribution.":
        lambda share: _word(share, 0.9, 0.1),
    "Your limits are 99% and 1%. Asked for are 95% and 5%.": lambda share: _word(share, 0.99, 0.01),
    "You say 'not reproduced' wherever less than 95% lie above `bar`. That the repeats do not show it is not to say that they show the "
    "opposite: between 5% and 95% it is 'inconclusive'.": lambda share: _word(share, between=NO),
    "You say 'reproduced' unless 5% or less lie above `bar`. What is not refuted is not shown yet: between 5% and 95% it is "
    "'inconclusive'.": lambda share: _word(share, between=YES),
    "You know two verdicts, and go by whether the mean lies above `bar`. Repeats may be too few, or too far apart, to tell: that is "
    "'inconclusive'.": lambda share: _word(share, 0.5, between=NO),
    "Yours never says 'not reproduced'. Where 5% or less lie above `bar`, the repeats speak against the claim, and you should say so.":
        lambda share: _word(share, low=-1.0),
    "'not reproduced' and 'inconclusive' have changed places: the latter is for the shares between.":
        lambda share: {NO: UNSURE, UNSURE: NO}.get(_word(share), YES),
}
AT_ONCE: dict[str, Callable[[np.ndarray, float], str]] = {
    "You count the repeats above `bar`. The share asked for is one of the distribution of the true *mean*, which all of them together "
    "tell of.": lambda v, bar: _word((v > bar).mean()),
}
TWO_SIDED = ("You took the p-value of a test on two sides. It is small, too, where the mean lies far *below* `bar`, and the claim has one "
             "side.")  # fmt: skip
# fmt: on


def _judged(centre: Callable, spread: Callable, width: Callable, share: Callable, word: Callable) -> Callable[..., str]:
    return lambda values, bar: word(_above(values, bar, centre, spread, width, share))


def _above(
    values: np.ndarray,
    bar: float,
    centre: Callable = CENTRES[""],
    spread: Callable = SPREADS[""],
    width: Callable = WIDTHS[""],
    share: Callable = SHARES[""],
) -> float:
    """The share of the distribution that lies above the bar."""
    n = len(values)
    return float(share(centre(values, bar) / width(spread(values), n), n))


def _on_two_sides(values: np.ndarray, bar: float) -> str:
    share = _above(values, bar)
    return YES if min(share, 1 - share) <= 0.025 else NO


@a_function
def verdict(answer: Callable[..., Any]) -> Iterator[str]:
    words: list[Any] = []
    for values, bar in REPEATS:
        repeats = np.array(values)
        word = answer(repeats, bar)
        words.append(word.item() if isinstance(word, np.ndarray) and word.size == 1 else word)
        if repeats.tolist() != values:
            yield "Your function changes the values it is given, and whoever asks next gets others. Work with a copy."
    if set(map(type, words)) == {type(None)}:
        yield OPEN
        return
    for word, (values, bar) in zip(words, REPEATS, strict=True):
        yield from _no_word(word, f"For {values} and a bar of {bar:g}")
    slips = combine(_judged, CENTRES, SPREADS, WIDTHS, SHARES, WORDS)
    right = slips.pop("")
    slips = {TWO_SIDED: _on_two_sides} | AT_ONCE | slips
    due = [right(np.array(v), bar) for v, bar in REPEATS]
    if words == due:
        return
    if len(set(words)) == 1:
        yield f"Yours says {words[0]!r} whatever the repeats are."
    yield from (why for why, slip in slips.items() if words == [slip(np.array(v), bar) for v, bar in REPEATS])
    for word, expected, (values, bar) in zip(words, due, REPEATS, strict=True):
        if word != expected:
            above = _above(np.array(values), bar)
            yield (
                f"For {values} and a bar of {bar:g}, {above:.1%} of the distribution lie above it: that is {expected!r}, and yours says "
                f"{word!r}."
            )


def _no_word(word: Any, where: str) -> Iterator[str]:
    if word is None:
        yield f"{where} yours gives nothing. Is a `return` missing on one of its ways?"
    elif isinstance(word, (bool, np.bool_)):
        yield f"True and False are two, and there are three verdicts: give {THREE}."
    elif not isinstance(word, str):
        yield f"Give a word, {THREE}; this is a {type(word).__name__}."
    elif word not in (YES, NO, UNSURE):
        yield f"{word!r} is none of the three words, letter by letter: give {THREE}."


# -- how many repeats ------------------------------------------------------------------------------------------------------

NEEDED = [(0.5, 0.5), (1.0, 3.0), (0.5, 0.75), (2.0, 4.5), (1.25, 2.0)]  # effect, spread
LARGE = [(10.0, 2.0), (3.0, 0.5)]  # two will do
COUNTED = np.arange(2, 3_000)  # numbers of repeats
# fmt: off
ONE_SIDE = "You took the limit on two sides, 97.5%. The difference has a sign, and 5% of doubt go to the one side: 95%."
NORMAL = ("You took the normal distribution. It holds where the deviation is known; a few repeats may lie closer together than they "
          "should, and Student's t has room for that.")  # fmt: skip
QUANTILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # of the number of repeats
    "": lambda n: stdtrit(n - 1, 0.95),
    ONE_SIDE: lambda n: stdtrit(n - 1, 0.975),
    NORMAL: lambda n: np.full(len(n), ndtri(0.95)),
    f"{NORMAL} And 1.96 is its limit on two sides; the difference has one.": lambda n: np.full(len(n), ndtri(0.975)),
    "You took n degrees of freedom. One of them goes into the mean: n - 1 are left.": lambda n: stdtrit(n, 0.95),
    "You took n - 2 degrees of freedom. The mean is all that is taken from the repeats: n - 1 are left.":
        lambda n: np.where(n > 2, stdtrit(np.maximum(n - 2, 1), 0.95), np.nan),
    "You took the limit of 90%. Asked for is that of 95%.": lambda n: stdtrit(n - 1, 0.9),
    "You took the limit of 99%. Asked for is that of 95%.": lambda n: stdtrit(n - 1, 0.99),
    "You add a second quantile, as for a test that finds the difference in 80% of cases. Here the limit alone is asked for.":
        lambda n: stdtrit(n - 1, 0.95) + stdtrit(n - 1, 0.8),
}
NO_N = "The number of repeats does not make your limit smaller, beyond what Student's t does. A mean of n is surer by sqrt(n)."
SPREADS_OF_MEAN: dict[str, Callable[[float, np.ndarray], np.ndarray]] = {  # of the spread and the number of repeats
    "": lambda s, n: s / n**0.5,
    "You divide by n where its root belongs. Four times as many repeats make a mean twice as sure, not four times.": lambda s, n: s / n,
    NO_N: lambda s, n: np.full(len(n), s),
    "You divide by sqrt(n - 1). The n - 1 are the degrees of freedom; under the root it is n.": lambda s, n: s / (n - 1) ** 0.5,
    "You squared `spread`. It is a standard deviation already, and stands before the root as it is.": lambda s, n: s**2 / n**0.5,
    "You squared `spread`, and forgot the root of n. With the variance, the root is to be drawn of the whole fraction.":
        lambda s, n: s**2 / n,
    "`spread` stands under the root in yours. It is a standard deviation: the root is that of n alone.": lambda s, n: (s / n) ** 0.5,
    "`spread` plays no part in yours. The further repeats lie apart, the more of them it takes.": lambda s, n: n**-0.5,
}
PLACES: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "": lambda effect, spread: (effect, spread),
    "`effect` and `spread` have changed places: a *small* difference is the one that takes many repeats.":
        lambda effect, spread: (spread, effect),
}
NUMBERS: dict[str, Callable[[float], float]] = {
    "": lambda n: n,
    "Yours is one too many. Do you count on once more where the limit is small enough already?": lambda n: n + 1,
    "Yours is one too few. Is it the degrees of freedom, or the last number that is *not* enough?": lambda n: n - 1,
}
BY_FORMULA = {f"{NORMAL} And": ndtri(0.95), f"{NORMAL} And 1.96 is its limit on two sides; the difference has one. And": ndtri(0.975)}
CLOSED: dict[str, Callable[[float], float]] = {
    "nobody repeats a part of a run: the number is a whole one.": lambda n: n,
    "you round down: so few are not enough.": math.floor,
    "you round to the nearest number: where that goes down, so few are not enough.": round,
}
ALWAYS: dict[str, Callable[[float, float], float]] = {
    "Yours gives 1, whatever it is asked. With one repeat there are no degrees of freedom: Student's t is nan there, and as no comparison "
    "with nan holds, a `while` ends at once. Start at 2.": lambda effect, spread: 1.0,
    "Yours gives 2, whatever it is asked. Is the comparison turned? Go on while the limit lies *above* `effect`.":
        lambda effect, spread: 2.0,
}
UNENDING = [(2.5, 1.0), (1.025, 0.5)]  # here even a limit that n does not make smaller comes below the effect
ALONE = {NO_N: [4, 6], f"{ONE_SIDE} {NO_N}": [7, 29]}  # what comes of it
# fmt: on


def _first(limits: np.ndarray, effect: float) -> float:
    enough = COUNTED[limits <= effect]
    return float(enough[0]) if len(enough) else math.inf


@a_function
def repeats(answer: Callable[..., Any]) -> Iterator[str]:
    few = [answer(*case) for case in UNENDING]
    if not any(map(np.shape, few)):  # before the others: there such an answer would never come to an end
        yield from (why for why, names in ALONE.items() if few == names)

    def by_parts(quantile: np.ndarray, of_mean: Callable, place: Callable, number: Callable) -> Callable[..., float]:
        def needed(effect: float, spread: float) -> float:
            effect, spread = place(effect, spread)
            return number(_first(quantile * of_mean(spread, COUNTED), effect))

        return needed

    quantiles: dict[str, Any] = {why: quantile(COUNTED) for why, quantile in QUANTILES.items()}
    slips = combine(by_parts, quantiles, SPREADS_OF_MEAN, PLACES, NUMBERS)
    right = slips.pop("")
    closed = combine(lambda z, end: lambda effect, spread: end((z * spread / effect) ** 2), BY_FORMULA, CLOSED)
    hint = "Work out the limit for this n, and for the one before."
    yield from compare(answer, NEEDED, right, ALWAYS | closed | slips, hint)
    few_do = {"Where two will do, yours starts later. The smallest n is 2.": lambda effect, spread: 3.0}
    yield from compare(answer, LARGE, right, few_do, "Two repeats have one degree of freedom, and that can be enough.")


# -- which flaw ------------------------------------------------------------------------------------------------------------

FLAWS = {"A": "q", "B": "p", "C": "r", "D": "s"}
ASK = {  # of a study whose flaw was missed
    "A": "Look at the mean of public photographs: it looks at no gradient. Where do the two attacks lie beside it?",
    "B": "What differs from repeat to repeat? Another photograph, or other weights, could turn the order; sixteen seeds cannot tell.",
    "C": "When was it fixed that twelve repeats decide? Three looks at a level of 5% are wrong more often than one time in twenty.",
    "D": "Both attacks beat the picture that looks at no gradient, each repeat has a photograph and weights of its own, and the number was "
    "fixed before. Which of the flaws is left?",
}


def flaws(answer: object) -> Iterator[str]:
    if not isinstance(answer, dict):
        yield f"Give a dict with a letter for each study; this is a {type(answer).__name__}."
        return
    letters = {answers.word(study).upper(): answers.word(letter) for study, letter in answer.items()}
    if set(letters.values()) == {answers.word(...)}:
        yield OPEN
    if missing := [study for study in FLAWS if study not in letters]:
        yield f"Study {missing[0]} has no letter yet."
        return
    if strange := [letter for letter in letters.values() if letter not in FLAWS.values()]:
        yield f"{strange[0]!r} is none of the letters; give p, q, r or s."
    wrong = [study for study, flaw in FLAWS.items() if letters[study] != flaw]
    if wrong:
        yield f"Study {wrong[0]}: {ASK[wrong[0]]}"


CHECKS = {"14.verdict": verdict, "14.repeats": repeats, "14.flaws": flaws, "14.holm": holm}
DEEPER = {"many_claims": ("14.holm",)}
