"""Why claims did not reproduce, as far as we know; and the soak that is committed."""

import json
import statistics
from pathlib import Path

from privlab.ledger import judging, papers
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]


def test_the_soak_that_is_committed_was_green():
    soak = json.loads((ROOT / "book/baselines/soak.json").read_text())
    rounds = [json.loads(line) for line in (ROOT / "book/baselines/soak.jsonl").read_text().splitlines()]
    assert soak["rounds"] == len(rounds) >= 20 and soak["differ"] == []
    assert soak["labs"].keys() <= {lab.name for lab in catalogue.labs(ROOT / "labs")}
    assert all(lab["failed"] == 0 and lab["runs"] == soak["rounds"] for lab in soak["labs"].values())
    assert [one["trained"] for one in rounds if one["store"] == "empty"] == soak["trained"] and min(soak["trained"]) > 0
    for name, lab in soak["labs"].items():
        seconds = [one["labs"][name]["seconds"] for one in rounds]
        assert lab["seconds"] == [min(seconds), statistics.median(seconds), max(seconds)]
        assert all(one["labs"][name]["error"] is None for one in rounds)


def test_explanations_name_claims_that_are_there():
    ids = {claim.id for claim in papers.claims()}
    for name, one in papers.explanations().items():
        assert {name, *one.rests_on} <= ids and one.because, name


def test_how_an_explanation_stands():
    one = papers.Explanation("it is", evidence=("a",), refuted=("b",))
    yes, no, open_ = "reproduced", "not reproduced", "inconclusive"
    assert one.rests_on == ["a", "b"]
    assert one.standing({"a": yes, "b": no}) == "measured"
    assert one.standing({"a": no, "b": no}) == one.standing({"a": yes, "b": yes}) == "contradicted"
    assert one.standing({"a": open_, "b": yes}) == "contradicted"
    assert one.standing({"a": yes, "b": open_}) == one.standing({"a": yes}) == "in part undecided"
    assert papers.Explanation("it is").standing({}) == "a conjecture"


def test_no_explanation_is_contradicted_by_the_evidence():
    """Where a verdict moves, the sentence that rested on it has to move, too."""
    verdicts = {j.claim.id: j.verdict for j in judging.judgements()}
    failed = {n: e for n, e in papers.explanations().items() if verdicts[n] == "not reproduced"}
    assert failed and not [name for name, each in failed.items() if each.standing(verdicts) == "contradicted"]
