"""The line between client and attacker: what a client's step gives away, and nothing else."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.data import Normalise
from privlab.data.images import check_range
from privlab.models.forward import Gradients, functional, preprocessing

__all__ = ["Leak", "observe"]


@dataclass(frozen=True, repr=False)
class Leak:
    """All that an honest-but-curious server receives of one client step.

    labels: where None, an attack recovers them first.  precision: solvers choose their cut-off by it.
    """

    grads: Gradients  # parameter name -> gradient of the mean loss, shaped like the parameter
    batch_size: int  # images behind the gradients; a server weighs the average by it
    image_shape: tuple[int, int, int]  # (channels, height, width)
    labels: Tensor | None = None  # (batch,) class indices
    normalise: Normalise = field(default_factory=Normalise)  # the preprocessing, which is public
    precision: torch.dtype = torch.float32  # of the gradients on the wire

    def __repr__(self) -> str:
        numbers = f"{sum(g.numel() for g in self.grads.values()):,} numbers in {str(self.precision)[6:]}"
        return f"Leak: {len(self.grads)} gradients, {numbers}, of {self.batch_size} image(s)"

    def __getitem__(self, name: str) -> Tensor:
        """The gradient of one parameter; ValueError where the leak misses it or it is not finite."""
        _known([name], self.grads, "leak holds no gradient")
        if not self.grads[name].isfinite().all():
            raise ValueError(f"leak: the gradient of {name!r} holds NaN or infinity; did the client's step overflow?")
        return self.grads[name]

    @cached_property
    def norm(self) -> Tensor:
        """The Euclidean norm of all gradients taken as one long vector; a scalar.  ValueError where there is none."""
        if not self.grads:
            raise ValueError("leak holds no gradient, so it has no norm; withhold fewer names")
        return torch.stack([g.norm() for g in self.grads.values()]).norm()

    def to(self, like: Tensor) -> Self:
        """The same leak on another tensor's device and in its float format; `precision` stays that of the wire."""
        labels = None if self.labels is None else self.labels.to(like.device)
        return replace(self, grads={n: g.to(like) for n, g in self.grads.items()}, labels=labels)

    def only(self, names: Iterable[str]) -> Self:
        """The same leak with nothing but these parameters in it."""
        names = {*_known(names, self.grads, "leak holds no gradient")}
        return replace(self, grads={n: g for n, g in self.grads.items() if n in names})

    def without(self, names: Iterable[str]) -> Self:
        """The same leak with these parameters withheld."""
        return self.only(self.grads.keys() - _known(names, self.grads, "leak holds no gradient"))

    def rounded(self, dtype: torch.dtype) -> Self:
        """The same leak after a trip over the wire in a shorter float format, such as torch.bfloat16."""
        return replace(self, grads={n: g.to(dtype).to(g.dtype) for n, g in self.grads.items()}, precision=dtype)


@torch.enable_grad()
def observe(model: nn.Module, images: Tensor, labels: Tensor, names: Iterable[str] | None = None) -> Leak:
    """Run one client step and return what leaves the client. The model keeps its mode, weights, buffers and caches.

    A parameter that the forward pass leaves alone sends zeros (GoogLeNet's auxiliary heads in eval mode).
    images: (batch, channels, height, width) in [0, 1], moved to the model's device and precision.  labels: (batch,) class indices.
    names: of the parameters whose gradients are shared; all that are learnable if not given.
    Raises ValueError for labels out of range, images that are no batch, or names that the model does not have.
    """
    kind, learnable = type(model).__name__, {n: p for n, p in model.named_parameters() if p.requires_grad}
    shared = _known(learnable if names is None else names, learnable, f"names: {kind} learns no parameter")
    if not shared:
        raise ValueError(f"model: {kind} learns no parameter, so its step sends nothing; unfreeze one, and name some")
    first = next(iter(learnable.values()))
    labels = torch.as_tensor(labels, device=first.device)
    if images.ndim != 4 or len(images) == 0 or labels.shape != images.shape[:1] or labels.is_floating_point():
        given = f"shape {tuple(images.shape)} with labels of shape {tuple(labels.shape)} and type {labels.dtype}"
        raise ValueError(f"images: got {given}; give (batch, channels, height, width) and one whole number each")
    check_range("images", images, "give finite values in [0, 1], the model normalises them")
    normalise = preprocessing(model)
    try:
        logits = functional(model)({}, normalise(images.to(first)))  # (batch, classes)
    except AssertionError as error:  # timm's word for a wrong size
        raise ValueError(f"images: shape {tuple(images.shape)} does not fit the model; {error}") from error
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ValueError(f"model: {kind} does not return (batch, classes); try model.eval(), or a module around it")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        raise ValueError(f"labels: got {labels.tolist()}; this model knows the classes 0 to {logits.shape[1] - 1}")

    labels = labels.long()
    parameters, loss = [learnable[n] for n in shared], F.cross_entropy(logits, labels)
    gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
    _, channels, height, width = images.shape
    grads = dict(zip(shared, gradients, strict=True))
    return Leak(grads, len(images), (channels, height, width), labels, normalise, first.dtype)


def _known(names: Iterable[str], among: Collection[str], lack: str) -> list[str]:
    """Names as a list; ValueError for one that is not among those known."""
    names = [names] if isinstance(names, str) else list(names)
    if unknown := [n for n in names if n not in among]:
        raise ValueError(f"{lack} named {unknown[0]!r}; it has {len(among)}, such as {next(iter(among), None)!r}")
    return names
