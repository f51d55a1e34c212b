"""A draw of private people: independent repeats, and a reader's own faces under their own names."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from privlab.attacks.model_inversion import ModelInversion
from privlab.course.lab_11 import experiments as model_inversion
from privlab.data import attributes
from privlab.experiments.victims import private_people
from privlab.experiments.victims.private_people import People
from privlab.training import RECIPES

ATTACK = dict(lr=0.1, pool=20, candidates=1, kept=1, steps=1, views=1)
STAGE = dict(people=4, recipe="one_epoch", attack=ATTACK, shown=1, little=True)


@pytest.fixture(scope="module", autouse=True)
def one_epoch(own_store):
    own_store.setitem(RECIPES, "one_epoch", replace(RECIPES["identities_smoke"], epochs=1, warmup_epochs=0))


def test_repeats_draw_their_own_people_and_their_own_weights():
    one, again, other = (People(repeat, **STAGE) for repeat in (20, 20, 21))
    assert one.split.people.tolist() == again.split.people.tolist() != other.split.people.tolist()
    weights = [next(iter(each.network("tiny").model(0).parameters())) for each in (one, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert set(one.split.people.tolist()).isdisjoint(one.split.public_people.tolist())


def test_an_attack_on_another_device_leaves_the_prior_on_the_cpu_where_labs_draw_with_it(monkeypatch):
    """The device "meta" stands for a card."""
    monkeypatch.setattr(ModelInversion, "run_once", run_once := Mock(side_effect=InterruptedError))
    here = People(0, **STAGE, device="meta")
    with pytest.raises(InterruptedError):
        here.inverted(SimpleNamespace(model=lambda *_: torch.nn.Identity()))
    _, attacked_with, *_ = run_once.call_args.args
    assert attacked_with.mean.device.type == "meta" and here.prior.mean.device.type == "cpu"


def test_a_reader_s_own_faces_and_dogs_are_measured_under_their_names(monkeypatch):
    """With people of ORL in the place of the reader's own set, and of FFHQ."""
    orl = attributes.load("orl", size=32)

    def photographs(faces, side):
        rows = orl["person"] < (24 if faces == "stanford_dogs" else 4)
        outside = None if faces == "stanford_dogs" else orl.pixels[~rows]
        return orl.pixels[rows], orl["person"][rows], outside, private_people.data.NORMALISE["orl"]

    monkeypatch.setattr(private_people, "photographs", photographs)
    stage, dogs = ({**STAGE, "faces": faces} for faces in ("facescrub", "stanford_dogs"))
    how = dict(networks={"resnet_50": "tiny"}, variants=["skip_4"], plain=[], stops=[], pictures=0)
    more = [dict(stage=dogs, **how)]
    measured = model_inversion.skips.measure(0, stage=stage, others={"efficientnet": "tiny"}, more=more, **how)
    values = {name: value for name, value in measured if not name.startswith("picture[")}
    wanted = ["facescrub, resnet_50, skip_4", "facescrub, efficientnet, skip_last", "stanford_dogs, resnet_50, skip_4"]
    assert {f"attacc_if_stopped[{name}]" for name in wanted} <= values.keys()
    assert all(abs(value) < 1e9 for value in values.values())
