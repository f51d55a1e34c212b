"""The forward pass of a model, called without leaving a trace; and how the model wants its images."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from torch import Tensor, nn
from torch.func import functional_call

from privlab.data import Normalise

Gradients = dict[str, Tensor]  # parameter name -> tensor, shaped like the parameter

# The first forward derivative of a process has torch compile rules of its own, and warn of the compiler: nothing a reader could mend.
warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)


def preprocessing(model: nn.Module) -> Normalise:
    """How the model wants its images: its `normalise` (zoo.build sets it), else the mean and std that timm notes, else none."""
    if isinstance(own := getattr(model, "normalise", None), Normalise):
        return own
    noted = getattr(model, "pretrained_cfg", {})
    return Normalise(tuple(noted["mean"]), tuple(noted["std"])) if noted.get("mean") else Normalise()


def stateless(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """The forward pass of a model as it is now, leaving no trace: in train mode, BatchNorm counts into copies of its buffers.

    Raises ValueError, when called, where BatchNorm in train mode has a single value a channel to take the variance of.
    """
    training = any(m.training for m in model.modules())  # a part may be in train mode while the whole is not
    buffers = {n: b.clone() for n, b in model.named_buffers()} if training else {}

    def forward(x: Tensor) -> Tensor:
        try:
            return functional_call(model, buffers, (x,)) if buffers else model(x)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise ValueError(
                f"model: {type(model).__name__} is in train mode, and its BatchNorm sees a single value a channel (a batch of "
                f"{len(x)}, a map of 1x1), which has no variance; use model.eval(), or 2 images or more"
            ) from error

    return forward


def functional(model: nn.Module) -> Callable[[Gradients, Tensor], Tensor]:
    """The forward pass as a function of parameters and images, leaving no trace: BatchNorm in train mode counts into copies."""

    def forward(parameters: Gradients, x: Tensor) -> Tensor:
        buffers = {n: b.clone() for n, b in model.named_buffers()}
        return functional_call(model, {**parameters, **buffers}, (x,))

    return forward
