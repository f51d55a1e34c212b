"""Lab 14: what verdicts are worth, asked of invented numbers whose truth is known."""

import numpy as np

from privlab.experiments.protocol import Size, Values, experiment
from privlab.ledger import comparison, evidence, rule


def decision(compare: str, values: dict[str, np.ndarray], apart: bool = False) -> str:
    """What repeats say of a comparison, at 0.05: "holds", "fails", or "" where they cannot tell.

    values: name -> one number a repeat.  apart: whether the repeats of two names have nothing to do with each other (Welch).
    """
    named = {f"{name}[x]": of for name, of in values.items()}
    tables = [{name: of} for name, of in named.items()] if apart else [named]
    holds, fails, _ = rule.p_values(comparison.parse(compare), tables)
    return "holds" if holds < evidence.LEVEL else "fails" if fails < evidence.LEVEL else ""


@experiment("the_ledger.decisions", data=())
@Size("smoke", 2, "30 invented experiments a number", times=30)
@Size("class", 8, "400 invented experiments a number", times=400)
def decisions(repeat: int, times: int) -> Values:
    """How often invented repeats are decided, by their number and the true gap between two means, in standard deviations of a repeat."""
    draw = np.random.default_rng(repeat % 2**32)

    def decided(gap: float, n: int, apart: bool = False, alike: float = 0.0) -> float:
        shared = alike * draw.normal(size=(times, n))  # the photograph that both look at
        one, other = shared + draw.normal(gap, 1, (times, n)), shared + draw.normal(0, 1, (times, n))
        each = zip(one, other, strict=True)
        return float(np.mean([decision("a[x] > b[x]", {"a": a, "b": b}, apart) != "" for a, b in each]))

    for n in (2, 3, 4, 6, 8, 12):
        for gap in (0, 1, 2, 4):
            yield f"decided_share[repeats_{n}, gap_{gap}]", decided(gap, n)
    for what, alike in (("nothing_in_common", 0.0), ("a_photograph_in_common", 2.0)):
        yield f"decided_share[repeats_3, apart, {what}]", decided(2, 3, True, alike)
        yield f"decided_share[repeats_3, paired, {what}]", decided(2, 3, False, alike)
