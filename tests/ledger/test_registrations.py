"""The book's own registrations: what was promised before it was measured is kept, and what was measured was promised.

Evidence is frozen: what it depends on has one digest for ever (digests.json), and what went is named (retired.yaml).
"""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from privlab import experiments
from privlab.experiments import measuring
from privlab.ledger import evidence, papers

ROOT = Path(__file__).parents[2]
FILE = "book/evidence/registered.jsonl"
DIGESTS = "book/evidence/digests.json"
RETIRED = yaml.safe_load((ROOT / "book/evidence/retired.yaml").read_text())
FROZEN = "d2fc66f"  # the commit whose claims are kept or retired
NAMES = experiments.names()
ALL = [(name, size) for name in NAMES for size in experiments.find(name).sizes if size != "smoke"]


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_no_registration_was_ever_taken_back():
    commits = git("log", "--format=%H", "--", FILE).stdout.split()
    if not commits:
        pytest.skip("no history of registrations here, as in an archive or a shallow clone")
    ever = {line for commit in commits for line in git("show", f"{commit}:{FILE}").stdout.splitlines() if line}
    assert ever <= set((ROOT / FILE).read_text().splitlines())


def test_a_registration_is_of_an_experiment_that_is_there():
    for entry in evidence.registrations(ROOT / "book/evidence"):
        assert entry.experiment in RETIRED["experiments"] or entry.size in experiments.find(entry.experiment).sizes


def test_no_size_has_seen_the_repeats_of_another():
    """class from 0, night from 1,000, gpu from 2,000, paper from 3,000: of what is registered, and of what would be."""
    planned = [measuring.registration(name, size) for name, size in ALL]
    for entry in [*evidence.registrations(ROOT / "book/evidence"), *planned]:
        first, repeats = evidence.FIRST[entry.size], entry.range
        assert repeats and first <= repeats[0] <= repeats[-1] < first + 1_000, entry


def test_every_experiment_and_size_has_the_digest_that_is_written_down():
    now = {name: {size: experiments.find(name).digest(size) for size in experiments.find(name).sizes} for name in NAMES}
    assert now == json.loads((ROOT / DIGESTS).read_text()), (
        "a name, a setting, a protocol or a data set of an experiment changed; its evidence counts no longer. Undo that, or give the "
        "new measurement a name of its own; entries of digests.json are added and deleted, and never changed"
    )


def test_no_digest_was_ever_changed():
    first = {}
    for commit in git("log", "--reverse", "--format=%H", "--", DIGESTS).stdout.split():
        for name, sizes in json.loads(git("show", f"{commit}:{DIGESTS}").stdout).items():
            for size, digest in sizes.items():
                assert first.setdefault((name, size), digest) == digest, f"{commit} changes {name} at {size}"


def test_no_claim_went_without_a_word_of_its_last_verdict_and_the_reason():
    assert all(why.keys() == {"verdict", "commit", "reason"} for why in RETIRED["claims"].values())
    assert all(why.keys() == {"commit", "reason"} for why in RETIRED["experiments"].values())
    assert not RETIRED["experiments"].keys() & {*NAMES}
    then = git("show", f"{FROZEN}:privlab/ledger/papers/claims.yaml").stdout
    if not then:
        pytest.skip("no history of claims here, as in an archive or a shallow clone")
    now = {claim.id for claim in papers.claims()}
    assert set(re.findall(r"^- id: (\S+)", then, re.MULTILINE)) <= now | RETIRED["claims"].keys()
    assert not now & RETIRED["claims"].keys()


def test_what_is_measured_was_registered():
    promised = {(e.experiment, e.size, e.digest, n) for e in evidence.registrations() for n in e.range}
    for name, size in ALL:
        rows = evidence.read(name, size, experiments.find(name).digest(size))
        assert {(name, size, row.digest, row.repeat) for row in rows if row.repeat >= 0} <= promised
