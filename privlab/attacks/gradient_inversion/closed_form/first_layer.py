"""The oldest closed form: what enters a linear layer with a bias is the ratio of its two gradients, where it enters in one place only.

A layer y = W x + b has dL/dW = g x^T and dL/db = g with g = dL/dy, so x stands in every row of dL/dW, stretched by that row's g. Where the
layer is used in several places, as a convolution is, both gradients are sums over the places, and the ratio is a weighted mean of what
entered: the image no more. So the image comes back from a fully connected first layer, and from a convolution as large as the image.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.closed_form.tokens import Recovery
from privlab.leak import Leak
from privlab.models.forward import stateless


def entered(weight: Tensor, bias: Tensor) -> Tensor:
    """What entered a layer in one place, from its gradients, by least squares over the rows.

    weight: (rows, ...), the gradient of the weights.  bias: (rows,), that of the bias.  Returns float64, shaped like a row.
    Raises ValueError where no row has a gradient.
    Source: Phong et al. 2018, section 3; Geiping et al. 2020, proposition 3.1.
    """
    weight, bias = weight.double(), bias.double()
    if not bias.any():
        raise ValueError("leak: the gradient of the bias is zero everywhere, so the ratio has nothing to divide by")
    return torch.tensordot(bias, weight, dims=1) / bias.square().sum()


def image(model: nn.Module, leak: Leak) -> Recovery:
    """The image behind one image's gradients, where the first layer takes it whole.

    model: any; which layer comes first, and what enters it, is seen by running it.  leak: of one image, with both gradients of that layer.
    Returns a Recovery with one unknown, the image itself, so its condition is 1.
    Raises ValueError for a batch, for missing or broken gradients, and for a first layer that is another kind, has no bias, is used in
    several places, or is given something else than the image; it says which.
    """
    if leak.batch_size != 1:
        raise ValueError(
            f"leak: it averages {leak.batch_size} images, and the ratio is a mean of theirs; give a leak of one image"
        )
    name = layer(model, leak)
    solved = entered(leak[f"{name}.weight"], leak[f"{name}.bias"])
    return Recovery(leak.normalise.inverse(solved.reshape(1, *leak.image_shape)), 1.0, 1, 1)


def layer(model: nn.Module, leak: Leak) -> str:
    """The name of the layer that takes the image whole.  Raises ValueError where the first one does not, and says why."""
    names = {module: name for name, module in model.named_modules()}
    first: list[tuple[Any, Tensor, Tensor]] = []

    def hear(module: nn.Module, inputs: Any, output: Any) -> None:
        if not first and isinstance(output, Tensor) and inputs and isinstance(inputs[0], Tensor):
            first.append((module, inputs[0], output))

    like = next(model.parameters())
    probe = torch.linspace(0, 1, math.prod(leak.image_shape)).view(1, *leak.image_shape).to(like)
    owners = [m for m in names if next(m.parameters(recurse=False), None) is not None]
    hooks = [module.register_forward_hook(hear) for module in owners]
    try:
        with torch.no_grad():
            stateless(model)(probe)
    finally:
        for hook in hooks:
            hook.remove()
    if not first:
        raise ValueError(f"model: no layer of {type(model).__name__} has weights and gives one tensor")
    module, inputs, output = first[0]
    what = f"{names[module] or 'the model itself'!r}, a {type(module).__name__}"
    if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
        raise ValueError(f"model: its first layer is {what}; the ratio dW / db is of a linear layer or a convolution")
    rows = module.weight.shape[0]
    if (places := output.numel() // rows) > 1:
        raise ValueError(
            f"model: its first layer, {what}, is used in {places:,} places, and its gradients are sums over them: the ratio dW / db is "
            "one weighted mean of what enters there, the image for one place only"
        )
    if module.bias is None:
        raise ValueError(f"model: its first layer, {what}, has no bias, so there is no dW / db")
    if not torch.equal(inputs.flatten(), probe.flatten()):
        raise ValueError(f"model: what enters its first layer, {what}, is not the image as it is")
    return names[module]
