"""The network-based attack, thresholds by class and the label-only gap: by hand, by their definitions, and what they must not depend on."""

import random
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from privlab.attacks.membership_inference import network_based
from privlab.metrics import roc


def answers(seed, n=400, classes=5, members=None, lift=2.5):
    """Logits of a made-up model that is surer of its members; labels; who the members are."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (n,), generator=generator)
    members = torch.arange(n) < (n // 2 if members is None else members)
    logits = torch.randn(n, classes, generator=generator)
    logits[torch.arange(n), labels] += 1 + lift * members
    return logits, labels, members


# -- the network-based attack ------------------------------------------------------------------------------------------


def test_what_the_network_reads():
    logits, labels = torch.tensor([[1.0, 5.0, 2.0], [2.0, 1.0, 1.0]]).log(), torch.tensor([1, 1])
    assert network_based.inputs(logits, labels, sort=False) == pytest.approx(
        np.array([[0.125, 0.625, 0.25, 1], [0.5, 0.25, 0.25, 0]])
    )
    assert network_based.inputs(logits, labels, sort=True) == pytest.approx(
        np.array([[0.625, 0.25, 0.125, 1], [0.5, 0.25, 0.25, 0]])
    )


@pytest.mark.parametrize("sort", [False, True])
def test_tells_members_of_another_model(sort):
    attack = network_based.network(*answers(0), sort=sort)
    logits, labels, members = answers(1)
    scores = attack(logits, labels)
    assert scores.shape == (400,) and scores.dtype == torch.float64
    assert ((scores >= 0) & (scores <= 1)).all()
    assert roc.auc(scores, members) > 0.85
    assert roc.accuracy(scores, members, 0.5) > 0.75
    assert attack(logits[:7], labels[:7]).allclose(scores[:7], atol=1e-12)  # an image's score is its own


def test_the_bit_counts():
    """Confidences alone say nothing here; whether the answer is right tells all."""
    logits = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    members = torch.arange(300) % 2 == 0
    best = logits.argmax(1)
    labels = torch.where(members, best, (best + 1) % 3)
    assert roc_auc_score(members, network_based.network(logits, labels, members)(logits, labels)) > 0.99


def test_same_seed_same_scores_and_nobody_elses_randomness():
    logits, labels, _ = answers(1)
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    first = network_based.network(*answers(0), seed=3)(logits, labels)
    drawn = torch.rand(1).item(), np.random.rand(), random.random()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    assert drawn == (torch.rand(1).item(), np.random.rand(), random.random())
    assert network_based.network(*answers(0), seed=3)(logits, labels).equal(first)
    assert not network_based.network(*answers(0), seed=4)(logits, labels).equal(first)


def test_sorted_it_does_not_know_the_classes():
    order = torch.tensor([3, 0, 4, 1, 2])
    logits, labels, _ = answers(1)
    renamed, names = logits[:, order], order.argsort()[labels]
    blind, seeing = (network_based.network(*answers(0), sort=sort) for sort in (True, False))
    assert blind(renamed, names).allclose(blind(logits, labels), atol=1e-12)
    assert not seeing(renamed, names).allclose(seeing(logits, labels), atol=1e-3)


@pytest.mark.parametrize("members", [80, 320])
def test_scores_are_those_of_as_many_members_as_others(members):
    logits, labels, said = answers(0, members=members, lift=0)  # nothing to tell them apart by
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attack = network_based.network(logits, labels, said)
    assert attack(logits, labels).mean() == pytest.approx(0.5, abs=0.08)  # not .2 or .8


# -- thresholds by class -----------------------------------------------------------------------------------------------


def test_class_thresholds_by_hand():
    scores = torch.tensor([4.0, 3.0, 1.0, 0.0, -5.0, -6.0, -8.0, -9.0])
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    members = torch.tensor([1, 1, 0, 0, 1, 1, 0, 0]).bool()
    thresholds = network_based.class_thresholds(scores, labels, members)
    assert thresholds.tolist() == [2, -7]  # halfway between
    assert (scores - thresholds[labels]).tolist() == [2, 1, -1, -2, 2, 1, -1, -2]


def in_class(seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(120) % 3
    members = torch.arange(120) < 60
    return torch.randn(120, generator=generator).double() + members - 2 * labels, labels, members


@given(st.integers(0, 1000), st.lists(st.integers(-50, 50), min_size=3, max_size=3))
def test_how_hard_a_class_is_cancels(seed, offsets):
    scores, labels, members = in_class(seed)
    harder = scores + torch.tensor(offsets)[labels]
    before, after = (s - network_based.class_thresholds(s, labels, members)[labels] for s in (scores, harder))
    assert after.allclose(before, atol=1e-9)


def test_absent_classes_take_the_threshold_of_all():
    scores = torch.tensor([2.0, 0.0, 9.0, 7.0, -3.0])
    labels, members = torch.tensor([0, 0, 2, 2, 3]), torch.tensor([1, 0, 1, 1, 0]).bool()
    assert roc.best_threshold(scores, members) == 1
    assert network_based.class_thresholds(scores, labels, members).tolist() == [1, 1, 1, 1]


def test_errors():
    logits, labels, members = answers(0, n=6, members=3)
    with pytest.raises(ValueError, match="logits, labels: got"):
        network_based.network(logits, labels[:5], members)
    with pytest.raises(ValueError, match="members: 0 of 6 images are members; give both kinds"):
        network_based.network(logits, labels, members & False)
