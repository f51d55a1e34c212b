"""The network-based attack and thresholds by class: by hand, by their definitions, and what they must not depend on."""

import warnings

import numpy as np
import pytest
import torch

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


def test_what_the_network_reads():
    logits, labels = torch.tensor([[1.0, 5.0, 2.0], [2.0, 1.0, 1.0]]).log(), torch.tensor([1, 1])
    for sort, first in ((False, [0.125, 0.625, 0.25, 1]), (True, [0.625, 0.25, 0.125, 1])):
        assert network_based.inputs(logits, labels, sort) == pytest.approx(np.array([first, [0.5, 0.25, 0.25, 0]]))


@pytest.mark.parametrize("sort", [False, True])
def test_tells_members_of_another_model(sort):
    attack = network_based.network(*answers(0), sort=sort)
    logits, labels, members = answers(1)
    scores = attack(logits, labels)
    assert scores.dtype == torch.float64
    assert roc.auc(scores, members) > 0.85 and roc.accuracy(scores, members, 0.5) > 0.75
    assert attack(logits[:7], labels[:7]).allclose(scores[:7], atol=1e-12)  # an image's score is its own


def test_same_seed_same_scores_and_nobody_elses_randomness():
    logits, labels, _ = answers(1)
    state = np.random.get_state()[1].tolist()
    first = network_based.network(*answers(0), seed=3)(logits, labels)
    assert np.random.get_state()[1].tolist() == state
    assert network_based.network(*answers(0), seed=3)(logits, labels).equal(first)
    assert not network_based.network(*answers(0), seed=4)(logits, labels).equal(first)


@pytest.mark.parametrize("members", [80, 320])
def test_scores_are_those_of_as_many_members_as_others(members):
    logits, labels, said = answers(0, members=members, lift=0)  # nothing to tell them apart by
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attack = network_based.network(logits, labels, said)
    assert attack(logits, labels).mean() == pytest.approx(0.5, abs=0.08)  # not .2 or .8


def test_class_thresholds_by_hand():
    scores = torch.tensor([4.0, 3.0, 1.0, 0.0, -5.0, -6.0, -8.0, -9.0])
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    members = torch.tensor([1, 1, 0, 0, 1, 1, 0, 0]).bool()
    assert network_based.class_thresholds(scores, labels, members).tolist() == [2, -7]  # halfway between
    scores, members = torch.tensor([2.0, 0.0, 9.0, 7.0, -3.0]), torch.tensor([1, 0, 1, 1, 0]).bool()
    of_all = network_based.class_thresholds(scores, torch.tensor([0, 0, 2, 2, 3]), members)
    assert roc.best_threshold(scores, members) == 1 and of_all.tolist() == [1, 1, 1, 1]  # absent, or of one kind


def test_errors():
    logits, labels, members = answers(0, n=6, members=3)
    with pytest.raises(ValueError, match="logits, labels: got"):
        network_based.network(logits, labels[:5], members)
    with pytest.raises(ValueError, match="members: 0 of 6 images are members; give both kinds"):
        network_based.network(logits, labels, members & False)
