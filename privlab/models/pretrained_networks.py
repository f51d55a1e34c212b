"""Networks trained on ImageNet that an attacker brings along: a prior for GradViT, and features to compare images by."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import load_file

from privlab.data import NORMALISE, Normalise, sources
from privlab.models import zoo


def efficientnet_lite0() -> Any:
    """EfficientNet-lite0 trained on ImageNet (49 BatchNorm layers), in eval mode and frozen, its preprocessing in `.normalise`."""
    state = load_file(sources.fetch("efficientnet_lite0") / "tf_efficientnet_lite0.safetensors")
    with torch.device("meta"):  # draws no weights, so it leaves the caller's generator alone
        network: Any = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(state, assign=True)
    network.normalise = Normalise((127 / 255,) * 3, (128 / 255,) * 3)  # (255 x - 127) / 128 of pixels x in [0, 1]
    return network.eval().requires_grad_(False)


def moco_v2(path: str | os.PathLike[str]) -> Any:
    """The ResNet-50 of an official MoCo v2 checkpoint (Chen et al. 2020), GradViT's prior: 53 BatchNorm layers, eval mode, frozen.

    path: the file of the project facebookresearch/moco, such as its moco_v2_800ep_pretrain.pth.tar.
    The query encoder is taken and its projection head dropped. The preprocessing, ImageNet's, is in `.normalise`.
    Raises FileNotFoundError where it is missing, ValueError for a file of another layout. It is read with weights_only=True.
    """
    origin = "give the ResNet-50 checkpoint of MoCo v2 from the project facebookresearch/moco"
    if not Path(path).is_file():
        raise FileNotFoundError(f"path={os.fspath(path)!r} is no file; {origin}")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
        prefix = "module.encoder_q."
        weights = {n.removeprefix(prefix): w for n, w in state.items() if n.startswith(prefix)}
        network = zoo.build("resnet50", num_classes=0)
        network.load_state_dict({n: w for n, w in weights.items() if not n.startswith("fc.")}, strict=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, TypeError, AttributeError) as error:
        why = str(error).strip().splitlines()[:2]
        raise ValueError(
            f"path={os.fspath(path)!r} is laid out otherwise; {origin} ({' '.join(map(str.strip, why))})"
        ) from error
    network.normalise = NORMALISE["imagenet_samples"]
    return network.requires_grad_(False)
