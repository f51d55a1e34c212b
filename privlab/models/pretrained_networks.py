"""Networks trained on ImageNet that an attacker brings along: a prior for GradViT, and features to compare images by."""

from __future__ import annotations

from typing import Any

import timm
import torch
from safetensors.torch import load_file

from privlab.data import Normalise, sources


def efficientnet_lite0() -> Any:
    """EfficientNet-lite0 trained on ImageNet (49 BatchNorm layers), in eval mode and frozen, its preprocessing in `.normalise`."""
    state = load_file(sources.fetch("efficientnet_lite0") / "tf_efficientnet_lite0.safetensors")
    with torch.device("meta"):  # draws no weights, so it leaves the caller's generator alone
        network: Any = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(state, assign=True)
    network.normalise = Normalise((127 / 255,) * 3, (128 / 255,) * 3)  # (255 x - 127) / 128 of pixels x in [0, 1]
    return network.eval().requires_grad_(False)
