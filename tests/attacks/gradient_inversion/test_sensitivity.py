"""The Jacobian against finite differences and by hand; ranks, conditions and receptive fields where the answer is known."""

import math

import pytest
import torch
from small_training import linear
from torch import nn

from privlab.attacks.gradient_inversion import sensitivity
from privlab.data import Normalise
from privlab.leak import observe
from privlab.models import morph

LABEL = torch.tensor([1])


def by_differences(model: nn.Module, image: torch.Tensor) -> torch.Tensor:
    """Singular values of the whole Jacobian, over the norm of the update."""
    columns, step = [], 1e-5
    for pixel in torch.eye(image.numel(), dtype=torch.float64):
        move = step * pixel.view(image.shape)
        ahead, behind = (observe(model, image + sign * move, LABEL).grads for sign in (1, -1))
        columns.append(torch.cat([(ahead[n] - behind[n]).flatten() for n in ahead]) / (2 * step))
    return torch.linalg.svdvals(torch.stack(columns, 1) / observe(model, image, LABEL).norm)


@pytest.mark.parametrize("model", [linear(48), morph.build(9, width=0.02, depths=(1, 1, 1, 1)).double()])
def test_spectrum_is_that_of_the_jacobian(model, monkeypatch):
    """With a row of the sketch for every parameter it is nearly exact."""
    monkeypatch.setattr(sensitivity, "SKETCH", 5_000)
    model.normalise = Normalise()
    image = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(1)).double()
    exact = by_differences(model, image)
    found = sensitivity.spectrum(model, image, LABEL, block=1)
    assert len(found) == image.numel()
    torch.testing.assert_close(found, exact, rtol=0.04, atol=1e-5 * exact[0].item())


def test_effective_rank_and_condition_by_hand():
    """Shares 1/2, 1/4, 1/4: entropy 1.5 log 2."""
    values = torch.tensor([1.0, 2.0, 1.0])
    assert sensitivity.effective_rank(7 * values) == pytest.approx(2**1.5)
    assert sensitivity.condition(values) == sensitivity.condition(torch.tensor([8.0, 4.0, 2.0, 1.0])) == 2
    assert math.isinf(sensitivity.condition(torch.tensor([1.0, 0.0, 0.0])))


def test_field_of_one_convolution_is_its_window():
    convolution = nn.Conv2d(1, 2, 3, padding=1, bias=False)
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]).expand(2, 1, 3, 3))
    seen = sensitivity.field(convolution, torch.rand(2, 1, 9, 9))
    expected = torch.zeros(9, 9)
    expected[3:6, 3:6] = torch.tensor([[0.0, 1, 0], [1, 4, 1], [0, 1, 0]]) / 8
    torch.testing.assert_close(seen, expected)
    assert sensitivity.area(seen, 0.5) == 1 / 81 and sensitivity.area(seen, 0.9) == 5 / 81
