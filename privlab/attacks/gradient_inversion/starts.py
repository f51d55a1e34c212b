"""How every search opens: the victim's parameters beside the leak, labels read where it holds none, and noise for each restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from privlab.attacks.gradient_inversion.descent import Checkpoint
from privlab.data.images import check_range
from privlab.leak import Leak
from privlab.models.forward import Gradients

Rule = Callable[[nn.Module, Leak], Tensor]  # (model, leak) -> labels (batch,)


class Start(NamedTuple):
    """Where one restart begins.

    images: normalised, (group * batch, channels, height, width).  guess: (group * batch, classes) logits of labels that are searched for.
    checkpoint: where the search was left, if it goes on in this restart.
    """

    restart: int
    images: Tensor
    guess: Tensor | None
    checkpoint: Checkpoint | None


def attacked(model: nn.Module, leak: Leak, rule: Rule | Literal["search"]) -> tuple[Gradients, Leak]:
    """The parameters to differentiate by, and the leak on their device, with labels if it holds them or a rule reads them.

    Raises ValueError for a leak without gradients or that does not fit the model, and for labels of another batch.
    """
    if not leak.grads:
        raise ValueError(
            "leak holds no gradients, so there is nothing to match; select some: leak.only(parts.stem(model))"
        )
    shapes = {n: p.shape for n, p in model.named_parameters()}
    for name, gradient in leak.grads.items():
        if shapes.get(name) != gradient.shape:
            parameter = f"has {tuple(shapes[name])}" if name in shapes else "has no such parameter"
            raise ValueError(
                f"leak: gradient {name!r} is {tuple(gradient.shape)}, and {type(model).__name__} {parameter}; observe this very model"
            )
    if leak.labels is not None and leak.labels.shape != (leak.batch_size,):
        raise ValueError(
            f"leak.labels: shape {tuple(leak.labels.shape)} for a batch of {leak.batch_size}; give one label an image, or None"
        )
    parameters: Gradients = {n: p for n, p in model.named_parameters() if n in leak.grads}
    for name, weight in parameters.items():
        if torch.finfo(weight.dtype).bits < 32:
            raise ValueError(
                f"model: {name!r} is {weight.dtype}, and a search needs differences that it cannot hold; give model.float()"
            )
        if not weight.requires_grad:
            raise ValueError(
                f"model: {name!r} is frozen, so its gradient cannot be matched; call model.requires_grad_(True) on the attacker's copy"
            )
    like = next(iter(parameters.values()))
    leak = leak.to(like)
    if leak.labels is None and callable(rule):
        leak = replace(leak, labels=rule(model, leak).to(like.device))
    return parameters, leak


def starts(
    leak: Leak,
    seed: int,
    restarts: int,
    images: Tensor | None,
    resume: Checkpoint | None,
    group: int = 1,
    classes: int = 0,
) -> Iterator[Start]:
    """The start of each restart, from the one in which `resume` was left.

    leak: as `attacked` gives it.  images: in place of noise.  classes: of the labels that are searched for, if they are.
    The other arguments are those of `matching.GradientMatching.search`. Noise is drawn on the CPU, so that every device begins alike.
    Raises ValueError for no restart, and for images of another shape or out of [0, 1].
    """
    if restarts < 1:
        raise ValueError(f"restarts={restarts} searches nothing; give 1 or more")
    shape = (group * leak.batch_size, *leak.image_shape)
    if images is not None and images.shape != shape:
        raise ValueError(f"start: shape {tuple(images.shape)}, and the leak is of {shape}; give images of that shape")
    if images is not None:
        check_range("start", images, "give images in [0, 1], not normalised ones")

    like = next(iter(leak.grads.values()))
    noise = torch.Generator().manual_seed(seed)
    first = int(resume["counts"][0]) if resume else 0
    for restart in range(restarts):
        seeds = [torch.randn(leak.batch_size, *leak.image_shape, generator=noise) for _ in range(group)]
        x = torch.cat(seeds).to(like) if images is None else leak.normalise(images.to(like))
        guess = torch.randn(len(x), classes, generator=noise).to(like) if classes else None
        if restart >= first:
            yield Start(restart, x, guess, resume if restart == first else None)
