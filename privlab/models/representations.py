"""What a model makes of an image on its way to an answer: the features that enter its last layer, or leave its stages.

This is what leaves a phone when a model is split between phone and server, and what a feature store keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from privlab.data import sources
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
        raise ValueError(
            f"model: {type(model).__name__} does not answer by one Linear layer (its last is {name!r}); give a model with one head, "
            "such as the same without distillation, built with num_classes, 1 or more"
        )
    return name


def stages(model: nn.Module) -> list[str]:
    """The layers after which an image has come one stage further, from the first to the last, then `LAST`: timm's `feature_info`."""
    ends = [info["module"] for info in getattr(model, "feature_info", [])]
    if not ends:
        raise ValueError(
            f"model: {type(model).__name__} does not say where its stages end, as timm's models do; set model.feature_info to the "
            'layers that end them, such as [{"module": "layer1"}]'
        )
    return [*ends, LAST]


@torch.no_grad()
def read(model: nn.Module, images: Tensor, layers: Sequence[str] = (LAST,)) -> dict[str, Tensor]:
    """Features of each image, all layers from one pass: {layer: (n, width) float32, on the CPU}.

    model: its mode stays; it is asked in eval mode, in its own float type, through its own normalisation.
    images: (n, channels, height, width), bytes or floats in [0, 1].
    layers: of `stages`. `LAST` is what enters the last Linear layer (Zhang et al. 2024 say "the representation" and no more); of the
        others, what leaves them. A map or a row of tokens is averaged over its places, so that a feature is a channel.
    Raises ValueError for a layer that does not exist, with the nearest.
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
    modules: dict[str, Any] = dict(model.named_modules())
    last = getattr(model, "output_fmt", "NCHW") == "NHWC"  # where a Swin's maps have their channels

    def hear(layer: str, x: Tensor) -> None:
        if x.ndim == 3 or (x.ndim == 4 and last):  # (n, places, width), or (n, height, width, channels)
            x = x.flatten(1, -2).mean(1)
        elif x.ndim == 4:
            x = x.flatten(2).mean(2)
        parts[layer].append(x.float().cpu())

    hooks = []
    try:
        for layer in parts:
            if layer == LAST:
                head = modules[last_linear(model)]
                hooks.append(head.register_forward_pre_hook(lambda m, inputs: hear(LAST, inputs[0])))
            elif layer in modules:
                hooks.append(modules[layer].register_forward_hook(lambda m, _, out, layer=layer: hear(layer, out)))
            else:
                raise ValueError(
                    f"layers: {layer!r} is no layer of this model{sources.nearest(layer, [LAST, *modules])}"
                )
        yield
    finally:
        for hook in hooks:
            hook.remove()
