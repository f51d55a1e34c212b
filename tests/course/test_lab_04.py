"""Lab 04: Adam by hand is torch's, the label's rows are a linear layer's gradient, and the checks that are no table tell answers apart."""

import math

import pytest
import torch

from privlab.course.lab_04 import checks as lab_04
from privlab.notebook import checks


@pytest.mark.parametrize("signed", [False, True])
def test_adam_by_hand_is_adam_of_torch(signed):
    for gradients in [*lab_04.GRADIENTS, [0.3, -2.0, 1e-3, 5.0, -1e-8] * 4]:
        pixel = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimiser, lengths = torch.optim.Adam([pixel], lr=0.1), []
        for gradient in gradients:
            before = pixel.item()
            pixel.grad = torch.tensor([math.copysign(1.0, gradient) if signed else gradient], dtype=torch.float64)
            optimiser.step()
            lengths.append(abs(pixel.item() - before) / 0.1)
        assert lab_04.adam(gradients, signed) == pytest.approx(lengths, rel=1e-6)


@pytest.mark.parametrize("layer", lab_04.LAST_LAYERS, ids=range(6))
def test_the_rows_of_the_label_exercise_are_the_gradient_of_a_linear_layer(layer):
    truth, p, features = layer[0], torch.tensor(layer[1]), torch.tensor(layer[2])
    weight = torch.outer(p.log(), features) / features.square().sum()  # logits are the log probabilities
    loss = torch.nn.functional.cross_entropy((weight.requires_grad_() @ features)[None], torch.tensor([truth]))
    assert torch.allclose(torch.autograd.grad(loss, weight)[0], lab_04.rows(*layer), atol=1e-6)


def row_by_row(r, x, v):
    return torch.stack([(torch.autograd.grad(part, x, retain_graph=True)[0] * v).sum() for part in r])


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("04.batchnorm", lambda x: x + 0.01, "too easy"),
        ("04.batchnorm", lambda x: x + torch.linspace(0, 3, 8), "one pixel alone stays"),
        ("04.batchnorm", lambda x: -3 * x, "positive stretch"),
        ("04.batchnorm", lambda x: x.mean((0, 2, 3)), "yours is (3,)"),
        ("04.push", lambda r, x, v: torch.autograd.grad(r, x, v.flatten())[0].flatten(), "That is J^T v"),
        ("04.push", lambda r, x, v: torch.autograd.grad(r, x, torch.ones_like(r)), "a tuple"),
        ("04.push", lambda r, x, v: -row_by_row(r, x, v), "The sign is wrong"),
        ("04.push", lambda r, x, v: row_by_row(r, x, v) + 5e-4, "finite differences are only near"),
        ("04.push", row_by_row, "6 times backward through r"),
    ],
)
def test_a_wrong_answer_is_told_why(name, answer, why):
    assert why in checks.verify(name, answer).why
