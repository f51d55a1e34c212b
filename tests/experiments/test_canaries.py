"""Canaries: the first repeat of each experiment at smoke, held against its committed values.

Behaviour that moved without a higher `protocol` would mix what cannot be mixed. What a lab of this very source has measured live at smoke
is taken from its run, where PRIVLAB_SMOKE names one, as the Makefile does; the other experiments are measured here.
"""

import os
from pathlib import Path

import pytest

from privlab.experiments import find, names
from privlab.ledger import evidence
from privlab.runner import canaries


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest) -> Path | None:
    """The run of the labs: whoever asks for one canary does not wait for all labs."""
    return request.getfixturevalue("smoke")[0] if "PRIVLAB_SMOKE" in os.environ else None


def now(name: str, run: Path | None) -> evidence.Repeat:
    """The first repeat at smoke as it comes out now."""
    experiment = find(name)
    for there in canaries.live(run).get(name, []) if run else []:
        if there.repeat == 0 and there.digest == experiment.digest("smoke"):
            return there
    return experiment.measured(0, "smoke")[0]  # on one thread, as all tests


@pytest.mark.parametrize("name", names())
def test_no_behaviour_moved_without_a_higher_protocol(name, run):
    committed = evidence.lines(name, "smoke", find(name).digest("smoke")).get(0)
    measure = f"python -m privlab measure {name} --size smoke"
    assert committed, f"{name} has no committed line for repeat 0 of this digest; {measure}, and commit it"
    made = now(name, run)
    moved = canaries.moved(made, canaries.nearest(made, committed))
    assert not moved, "\n".join([*map(str, moved), f"If that is meant raise protocol, then {measure}"])
