"""Evaluation: a model of six numbers whose scores can be worked out by hand; distances within the class; none of an attack on itself."""

import copy
import math

import pytest
import torch
from torch import nn

from privlab import models
from privlab.attacks.model_inversion.evaluation import evaluation_model, nearest
from privlab.data import Normalise


def told(classes=6):
    """Its logits are ten times the pixels of a picture 1 x 1 x 6, its features the pixels themselves."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, classes, bias=False))
    with torch.no_grad():
        model[1].weight.copy_(10 * torch.eye(6)[:classes])
    return model


def picture(*pixels):
    return torch.tensor(pixels).view(-1, 1, 1, 6)


# A photograph of class 0, two of class 1, one of class 5.
PRIVATE = (
    picture([1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0], [0, 0.5, 0, 0, 0, 0.5], [0, 0, 0, 0, 0, 1.0]),
    torch.tensor([0, 1, 1, 5]),
)


# -- distances -------------------------------------------------------------------------------------------------------------


def test_the_nearest_is_of_the_same_class():
    private, labels = torch.tensor([[0.0, 0.0], [3.0, 4.0], [10.0, 0.0]]), torch.tensor([0, 1, 1])
    features = torch.tensor([[0.0, 0.0], [0.0, 0.0], [10.0, 1.0], [10.0, 1.0]])
    got = nearest(features, torch.tensor([0, 1, 1, 0]), private, labels)
    assert got.tolist() == pytest.approx([0, 5, 1, math.sqrt(101)])


def test_near_points_far_from_the_origin_are_told_apart():
    """Float32 would lose the difference in the square of the distance from the origin."""
    private = torch.full((30, 4), 1000.0) + torch.arange(30)[:, None]
    got = nearest(private + 0.25, torch.zeros(30).long(), private, torch.zeros(30).long())
    assert got.tolist() == pytest.approx([0.5] * 30, rel=1e-3)


def test_a_class_without_photographs_is_named():
    with pytest.raises(ValueError, match="targets: there is no private photograph of class 2"):
        nearest(torch.zeros(2, 3), torch.tensor([0, 2]), torch.zeros(1, 3), torch.tensor([0]))


# -- scores ----------------------------------------------------------------------------------------------------------------


def test_a_score_by_hand():
    images = picture([0.9, 0.1, 0, 0, 0, 0], [0.6, 0.5, 0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4, 0.5, 0])
    targets = torch.tensor([0, 1, 5])
    said = evaluation_model(told(), 0.9, PRIVATE).score(images, targets)
    assert said.top1.tolist() == [True, False, False]
    knn = [
        math.hypot(0.1, 0.1),
        min(math.hypot(0.6, 0.5), math.hypot(0.6, 0, 0.5)),  # to the one photograph of class 1, and to the other
        math.sqrt(0.01 + 0.04 + 0.09 + 0.16 + 0.25 + 1),
    ]
    assert said.knn.tolist() == pytest.approx(knn, rel=1e-6)
    assert said.delta.tolist() == pytest.approx([d**2 for d in knn], rel=1e-6)
    softmax = math.exp(5) / (math.exp(6) + math.exp(5) + 4)
    assert said.likelihood[1].item() == pytest.approx(softmax, rel=1e-5)
    assert said.accuracy == pytest.approx(1 / 3)
    mean = sum(knn) / 3
    assert repr(said) == f"attack accuracy 0.333, KNN distance {mean:.2f}, 3 pictures"


def test_an_evaluation_model_sees_what_it_was_trained_to_see():
    """In eval mode, through its own preprocessing; bytes are the same photographs."""
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 6, bias=False))
    model[2].weight.data = torch.eye(6)
    model.normalise = Normalise((0.5,), (0.1,))
    made = evaluation_model(model.train(), 0.8, PRIVATE)
    assert not model.training and made.accuracy == 0.8 and repr(made) == "EvaluationModel(accuracy=0.8)"
    torch.testing.assert_close(made.features, (PRIVATE[0].flatten(1) - 0.5) / 0.1)
    said = made.score(PRIVATE[0][:1], torch.tensor([1]))
    assert said.knn.item() == pytest.approx(10 * math.hypot(1, 0.5, 0.5), rel=1e-5)  # not sqrt(2)
    assert said.likelihood.item() == pytest.approx(1 / (math.exp(10) + 5), rel=1e-4)
    whole = (PRIVATE[0] > 0.9).float()
    of_bytes = evaluation_model(told(), 1.0, ((255 * whole).to(torch.uint8), PRIVATE[1]))
    assert torch.equal(of_bytes.features, whole.flatten(1))


@pytest.mark.parametrize("target", ["itself", "a copy", "a copy laid out otherwise"])
def test_the_target_does_not_evaluate_itself(target):
    model = nn.Sequential(nn.Conv2d(1, 2, (1, 2)), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(10, 6))
    made = evaluation_model(model, 0.9, PRIVATE)
    asked = {"itself": model, "a copy": copy.deepcopy(model)}.get(target)
    asked = asked or copy.deepcopy(model).to(memory_format=torch.channels_last).train()
    with pytest.raises(
        ValueError, match="target_model: this Sequential is the evaluation model itself.*of another architecture"
    ):
        made.score(PRIVATE[0], PRIVATE[1], asked)
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[3].bias[0] += 1e-3
    assert made.score(PRIVATE[0], PRIVATE[1], other).accuracy == made.score(PRIVATE[0], PRIVATE[1]).accuracy


@pytest.mark.parametrize("wrong", [-1, 6])
def test_classes_that_the_evaluation_model_does_not_know(wrong):
    with pytest.raises(ValueError, match=f"targets: there is no private photograph of class {wrong}"):
        evaluation_model(told(), 1.0, PRIVATE).score(PRIVATE[0][:2], torch.tensor([0, wrong]))


def test_classes_without_photographs_and_pairs_that_do_not_fit():
    with pytest.raises(ValueError, match="there is no private photograph of class 3"):
        evaluation_model(told(), 1.0, PRIVATE).score(PRIVATE[0][:2], torch.tensor([0, 3]))
    with pytest.raises(ValueError, match=r"labels of shape \(2,\)"):
        evaluation_model(told(), 1.0, (PRIVATE[0], PRIVATE[1][:2]))


def test_there_is_one_target_for_each_picture():
    network = models.build("resnet_cifar", channels=(8, 8, 8, 8), num_classes=3)
    judge = evaluation_model(network, 1.0, (torch.rand(3, 3, 32, 32), torch.arange(3)))
    with pytest.raises(ValueError, match="targets: 1 classes for 4 pictures; give one for each"):
        judge.score(torch.rand(4, 3, 32, 32), torch.tensor([0]))


class OnCard(torch.Tensor):
    """It meets no tensor that is elsewhere; `cpu` fetches it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.cpu:
            return args[0].as_subclass(torch.Tensor)
        assert all(type(each) is not torch.Tensor for each in args), f"{func.__name__}: tensors of two devices"
        return super().__torch_function__(func, types, args, kwargs)


def test_targets_may_be_on_a_card():
    judge = evaluation_model(told(), 1.0, PRIVATE)
    score = judge.score(PRIVATE[0], PRIVATE[1].as_subclass(OnCard))
    assert score.top1.all() and score.knn.tolist() == [0.0] * 4
