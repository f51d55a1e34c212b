"""What a model makes of an image on its way to an answer: the features that enter its last layer, or leave its stages.

This is what leaves a phone when a model is split between phone and server, and what a feature store keeps.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from privlab.models.forward import evaluating, forgetful, preprocessing

LAST = "last"  # what enters the last Linear layer


def last_linear(model: nn.Module) -> str:
    """The name of the Linear layer that was added to the model last: its head.  Raises ValueError where there is none."""
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise ValueError(f"model: {type(model).__name__} has no Linear layer, so no last one")
    return names[-1]


def only_head(model: nn.Module) -> str:
    """The name of `last_linear`, if whatever the model answers comes out of it.

    Raises ValueError for a model with several heads (timm's distilled ones, VOLO), or with no Linear layer in its head (num_classes=0).
    """
    name = last_linear(model)
    last = model.get_submodule(name)
    head: Any = getattr(model, "get_classifier", lambda: last)()
    if isinstance(head, tuple | nn.ModuleList) or getattr(model, "aux_head", None) or last not in head.modules():
        raise ValueError(f"model: {type(model).__name__} does not answer by one Linear layer (its last is {name!r})")
    return name


def stages(model: nn.Module) -> list[str]:
    """The layers after which an image has come one stage further, from the first to the last, then `LAST`: timm's `feature_info`.

    Raises ValueError for a model without: give it one, such as model.feature_info = [{"module": "layer1"}].
    """
    ends = [info["module"] for info in getattr(model, "feature_info", [])]
    if not ends:
        raise ValueError(f"model: {type(model).__name__} does not say where its stages end; set model.feature_info")
    return [*ends, LAST]


@torch.no_grad()
def read(model: nn.Module, images: Tensor, layers: Sequence[str] = (LAST,)) -> dict[str, Tensor]:
    """Features of each image, all layers from one pass: {layer: (n, width) float32, on the CPU}.

    model: its mode stays; it is asked in eval mode, in its own float type, through its own normalisation.
    images: (n, channels, height, width), bytes or floats in [0, 1].
    layers: of `stages`. `LAST` is what enters the last Linear layer (Zhang et al. 2024 say "the representation" and no more); of the
        others, what leaves them. A map or a row of tokens is averaged over its places, so that a feature is a channel.
    Raises AttributeError for a layer that the model does not have.
    """
    like, normalise = next(model.parameters()), preprocessing(model)
    parts: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    with evaluating(model), listening(model, parts), forgetful(model):
        for batch in images.split(500):
            x = batch.to(like.device)
            model(normalise(x.to(like.dtype) if x.is_floating_point() else x.to(like.dtype) / 255))
    return {layer: torch.cat(rows) for layer, rows in parts.items()}


@contextmanager
def listening(model: nn.Module, parts: dict[str, list[Tensor]]) -> Iterator[None]:
    """Hooks that add what passes by to the lists in `parts`; off again at the end, whatever happens."""
    channels_last = getattr(model, "output_fmt", "NCHW") == "NHWC"  # of a Swin's maps

    def hear(layer: str, _: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        x = inputs[0] if layer == LAST else output
        if x.ndim == 3 or (x.ndim == 4 and channels_last):  # (n, places, width), or (n, height, width, channels)
            x = x.flatten(1, -2).mean(1)
        elif x.ndim == 4:
            x = x.flatten(2).mean(2)
        parts[layer].append(x.float().cpu())

    with ExitStack() as hooks:
        for layer in parts:
            module = model.get_submodule(last_linear(model) if layer == LAST else layer)
            hooks.enter_context(module.register_forward_hook(partial(hear, layer)))
        yield
