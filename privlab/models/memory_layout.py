"""Where PyTorch's BatchNorm computes a wrong gradient on a CPU, and the way round it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

BATCH = (F.batch_norm, torch.batch_norm)
INSTANCE = (F.instance_norm, torch.instance_norm)  # to PyTorch a BatchNorm of one image


class RightGradients(TorchFunctionMode):
    """Inside, BatchNorm and InstanceNorm get their input, and later the gradient of their output, laid out in the usual order.

    Where a map has a side of one (one image, or one row of pixels), its strides can be those of a `channels_last` tensor and not be
    told from the usual ones; the CPU's kernel for the backward pass (PyTorch 2.11 to 2.15 at least) then takes one for the other and
    answers with another gradient. A tensor that is flattened and shaped again has the gradient copied into the usual order; one that
    is in this order already stays what it is, to the bit.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in BATCH + INSTANCE:
            return func(*args, **kwargs)
        x: Tensor = args[0] if args else kwargs.pop("input")
        sides = (x.shape[0], *x.shape[2:])
        if x.device.type != "cpu" or (func in BATCH and (x.ndim < 4 or 1 not in sides)):
            return func(x, *args[1:], **kwargs)
        y = func(x.contiguous(), *args[1:], **kwargs)
        return y.flatten().view(y.shape)
