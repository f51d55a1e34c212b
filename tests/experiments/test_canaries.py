"""Canaries: the first repeat of each experiment at smoke, held against its committed values.

Behaviour that moved without a higher `protocol` would mix what cannot be mixed. What a lab of this very source has measured live at smoke
is taken from its run; the other experiments are measured here.
"""

from pathlib import Path

import pytest
import torch

from privlab.experiments import find, names
from privlab.experiments.measuring import row
from privlab.ledger import evidence

ALIKE = ("torch", "timm", "processor", "threads")  # where these are the same, the values are


def live(name: str, run: Path) -> evidence.Repeat:
    """The first repeat at smoke as it comes out now."""
    experiment = find(name)
    for lab in sorted((run / "live").glob("*")):
        for there in evidence.read(name, "smoke", experiment.digest("smoke"), lab).repeats:
            return there
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        values, _ = experiment.collected(0, "smoke")
        return row(experiment, "smoke", 0, values, 0.0, "cpu")
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", names())
def test_no_behaviour_moved_without_a_higher_protocol(name, smoke):
    experiment = find(name)
    committed = [r for r in evidence.read(name, "smoke", experiment.digest("smoke")).repeats if r.repeat == 0]
    measure = f"python -m privlab measure {name} --size smoke"
    assert committed, f"{name} has no committed line for repeat 0 of this digest; {measure}, and commit it"
    before, now = committed[0], live(name, smoke[0])
    assert [*now.values] == [*before.values], (
        f"{name} yields other names than its canary; raise protocol, then {measure}"
    )
    if any(now.versions.get(key) != before.versions.get(key) for key in ALIKE):
        return  # another processor or release: a search or a training may go another way
    for key, value in before.values.items():
        assert now.values[key] == pytest.approx(value, rel=1e-6, abs=1e-9), (
            f"{key} of {name} moved; if that is meant raise protocol, then {measure}"
        )
