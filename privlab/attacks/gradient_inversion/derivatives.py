"""How a search differentiates a distance D between gradients by the images x: twice, or by a difference as long as that agrees.

With g(x) = dL/d(weights), J = dg/dx and u = dD/dg, the derivative is J^T u. Mixed derivatives commute, so it is also that of dL/dx along u
in the *weights*, one more first derivative, for less time and without a graph of a graph:

    J^T u  =  lim  [ dL/dx (weights + e u) - dL/dx (weights) ] / e

(Liu et al. 2019, DARTS, take their second-order term so, and breaching its Pearlmutter losses.) What is ours: the second pass replays which
units of ReLU were on in the first, and which pixel max pooling took of each window. Within one such pattern a network is smooth; a
difference of two patterns is no derivative, since autograd knows nothing of units that switch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.linalg import vector_norm
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import get_total_norm
from torch.overrides import TorchFunctionMode

from privlab.leak import Leak
from privlab.models.forward import Gradients, functional

Tensors = Sequence[Tensor]
Forward = Callable[[Tensor], Tensor]  # normalised images -> logits (batch, classes)
Loss = Callable[[Forward, Tensors, slice], Tensor]  # of a forward pass on inputs, which are these rows of a batch
Layer = nn.ReLU | nn.MaxPool2d
WHOLE = slice(None)
ERROR = 0.03  # of a difference, over the length of the exact direction: a cosine of .9995 at least, lengths within 3%
EVERY = 50  # evaluations between two comparisons of a difference with the exact direction
CLOSE = 0.9995  # a cosine from which on 1 - cosine^2 is too short to be told from rounding
SHIFT = 0.03  # e |u| / |weights|, over the root of the float's precision: 1e-5 in float32; longer is less straight, shorter less precise


def twice_differentiable(model: nn.Module) -> Forward:
    """The forward pass without a trace in the model, with plain attention and hard sigmoids: PyTorch's own have no second derivative."""
    forward = partial(functional(model), {})

    def plain(x: Tensor) -> Tensor:
        with sdpa_kernel(SDPBackend.MATH), _PlainSigmoids():
            return forward(x)

    return plain


class _PlainSigmoids(TorchFunctionMode):
    """Puts what they are made of in the place of hard sigmoids."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.hardsigmoid:
            return F.relu6((args[0] if args else (kwargs or {})["input"]) + 3) / 6
        return func(*args, **(kwargs or {}))


def gradients(loss: Tensor, parameters: Gradients, create_graph: bool = False) -> Gradients:
    """dL/d(weights), by name; with zeros for what the loss leaves alone."""
    grads = torch.autograd.grad(loss, [*parameters.values()], create_graph=create_graph, materialize_grads=True)
    return dict(zip(parameters, grads, strict=True))


def assert_twice_differentiable(update: Gradients) -> None:
    """RuntimeError where a graph goes through a function marked as once differentiable, which PyTorch may take as constant."""
    seen, left = set(), [g.grad_fn for g in update.values() if g.grad_fn is not None]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.name().endswith("::Error"):
            raise RuntimeError("model: a function in it is marked with @once_differentiable; put another in its place")
        left += [following for following, _ in node.next_functions if following is not None]


def is_repeatable(model: nn.Module) -> bool:
    """Whether a second forward pass is like the first: no layer draws at random, no BatchNorm takes the batch's own statistics."""

    def differs(layer: nn.Module) -> bool:
        shares = [getattr(layer, name, 0) for name in ("p", "drop_prob", "dropout")]  # of torch's and timm's layers
        drops = any(isinstance(share, float) and share > 0 for share in shares)
        return layer.training and (drops or isinstance(layer, nn.RReLU | nn.modules.batchnorm._BatchNorm))

    return not any(map(differs, model.modules()))


class Chunks:
    """J^T u chunk by chunk: the update of a batch is the sum of those of its chunks, so each is differentiated twice by itself."""

    def __init__(self, forward: Forward, parameters: Gradients, size: int, batch: int) -> None:
        self.forward, self.parameters = forward, parameters
        self.rows = [slice(i, i + size) for i in range(0, batch, size)]

    def update(self, loss: Loss, inputs: Tensors) -> Gradients:
        """dL/d(weights), as leaves."""
        total = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        for rows in self.rows:
            share = gradients(loss(self.forward, [v[rows].detach() for v in inputs], rows), self.parameters)
            total = {n: g + share[n] for n, g in total.items()}
        return {n: g.requires_grad_() for n, g in total.items()}

    def vjp(self, loss: Loss, inputs: Tensors, u: Tensors) -> list[Tensor]:
        """J^T u for each of the inputs."""
        parts = []
        for rows in self.rows:
            some = [v[rows].detach().requires_grad_() for v in inputs]
            share = gradients(loss(self.forward, some, rows), self.parameters, create_graph=True)
            assert_twice_differentiable(share)
            parts.append(torch.autograd.grad([*share.values()], some, u))
        return [torch.cat(part) for part in zip(*parts, strict=True)]


class Slope(NamedTuple):
    """u = dD/dg, tensor by tensor factor * (theirs + ratio * ours), which is kept nowhere."""

    theirs: Tensors
    ours: Tensors
    ratio: float
    factor: float
    length: float  # of all of u


class Difference:
    """J^T u by two first derivatives.  parameters: the weights of the model that u is of.

    Kinks of other layers than nn.ReLU and nn.MaxPool2d, and of functions such as F.relu, are not known.
    """

    def __init__(self, model: nn.Module, parameters: Gradients) -> None:
        self.parameters, self.forward = parameters, functional(model)
        self.weights = [p.detach() for p in parameters.values()]
        self.shifted = {n: torch.empty_like(p) for n, p in parameters.items()}  # filled at each `vjp`
        self.length = get_total_norm(self.weights).item()
        self.layers: list[Any] = [
            m for m in model.modules() if type(m) in (nn.ReLU, nn.MaxPool2d) and "forward" not in vars(m)
        ]

    def update(self, loss: Loss, inputs: Tensors) -> Gradients:
        """dL/d(weights), as leaves; dL/d(inputs) and the pattern are noted for `vjp`."""
        self.pattern: list[Tensor] = []
        with self._instead(partial(_record, self.pattern)):
            here = loss(partial(self.forward, {}), inputs, WHOLE)
        both = torch.autograd.grad(here, [*inputs, *self.parameters.values()], materialize_grads=True)
        self.here = both[: len(inputs)]
        return {n: g.requires_grad_() for n, g in zip(self.parameters, both[len(inputs) :], strict=True)}

    def vjp(self, loss: Loss, inputs: Tensors, u: Tensors | Slope) -> list[Tensor]:
        """J^T u for each of the inputs, where `update` was taken last."""
        u = u if isinstance(u, Slope) else Slope(u, u, 0.0, 1.0, get_total_norm(u).item())
        info = torch.finfo(inputs[0].dtype)
        shift = SHIFT * info.eps**0.5 * self.length / max(u.length, info.tiny)  # u is 0 at a match
        with torch.no_grad():
            for place, weight, t, g in zip(self.shifted.values(), self.weights, u.theirs, u.ours, strict=True):
                part = torch.add(t, g, alpha=u.ratio, out=place) if u.ratio else t
                torch.add(weight, part, alpha=shift * u.factor, out=place)
        with self._instead(partial(_replay, iter(self.pattern))):
            there = loss(partial(self.forward, self.shifted), inputs, WHOLE)
        slopes = torch.autograd.grad(there, inputs, materialize_grads=True)
        return [(t - h) / shift for t, h in zip(slopes, self.here, strict=True)]

    @contextmanager
    def _instead(self, forward: Callable[[Layer, Tensor], Tensor]) -> Iterator[None]:
        """Inside, ReLU and max pooling go by this function."""
        for layer in self.layers:
            vars(layer)["forward"] = partial(forward, layer)  # goes before that of its class
        try:
            yield
        finally:
            for layer in self.layers:
                del vars(layer)["forward"]


def _record(pattern: list[Tensor], layer: Layer, x: Tensor) -> Tensor:
    """The layer as it is; of a ReLU its output is noted, of a pooling the index that it took of each window."""
    if isinstance(layer, nn.ReLU):
        out = nn.ReLU.forward(layer, x)
        pattern.append(out.detach())
        return out
    window = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.ceil_mode)
    out, indices = F.max_pool2d(x, *window, return_indices=True)
    pattern.append(indices)
    return out


def _replay(pattern: Iterator[Tensor], layer: Layer, x: Tensor) -> Tensor:
    noted = next(pattern)
    if isinstance(layer, nn.ReLU):
        out = torch.ops.aten.threshold_backward(x, noted, 0)  # x where the unit was on, 0 where it was off
        return x.copy_(out) if layer.inplace else out
    return x.flatten(-2).gather(-1, noted.flatten(-2)).view_as(noted)


def agree(exact: Tensors, direct: Tensors, through: Tensors) -> bool:
    """Whether `through`, by a difference, is within ERROR of what `exact` has beside its `direct` part, variable by variable."""
    for whole, beside, other in zip(exact, direct, through, strict=True):
        own = whole - beside
        rounding = 8 * torch.finfo(whole.dtype).eps * vector_norm(beside)  # of the line before
        if not vector_norm(other - own) <= ERROR * vector_norm(own) + rounding:  # NaN is not
            return False
    return True


@torch.no_grad()
def cosine(grads: Gradients, leak: Leak, weight: float = 1.0) -> tuple[Tensor, Slope]:
    """`objectives.cosine_distance`, and its u = -(g* - (<g, g*> / |g|^2) g) / (|g| |g*|), of length sqrt(1 - cosine^2) / |g|.

    Autograd makes so many trips through memory for it that a pass of a small network is as fast.
    """
    ours, theirs = [*grads.values()], [leak.grads[name] for name in grads]
    flat = [(g.flatten(), t.flatten()) for g, t in zip(ours, theirs, strict=True)]
    dot, square = torch.stack([torch.dot(g, other) for g, t in flat for other in (t, g)]).view(-1, 2).sum(0)
    length = square.sqrt()
    near = dot / (length * leak.norm)
    far = (1 - near**2).sqrt()  # |g* - (<g, g*> / |g|^2) g| over |g*|
    if near.abs() > CLOSE:
        far = get_total_norm([t - dot / square * g for t, g in zip(theirs, ours, strict=True)]) / leak.norm
    numbers = torch.stack([-dot / square, -weight / (length * leak.norm), abs(weight) * far / length]).tolist()
    return 1 - near, Slope(theirs, ours, *numbers)
