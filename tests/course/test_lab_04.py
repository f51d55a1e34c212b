"""Lab 04: Adam by hand is torch's."""

import math

import pytest
import torch

from privlab.course.lab_04.checks import GRADIENTS, adam


@pytest.mark.parametrize("signed", [False, True])
def test_adam_by_hand_is_adam_of_torch(signed):
    for gradients in [*GRADIENTS, [0.3, -2.0, 1e-3, 5.0, -1e-8] * 4]:
        pixel = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        optimiser, lengths = torch.optim.Adam([pixel], lr=0.1), []
        for gradient in gradients:
            before = pixel.item()
            pixel.grad = torch.tensor([math.copysign(1.0, gradient) if signed else gradient], dtype=torch.float64)
            optimiser.step()
            lengths.append(abs(pixel.item() - before) / 0.1)
        assert adam(gradients, signed) == pytest.approx(lengths, rel=1e-6)
