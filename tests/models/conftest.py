"""What tests of several families of networks share."""

import pytest
import torch


@pytest.fixture(scope="session")
def stirred():
    """Gives a model in eval mode, its norms, biases and scales drawn anew, so that none is at a value which hides another (0, 1)."""

    @torch.no_grad()
    def stir(model, seed=0):
        draw = torch.Generator().manual_seed(seed)
        for name, value in model.state_dict().items():
            if value.is_floating_point() and value.ndim == 1:
                low = -0.5 if name.endswith(("bias", "running_mean")) else 0.5
                value.copy_(torch.rand(value.shape, generator=draw) + low)
        return model.eval()

    return stir
