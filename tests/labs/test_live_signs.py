"""A reader's own dot lies on the side that the evidence says: the live parts of labs at class, on a repeat that nobody has measured.

Of each experiment that a lab runs live, one comparison is held: of the lab's claims about it that all committed repeats at class decide
alike, one that answers a headline before others, and of these the one that is decided most clearly (the smallest p).
"""

import ast
from pathlib import Path

import pytest

from privlab import experiments, ledger
from privlab.ledger import judging
from privlab.ledger.comparison import names, value
from privlab.runner import catalogue


def live_parts(source):
    """The experiments that a lab runs live at the profile that it is given, by their names."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = [n for n in nodes if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)]
    texts = {ast.unparse(node.targets[0]): node.value.value for node in plain}
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "experiments.run"]
    named = [call.args[0] for call in calls if ast.unparse(call.args[1]) == "profile"]
    return [name.value if isinstance(name, ast.Constant) else texts[name.id] for name in named]


LABS = catalogue.pick(catalogue.everything(Path(__file__).parents[2] / "labs"))
LIVE = [(lab.number, name) for lab in LABS for name in live_parts(lab.path.read_text())]


def is_met(judged, values):
    """Whether values (numbers or arrays by name) are on the side of the verdict."""
    return value(judged.claim.compare, values) == (judged.verdict == judging.REPRODUCED)


def held(lab, experiment):
    """The judgement that a live repeat is held against; None where the repeats at class decide no comparison alike."""
    values = experiments.load(experiment, "class").table
    decided = [
        j
        for j in ledger.judgements(lab)
        if [*j.claim.experiments] == [experiment] and j.verdict in (judging.REPRODUCED, judging.NOT_REPRODUCED)
        if "abs(" not in j.claim.compare and j.p is not None  # "alike" has no sign
        if {*names(j.claim.compare)} <= {*values} and is_met(j, values).all()
    ]
    return min(decided, key=lambda j: (j.claim.headline is None, j.exploratory, j.p), default=None)


QUICK = {"april_closed_form.noise", "gradient_inversion.position_scale"}  # of two labs, a second each
PARTS = [pytest.param(*part, marks=pytest.mark.check if part[1] in QUICK else pytest.mark.weekly) for part in LIVE]


@pytest.mark.parametrize(("number", "experiment"), PARTS)
def test_a_live_part_is_on_the_side_of_the_evidence(number, experiment):
    if not (judged := held(number, experiment)):
        assert experiment not in QUICK
        pytest.skip("the evidence at class decides no comparison of it alike")
    live = experiments.run(experiment, "class").table  # as a reader's notebook does it
    assert is_met(judged, {name: array[0] for name, array in live.items()})
