"""A draw of private people: independent repeats, and a reader's own faces under their own names."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from privlab.attacks.model_inversion import ModelInversion
from privlab.course.lab_11 import experiments as model_inversion
from privlab.course.lab_12 import experiments as resistant_architectures
from privlab.data import attributes
from privlab.experiments.victims import private_people
from privlab.experiments.victims.private_people import People, Reconstruction
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


def test_where_a_network_is_stopped_the_first_choice_is_held_against_first_choices():
    one = Reconstruction(None, acc=40.0, attacc=60.0, first=20.0, likelihood=0, dist_eval=0, result=None, top1=None)
    here = SimpleNamespace(faces="orl", people=4, attacked=lambda *_, at=(): [one] * (len(at) + 1))
    here.if_stopped = lambda acc, along: (acc, [each.attacc for each in along])
    told = model_inversion.without_skips(here, "tiny", "tiny", ["skip_4"], [3], floors=True)
    assert [next(told), next(told)] == [
        ("attacc_if_stopped[orl, tiny, skip_4]", (40.0, [60.0, 60.0])),
        ("attacc_if_stopped[orl, tiny, skip_4, first_choice]", (40.0, [20.0, 20.0])),
    ]


def test_groupnorm_is_held_against_batchnorm_stopped_and_whole():
    """Right in 60 of 100 it lies halfway between one stopped early, 40 and 20, and the whole one, 80 and 60."""
    rows = [(40.0, 0.2), (80.0, 0.6), (60.0, 0.3)]  # accuracy, and how often a judge sees the target
    early, whole, grouped = (
        SimpleNamespace(acc=acc, likelihood=0.0, result=SimpleNamespace(images=seen, targets=None))
        for acc, seen in rows
    )
    here = SimpleNamespace(faces="orl", people=4, recipe=RECIPES["identities_smoke"], judge_size={})
    judge = SimpleNamespace(accuracy=1.0, score=lambda images, _: SimpleNamespace(accuracy=images))
    here.attacked, here.network = lambda *_, **__: [early, whole], lambda *_, **__: None
    here.inverted, here.judged_by, here.random_face, here.strip = (
        lambda _: grouped,
        lambda *_: judge,
        lambda _: 25.0,
        lambda *_: None,
    )
    values = dict(resistant_architectures.judges.function(here, "tiny", 1, [4]))
    assert values["attacc_if_stopped[orl, groupnorm, judge_densenet_batchnorm]"] == pytest.approx(40.0)
    assert values["attacc[orl, groupnorm, judge_densenet_batchnorm]"] == pytest.approx(30.0)
