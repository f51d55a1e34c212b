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


def test_confidences_are_taken_in_float64():
    logits, labels = torch.tensor([[20.0, 0.0], [30.0, 0.0]], dtype=torch.float16), torch.tensor([0, 0])
    least = network_based.inputs(logits, labels, sort=False)[:, 1]
    most = network_based.inputs(logits, labels, sort=False)[:, 0]
    assert least == pytest.approx([np.exp(-20), np.exp(-30)], rel=1e-6)
    assert (most < 1).all()  # float32 says 1 to both


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
    attack = network_based.network(logits, labels, said)
    assert attack(logits, labels).mean() == pytest.approx(0.5, abs=0.08)  # not .2 or .8
    p = attack.classifier.predict_proba(network_based.inputs(logits, labels, False))[:, 1]
    odds = p / (1 - p) * (400 - members) / members
    assert attack(logits, labels).numpy() == pytest.approx(odds / (1 + odds))


def test_few_members_are_not_called_non_members():
    fitted = network_based.network(*answers(0, n=1_000, members=100))
    logits, labels, members = answers(1, n=1_000, members=100)
    assert roc.accuracy(fitted(logits, labels), members, 0.5) > 0.75


def test_it_prints_its_settings_and_no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attack = network_based.network(*answers(0, members=150), sort=True, seed=7)
    shown = repr(attack)
    for part in (
        "5 confidences sorted",
        "1 bit",
        "MLP 6-64-32-1",
        "Adam",
        "epochs",
        "seed 7",
        "150 members",
        "250 non-",
    ):
        assert part in shown
    assert max(map(len, shown.splitlines())) <= 110


# -- thresholds by class -----------------------------------------------------------------------------------------------


def test_class_thresholds_by_hand():
    scores = torch.tensor([4.0, 3.0, 1.0, 0.0, -5.0, -6.0, -8.0, -9.0])
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    members = torch.tensor([1, 1, 0, 0, 1, 1, 0, 0]).bool()
    thresholds = network_based.class_thresholds(scores, labels, members)
    assert thresholds.tolist() == [2, -7]  # halfway between
    assert network_based.by_class(scores, labels, thresholds).tolist() == [2, 1, -1, -2, 2, 1, -1, -2]


def in_class(seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(120) % 3
    members = torch.arange(120) < 60
    return torch.randn(120, generator=generator).double() + members - 2 * labels, labels, members


@given(st.integers(0, 1000))
def test_no_class_does_worse_than_with_one_threshold_for_all(seed):
    scores, labels, members = in_class(seed)
    relative = network_based.by_class(scores, labels, network_based.class_thresholds(scores, labels, members))
    for k in range(3):
        here = labels == k
        alone = roc.accuracy(relative[here], members[here], 0)
        assert alone >= roc.accuracy(scores[here], members[here], roc.best_threshold(scores, members)) - 1e-12


@given(st.integers(0, 1000), st.lists(st.integers(-50, 50), min_size=3, max_size=3))
def test_how_hard_a_class_is_cancels(seed, offsets):
    scores, labels, members = in_class(seed)
    harder = scores + torch.tensor(offsets)[labels]
    before, after = (
        network_based.by_class(s, labels, network_based.class_thresholds(s, labels, members)) for s in (scores, harder)
    )
    assert after.allclose(before, atol=1e-9)


def test_absent_classes_are_named_and_take_the_threshold_of_all():
    scores = torch.tensor([2.0, 0.0, 9.0, 7.0, -3.0])
    labels, members = torch.tensor([0, 0, 2, 2, 3]), torch.tensor([1, 0, 1, 1, 0]).bool()
    with pytest.warns(UserWarning, match="classes absent from a split: 1, 2, 3 .* take the threshold over all"):
        thresholds = network_based.class_thresholds(scores, labels, members)
    over_all = roc.best_threshold(scores, members)
    assert over_all == 1
    assert thresholds.tolist() == [1] + 3 * [over_all]


# -- labels alone ------------------------------------------------------------------------------------------------------


def test_augmentation_gap_by_hand():
    said = torch.tensor([[0, 1, 2], [0, 1, 1], [0, 2, 0]])  # (queries, n): the classes answered
    gap = network_based.augmentation_gap(torch.nn.functional.one_hot(said, 3).float(), torch.tensor([0, 1, 2]))
    assert gap.dtype == torch.float64
    assert gap.tolist() == pytest.approx([1, 2 / 3, 1 / 3])


@given(st.integers(0, 1000), st.floats(0.1, 10), st.floats(-5, 5))
def test_augmentation_gap_sees_labels_alone(seed, scale, offset):
    generator = torch.Generator().manual_seed(seed)
    logits, labels = torch.randn(5, 20, 4, generator=generator), torch.randint(4, (20,), generator=generator)
    expected = network_based.augmentation_gap(logits, labels)
    for monotone in (lambda z: scale * z + offset, torch.exp, lambda z: z**3, lambda z: z.argsort(-1).argsort(-1)):
        assert network_based.augmentation_gap(monotone(logits), labels).equal(expected)


def test_with_one_query_its_accuracy_is_the_gap():
    logits, labels, members = answers(0)
    score = network_based.augmentation_gap(logits[None], labels)
    right = logits.argmax(1) == labels
    assert score.equal(right.double())
    train, test = (right[m].double().mean().item() for m in (members, ~members))
    assert roc.accuracy(score, members, 0.5) == pytest.approx((1 + train - test) / 2)


# -- what they refuse --------------------------------------------------------------------------------------------------

Z, Y, M = answers(0, n=6, members=3)
NAN = Z.clone()
NAN[4, 1] = torch.nan
S = torch.randn(6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: network_based.network(NAN, Y, M), "logits: 1 of 30 values are NaN or infinite"),
        (lambda: network_based.network(Z, Y[:5], M), r"labels: got shape \(5,\) of torch.int64"),
        (lambda: network_based.network(Z, Y - 5, M), "labels: go from -[1-5] to"),
        (lambda: network_based.network(Z, Y, M[:5]), r"members: got shape \(5,\) of torch.bool; give \(6,\) bools"),
        (lambda: network_based.network(Z, Y, M.int()), "members: .* of torch.int32; give"),
        (lambda: network_based.network(Z, Y, M & False), "with members and non-members"),
        (lambda: network_based.network(Z, Y, M)(Z[:, :4], Y % 4), "got 4 classes, .* fitted on a shadow model's 5"),
        (lambda: network_based.class_thresholds(S / 0, Y, M), "scores: 6 of 6 are NaN or infinite"),
        (lambda: network_based.class_thresholds(S, torch.arange(6) - 1, M), "labels hold -1; give class indices"),
        (lambda: network_based.by_class(S, Y * 0 + 3, torch.zeros(3)), "labels hold 3, and there are thresholds for 0 to 2"),
        (lambda: network_based.augmentation_gap(Z, Y), r"logits: got shape \(6, 5\); give \(queries, n, classes\)"),
    ],
)  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
