"""Why claims did not reproduce, as far as we know; and the soak that is committed."""

import json
import statistics
from pathlib import Path

import pytest
import yaml

from privlab.ledger import papers
from privlab.runner import catalogue

ROOT = Path(__file__).parents[2]


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
