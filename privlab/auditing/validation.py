"""What an audit asks of its model, images and numbers before it begins, in errors that say what would do."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from timm.layers import DropPath
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from privlab.data.images import check_range
from privlab.models.forward import preprocessing, stateless


def numbers(target: float, minutes: float, steps: int | None) -> None:
    """ValueError for a target or a budget that is none."""
    if not 0 <= minutes < math.inf:
        raise ValueError(f"minutes={minutes!r} is no time to search; give 0 for a short search, or more, such as 30")
    if not math.isfinite(target):
        raise ValueError(f"target={target!r} is no PSNR in dB; try 15")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise ValueError(f"steps={steps!r} searches nothing; give 1 or more, or None")


def model(model: nn.Module) -> None:
    """ValueError for what is no module, learns nothing, or gives another gradient each time it is asked."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model={model!r} is a {type(model).__name__}, not an nn.Module; give a model, such as privlab.models.zoo.build('resnet50')"
        )
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError(
            f"model: {type(model).__name__} learns no parameter, so a step of it sends nothing; unfreeze some: model.requires_grad_()"
        )
    for name, module in model.named_modules():
        mixes = isinstance(module, _BatchNorm)
        draws = (isinstance(module, _DropoutNd) and module.p > 0) or (isinstance(module, DropPath) and module.drop_prob)
        if module.training and (mixes or draws):
            why = "has no variance to take of one image" if mixes else "draws anew in each pass"
            raise ValueError(
                f"model: {name!r}, a {type(module).__name__}, is in train mode, where it {why}; call model.eval() first"
            )


def images(model: nn.Module, images: Tensor, labels: Tensor, public: Tensor | None) -> None:
    """ValueError for images or labels that do not fit the model, and for a model that does not answer with logits."""
    if not isinstance(images, Tensor) or images.ndim != 4 or len(images) == 0:
        shape = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"images: got {shape}; give (n, channels, height, width), one image or more")
    check_range("images", images, "give values in [0, 1]; the model's `normalise` normalises them")
    if labels.shape != images.shape[:1] or labels.is_floating_point():
        raise ValueError(
            f"labels: got shape {tuple(labels.shape)} and type {labels.dtype} for {len(images)} images; give a whole number each"
        )
    if public is not None and (public.ndim != 4 or public.shape[1:] != images.shape[1:] or len(public) == 0):
        raise ValueError(f"public: got shape {tuple(public.shape)}; give images of {tuple(images.shape[1:])}, or None")
    if public is not None:
        check_range("public", public, "give values in [0, 1]")
    logits = _answer(model, images[:1])
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ValueError(
            f"model: {type(model).__name__} returned {_described(logits)}, and an audit needs one tensor of logits (batch, classes); put "
            "a module around it whose forward returns that alone, such as self.model(x)[0] or self.model(x).logits"
        )
    if logits.shape[1] < 2:
        raise ValueError(
            f"model: {type(model).__name__} has {logits.shape[1]} class, which leaves cross-entropy without a gradient; give it 2 or more"
        )
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(f"labels: got {labels.tolist()}; this model knows the classes 0 to {logits.shape[1] - 1}")


def groups(model: nn.Module, groups: Mapping[str, Sequence[str]] | None) -> None:
    """ValueError for a part that names a parameter which the model does not have."""
    parameters = [name for name, _ in model.named_parameters()]
    for part, names in (groups or {}).items():
        if isinstance(names, str) or (unknown := [name for name in names if name not in parameters]):
            odd = names if isinstance(names, str) else unknown[0]
            close = difflib.get_close_matches(odd, parameters, 1, 0.5)
            raise ValueError(
                f"groups: {part!r} names {odd!r}, which is no parameter of {type(model).__name__}; give a list of names"
                + (f", such as {close[0]!r}" if close else "")
            )


def gradient(square: float, index: int) -> None:
    """ValueError for a gradient whose square is zero or not finite."""
    if square == 0:
        raise ValueError(
            f"model: the gradient of image {index} is zero, so it says nothing; the model is sure of its label, or its weights are zero"
        )
    if not math.isfinite(square):
        raise ValueError(
            f"model: the gradient of image {index} holds NaN or infinity; look at the weights and at `normalise`"
        )


def _answer(model: nn.Module, image: Tensor) -> Any:
    like = next(model.parameters())
    try:
        with torch.no_grad():
            return stateless(model)(preprocessing(model)(image.to(like)))
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AssertionError) as error:  # torch's and timm's words for a wrong size
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"images: {tuple(image.shape[1:])} does not fit {type(model).__name__}: {first}") from error
    except TypeError as error:
        raise ValueError(
            f"model: {type(model).__name__} cannot be called with images alone ({error}); put a module around it whose forward takes them"
        ) from error


def _described(answer: Any) -> str:
    """A model's answer in words: its kind, and the shapes of what is in it."""
    if isinstance(answer, Tensor):
        return f"a tensor of shape {tuple(answer.shape)}"
    if dataclasses.is_dataclass(answer) and not isinstance(answer, Mapping):
        answer = {f.name: getattr(answer, f.name) for f in dataclasses.fields(answer)}
    if isinstance(answer, Mapping):
        return f"a {type(answer).__name__} with {', '.join(f'{k}: {_shape(v)}' for k, v in answer.items())}"
    if isinstance(answer, list | tuple):
        return f"a {type(answer).__name__} of {len(answer)}: {', '.join(map(_shape, answer))}"
    return f"a {type(answer).__name__}"


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
