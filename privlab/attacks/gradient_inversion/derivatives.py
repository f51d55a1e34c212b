"""How a search takes the derivative of a distance between gradients: by differentiating twice, or as a difference; see `differences`.

"exact" needs a network that can be differentiated twice. "auto" goes by differences as long as they agree with that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from privlab.attacks.gradient_inversion.differences import Difference, runs_plain
from privlab.models.forward import stateless

Kind = Literal["exact", "auto"]
KINDS = ("exact", "auto")
ERROR = 0.03  # of a difference, over the length of the exact direction: a cosine of .9995 at least, lengths within 3%
EVERY = 50  # evaluations between two comparisons
LONG = 50  # evaluations from which on a search pays for seeing whether its exact passes can go without care


class TwiceDifferentiable:
    """The model's forward pass without side effects, attention and hard sigmoids computed so that they have a second derivative.

    PyTorch's fused attention has none. Where the model uses it, the plain one takes its place, and a warning says so.
    plain: whether the model is run as it is, without that care, which takes a millisecond a pass; None until `lightened` has looked.
    """

    def __init__(self, model: nn.Module, warn: bool = True) -> None:
        self.model, self.careful, self.warn, self.watch = model, stateless(model), warn, _Watch()
        self.plain: bool | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.plain:
            return self.model(x)
        with sdpa_kernel(SDPBackend.MATH), self.watch:
            logits = self.careful(x)
        if self.watch.fused and self.warn:
            self.warn = False
            warnings.warn(
                f"model: {type(self.model).__name__} computes attention by a fused kernel, which cannot be differentiated twice; "
                "the search uses PyTorch's plain attention in its place (same function, slower)",
                stacklevel=2,
            )
        return logits

    def lightened(self, evaluate: Callable[[], Evaluation]) -> Evaluation:
        """What an evaluation gives with care; from now on without, where nothing was put in place and the same comes out, to the bit."""

        def plainly() -> list[Tensor]:
            self.plain = True
            other = evaluate()
            return [other.values, *other.gradients]

        careful, self.plain = evaluate(), False
        if not (self.watch.fused or self.watch.replaced):
            self.plain = runs_plain(self.model, [careful.values, *careful.gradients], plainly)
        return careful


class _Watch(TorchFunctionMode):
    """Notices calls of attention that PyTorch may fuse; puts for a hard sigmoid what it is made of, which has a second derivative."""

    fused = replaced = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.fused |= func in (F.scaled_dot_product_attention, F.multi_head_attention_forward)
        if func is F.hardsigmoid:
            self.replaced = True
            return F.relu6((args[0] if args else (kwargs or {})["input"]) + 3) / 6
        return func(*args, **(kwargs or {}))


def is_double_backward_error(error: RuntimeError) -> bool:
    """Whether an error says that an operation has no second derivative."""
    return any(word in str(error) for word in ("derivative", "differentiate twice", "double backward"))


def assert_twice_differentiable(update: Iterable[Tensor]) -> None:
    """RuntimeError where a graph goes through a function that was marked as once differentiable.

    PyTorch raises one itself, but only if its own derivative is asked for: on the way to other inputs it takes that part as constant.
    """
    seen, left = set(), [g.grad_fn for g in update if g.grad_fn is not None]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name().endswith("::Error"):
            raise RuntimeError(
                "model: it holds a function that was marked with @once_differentiable, and the search has to differentiate twice; put "
                "another in its place"
            )
        left += [following for following, _ in node.next_functions if following is not None]


def is_repeatable(model: nn.Module) -> bool:
    """Whether a second forward pass is like the first: no layer draws at random, no BatchNorm takes the batch's own statistics."""

    def varies(layer: nn.Module) -> bool:
        shares = [
            getattr(layer, name, 0) for name in ("p", "drop_prob", "dropout")
        ]  # dropped by torch's and timm's layers
        drops = any(isinstance(share, float) and share > 0 for share in shares)
        return drops or isinstance(layer, nn.RReLU | nn.modules.batchnorm._BatchNorm)

    return not any(layer.training and varies(layer) for layer in model.modules())


@dataclass
class Evaluation:
    """The values of the terms at some images, and the derivative of their weighted sum at each variable.

    grad_through_update: the part of it that goes through the update, or all of it where grad_direct is None.
    grad_direct: the part that does not.
    """

    values: Tensor  # (terms,)
    grad_through_update: list[Tensor]
    grad_direct: list[Tensor] | None = None

    @property
    def gradients(self) -> list[Tensor]:
        """The whole derivative."""
        if self.grad_direct is None:
            return self.grad_through_update
        return [d + u for d, u in zip(self.grad_direct, self.grad_through_update, strict=True)]


@dataclass
class Choice:
    """Which derivative a restart takes, evaluation by evaluation, and how often it took which.

    With a difference at hand it takes both at the first evaluation and at every `EVERY`th, and goes on with it if the two agree.
    """

    difference: Difference | None  # None: exact throughout
    exact: int = 0
    by_difference: int = 0
    agrees: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How often each was taken."""
        return {"exact": self.exact, "difference": self.by_difference}

    def take(self, exactly: Callable[[], Evaluation], by_difference: Callable[[], Evaluation]) -> Evaluation:
        """One evaluation, by the one or the other."""
        due = self.difference is not None and (self.exact + self.by_difference) % EVERY == 0
        other = by_difference() if due or self.agrees else None
        if other is not None and not due:
            self.by_difference += 1
            return other
        true = exactly()
        self.agrees = other is not None and _agree(true, other)
        self.exact += 1
        return true


def _agree(true: Evaluation, other: Evaluation) -> bool:
    """Whether a difference is within ERROR of the exact direction, variable by variable, what does not go through the update left out."""
    for whole, direct, through in zip(true.gradients, other.grad_direct or [], other.grad_through_update, strict=True):
        exact = whole - direct
        rounding = 8 * torch.finfo(whole.dtype).eps * torch.linalg.vector_norm(direct)  # of the line before
        apart, length = torch.linalg.vector_norm(through - exact), torch.linalg.vector_norm(exact)
        if not apart <= ERROR * length + rounding:  # NaN is not
            return False
    return True
