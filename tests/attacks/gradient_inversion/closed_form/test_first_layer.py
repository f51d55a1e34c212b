"""The ratio of a layer's two gradients: exact for one place, refused with its reason elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from privlab import metrics
from privlab.attacks.gradient_inversion.closed_form import first_layer
from privlab.data import Normalise
from privlab.leak import observe

LABEL = torch.tensor([1])


def built(*layers: nn.Module) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for layer in layers:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    return nn.Sequential(*layers).eval()


def photo(side: int = 6) -> torch.Tensor:
    return torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(1))


def test_entered_is_the_ratio_by_hand():
    x, slope = torch.tensor([0.5, -2.0, 3.0]), torch.tensor([0.0, 4.0, -1.0])
    torch.testing.assert_close(first_layer.entered(slope[:, None] * x, slope), x.double())
    # by least squares: rows count by the square of their slope, (16 * 1 + 1 * 2) / 17
    torch.testing.assert_close(
        first_layer.entered(torch.tensor([[4.0], [2.0]]), torch.tensor([4.0, 1.0])), torch.tensor([18 / 17]).double()
    )
    with pytest.raises(ValueError, match="the gradient of the bias is zero everywhere"):
        first_layer.entered(torch.ones(2, 3), torch.zeros(2))


@pytest.mark.parametrize(
    "layers",
    [
        (nn.Flatten(), nn.Linear(108, 16), nn.ReLU(), nn.Linear(16, 5)),
        (nn.Conv2d(3, 16, 6), nn.Flatten(), nn.GELU(), nn.Linear(16, 5)),
    ],
    ids=["linear", "convolution as large as the image"],
)
def test_the_image_comes_back_where_one_layer_takes_it_whole(layers):
    model = built(*layers)
    model.normalise = Normalise((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    found = first_layer.image(model, observe(model, photo(), LABEL))
    assert metrics.psnr(found.images, photo()).item() > 110
    assert (found.rank, found.unknowns, found.condition) == (1, 1, 1.0)


def test_no_hook_stays():
    model = built(nn.Flatten(), nn.Linear(108, 5))
    first_layer.layer(model, observe(model, photo(), LABEL))
    assert not any(m._forward_hooks for m in model.modules())


class Turned(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flip(-1).flatten(1)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 5)), "'0', a Conv2d, is used in 16 places"),
        ((nn.Conv2d(3, 4, 2, 2), nn.Flatten(), nn.Linear(36, 5)), "'0', a Conv2d, is used in 9 places"),
        ((nn.Flatten(), nn.Linear(108, 5, bias=False)), "'1', a Linear, has no bias"),
        ((nn.GroupNorm(1, 3), nn.Flatten(), nn.Linear(108, 5)), "'0', a GroupNorm; the ratio dW / db is of a linear"),
        ((Turned(), nn.Linear(108, 5)), "what enters its first layer, '1', a Linear, is not the image as it is"),
    ],
)
def test_other_first_layers_are_refused_with_the_reason(layers, message):
    model = built(*layers)
    with pytest.raises(ValueError, match=message):
        first_layer.image(model, observe(model, photo(), LABEL))


def test_a_batch_and_a_withheld_gradient_are_refused():
    model = built(nn.Flatten(), nn.Linear(108, 5))
    with pytest.raises(ValueError, match="it averages 2 images"):
        first_layer.image(model, observe(model, photo().expand(2, -1, -1, -1), torch.tensor([0, 1])))
    with pytest.raises(ValueError, match=r"leak holds no gradient named '1.bias'"):
        first_layer.image(model, observe(model, photo(), LABEL).without(["1.bias"]))
