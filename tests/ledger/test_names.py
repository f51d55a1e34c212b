"""Every name that a claim compares or needs is one that its experiments yield, by the committed lines of every size that has some.

Where a size yields all that a claim compares it yields what the claim needs, or the claim would wait for ever at a size that is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from privlab import experiments
from privlab.ledger import evidence, papers
from privlab.ledger.comparison import names

STAND_INS = {"vit_base_patch16_224": "vit_small_patch32_224"}  # at smoke an experiment may have a smaller network

NOT_AT_A_COMMITTED_SIZE = {
    "night has one more part of a ViT": ["zhang2024.table6.attention_over_norm.best_of_three"],
}  # fmt: skip
ELSEWHERE = {claim for claims in NOT_AT_A_COMMITTED_SIZE.values() for claim in claims}
MEASURED = [claim for claim in papers.claims() if claim.experiments]


@cache
def yielded(experiment: str, size: str) -> frozenset[str]:
    """Names of the first committed repeat of the protocol as it is now; none where the size has no line."""
    one = experiments.find(experiment)
    rows = evidence.read(experiment, size, one.digest(size)) if size in one.sizes else ()
    return frozenset(rows[0].values) if rows else frozenset()


def missing(claim: papers.Claim, there: Mapping[str, frozenset[str]]) -> tuple[set[str], set[str]]:
    """Names that are compared, and names that are needed, of which no experiment yields one."""
    known = frozenset().union(*there.values())
    wants = (names(claim.compare), names(*claim.needs))
    compared, needed = ({n for n in each if n not in known and _small(n) not in known} for each in wants)
    return compared, needed


def _small(name: str) -> str:
    for large, small in STAND_INS.items():
        name = name.replace(large, small)
    return name


def sizes(claim: papers.Claim) -> dict[str, dict[str, frozenset[str]]]:
    """Size -> what each of the claim's experiments yields there, of the sizes at which all of them have lines."""
    every = {size: {e: yielded(e, size) for e in claim.experiments} for size in evidence.SIZES}
    return {size: there for size, there in every.items() if all(there.values())}


@pytest.mark.parametrize("claim", MEASURED, ids=lambda c: c.id)
def test_what_a_claim_names_is_yielded(claim):
    every = {size: missing(claim, there) for size, there in sizes(claim).items()}
    whole = [size for size, (compared, needed) in every.items() if not compared | needed]
    assert whole or claim.id in ELSEWHERE, f"of {claim.id} no committed line has {every}"
    stuck = {size: needed for size, (compared, needed) in every.items() if needed and not compared}
    assert not stuck, f"{claim.id} can never be judged where it needs {stuck}"


@pytest.mark.parametrize("claim", [c for c in MEASURED if len(c.experiments) > 1], ids=lambda c: c.id)
def test_of_several_experiments_one_yields_a_name(claim):
    wanted = {*names(claim.compare, *claim.needs)}
    for there in sizes(claim).values():
        assert all(sum(name in each for each in there.values()) <= 1 for name in wanted)
        assert claim.id in ELSEWHERE or all(each & wanted for each in there.values()), (
            "one yields nothing that is named"
        )
