"""The book's own registrations: what was promised before it was measured is kept, and what was measured was promised."""

import subprocess
from pathlib import Path

import pytest

from privlab import experiments
from privlab.ledger import evidence

ROOT = Path(__file__).parents[2]
FILE = "book/evidence/registered.jsonl"
ALL = [(name, size) for name in experiments.names() for size in experiments.find(name).sizes if size != "smoke"]


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_no_registration_was_ever_taken_back():
    commits = git("log", "--format=%H", "--", FILE).stdout.split()
    if not commits:
        pytest.skip("no history of registrations here, as in an archive or a shallow clone")
    ever = {line for commit in commits for line in git("show", f"{commit}:{FILE}").stdout.splitlines() if line}
    assert ever <= set((ROOT / FILE).read_text().splitlines())


@pytest.mark.parametrize(
    "entry", evidence.registrations(ROOT / "book/evidence"), ids=lambda e: f"{e.experiment}-{e.size}-{e.first}"
)
def test_a_registration_is_of_an_experiment_that_is_there(entry):
    assert entry.size in experiments.find(entry.experiment).sizes


@pytest.mark.parametrize(("name", "size"), ALL)
def test_what_is_measured_was_registered(name, size):
    experiment = experiments.find(name)
    rows = evidence.read(name, size, experiment.digest(size)).repeats
    ranges = [
        range(entry.first, entry.first + entry.repeats)
        for entry in evidence.registrations()
        if (entry.experiment, entry.size, entry.digest) == (name, size, experiment.digest(size))
    ]
    strays = [row.repeat for row in rows if row.repeat >= 0 and not any(row.repeat in each for each in ranges)]
    assert not strays, f"repeats {strays} of {name} at {size} were measured without a registration"
