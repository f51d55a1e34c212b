"""What an audit is given: a copy of a classifier that answers alike twice, images and labels; else one line that says what would do."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from privlab.data.images import check_range
from privlab.leak import Leak, observe
from privlab.models.forward import forgetful, preprocessing, stateless

SAME = 1e-4  # of a gradient's length, or four units of its float format's rounding: nearer ones are one gradient
LAYOUT = "(n, channels, height, width)"


def pixels(argument: str, images: Any) -> Tensor:
    """(n, channels, height, width) in [0, 1] as float32 on the CPU, from a tensor or an array of floats."""
    images = torch.as_tensor(images) if isinstance(images, np.ndarray) else images
    if not isinstance(images, Tensor) or not images.is_floating_point() or images.ndim != 4 or not images.numel():
        got = f"{tuple(images.shape)} of {images.dtype}" if isinstance(images, Tensor) else type(images).__name__
        raise ValueError(f"{argument}: got {got}; give a tensor of floats {LAYOUT} with values in [0, 1]")
    check_range(argument, images, "give values in [0, 1]; the model's `normalise` normalises them")
    return images.detach().cpu().float().clamp(0, 1)  # a hundredth beside it passed for rounding


def classes(labels: Any, count: int) -> Tensor:
    """(count,) int64 on the CPU, from whole numbers of any width."""
    try:
        indices = torch.as_tensor([labels] if isinstance(labels, int) else labels).cpu()
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError):
        indices = torch.empty(0)
    whole = not indices.is_floating_point() and not indices.is_complex() and indices.dtype != torch.bool
    if indices.shape != (count,) or not whole:
        raise ValueError(f"labels={labels!r:.60} for {count} images; give a whole number each, such as [0, 3]")
    return indices.long()


def copied(model: Any) -> nn.Module:
    """A copy of a model to work on, of the plain network behind torch.compile and DataParallel; ValueError for what no audit is of."""
    model = getattr(model, "_orig_mod", model)
    model = model.module if isinstance(model, nn.DataParallel) else model
    kind = type(model).__name__
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise ValueError(f"model: got {kind}; give an nn.Module in Python, such as privlab.models.build('resnet50')")
    if training := [name or "the model" for name, module in model.named_modules() if module.training]:
        raise ValueError(f"model: {training[0]!r} of {kind} is in train mode; call model.eval() first")
    if hooked := [name for name, parameter in model.named_parameters() if parameter._backward_hooks]:
        raise ValueError(f"model: {hooked[0]!r} has a hook on its gradient, which a copy loses; take it off first")
    try:
        with forgetful(model):
            return copy.deepcopy(model)
    except Exception as error:  # what a stranger's layer keeps
        raise ValueError(f"model: {kind} cannot be copied ({line(error)}), and an audit works on a copy") from error


def check(model: nn.Module, images: Tensor, labels: Tensor, public: Tensor | None) -> None:
    """ValueError where a model is no classifier of these images, or its gradient of one image is another the second time."""
    kind, (channels, *_) = type(model).__name__, images.shape[1:]
    if public is not None and public.shape[1:] != images.shape[1:]:
        raise ValueError(
            f"public: got {tuple(public.shape)}; give images of {tuple(images.shape[1:])}, as `images` are"
        )
    first = next((p for p in model.parameters() if p.requires_grad), None)
    if first is None:
        raise ValueError(f"model: {kind} learns no parameter, so it sends no gradient; call model.requires_grad_()")
    if flat := [i for i, image in enumerate(images) if image.std() < SAME]:
        raise ValueError(
            f"images: image {flat[0]} is of one colour, so there is nothing to read back; give photographs"
        )
    noted = len(preprocessing(model).mean)
    if noted not in (1, channels):
        plain = "set model.normalise = privlab.data.Normalise((0.5,), (0.5,)) if the model takes them"
        raise ValueError(f"images: have {channels} channels, and {kind} normalises {noted}; give {noted}, or {plain}")
    try:
        logits = stateless(model)(preprocessing(model)(images[:1].to(first)))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # torch's and timm's words for a wrong size, and a stranger's
        raise ValueError(f"model: {kind} raised {line(error)} for an image of {tuple(images.shape[1:])}") from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != 1 or logits.shape[1] < 2:
        got = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise ValueError(
            f"model: {kind} returned {got} for one image, and an audit is of classifiers: one tensor (1, classes), 2 classes or more; "
            "put a module around it whose forward returns that"
        )
    if not logits.requires_grad or not logits.is_floating_point():
        raise ValueError(
            f"model: the logits of {kind} are {logits.dtype}, with no gradient; look for argmax, detach or no_grad in it"
        )
    state = torch.get_rng_state()
    one, other = (leak_of(model, images[:1], labels[:1]) for _ in range(2))
    apart = torch.stack([(other[n] - one[n]).float().norm() for n in one.grads]).norm() / one.norm.float()
    if apart > max(SAME, 4 * torch.finfo(one.precision).eps) or not torch.equal(state, torch.get_rng_state()):
        raise ValueError(
            f"model: {kind} draws at random: two gradients of image 0 differ by {100 * apart:.2g}% of their length; an audit is of a model "
            "that answers alike, so switch its dropout or noise off"
        )


def leak_of(model: nn.Module, image: Tensor, label: Tensor) -> Leak:
    """What `observe` gives; ValueError for whatever a stranger's model raises, and for a gradient that says nothing."""
    kind = type(model).__name__
    try:
        leak = observe(model, image, label)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        known = isinstance(error, ValueError) and str(error).startswith(("labels", "images", "model"))
        raise ValueError(line(error) if known else f"model: a step of {kind} raised {line(error)}") from error
    if not leak.norm.isfinite():
        raise ValueError(f"model: the gradient of {kind} holds NaN or infinity; look at its weights and `normalise`")
    if leak.norm == 0:
        raise ValueError(
            f"model: the gradient of {kind} is zero, so it says nothing; is it sure of the label {label.item()}?"
        )
    return leak


def line(error: Exception) -> str:
    """The first line of what an exception says, or its kind."""
    first = next(iter(str(error).splitlines()), "")
    return first if first and isinstance(error, ValueError | RuntimeError) else f"{type(error).__name__}: {first}"
