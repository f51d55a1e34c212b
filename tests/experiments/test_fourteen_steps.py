"""Lab 09's experiments: what is compared is measured on one photograph, and claims find their names."""

import pytest
import torch

from privlab import data, experiments
from privlab.attacks.gradient_inversion import objectives
from privlab.course.lab_09 import experiments as fourteen_steps
from privlab.experiments import pictures
from privlab.experiments.victims.designs import Search
from privlab.leak import Leak
from privlab.ledger import comparison, papers
from privlab.models import morph

TINY = dict(attack="annealed", width=0.1, depths=[1, 1, 1, 1], public=1)


def test_two_repeats_share_neither_photograph_nor_weights_nor_start():
    one, other = (Search(n, "annealed", 2) for n in (3, 4))
    assert not torch.equal(one.photograph, other.photograph)
    assert torch.equal(one.photograph, data.load("cifar10", "test").one(3)[0])
    assert {(s.case(9).images, s.case(9).victim, s.case(9).seed) for s in (one, other)} == {((3,), 3, 3), ((4,), 4, 4)}


def test_what_a_step_has_anyway_is_no_change_and_a_network_without_activations_has_no_kind():
    search = Search(0, "annealed", 2, width=0.1)
    assert search.case(9, activations="111", norm="bn") == search.case(9)
    assert search.case(9, activations="000", activation="relu") == search.case(9, activations="000")
    assert search.case(3, activations="000", activation="gelu").changes["activation"] == "gelu"  # its stem has one


def test_a_fair_weight_is_one_on_step_9_and_looks_at_public_photographs_alone(monkeypatch):
    search = Search(0, "annealed", 2, width=0.1, depths=(1, 1, 1, 1), public=2)
    asked, one = [], data.Images.one
    monkeypatch.setattr(
        data.Images, "one", lambda self, i, size=None: asked.append((self.split, i)) or one(self, i, size)
    )
    assert search.fair(9) == 1.0 and set(asked) == {("train", 0), ("train", 1)}
    weight = search.fair(8)
    assert weight > 0 and float(f"{weight:.1g}") == weight


def test_the_guesses_look_at_no_gradient():
    search = Search(7, "annealed", 2)
    guesses = dict(search.guesses())
    mean = data.load("cifar10").pixels.float().mean(0, keepdim=True) / 255
    assert guesses["psnr[cifar10, mean_photograph]"] == pytest.approx(dict(search.scores("x", mean))["psnr[x]"])
    assert guesses["psnr[cifar10, grey]"] == dict(search.scores("x", torch.full_like(mean, 0.5)))["psnr[x]"]


def test_the_search_on_a_network_by_hand_is_that_of_its_case(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    search = Search(0, "annealed", 2, width=0.1, depths=(1, 1, 1, 1))
    assert torch.equal(search.alone(search.case(9).build(), 1.0), search.result(9).images)


def test_by_tensor_the_smallest_tensor_counts_as_much_as_the_largest():
    sent = {"large": torch.tensor([3e6, 4e6]), "small": torch.tensor([0.0, 2e-6])}
    leak = Leak(sent, 1, (3, 32, 32), torch.tensor([0]), data.NORMALISE["cifar10"])
    crossed = {"large": sent["large"], "small": torch.tensor([2e-6, 0.0])}  # at a right angle to what was sent
    whole, each = objectives.cosine_distance, fourteen_steps.by_tensor(leak)
    assert each(None, sent, leak).item() == pytest.approx(0, abs=1e-6)
    assert each(None, crossed, leak).item() == pytest.approx(0.5)
    assert whole(None, crossed, leak).item() == pytest.approx(0, abs=1e-6)


def test_a_short_search_and_a_long_one_meet_where_they_are_as_long(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVLAB_STORE", str(tmp_path))
    how = TINY | dict(attack="inverting_gradients")
    values = dict(fourteen_steps.steps.measure(0, steps=2, patience=2, chosen=[8, 9, 10], **how))
    assert all(values[f"psnr[step_{n}]"] == values[f"psnr[step_{n}, long]"] for n in (8, 9, 10))
    assert values["picture[steps]"].shape == (32, 4 * 32, 3)


def test_near_the_photograph_of_a_linear_network_downhill_leads_home():
    search = Search(0, "annealed", 2, width=0.1, depths=(1, 1, 1, 1))
    image, label = search.case(9).batch()
    model = search.case(9, activations="000").build()
    assert -1 <= fourteen_steps.homeward(model, image, label, 0.5, 0) <= 1
    assert fourteen_steps.homeward(model, image, label, 0.95, 0) > 0


def test_a_strip_has_rows_and_columns():
    black, white = torch.zeros(1, 3, 2, 2), torch.ones(1, 3, 2, 2)
    image = pictures.tiled([[black, white], [white, black]])
    assert image.shape == (4, 4, 3) and image[0, 2:].eq(255).all() and image[2:, 2:].eq(0).all()


@pytest.mark.parametrize("size", ["class", "night", "gpu", "paper"])
def test_the_steps_of_every_size_are_those_that_the_claims_speak_of(size):
    chosen = experiments.find("fourteen_steps.steps").size(size).settings["chosen"]
    names = {f"{metric}[step_{n}]" for metric in ("psnr", "mse", "ssim", "lpips") for n in chosen}
    claims = [c for c in papers.claims("09") if c.experiments == ["fourteen_steps.steps"]]
    asked = {name for c in claims for name in comparison.names(c.compare, *c.needs)}
    assert len(claims) > 10 and {n for n in asked if n.count(",") == 0} <= names and set(chosen) <= set(morph.STEPS)
