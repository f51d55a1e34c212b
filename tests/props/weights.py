"""Weights as tests compare them."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def same(one: nn.Module | Mapping[str, Tensor], other: nn.Module | Mapping[str, Tensor]) -> bool:
    """Whether two models, or two mappings of tensors, hold the same names and, to the bit, the same tensors: buffers, too."""
    a, b = (each.state_dict() if isinstance(each, nn.Module) else each for each in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
