"""Lab 14: what verdicts are worth, asked of invented numbers whose truth is known."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np

from privlab.experiments.protocol import Size, Values, experiment
from privlab.ledger import comparison, evidence, judging, rule
from privlab.ledger.papers import Claim

COMPOUNDS = {
    "both": "one[x] > 0 and other[x] > 0",
    "either": "one[x] > 0 or other[x] > 0",
    "order_of_four": "one[x] > other[x] > third[x] > fourth[x]",
    "largest_of_four": "max(one[x], other[x], third[x], fourth[x]) > 0",
    "within": "abs(one[x] - other[x]) < 0.2",
}


def decision(compare: str, values: dict[str, np.ndarray], apart: bool = False) -> str:
    """What repeats say of a comparison, at 0.05: "holds", "fails", or "" where they cannot tell.

    values: name -> one number a repeat.  apart: whether the repeats of two names have nothing to do with each other (Welch).
    """
    named = {f"{name}[x]": of for name, of in values.items()}
    tables = [{name: of} for name, of in named.items()] if apart else [named]
    p = rule.p_values(comparison.parse(compare), tables)
    return "holds" if p.holds < evidence.LEVEL else "fails" if p.fails < evidence.LEVEL else ""


@experiment(
    "the_ledger.decisions",
    smoke=Size(2, "30 invented experiments a number", settings=dict(times=30)),
    class_=Size(8, "400 invented experiments a number", settings=dict(times=400)),
)
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


@experiment(
    "the_ledger.nothing_to_find",
    smoke=Size(2, "30 invented experiments a number", settings=dict(times=30)),
    class_=Size(8, "2,000 invented experiments a number", settings=dict(times=2_000)),
)
def nothing_to_find(repeat: int, times: int) -> Values:
    """How often a compound is decided, each way, where all true means are 0; eight repeats."""
    draw = np.random.default_rng(repeat % 2**32)
    for name, compare in COMPOUNDS.items():
        invented = draw.normal(size=(times, 4, 8))
        found = [
            decision(compare, dict(zip(("one", "other", "third", "fourth"), rows, strict=True))) for rows in invented
        ]
        for word in ("holds", "fails"):
            yield f"decided_share[{name}, {word}]", found.count(word) / times


@experiment(
    "the_ledger.judged_again",
    smoke=Size(2, "20 invented claims", settings=dict(claims=20)),
    class_=Size(8, "60 invented claims", settings=dict(claims=60)),
)
def judged_again(repeat: int, claims: int) -> Values:
    """Whether verdicts are the lines' alone: judged again from the same lines in another order, and among lines that are not evidence."""
    draw = np.random.default_rng(repeat % 2**32)
    names = [f"psnr[of_{i}]" for i in range(claims)]
    asked = [
        Claim(f"privlab.invented.{i}", "lab 14", "14", "ordering", "S.", f"{name} > 0", ("invented.one",))
        for i, name in enumerate(names)
    ]
    values = draw.normal(draw.normal(0, 1, claims), 1, (8, claims))
    rows = [
        evidence.Repeat(i, "it", dict(zip(names, map(float, of), strict=True)), 1.0, 100.0 + i)
        for i, of in enumerate(values)
    ]
    foreign = [
        evidence.Repeat(-1, "it", {name: 1e3 for name in names}, 1.0, 1.0),  # a pilot
        evidence.Repeat(8, "it", {name: 1e3 for name in names}, 1.0, 1.0),  # one more than is registered
        evidence.Repeat(2, "it", {name: 1e3 for name in names}, 1.0, 999.0),  # a second line for a repeat
        evidence.Repeat(3, "another", {name: 1e3 for name in names}, 1.0, 1.0),  # another protocol
    ]
    order = draw.permutation(len(rows))
    first = _verdicts(asked, rows)
    again = {
        "in_another_order": [rows[i] for i in order],
        "among_others": [*foreign, *(rows[i] for i in order)],
        "of_another_sign": [
            evidence.Repeat(r.repeat, r.digest, {n: -v for n, v in r.values.items()}, 1.0, r.when) for r in rows
        ],  # a control: these have to be others
    }
    yield "decided_share[of_claims, first]", np.mean([verdict != judging.INCONCLUSIVE for verdict in first])
    for name, lines in again.items():
        kept = [old == new for old, new in zip(first, _verdicts(asked, lines), strict=True)]
        yield f"verdicts_kept[{name}]", np.mean(kept)


def _verdicts(claims: list[Claim], rows: list[evidence.Repeat]) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        entry = evidence.Registration("invented.one", "class", 1, "it", 0, 8, "invented numbers", False, "2026-11-24")
        evidence.register([entry], folder)
        file = evidence.path("invented.one", "class", folder)
        file.parent.mkdir()
        file.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows) + '{"repeat": 7, "dig')
        have = judging.shelf(folder)
        return [judging.judge(claim, have).verdict for claim in claims]
