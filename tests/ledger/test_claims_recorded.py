"""Every claim names what its lab records: held against the committed runs, at the profile from which the claim can be decided."""

from __future__ import annotations

from pathlib import Path

import pytest

from privlab import ledger
from privlab.ledger import papers
from privlab.ledger.papers import PROFILES
from privlab.ledger.verdicts import parse

BASELINES = Path(__file__).parents[2] / "book/baselines"
RUNS = {profile: ledger.read(path) for profile in PROFILES if (path := BASELINES / f"{profile}.json").exists()}
# Claims that no committed run can answer for: no run at gpu or paper is committed.
UNSEEN = [claim for claim in papers.claims() if not any(p in RUNS for p in PROFILES[PROFILES.index(claim.profile) :])]


def lacking(claim: papers.Claim, run: ledger.Ledger) -> list[str]:
    """What a claim names and its lab did not record in a run."""
    known = {r.name for r in run.records if r.lab == claim.lab}
    return [name for name in parse(claim.compare, claim.id).names if name not in known]


@pytest.mark.parametrize("profile", RUNS)
def test_every_claim_names_what_its_lab_recorded(profile):
    run = RUNS[profile]
    labs = {r.lab for r in run.records}
    due = [c for c in papers.claims() if PROFILES.index(c.profile) <= PROFILES.index(profile)]
    assert {c.lab for c in due} <= labs
    missing = {c.id: names for c in due if (names := lacking(c, run))}
    assert missing == {}


def test_only_claims_that_need_a_gpu_are_beyond_the_committed_runs():
    assert {claim.profile for claim in UNSEEN} <= {"gpu", "paper"}
    assert len(UNSEEN) < len(papers.claims()) / 2


def test_a_claim_about_nothing_recorded_would_be_seen():
    claim = next(c for c in papers.claims("05") if c.profile == "smoke")
    odd = papers.Claim(**{**vars(claim), "compare": "psnr[of_nothing] > 20"})
    assert lacking(odd, RUNS["smoke"]) == ["psnr[of_nothing]"] and lacking(claim, RUNS["smoke"]) == []
