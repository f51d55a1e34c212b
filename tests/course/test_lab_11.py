"""Lab 11: what its checks of a picture, of a loss that breaks and of a fold tell apart, which no table of slips holds."""

import pytest
import torch

from privlab.course.lab_11 import checks as lab_11
from privlab.notebook import checks


def persuade(model, picture, target, steps=50, sign=1, inside=True, start=torch.clone):
    x = start(picture).requires_grad_()
    optimiser = torch.optim.Adam([x], lr=0.02)
    for _ in range(steps):
        (x.grad,) = torch.autograd.grad(sign * torch.nn.functional.cross_entropy(model(x), torch.tensor([target])), x)
        optimiser.step()
        if inside:
            x.data.clamp_(0, 1)
    return x.detach()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (persuade, ""),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, inside=False).clamp(0, 1), ""),
        (lambda m, x, t, steps=50: x, "do you return the very tensor"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, sign=-1), "Mind the sign"),
        (lambda m, x, t, steps=50: persuade(m, x, 1, steps), "class 2 went from 0.038 to 0.001. Do you go by `target`"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, inside=False), "Outside [0, 1]"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps) * torch.nan, "Outside [0, 1]"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, start=lambda x: x), "changes what it is given"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps).requires_grad_(), "still needs a gradient"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps)[0], "yours has (3, 6, 6)"),
        (lambda m, x, t, steps=50: persuade(m, x, t, 1), "Are your steps long enough"),
        (lambda m, x, t, steps=50: persuade(m, x, t, steps, start=torch.zeros_like), "the last column"),
        (lambda m, x, t, steps=50: persuade(m, x, t), "use the argument `steps`"),
    ],
)
def test_a_picture_that_convinces(answer, why):
    outcome = checks.verify("11.convince", answer)
    assert outcome.passed is not bool(why) and why in outcome.why


def test_the_network_to_convince_doubts_its_targets_and_is_blind_to_the_last_column():
    x = lab_11.PICTURE.clone().requires_grad_()
    logits = lab_11.network(x)
    assert logits.softmax(1)[0, list(lab_11.TARGETS)].max() < 0.25
    slope = torch.autograd.grad(logits.square().sum(), x)[0]
    assert (slope[..., -1] == 0).all() and (slope[..., :-1] != 0).all()


def unguarded(z, t, end=lambda value: value, below=0.0):
    u = z / (z.abs().sum() + below)
    v = (torch.eye(len(z))[t] - 1e-4).clamp(0, 1)
    return end(torch.arccosh(1 + 2 * (u - v).square().sum() / ((1 - u.square().sum()) * (1 - v.square().sum()))))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (unguarded, "1) gives nan: the sum of absolute values is 0"),
        (lambda z, t: unguarded(z, t, below=1e-9), "u lies on the rim of the ball"),
        (lambda z, t: unguarded(z, t, torch.nan_to_num), "do not replace the result"),
    ],
)
def test_a_loss_has_to_stay_a_distance_where_the_formula_breaks(answer, why):
    assert why in checks.verify("11.poincare", answer).why


@pytest.mark.parametrize(
    "change",
    [lambda weight, bias: weight, lambda weight, bias: (bias, weight), lambda weight, bias: (weight, bias[:, None])],
)
def test_a_fold_gives_weight_and_bias(change):
    def fold(weight, mean, var, gamma, beta, eps):
        return change(*lab_11._scaled(weight, mean, beta, gamma / (var + eps).sqrt()))

    assert "Give two tensors, the new weight and the new bias" in checks.verify("11.fold", fold).why
