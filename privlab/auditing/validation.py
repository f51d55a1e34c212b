"""What an audit asks of its model before it begins, in errors that say what would do."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from timm.layers import DropPath
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from privlab.leak import Leak, observe
from privlab.models.forward import preprocessing, stateless

FLAT = 60.0  # dB: above that a flat picture is the image


def model(model: nn.Module) -> None:
    """ValueError for what is no module, learns nothing, or gives another gradient each time it is asked."""
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model={model!r} is a {type(model).__name__}, not an nn.Module; give a model, such as privlab.models.zoo.build('resnet50')"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            f"model: a {type(model).__name__} hides its layers; give the nn.Module that it was scripted or traced from"
        )
    for name, p in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(p, UninitializedBuffer | UninitializedParameter) or p.is_meta:
            cure = (
                "run it on one image first"
                if not p.is_meta
                else "load weights: model.to_empty(device='cpu'), then load"
            )
            raise ValueError(f"model: {name!r} holds no values yet; {cure}")
        if p.is_inference():
            raise ValueError(
                f"model: {name!r} was made under torch.inference_mode, where nothing learns; build it outside"
            )
        if p.is_complex():
            raise ValueError(
                f"model: {name!r} is {p.dtype}, and the algebra is of real numbers; give a model of floats"
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


def answers(model: nn.Module, images: Tensor, labels: Tensor, public: Tensor | None) -> None:
    """ValueError where the model does not take the images, answers with anything else than logits, or does not know the labels."""
    if public is not None and public.shape[1:] != images.shape[1:]:
        raise ValueError(f"public: got shape {tuple(public.shape)}; give images of {tuple(images.shape[1:])}, or None")
    logits, kind = _answer(model, images[:1]), type(model).__name__
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1 or logits.layout is not torch.strided:
        training = ", or call model.eval() first where that does" if model.training else ""
        raise ValueError(
            f"model: {kind} returned {_described(logits)}, and an audit needs one tensor of logits (batch, classes); put "
            f"a module around it whose forward returns that alone, such as self.model(x)[0] or self.model(x).logits{training}"
        )
    if not logits.is_floating_point():
        raise ValueError(f"model: {kind} answers in {logits.dtype}; have it return logits, floats before any argmax")
    if not logits.requires_grad:
        raise ValueError(
            f"model: the logits of {kind} hang on no parameter that learns, so there is no gradient; look for torch.no_grad, detach or "
            ".data in its forward"
        )
    if logits.shape[1] < 2:
        raise ValueError(
            f"model: {kind} has {logits.shape[1]} class, which leaves cross-entropy without a gradient; give it 2 or more"
        )
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(f"labels: got {labels.tolist()}; this model knows the classes 0 to {logits.shape[1] - 1}")


def observed(model: nn.Module, image: Tensor, label: Tensor) -> Leak:
    """What `observe` gives; ValueError for whatever a stranger's forward or backward raises."""
    try:
        return observe(model, image, label)
    except (ValueError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        kind = type(model).__name__
        raise ValueError(f"model: a training step of {kind} raised {line(error)}; try one by itself") from error


def not_flat(levels: Sequence[float]) -> None:
    """ValueError for an image of which nothing could be read back, as a flat picture is that image already."""
    if flat := [i for i, level in enumerate(levels) if level > FLAT]:
        raise ValueError(
            f"images: image {flat[0]} is of one colour, the one that looking at no gradient gives; give photographs"
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
    like, kind = next(model.parameters()), type(model).__name__
    try:
        normalised = preprocessing(model)(image.to(like))
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(
            f"model: how {kind} wants its images cannot be read ({line(error)}); set model.normalise = privlab.data.Normalise(mean, std)"
        ) from error
    try:
        return stateless(model)(normalised)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, AssertionError) as error:  # torch's and timm's words for a wrong size
        raise ValueError(f"images: {tuple(image.shape[1:])} does not fit {kind}: {line(error)}") from error
    except TypeError as error:
        raise ValueError(
            f"model: {kind} cannot be called with images alone ({line(error)}); put a module around it whose forward takes them"
        ) from error
    except Exception as error:  # a stranger's forward raises all kinds
        if str(error).startswith("model: "):
            raise
        raise ValueError(
            f"model: the forward of {kind} raised {line(error)}; try model(images[:1]) by itself"
        ) from error


def line(error: Exception) -> str:
    """The first line of what an exception says, or its kind."""
    first = next(iter(str(error).splitlines()), "")
    plain = isinstance(error, RuntimeError | AssertionError | TypeError)
    return first if first and plain else f"{type(error).__name__}: {first}".removesuffix(": ")


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
