"""A draw of private people: independent repeats, baselines that are what they say, and names that cover the claims' names."""

from dataclasses import replace

import pytest
import torch

from privlab import experiments
from privlab.course.lab_11 import experiments as model_inversion
from privlab.course.lab_12 import experiments as resistant_architectures
from privlab.data import attributes
from privlab.experiments import Size
from privlab.experiments.victims import private_people
from privlab.experiments.victims.private_people import People
from privlab.ledger import papers
from privlab.ledger.comparison import names
from privlab.training import RECIPES

ATTACK = dict(lr=0.1, pool=20, candidates=1, kept=1, steps=1, views=1)
STAGE = dict(people=4, recipe="two_epochs", attack=ATTACK, shown=1, little=True)
RESNETS = ("resnet", "resnet_shallow", "resnet_deep", "resnet_wide")


@pytest.fixture(scope="module", autouse=True)
def two_epochs(own_store):
    own_store.setitem(RECIPES, "two_epochs", replace(RECIPES["identities_smoke"], epochs=2))


@pytest.fixture
def own_faces(monkeypatch):
    """Four people of ORL in the place of a reader's own set, others in that of FFHQ."""
    orl = attributes.load("orl", size=32)

    def photographs(faces, side):
        rows = orl["person"] < (24 if faces == "stanford_dogs" else 8)
        outside = None if faces == "stanford_dogs" else orl.pixels[~rows]
        return orl.pixels[rows], orl["person"][rows], outside, private_people.data.NORMALISE["orl"]

    monkeypatch.setattr(private_people, "photographs", photographs)


def numbers(experiment, **settings):
    """What an experiment yields at invented settings."""
    one = replace(experiment, sizes={"smoke": Size("smoke", 1, "invented", **settings)})
    values, _ = one.collected(0, "smoke")
    assert all(abs(value) < 1e9 for value in values.values())
    return values


def uncovered(lab, measured):
    """Names of the lab's claims on ORL whose experiments were all measured, and that none of these yielded.

    measured: name of an experiment -> its values.
    """
    claims = [claim for claim in papers.claims(lab) if claim.experiments and measured.keys() >= {*claim.experiments}]
    asked = {name for claim in claims for name in names(claim.compare, *claim.needs) if "[orl" in name}
    assert asked
    return asked - {name for values in measured.values() for name in values}


def test_repeats_draw_their_own_people_and_their_own_weights():
    one, again, other = (People(repeat, **STAGE) for repeat in (20, 20, 21))
    assert one.split.people.tolist() == again.split.people.tolist() != other.split.people.tolist()
    weights = [next(iter(each.network("tiny").model(0).parameters())) for each in (one, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert set(one.split.people.tolist()).isdisjoint(one.split.public_people.tolist())


def test_names_cover_the_claims_on_orl():
    tiny = dict.fromkeys(RESNETS, "tiny")
    settings = {
        "defences": dict(networks=tiny, which=resistant_architectures.ALL, stops=[1], full=1),
        "skip_factor": dict(networks={"resnet": "tiny"}, factors=[0.0, 0.2, 0.5, 1.0]),
        "transformers": dict(networks={"maxvit": "tiny", "vit": "tiny"}, epochs=2, stops=[1]),
    }
    found = {f"resistant_architectures.{name}": how for name, how in settings.items()}
    assert not uncovered("12", {n: numbers(experiments.find(n), stage=STAGE, **how) for n, how in found.items()})


def test_names_cover_the_claims_on_skips():
    settings = dict(networks={**dict.fromkeys(RESNETS, "tiny"), "densenet": "tiny"}, variants=model_inversion.STAGES)
    rest = dict(plain=["vgg", "resnet_fine"], stops=[1], pictures=2, others={"efficientnet": "tiny"})
    values = numbers(model_inversion.skips, stage=STAGE, **settings, **rest)
    assert not uncovered("11", {"model_inversion.skips": values})
    assert values["attacc[orl, noise, target_says]"] in (0, 50, 100)


def test_a_reader_s_own_faces_and_dogs_are_measured_under_their_names(own_faces):
    stage, dogs = ({**STAGE, "faces": faces} for faces in ("facescrub", "stanford_dogs"))
    how = dict(networks={"resnet_50": "tiny"}, variants=["skip_4"], plain=[], stops=[1], pictures=0)
    also = [dict(stage=dogs, **how)]
    values = numbers(model_inversion.skips, stage=stage, others={"efficientnet": "tiny"}, more=also, **how)
    wanted = ["facescrub, resnet_50, skip_4", "facescrub, efficientnet, skip_last", "stanford_dogs, resnet_50, skip_4"]
    assert {f"attacc_if_stopped[{name}]" for name in wanted} <= values.keys()
