"""What a client defends: one photograph and one network a repeat, what attackers know, and names that cover the claims' names."""

import pytest
import torch

from privlab.course.lab_13 import experiments as defences
from privlab.defences import noise_budget
from privlab.experiments.victims.defended_client import ROWS, WAYS, Client, Pair, spent
from privlab.ledger import papers
from privlab.ledger.comparison import names

TINY = dict(model="vit_cifar", changes=dict(embed_dim=64, depth=1, num_heads=2, position_std=1.0))
QUICK = dict(attack="annealed", steps=1)


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVLAB_STORE", str(tmp_path_factory.mktemp("store")))
        yield patch


def numbers(experiment, **settings):
    values = {}
    for name, value in experiment.measure(0, **settings):
        assert name not in values
        if not isinstance(value, torch.Tensor) or value.ndim < 2:
            values[name] = float(value)
    return values


def uncovered(experiment, values):
    asked = {
        name
        for claim in papers.claims("13")
        if experiment.name in claim.experiments
        for text in (claim.compare, *claim.needs)
        for name in names(text)
    }
    other = ("task_acc", "auc") if experiment is defences.one_update else ("psnr",)
    return sorted(name for name in asked - values.keys() if len(values) and not name.startswith(other))


def test_repeats_have_their_own_photograph_and_weights():
    one, again, other = (Client(repeat, **TINY, **QUICK) for repeat in (3, 3, 4))
    assert torch.equal(one.photograph, again.photograph) and not torch.equal(one.photograph, other.photograph)
    weights = [next(iter(client.network.parameters())) for client in (one, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert torch.equal(one.search(ROWS["clipped"]), again.search(ROWS["clipped"]))


@pytest.mark.parametrize("way", WAYS)
def test_each_way_spends_one_energy(way):
    client = Client(0, **TINY, **QUICK)
    measured = noise_budget.measured(client.network)
    noisy = spent(way, 0.5, measured)(client.update, client.network, 1)
    noise = sum((noisy.grads[n] - g).square().sum() for n, g in client.update.grads.items()).sqrt()
    assert noise / client.update.norm == pytest.approx(0.5, rel=0.15)


def test_names_cover_the_claims_of_one_update():
    rest = dict(levels=[0.01, 0.1], strengths=[1.0], ways=WAYS, rows=["largest_1_percent", "position_withheld"])
    values = numbers(defences.one_update, **TINY, **QUICK, **rest, embeddings=["fixed_rank_4"])
    assert uncovered(defences.one_update, values) == []
    assert values["psnr[strongest, none]"] == max(v for n, v in values.items() if n.startswith("psnr[matrix, none,"))


def test_names_cover_the_claims_of_trainings():
    rest = dict(rows=["largest_1_percent"], ways=["even", "own"], embeddings=["fixed_rank_4"], private=False)
    values = numbers(defences.training_cost, **TINY, members=32, epochs=2, stops=[1], **rest)
    assert uncovered(defences.training_cost, values) == []


def test_names_cover_the_claims_of_swaps():
    swaps = numbers(
        defences.design_swaps,
        changes=defences.QUARTER,
        which=[*defences.SWAPS],
        searches={"annealed": 1},
        members=32,
        epochs=2,
    )
    assert uncovered(defences.design_swaps, swaps) == []


def test_members_of_a_pair_are_strangers_to_each_other():
    pair = Pair(5, 20, 2)
    assert pair.keep.sum(1).tolist() == [20, 20] and not (pair.keep[0] & pair.keep[1]).any()
    assert not any(pair.keep[m][pair.outside[m]].any() for m in (0, 1))
    assert not torch.equal(pair.pixels, Pair(6, 20, 2).pixels)
