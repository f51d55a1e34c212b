"""Evaluation: a model of six numbers whose scores can be worked out by hand; distances within the class."""

import math

import pytest
import torch
from torch import nn

from privlab.attacks.model_inversion.evaluation import EvaluationModel
from privlab.data import Normalise


def told():
    """Its logits are ten times the pixels of a picture 1 x 1 x 6, its features the pixels themselves."""
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(6, 6, bias=False))
    model[2].weight.data = 10 * torch.eye(6)
    return model


def picture(*pixels):
    return torch.tensor(pixels).view(-1, 1, 1, 6)


# A photograph of class 0, two of class 1, one of class 5.
PRIVATE = (
    picture([1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0], [0, 0.5, 0, 0, 0, 0.5], [0, 0, 0, 0, 0, 1.0]),
    torch.tensor([0, 1, 1, 5]),
)


def test_a_score_by_hand():
    """The nearest is of the picture's own class: of class 4 there is none."""
    images = picture([0.9, 0.1, 0, 0, 0, 0], [0.6, 0.5, 0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4, 0.5, 0], [0, 0, 0, 0, 1.0, 0])
    said = EvaluationModel(told(), 0.9, PRIVATE).score(images, torch.tensor([0, 1, 5, 4]))
    assert said.top1.tolist() == [True, False, False, True] and said.accuracy == 0.5
    knn = [
        math.hypot(0.1, 0.1),
        min(math.hypot(0.6, 0.5), math.hypot(0.6, 0, 0.5)),  # to the one photograph of class 1, and to the other
        math.sqrt(0.01 + 0.04 + 0.09 + 0.16 + 0.25 + 1),
        math.inf,
    ]
    assert said.knn.tolist() == pytest.approx(knn, rel=1e-6)
    assert said.delta.tolist() == pytest.approx([d**2 for d in knn], rel=1e-6)


def test_an_evaluation_model_sees_what_it_was_trained_to_see():
    """In eval mode, through its own preprocessing; bytes are the same photographs."""
    model = told().train()
    model.normalise = Normalise((0.5,), (0.1,))
    made = EvaluationModel(model, 0.8, PRIVATE)
    assert not model.training and made.accuracy == 0.8
    torch.testing.assert_close(made.features, (PRIVATE[0].flatten(1) - 0.5) / 0.1)
    said = made.score(PRIVATE[0][:1], torch.tensor([1]))
    assert said.knn.item() == pytest.approx(10 * math.hypot(1, 0.5, 0.5), rel=1e-5)  # not sqrt(2)
