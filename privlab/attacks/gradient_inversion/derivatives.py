"""How a search takes the derivative of a distance between gradients: by differentiating twice, or as a difference; see `differences`.

"exact" needs a network that can be differentiated twice, "difference" one whose forward pass can be repeated, and "auto" compares them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from privlab.attacks.gradient_inversion.activation_patterns import OtherPattern
from privlab.attacks.gradient_inversion.differences import Difference
from privlab.models.forward import forgetful, kept, stateless

Kind = Literal["exact", "difference", "auto"]
KINDS = ("exact", "difference", "auto")
ERROR = (
    0.03  # of a difference, over the length of the exact direction: a cosine of .9995 at least, and lengths within 3%
)
LONG = 50  # looks from which on a search pays for seeing at its first whether its passes can go without care
EVERY = 50  # looks between two comparisons; twice, four times, ... as many where the difference was turned down


class TwiceDifferentiable:
    """The model's forward pass without side effects, attention and hard sigmoids computed so that they have a second derivative.

    PyTorch's fused attention has none. Where the model uses it, the plain one takes its place, and a warning says so.
    model: to be run as `stateless` does, or as `forward`.  tell: whether to warn.
    plain: whether the model is run as it is, without that care, which takes a millisecond a pass; None until `compared` has looked.
    """

    def __init__(self, model: nn.Module, forward: Callable[..., Tensor] | None = None, tell: bool = True) -> None:
        self.model, self.run, self.tell, self.watch = model, forward or stateless(model), tell, _Twice()
        self.plain: bool | None = None if forward is None and not any(m.training for m in model.modules()) else False

    def __call__(self, *args: Any) -> Tensor:
        if self.plain:
            return self.model(*args)
        with sdpa_kernel(SDPBackend.MATH), self.watch:
            logits = self.run(*args)
        if self.watch.fused and self.tell:
            self.tell = False
            warnings.warn(
                f"model: {type(self.model).__name__} computes attention by a fused kernel, which cannot be differentiated twice; "
                "the search uses PyTorch's plain attention in its place (same function, slower)",
                stacklevel=2,
            )
        return logits

    def compared(self, look: Callable[[], Look]) -> Look:
        """What a look gives with care; from now on without it, if it leaves no trace in any layer and gives the same to the bit."""
        chance = torch.get_rng_state()
        careful = look()
        self.plain = False
        if self.watch.fused or self.watch.replaced:
            return careful
        with forgetful(self.model), torch.random.fork_rng(devices=[]):
            torch.set_rng_state(chance)
            before, self.plain = kept(self.model), True
            try:
                other = look()
                ours, theirs = ([one.values, *one.gradients] for one in (careful, other))
                self.plain = kept(self.model) == before and all(map(torch.equal, ours, theirs))
            except BaseException:
                self.plain = False
                raise
        return careful


class _Twice(TorchFunctionMode):
    """Notices calls of attention that PyTorch may fuse; puts for a hard sigmoid what it is made of, which has a second derivative."""

    fused = replaced = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.fused |= func in (F.scaled_dot_product_attention, F.multi_head_attention_forward)
        if func is F.hardsigmoid:
            self.replaced = True
            return F.relu6((args[0] if args else (kwargs or {})["input"]) + 3) / 6
        return func(*args, **(kwargs or {}))


def once(error: RuntimeError) -> bool:
    """Whether an error says that an operation has no second derivative."""
    return any(word in str(error) for word in ("derivative", "differentiate twice", "double backward"))


def check_twice(update: Iterable[Tensor]) -> None:
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
                "another in its place, or give derivative='difference'"
            )
        left += [following for following, _ in node.next_functions if following is not None]


def why_exact(model: nn.Module) -> str:
    """What keeps a forward pass from being repeated, in words: chance, or what a pass leaves behind; empty where nothing does."""
    for name, part in model.named_modules():
        if part.training and isinstance(part, nn.modules.batchnorm._BatchNorm):
            return f"{name or type(model).__name__} is BatchNorm in train mode"
        shares = [getattr(part, key, 0) for key in ("p", "drop_prob", "dropout")]
        chance = isinstance(part, nn.RReLU) or any(isinstance(share, float) and share > 0 for share in shares)
        if part.training and chance:
            return f"{name or type(model).__name__} drops at random in train mode"
    return ""


def choose(kind: Kind, model: nn.Module, parameters: Mapping[str, Tensor]) -> Choice:
    """The choice for one restart of a search on this model; warns where a difference was asked for and cannot be had."""
    if kind == "exact":
        return Choice(kind, None)
    if reason := why_exact(model):
        if kind == "difference":
            warnings.warn(
                f"derivative='difference' needs a forward pass that can be repeated, and {reason}; the search differentiates twice",
                stacklevel=3,
            )
        return Choice(kind, None)
    return Choice(kind, Difference(model, parameters))


@dataclass
class Look:
    """What one look at the images gives: the values of the terms, and the derivative of their weighted sum at each variable.

    direct: the part of it that does not go through the update.  pulled: the part that does, or all of it where direct is None.
    """

    values: Tensor  # (terms,)
    pulled: list[Tensor]
    direct: list[Tensor] | None = None

    @property
    def gradients(self) -> list[Tensor]:
        """The whole derivative."""
        if self.direct is None:
            return self.pulled
        return [d + p for d, p in zip(self.direct, self.pulled, strict=True)]


@dataclass
class Choice:
    """Which derivative a search takes, look by look, and how often it took which.

    "auto" takes both at the first look and every `EVERY` looks, compares them, and goes on with the difference while it agrees. Where a
    model has no second derivative, it compares differences at two shifts.
    """

    kind: Kind
    difference: Difference | None  # None: exact throughout
    exact_looks: int = 0
    difference_looks: int = 0
    agrees: bool = False
    second: bool = True  # whether the model has a second derivative, as far as is known
    check: int = 0  # the look at which the two are compared next
    wait: int = EVERY

    @property
    def counts(self) -> dict[str, int]:
        """How often each was taken."""
        return {"exact": self.exact_looks, "difference": self.difference_looks}

    def take(self, exact: Callable[[], Look], difference: Callable[[], Look]) -> Look:
        """One look, by the one or the other. `exact` is what a search without a choice would do, to the bit."""
        if self.difference is None or self.kind == "exact":
            return self._count(exact())
        if self.kind == "auto" and self.exact_looks + self.difference_looks >= self.check:
            return self._compare(exact, difference)
        if self.kind == "auto" and not self.agrees:
            return self._count(exact())
        try:
            return self._count(difference())
        except OtherPattern as error:
            if self.kind == "difference":
                raise ValueError(f"derivative='difference': the two passes differ, by {error}; try 'auto'") from error
            self._turn_down()
            return self._count(exact())

    def _compare(self, exact: Callable[[], Look], difference: Callable[[], Look]) -> Look:
        try:
            other = difference()
        except OtherPattern:
            other = None
        why = "as was seen before"
        try:
            true = exact() if self.second else None
        except RuntimeError as error:
            if not once(error):
                raise
            true, why = None, str(error).splitlines()[0]
        if true is None:
            self.second = False
            return self._without_second(difference, other, why)
        if other is not None and _agree(true, other):
            self._go_on()
        else:
            self._turn_down()
        return self._count(true)

    def _without_second(self, difference: Callable[[], Look], one: Look | None, why: str) -> Look:
        """Where there is no exact derivative to compare with: another difference, at an eighth of the shift."""
        assert self.difference is not None
        keep = self.difference.gain
        if one is not None and keep:
            self.difference.gain = 8 * keep
            other = difference()
            self.difference.gain = keep
            if _agree(other, one):
                self._go_on()
                return self._count(one)
        raise ValueError(
            f"model: it has no second derivative ({why}), and differences of its first are not steady; put another layer in its place"
        )

    def _go_on(self) -> None:
        self.agrees, self.wait = True, EVERY
        self.check = self.exact_looks + self.difference_looks + EVERY

    def _turn_down(self) -> None:
        self.check = self.exact_looks + self.difference_looks + self.wait
        self.agrees, self.wait = False, 2 * self.wait

    def _count(self, look: Look) -> Look:
        if look.direct is None:
            self.exact_looks += 1
        else:
            self.difference_looks += 1
        return look

    def pack(self) -> Tensor:
        """All of it as numbers."""
        gain = None if self.difference is None else self.difference.gain
        numbers = [
            self.exact_looks,
            self.difference_looks,
            self.agrees,
            self.second,
            self.check,
            self.wait,
            math.nan if gain is None else gain,
        ]
        return torch.tensor(numbers, dtype=torch.float64)

    def unpack(self, numbers: Tensor) -> None:
        """Take up what `pack` gave."""
        *counts, gain = numbers.tolist()
        self.exact_looks, self.difference_looks, agrees, second, self.check, self.wait = map(int, counts)
        self.agrees, self.second = bool(agrees), bool(second)
        if self.difference is not None:
            self.difference.gain = None if math.isnan(gain) else gain


def _agree(true: Look, other: Look) -> bool:
    """Whether a difference is within ERROR of the exact direction, variable by variable, what does not go through the update left out."""
    for whole, direct, pulled in zip(true.gradients, other.direct, other.pulled, strict=True):  # type: ignore[arg-type]
        exact = whole - direct
        rounding = 8 * torch.finfo(whole.dtype).eps * torch.linalg.vector_norm(direct)  # of the line before
        apart, length = torch.linalg.vector_norm(pulled - exact), torch.linalg.vector_norm(exact)
        if not apart <= ERROR * length + rounding:  # NaN is not
            return False
    return True
