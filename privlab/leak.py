"""The line between client and attacker: what a client's step gives away, and nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.data import Normalise
from privlab.data.images import check_range
from privlab.models.forward import Gradients, preprocessing, stateless

__all__ = ["Leak", "observe"]


@dataclass(frozen=True, repr=False)
class Leak:
    """All that an honest-but-curious server receives of one client step.

    grads: parameter name -> gradient of the mean loss, shaped like the parameter.
    batch_size: images behind the gradients; a server knows it, it weighs the average by it.
    image_shape: (channels, height, width) of what the model takes.
    labels: (batch,) class indices, or None: then an attack recovers them first.
    normalise: the preprocessing, which is public.
    precision: the float format that the gradients had on the wire. The server sees it too, and solvers choose their cut-off by it.
    """

    grads: Gradients
    batch_size: int
    image_shape: tuple[int, int, int]
    labels: Tensor | None = None
    normalise: Normalise = field(default_factory=Normalise)
    precision: torch.dtype = torch.float32

    def __repr__(self) -> str:
        numbers = sum(g.numel() for g in self.grads.values())
        size = f"{numbers / 1e6:.1f} M" if numbers >= 1e6 else f"{numbers:,}"
        images = "1 image" if self.batch_size == 1 else f"{self.batch_size} images"
        return f"Leak: {len(self.grads)} gradients, {size} numbers, {str(self.precision).split('.')[-1]}, {images}"

    def __getitem__(self, name: str) -> Tensor:
        """The gradient of one parameter; ValueError where the leak misses it or it is not finite."""
        if name not in self.grads:
            raise ValueError(f"leak holds no gradient named {name!r}; it has {_some(self.grads)}")
        gradient = self.grads[name]
        if not gradient.isfinite().all():
            raise ValueError(
                f"the gradient of {name!r} holds NaN or infinity; look for an overflow in the client's step"
            )
        return gradient

    @cached_property
    def norm(self) -> Tensor:
        """The Euclidean norm of all gradients taken as one long vector; a scalar.  ValueError where there is none."""
        if not self.grads:
            raise ValueError("leak holds no gradient, so it has no norm; withhold fewer names")
        return torch.stack([g.norm() for g in self.grads.values()]).norm()

    def to(self, like: Tensor) -> Leak:
        """The same leak on another tensor's device and in its float format; `precision` stays that of the wire."""
        labels = None if self.labels is None else self.labels.to(like.device)
        return replace(self, grads={n: g.to(like) for n, g in self.grads.items()}, labels=labels)

    def only(self, names: Iterable[str]) -> Leak:
        """The same leak with nothing but these parameters in it."""
        names = self._known(names)
        return replace(self, grads={n: g for n, g in self.grads.items() if n in names})

    def without(self, names: Iterable[str]) -> Leak:
        """The same leak with these parameters withheld."""
        return self.only(self.grads.keys() - self._known(names))

    def rounded(self, dtype: torch.dtype) -> Leak:
        """The same leak after a trip over the wire in a shorter float format, such as torch.bfloat16."""
        if not dtype.is_floating_point:
            raise ValueError(f"dtype={dtype} is no float format; try torch.bfloat16 or torch.float16")
        return replace(self, grads={n: g.to(dtype).to(g.dtype) for n, g in self.grads.items()}, precision=dtype)

    def _known(self, names: Iterable[str]) -> set[str]:
        if isinstance(names, str):
            raise ValueError(f"names={names!r} is one word; give a list of parameter names: [{names!r}]")
        if unknown := sorted(set(names) - self.grads.keys()):
            raise ValueError(f"leak holds no gradient named {unknown[0]!r}; it has {_some(self.grads)}")
        return set(names)


@torch.enable_grad()
def observe(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    normalise: Normalise | None = None,
    names: Iterable[str] | None = None,
) -> Leak:
    """Run one client step and return what leaves the client. The model keeps its mode, weights, buffers and caches.

    A parameter that the forward pass leaves alone sends zeros (GoogLeNet's auxiliary heads in eval mode). The first time that a model sees
    one image of a size, the gradient of an image of noise is held against that of the same image twice, which is the same mean; a warning
    says so where they differ (`models.forward.RightGradients` has the likely cause).
    images: (batch, channels, height, width) in [0, 1], moved to the model's device and precision.  labels: (batch,) class indices.
    normalise: the model's preprocessing; `preprocessing(model)` if not given.
    names: share the gradients of these parameters only (saves memory); all that are learnable if not given.
    Raises ValueError for labels out of range, images that are no batch, or names that the model does not have.
    """
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if not learnable:
        raise ValueError(f"model: {type(model).__name__} learns no parameter, so its step sends nothing; unfreeze some")
    if isinstance(names, str):
        raise ValueError(f"names={names!r} is one word; give a list of parameter names: [{names!r}]")
    shared = list(learnable if names is None else names)
    if unknown := [n for n in shared if n not in learnable]:
        raise ValueError(f"names: the model learns no parameter {unknown[0]!r}; it has {_some(learnable)}")
    if not shared:
        raise ValueError(f"names=[] shares nothing; give some of the {_some(learnable)}")
    first = next(iter(learnable.values()))
    labels = torch.as_tensor(labels, device=first.device)
    _check_batch(images, labels)

    normalise = normalise or preprocessing(model)
    try:
        logits = stateless(model)(normalise(images.to(first)))  # (batch, classes)
    except AssertionError as error:  # timm's word for a wrong size
        raise ValueError(f"images: shape {tuple(images.shape)} does not fit the model; {error}") from error
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ValueError(
            f"model: {type(model).__name__} does not return (batch, classes) in this mode; try model.eval()"
        )
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(f"labels: got {labels.tolist()}; this model knows the classes 0 to {logits.shape[1] - 1}")

    loss = F.cross_entropy(logits, labels)
    gradients = torch.autograd.grad(loss, [learnable[n] for n in shared], materialize_grads=True)
    _, channels, height, width = images.shape
    grads = dict(zip(shared, gradients, strict=True))
    leak = Leak(grads, len(images), (channels, height, width), labels, normalise, first.dtype)
    state = (model.training, leak.image_shape, leak.precision, first.device)
    if len(images) == 1 and state not in (compared := COMPARED.setdefault(model, set())):
        compared.add(state)
        _compare_with_twice(model, leak, labels)
    return leak


COMPARED: WeakKeyDictionary[nn.Module, set[tuple]] = WeakKeyDictionary()


def _compare_with_twice(model: nn.Module, leak: Leak, labels: Tensor) -> None:
    """Warn where an image of noise and the same image twice have different gradients, and two passes of one have not (dropout)."""
    noise = torch.rand(1, *leak.image_shape, generator=torch.Generator().manual_seed(0))

    def apart(times: int) -> float:
        grads = [
            observe(model, noise.repeat(n, 1, 1, 1), labels.repeat(n), leak.normalise, leak.grads).grads
            for n in (1, times)
        ]
        off = [g - other for g, other in zip(*(g.values() for g in grads), strict=True)]
        return (nn.utils.get_total_norm(off) / nn.utils.get_total_norm(grads[0].values())).item()

    limit = torch.finfo(leak.precision).eps ** 0.5
    with torch.random.fork_rng([labels.device] if labels.is_cuda else []):
        try:
            wrong = (off := apart(2)) > limit > apart(1)
        except RuntimeError:  # a model for one image at a time, or no memory for two: nothing to compare
            return
    if wrong:
        warnings.warn(
            f"model: {type(model).__name__} gives one image another gradient than the same image twice, {off:.1%} apart: PyTorch's "
            "BatchNorm on a CPU, where it is scripted, compiled or called below torch.nn; write y.flatten().view(y.shape) behind it, or "
            "give two images",
            stacklevel=3,
        )


def _check_batch(images: Tensor, labels: Tensor) -> None:
    if images.ndim != 4 or len(images) == 0 or labels.shape != images.shape[:1] or labels.is_floating_point():
        raise ValueError(
            f"images: got shape {tuple(images.shape)} with labels of shape {tuple(labels.shape)} and type {labels.dtype}; "
            "give (batch, channels, height, width) and one whole number each"
        )
    check_range("images", images, "give finite values in [0, 1], the model normalises them")


def _some(names: Iterable[str]) -> str:
    names = list(names)
    return f"{len(names)}, such as {names[0]!r}" if names else "none"
