"""What tests of several families of networks share."""

import pytest
import torch
from torch import nn


@pytest.fixture(scope="session")
def stirred():
    """Gives a model in eval mode, with norms that do something: a fresh BatchNorm is nearly the identity."""

    def stir(model, seed=0):
        g = torch.Generator().manual_seed(seed)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                for value, low in (
                    (module.weight, 0.5), (module.bias, -0.5), (module.running_var, 0.5), (module.running_mean, -0.5)
                ):  # fmt: skip
                    value.data.copy_(low + torch.rand(value.shape, generator=g))
        return model.eval()

    return stir
