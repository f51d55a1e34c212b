"""The runs that are committed with the book: read, explained where they failed, and with all that the claims name."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from privlab import ledger
from privlab.ledger import baselines, evidence, papers
from privlab.ledger.evidence import SIZES
from privlab.ledger.records import Machine, record
from privlab.ledger.verdicts import NOT_REPRODUCED, parse
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]
RUNS = baselines.committed()
# Claims that no committed run can answer for: no run at gpu or paper is committed.
UNSEEN = [
    claim
    for claim in papers.claims()
    if claim.profile and not any(p in RUNS for p in SIZES[SIZES.index(claim.profile) :])
]


def run(values=(1.0, 2.0), lab="05", machine=None, when="2026-11-22T00:00:00+00:00", labs=None):
    about = dict(
        lab=lab, profile="smoke", seed=0, device="cpu", mode="eval", victim="fresh", machine=machine or Machine.here()
    )
    return replace(ledger.summarise([record("psnr", ["a"], values, **about)], "smoke", labs=labs), when=when)


def test_what_is_committed_is_there_and_in_order():
    found = baselines.committed()
    assert list(found) == [p for p in evidence.SIZES if p in found] and {"smoke", "class"} <= found.keys()
    assert all(name == one.profile for name, one in found.items())


def test_the_run_at_smoke_is_one_run_of_all_labs_on_one_machine_and_keeps_what_is_promised():
    smoke = baselines.committed()["smoke"]
    numbers = {lab.number for lab in catalogue.labs(ROOT / "labs")}
    assert {r.lab for r in smoke.records} == numbers == smoke.labs.keys()
    assert len({r.machine for r in smoke.records}) == 1
    assert sum(took["seconds"] for took in smoke.labs.values()) < 2 * 600  # two at once, so within ten minutes
    assert max(took["peak_gb"] for took in smoke.labs.values()) < 2.0


def test_the_soak_that_is_committed_was_green():
    soak = json.loads((ROOT / "book/baselines/soak.json").read_text())
    rounds = [json.loads(line) for line in (ROOT / "book/baselines/soak.jsonl").read_text().splitlines()]
    assert soak["rounds"] == len(rounds) >= 20 and soak["differ"] == []
    assert soak["labs"].keys() == {lab.name for lab in catalogue.labs(ROOT / "labs")}
    assert all(lab["failed"] == 0 and lab["runs"] == soak["rounds"] for lab in soak["labs"].values())
    assert [one["trained"] for one in rounds if one["store"] == "empty"] == soak["trained"] and min(soak["trained"]) > 0
    for name, lab in soak["labs"].items():
        seconds = [one["labs"][name]["seconds"] for one in rounds]
        assert lab["seconds"] == [min(seconds), statistics.median(seconds), max(seconds)]
        assert all(one["labs"][name]["error"] is None for one in rounds)


def test_none_is_committed_where_there_is_no_book(tmp_path):
    assert baselines.committed(tmp_path) == {} == baselines.own(tmp_path)


def test_every_failure_of_a_committed_run_has_an_explanation():
    why = papers.explanations()
    for name, one in baselines.committed().items():
        failed = {j.claim.id for j in one.judgements if j.verdict == NOT_REPRODUCED}
        assert not failed - why.keys(), f"{name}: look why, and say so in privlab/ledger/papers/explanations.yaml"


def test_own_runs_come_latest_first_and_broken_ones_are_left_out(tmp_path):
    for name, when in (("old", "2026-11-01"), ("new", "2026-11-20"), ("middle", "2026-11-10")):
        ledger.write(tmp_path / name / "ledger.json", run(when=f"{when}T00:00:00+00:00"))
    (tmp_path / "half").mkdir()
    (tmp_path / "half/ledger.json").write_text('{"format": 1')
    ledger.write(tmp_path / "later/ledger.json", run())
    later = json.loads((tmp_path / "later/ledger.json").read_text())
    (tmp_path / "later/ledger.json").write_text(json.dumps(later | {"format": 2}))
    assert list(baselines.own(tmp_path)) == ["new", "middle", "old"]


def test_provenance_counts_all_and_tells_machines_apart():
    here = Machine.here()
    one, other = (
        run(labs={"05": {"seconds": 12.5, "peak_gb": 1.5}}),
        run((1.0, 2.0, 3.0), lab="07", machine=replace(here, torch="2.11")),
    )
    rows = baselines.provenance(replace(one, records=one.records + other.records))
    assert [(r["lab"], r["figures"], r["repeats"], r["torch"], r["seconds"]) for r in rows] == [
        ("05", 1, 2, here.torch, 12.5),
        ("07", 1, 3, "2.11", None),
    ]


def test_what_labs_took_is_kept_and_runs_of_before_lack_it(tmp_path):
    ledger.write(tmp_path / "ledger.json", run(labs={"05": {"seconds": 12.5}}))
    assert ledger.read(tmp_path / "ledger.json").labs == {"05": {"seconds": 12.5}}
    before = json.loads((tmp_path / "ledger.json").read_text())
    del before["labs"]
    (tmp_path / "ledger.json").write_text(json.dumps(before))
    assert ledger.read(tmp_path / "ledger.json").labs == {}


KNOWN = "lu2022.theorem1.linear_system"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"nobody.says.so": {"because": "it is"}}, "there is no claim 'nobody.says.so'"),
        ({KNOWN: {"because": "it is", "evidence": ["no.such.claim"]}}, "there is no claim 'no.such.claim'"),
        ({KNOWN: {"evidence": [KNOWN]}}, "because=None says nothing; give a sentence"),
    ],
)
def test_an_explanation_out_of_form(tmp_path, entry, message):
    (tmp_path / "why.yaml").write_text(yaml.safe_dump({"explanations": entry}))
    with pytest.raises(ValueError, match=message):
        papers.explanations(tmp_path / "why.yaml")


# -- every claim names what its lab records ------------------------------------------------------------------------------


def lacking(claim: papers.Claim, run: ledger.Ledger) -> list[str]:
    """What a claim names and its lab did not record in a run."""
    recorded = {r.name for r in run.records if r.lab == claim.lab}
    return [name for name in parse(claim.compare, claim.id).names if name not in recorded]


@pytest.mark.parametrize("profile", RUNS)
def test_every_claim_names_what_its_lab_recorded(profile):
    run = RUNS[profile]
    labs = {r.lab for r in run.records}
    due = [c for c in papers.claims() if c.profile and SIZES.index(c.profile) <= SIZES.index(profile)]
    assert {c.lab for c in due} <= labs
    missing = {c.id: names for c in due if (names := lacking(c, run))}
    assert missing == {}


def test_only_claims_that_need_a_gpu_are_beyond_the_committed_runs():
    assert {claim.profile for claim in UNSEEN} <= {"gpu", "paper"}
    assert len(UNSEEN) < len(papers.claims()) / 2


def test_a_claim_about_nothing_recorded_would_be_seen():
    claim = next(c for c in papers.claims() if c.profile == "smoke")
    odd = papers.Claim(**{**vars(claim), "compare": "psnr[of_nothing] > 20"})
    assert lacking(odd, RUNS["smoke"]) == ["psnr[of_nothing]"] and lacking(claim, RUNS["smoke"]) == []
