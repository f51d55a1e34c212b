"""Values over the grader's pipe: a step of the morph is rebuilt as what it was, and nothing that only calls itself one."""

import json
from dataclasses import make_dataclass

import pytest

from privlab.models import morph_steps
from privlab.teaching.marking import serialisation


@pytest.mark.parametrize("step", [*morph_steps.STEPS.values(), morph_steps.variant(14, sharpness=2.0, norms="010")])
def test_a_step_of_the_morph_comes_back(step):
    sent = json.loads(json.dumps(serialisation.encode([step, {"a": step}])))
    back = serialisation.decode(sent)
    assert back == [step, {"a": step}] and type(back[0]) is morph_steps.Step


def test_another_class_of_that_name_is_no_data():
    impostor = make_dataclass("Step", ["number"], namespace={"__module__": morph_steps.Step.__module__})
    with pytest.raises(serialisation.NoData, match="Step"):
        serialisation.encode(impostor(1))
