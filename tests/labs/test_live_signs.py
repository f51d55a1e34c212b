"""A reader's own dot lies on the side that the evidence says: the live parts of labs at class, on repeats that nobody has measured.

Of each experiment that a lab runs live, one comparison is held: of the lab's claims about it whose verdict at class is decided, one that
answers a headline before others, and of these the one that is decided most clearly (the smallest p). A live repeat may differ, as some of
the committed repeats do. One that differs is reported as a warning, and stays. The test fails only where live repeats differ more often
than the committed ones make plausible: by the beta-binomial distribution of how many of the next repeats differ, given how many of the
committed ones do (Jeffreys' prior).
"""

import ast
import warnings
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import betabinom

from privlab import experiments
from privlab.ledger import judging, papers
from privlab.ledger.comparison import each, names, parse
from privlab.runner import catalogue

SEEDS = 3  # the repeat that a reader measures, the first behind the registered ones, and the next two
LEVEL = 0.01  # how rarely live repeats fail, where they are like the committed ones


def live_parts(source):
    """The experiments that a lab runs live at the profile that it is given, by their names."""
    tree = ast.parse(source)
    texts = {
        node.targets[0].id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and hasattr(node.targets[0], "id")
    }
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "experiments.run"
    ]
    at_profile = [call.args[0] for call in calls if ast.unparse(call.args[1]) == "profile"]
    return [name.value if isinstance(name, ast.Constant) else texts[name.id] for name in at_profile]


LABS = [lab for lab in catalogue.everything(Path(__file__).parents[2] / "labs") if not lab.goes_deeper]
LIVE = [(lab.number, name) for lab in LABS for name in live_parts(lab.path.read_text())]


@dataclass(frozen=True)
class Held:
    """A comparison that the evidence decides at class.

    claim, verdict: which one, and what the ledger says.  differs: (repeats,), whether a committed repeat is on the other side.
    """

    claim: papers.Claim
    verdict: str
    differs: np.ndarray

    def is_met(self, values):
        """Whether values (numbers or arrays by name) are on the side of the verdict."""
        return each(parse(self.claim.compare), values) == (self.verdict == judging.REPRODUCED)

    def chances(self, repeats):
        """(repeats + 1,): how probable it is that none, one, ... of the next repeats differ."""
        d, n = self.differs.sum(), self.differs.size
        return betabinom(repeats, d + 0.5, n - d + 0.5).pmf(np.arange(repeats + 1))


def at_least(count, chances):
    """How probable it is that so many or more differ."""
    return float(np.sum(chances[count:]))


evidence = cache(judging.Shelf)  # each file of it is read once


@cache
def held(lab, experiment):
    """The comparison of a lab that its live experiment is held against; None where the evidence at class decides none."""
    shelf, decided = evidence(), []
    for claim in papers.claims(lab):
        if [*claim.experiments] == [experiment] and "abs(" not in claim.compare:  # "alike" has no sign
            for one in [one for one in judging.tries(claim, shelf)[0] if one.entries[0].size == "class"][:1]:
                judged = judging.judge_by(claim, one)
                if judged.p is not None and judged.verdict in (judging.REPRODUCED, judging.NOT_REPRODUCED):
                    decided.append((judged, one.tables[0]))
    if not decided:
        return None
    best, values = min(decided, key=lambda d: (d[0].claim.headline is None, d[0].exploratory, d[0].p))
    every = Held(best.claim, best.verdict, np.zeros(0))
    return Held(best.claim, best.verdict, ~np.asarray(every.is_met(values)))


@cache
def differs(lab, experiment, seed):
    """Whether a live repeat at class is on the other side; if so it is reported."""
    if seed == 0:  # as a reader's notebook does it
        values = {name: array[0] for name, array in experiments.run(experiment, "class", progress=False).table.items()}
    else:
        one = experiments.find(experiment)
        values, _ = one.collected(one.first("class") + one.size("class").repeats + seed, "class")
    expected = held(lab, experiment)
    if expected.is_met(values):
        return False
    shown = ", ".join(f"{name} = {values[name]:.4g}" for name in names(expected.claim.compare))
    committed = f"{expected.differs.sum()} of {expected.differs.size} committed repeats do so, too"
    warnings.warn(
        f"lab {lab}, live repeat {seed + 1} of {experiment}: {shown}, where {expected.claim.id} "
        f"({expected.claim.compare}) is {expected.verdict}; {committed}",
        stacklevel=2,
    )
    return True


def check(parts, seeds):
    """Measure these live parts, and hold how many repeats differ, all together, against what is plausible."""
    counts = [sum(differs(*part, seed) for seed in range(seeds)) for part in parts]
    chances = reduce(np.convolve, [held(*part).chances(seeds) for part in parts])
    p = at_least(sum(counts), chances)
    listed = ", ".join(f"{n} of {seeds} of {name}" for n, (_, name) in zip(counts, parts, strict=True) if n)
    assert p > LEVEL, f"live repeats that differ: {listed}; as many are expected with a chance of {p:.2g}"


def seconds(part):
    kept = experiments.load(part[1], "class")
    return kept.seconds / len(kept)


@pytest.mark.check
def test_two_quick_live_parts_are_on_the_side_of_the_evidence():
    """Of two labs, those whose live part takes the least."""
    decided = sorted((part for part in LIVE if held(*part)), key=seconds)
    first = dict(reversed([(part[0], part) for part in decided]))  # the quickest of each lab
    check(sorted(first.values(), key=seconds)[:2], 1)


@pytest.mark.weekly
@pytest.mark.parametrize("part", LIVE, ids="-".join)
def test_a_live_part_is_on_the_side_of_the_evidence(part):
    if not held(*part):
        pytest.skip("the evidence at class decides no comparison of it")
    check([part], SEEDS)


@pytest.mark.weekly
def test_the_live_parts_together_are_on_the_side_of_the_evidence():
    check([part for part in LIVE if held(*part)], SEEDS)


# -- the measures, by hand -----------------------------------------------------------------------------------------------


def test_the_live_parts_of_a_lab_are_read_from_its_source():
    source = 'NAME = "a.b"\nx = experiments.run(NAME, profile)\ny = experiments.run("c.d", profile, device=device)\n'
    assert live_parts(source + 'size = "smoke"\nz = experiments.run("e.f", size)\n') == ["a.b", "c.d"]
    assert len({lab for lab, _ in LIVE}) > 12


def made(differ, verdict=judging.REPRODUCED):
    claim = next(c for c in papers.claims() if c.id == "zhang2024.table5.swin_over_resnet")
    return Held(claim, verdict, np.array(differ))


def test_a_repeat_is_on_the_side_of_the_verdict():
    values = {"psnr[cifar10, swin]": np.array([20.0, 10.0]), "psnr[cifar10, resnet]": np.array([12.0, 12.0])}
    assert made([]).is_met(values).tolist() == [True, False]
    assert made([], judging.NOT_REPRODUCED).is_met(values).tolist() == [False, True]


def test_what_is_plausible_by_hand():
    none_of_eight = made([False] * 8).chances(1)
    assert none_of_eight == pytest.approx([8.5 / 9, 0.5 / 9])  # Jeffreys' posterior mean
    assert at_least(3, made([False] * 8).chances(3)) < LEVEL < at_least(2, made([False] * 8).chances(3))
    assert at_least(3, made([True, False] * 4).chances(3)) > LEVEL  # a coin may fall thrice on one side
    assert at_least(2, np.convolve(none_of_eight, none_of_eight)) == pytest.approx((0.5 / 9) ** 2)


def test_the_other_side_of_what_is_committed_would_be_found():
    """Were the sign of everything turned round, the tests above would fail."""
    expected = [held(*part) for part in LIVE if held(*part)]
    assert len(expected) > 3 and at_least(len(expected), reduce(np.convolve, [e.chances(1) for e in expected])) < LEVEL
