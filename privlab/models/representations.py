"""What a model makes of an image on its way to an answer: the features that enter its last layer, or leave any named one.

This is what leaves a phone when a model is split between phone and server, and what a feature store keeps. Hooks read it and are taken
off again: the model is afterwards what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from privlab.data import sources
from privlab.data.images import check_range
from privlab.models.forward import forgetful, preprocessing

LAST = "last"  # what enters the last Linear layer


def last_linear(model: nn.Module) -> str:
    """The name of the Linear layer that was added to the model last: its head.  Raises ValueError where there is none."""
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not names:
        raise ValueError(
            f"model: {type(model).__name__} has no Linear layer, so no last one; name a layer, such as one of "
            f"{', '.join([name for name, _ in model.named_modules() if name][:5])}"
        )
    return names[-1]


def only_head(model: nn.Module) -> str:
    """The name of `last_linear`, if whatever the model answers comes out of it.

    Raises ValueError for a model with several heads (timm's distilled ones), or with no Linear layer in its head (num_classes=0).
    """
    name = last_linear(model)
    head: Any = getattr(model, "get_classifier", lambda: model.get_submodule(name))()
    heads = [*head] if isinstance(head, tuple | nn.ModuleList) else [head]
    heads += [extra] if (extra := getattr(model, "aux_head", None)) is not None else []  # VOLO's
    if len(heads) > 1:
        raise ValueError(
            f"model: {type(model).__name__} answers with {len(heads)} heads, of which {name!r} is one; give a model with one, such as the "
            "same without distillation"
        )
    if model.get_submodule(name) not in heads[0].modules():
        raise ValueError(
            f"model: the head of this {type(model).__name__} has no Linear layer (the last one is {name!r}); build it with num_classes, "
            "1 or more"
        )
    return name


def stages(model: nn.Module) -> list[str]:
    """The layers after which an image has come one stage further, from the first to the last, then `LAST`.

    They are timm's own, from `model.feature_info`, which a model of another origin may be given.  Raises ValueError for one that has none.
    """
    ends = [info["module"] for info in getattr(model, "feature_info", [])]
    if not ends:
        raise ValueError(
            f"model: {type(model).__name__} does not say where its stages end, as timm's models do; set model.feature_info to the "
            'layers that end them, such as [{"module": "layer1"}]'
        )
    return [*ends, LAST]


@torch.no_grad()
def read(model: nn.Module, images: Tensor, layers: Sequence[str] = (LAST,), batch_size: int = 500) -> dict[str, Tensor]:
    """Features of each image, all layers from one pass: {layer: (n, width) float32, on the CPU}.

    model: its mode and its hooks stay as they were; it is asked in eval mode, in its own float type, through its own normalisation.
    images: (n, channels, height, width), bytes or floats in [0, 1].
    layers: `LAST` for what enters the last Linear layer (Zhang et al. 2024 say "the representation" and no more), or names as in
        `model.named_modules()` for what leaves them. A map or a row of tokens is averaged over its places, so that a feature is a channel.
    Raises ValueError for a layer that does not exist (with the nearest), that gives several tensors or a row for each window of an image,
    or that runs never or twice in a pass.
    """
    if images.ndim != 4 or len(images) == 0:
        raise ValueError(
            f"images: got shape {tuple(images.shape)}; give (n, channels, height, width), one image or more"
        )
    if images.is_floating_point():
        check_range("images", images, "give values in [0, 1], or bytes")
    like, normalise = next(model.parameters()), preprocessing(model)
    parts: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with listening(model, parts), forgetful(model):
            for done, batch in enumerate(images.split(batch_size), start=1):
                x = batch.to(like.device)
                model(normalise(x.to(like.dtype) if x.is_floating_point() else x.to(like.dtype) / 255))
                if odd := [layer for layer, rows in parts.items() if len(rows) != done]:
                    times = len(parts[odd[0]]) - done + 1
                    raise ValueError(
                        f"layers: {odd[0]!r} ran {times} times in one pass, so it has no single output; name a layer around or inside it"
                    )
                if odd := [layer for layer, rows in parts.items() if len(rows[-1]) != len(batch)]:
                    raise ValueError(
                        f"layers: {odd[0]!r} gives {len(parts[odd[0]][-1])} rows for {len(batch)} images, as what works on windows does; "
                        "name a layer around it"
                    )
    finally:
        for module, mode in modes.items():
            module.training = mode
    return {layer: torch.cat(rows) for layer, rows in parts.items()}


@contextmanager
def listening(model: nn.Module, parts: dict[str, list[Tensor]]) -> Iterator[None]:
    """Hooks that add what passes by to the lists in `parts`; off again at the end, whatever happens."""
    modules = {name: module for name, module in model.named_modules() if name}
    last = _channels_last(model)
    for layer in parts:
        if layer != LAST and layer not in modules:
            raise ValueError(f"layers: {layer!r} is no layer of this model{sources.nearest(layer, [LAST, *modules])}")

    def hear(layer: str, module: nn.Module, output: object) -> None:
        if not isinstance(output, Tensor):
            raise ValueError(
                f"layers: {layer!r} gives a {type(output).__name__}, not one tensor; name a layer inside it"
            )
        parts[layer].append(_channels(output, module, module in last).float().cpu())

    hooks = []
    try:
        for layer in parts:
            if layer == LAST:
                head = modules[last_linear(model)]
                hooks.append(head.register_forward_pre_hook(lambda m, inputs: hear(LAST, m, inputs[0])))
            else:
                hooks.append(modules[layer].register_forward_hook(lambda m, _, out, layer=layer: hear(layer, m, out)))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _channels_last(model: nn.Module) -> set[nn.Module]:
    """Where maps are (n, height, width, channels) and the layer's kind does not say so: Swin's, MaxViT's windows, MLPs of Linear layers."""
    # not at the top: timm takes seconds, and some that import this never read
    from timm.layers import GlobalResponseNormMlp, Mlp
    from timm.models.maxxvit import PartitionAttentionCl

    if getattr(model, "output_fmt", "NCHW") == "NHWC":
        return set(model.modules())
    mlps = [m for m in model.modules() if isinstance(m, Mlp | GlobalResponseNormMlp) and isinstance(m.fc1, nn.Linear)]
    windows = [m for m in model.modules() if isinstance(m, PartitionAttentionCl)]
    return {inside for part in [*mlps, *windows] for inside in part.modules()}


def _channels(x: Tensor, module: nn.Module, channels_last: bool) -> Tensor:
    """(n, width): an average over places, wherever the channels stand."""
    if x.ndim <= 2:
        return x.reshape(len(x), -1)
    from timm.layers import LayerNorm2d

    first = isinstance(module, (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, LayerNorm2d))
    last = isinstance(module, (nn.Linear, nn.LayerNorm)) or channels_last
    if x.ndim == 3 or (last and not first):  # tokens (n, places, width), or maps (n, height, width, channels)
        return x.flatten(1, -2).mean(1)
    return x.flatten(2).mean(2)
