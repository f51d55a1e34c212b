"""The linear algebra of a Gauss-Newton step: the Jacobian of an update as a pair of functions, and conjugate gradients over them.

Each product is a backward pass. With the graph of the residuals r(x) kept, J^T u is one; and since it is linear in u, the derivative of
<J^T u, v> along u is J v, one more, whatever u. PyTorch's forward mode gives the same J v in three to six times the time, since it
computes r anew for each v (on a CPU; `make bench` has the numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from privlab.attacks.gradient_inversion import objectives
from privlab.attacks.gradient_inversion.derivatives import check_twice, once
from privlab.attacks.gradient_inversion.search_spaces import Pixels, Space
from privlab.compute import machine
from privlab.leak import Leak
from privlab.models.forward import Gradients

Residual = Callable[[Tensor, Gradients, Leak], list[Tensor]]  # tensors whose squares add up to a term's value


def residuals(
    forward: Callable[[Tensor], Tensor], parameters: Mapping[str, Tensor], leak: Leak, labels: Tensor, space: Space,
    values: Sequence[Residual], latent: Tensor,
) -> list[list[Tensor]]:  # fmt: skip
    """What Gauss-Newton squares and adds up, for each term the tensors of its value, with a graph back to the latent."""
    images = space.images(latent)
    task = F.cross_entropy(forward(images), labels)
    update = torch.autograd.grad(task, list(parameters.values()), create_graph=True, materialize_grads=True)
    try:
        check_twice(update)
    except RuntimeError as error:
        raise _refused(error) from error
    grads = dict(zip(parameters, update, strict=True))
    return [value(images, grads, leak) for value in values]


@dataclass(frozen=True)
class Metric:
    """A symmetric positive matrix on images that acts on each patch alike, and its inverse; the identity where there is none.

    matrix: (numbers of a patch, numbers of a patch), of mean diagonal 1.
    """

    matrix: Tensor | None = None
    patch: tuple[int, int] = (1, 1)

    def __call__(self, v: Tensor) -> Tensor:
        return v if self.matrix is None else self._on_patches(self.matrix, v)

    def inverse(self, v: Tensor) -> Tensor:
        """Its inverse, applied."""
        return v if self.matrix is None else self._on_patches(torch.linalg.inv(self.matrix), v)

    def _on_patches(self, matrix: Tensor, v: Tensor) -> Tensor:
        patches = F.unfold(v, self.patch, stride=self.patch)  # (batch, numbers of a patch, patches)
        return F.fold(matrix @ patches, v.shape[-2:], self.patch, stride=self.patch)


def metric(name: str, model: nn.Module, space: Space) -> Metric:
    """For "patches" the Gram matrix of the model's patch embedding: directions count as long as the embedding makes them.

    Raises ValueError where the first convolution does not cut patches, or the search is in a space of its own.
    """
    if name != "patches":
        return Metric()
    first = next((m for m in model.modules() if isinstance(m, nn.Conv2d)), None)
    cuts = first is not None and first.kernel_size == first.stride and first.kernel_size[0] > 1 and first.groups == 1
    if first is None or not cuts or not isinstance(space, Pixels):
        raise ValueError(
            f"precondition='patches': {type(model).__name__} does not begin by cutting patches, or the search is not among pixels; "
            "try 'none' or 'diagonal'"
        )
    rows = first.weight.detach().flatten(1)  # (width, numbers of a patch)
    gram = rows.T @ rows
    unit = gram.diagonal().mean()
    eye = torch.eye(len(gram)).to(gram)
    return Metric(0.99 * gram / unit + 0.01 * eye, (first.kernel_size[0], first.kernel_size[1]))


class Curvature:
    """Residuals at a point and what J says of them, each product counted in `passes`.

    problem: latent -> for each term a list of tensors.  recycle: pairs of earlier solutions to keep.  metric: the units of the damping.
    weights, an argument of most methods: what each term's square counts.
    """

    def __init__(self, problem: Callable[[Tensor], list[list[Tensor]]], recycle: int, metric: Metric) -> None:
        self.problem, self.recycle, self.metric = problem, recycle, metric
        self.passes, self.scale, self.units = 0, 0.0, torch.ones(())
        self.pairs: list[tuple[Tensor, Tensor]] = []  # (v, J^T J v)
        self.points = {"exact": 0, "difference": 0}  # looked at, by how their products are had

    def look(self, latent: Tensor) -> None:
        """Go to a point: its residuals, and the value of each term."""
        self.passes += 1
        self.points["exact"] += 1
        self.at = latent.detach().clone().requires_grad_()
        parts = self.problem(self.at)
        self.counts = [len(part) for part in parts]
        self.residual = list(chain.from_iterable(parts))
        self.values = [square(part).item() for part in parts]
        self.gradient: Tensor | None = None
        self.left_open: list[Tensor] = []

    def here(self) -> tuple:
        """All of a point, for `back`."""
        return self.at, self.residual, self.values, self.gradient, self.left_open

    def back(self, here: tuple) -> None:
        """Return to a point that was left."""
        self.at, self.residual, self.values, self.gradient, self.left_open = here

    def total(self, weights: Sequence[float]) -> float:
        """The weighted sum of squares."""
        return sum(w * v for w, v in zip(weights, self.values, strict=True))

    def pull(self, vectors: Sequence[Tensor]) -> Tensor:
        """J^T u."""
        self.passes += 1
        return _backward(self.residual, self.at, vectors, retain_graph=True)[0]

    def push(self, direction: Tensor) -> tuple[Tensor, ...]:
        """J v."""
        if self.gradient is None:
            self.passes += 1
            self.left_open = [torch.zeros_like(r, requires_grad=True) for r in self.residual]
            self.gradient = _backward(self.residual, self.at, self.left_open, create_graph=True)[0]
        self.passes += 1
        return _backward(self.gradient, self.left_open, direction, retain_graph=True)

    def downhill(self, weights: Sequence[float]) -> Tensor:
        """-J^T r, of the weighted residuals."""
        return -self.pull(self._weigh([r.detach() for r in self.residual], weights))

    def squared(self, v: Tensor, weights: Sequence[float]) -> Tensor:
        """J^T J v."""
        return self.pull(self._weigh(self.push(v), weights))

    def length(self, v: Tensor, weights: Sequence[float]) -> float:
        """|J v|^2."""
        moved = self.push(v)
        return sum((m * w).sum().item() for m, w in zip(moved, self._weigh(moved, weights), strict=True))

    def damped(self, v: Tensor, damping: float) -> Tensor:
        """What the damping adds to J^T J v."""
        return damping * self.scale * self.units.to(v) * self.metric(v)

    def solve(
        self, downhill: Tensor, free: Tensor, weights: Sequence[float], damping: float, inner: int, tolerance: float, limit: int | None
    ) -> Tensor:  # fmt: skip
        """Conjugate gradients for (J^T J + damping) step = downhill, among the free numbers, from zero.

        free: 1 where a number may move, 0 where it is held.  limit: of `passes`, not to be passed.
        """
        shorten = self._recycled(free, damping)
        step, left = torch.zeros_like(downhill), downhill
        scaled = free * shorten(left)
        direction, size = scaled, (left * scaled).sum()
        goal = tolerance**2 * size
        for _ in range(inner):
            if not size > goal or (limit is not None and self.passes + 2 > limit):
                break
            bent = self.squared(direction, weights)
            total = free * (bent + self.damped(direction, damping))
            length = size / (direction * total).sum()
            step, left = step + length * direction, left - length * total
            self.pairs = [*self.pairs, (length * direction, length * bent)][-self.recycle :] if self.recycle else []
            scaled = free * shorten(left)
            size, last = (left * scaled).sum(), size
            direction = scaled + (size / last) * direction
        return step

    def _recycled(self, free: Tensor, damping: float) -> Callable[[Tensor], Tensor]:
        """An approximate inverse of J^T J + damping: the metric's, corrected along the pairs as L-BFGS corrects (its two loops)."""
        pairs = [(free * v, free * (bent + self.damped(v, damping))) for v, bent in self.pairs]
        products = [(v, y, (v * y).sum()) for v, y in pairs]
        used = [(v, y, dot) for v, y, dot in products if dot > 1e-12 * v.norm() * y.norm()]

        def plain(q: Tensor) -> Tensor:
            return self.metric.inverse(q) / self.units.to(q)

        if not used:
            return plain
        _, y, dot = used[-1]
        unit = dot / (y * plain(y)).sum()

        def shorten(q: Tensor) -> Tensor:
            parts = []
            for v, y, dot in reversed(used):
                parts.append((v * q).sum() / dot)
                q = q - parts[-1] * y
            q = unit * plain(q)
            for (v, y, dot), part in zip(used, reversed(parts), strict=True):
                q = q + (part - (y * q).sum() / dot) * v
            return q

        return shorten

    def _weigh(self, parts: Sequence[Tensor], weights: Sequence[float]) -> list[Tensor]:
        each = chain.from_iterable([w] * n for w, n in zip(weights, self.counts, strict=True))
        return [w * part for w, part in zip(each, parts, strict=True)]


def square(parts: Sequence[Tensor]) -> Tensor:
    """The sum of all squares, without a graph."""
    return torch.stack([part.detach().square().sum() for part in parts]).sum()


def _backward(
    of: Sequence[Tensor] | Tensor, at: Sequence[Tensor] | Tensor, vectors: Sequence[Tensor] | Tensor, **how: bool
) -> tuple[Tensor, ...]:
    """`torch.autograd.grad`.  Raises ValueError, with the operator's name, where one cannot be differentiated so often."""
    try:
        return torch.autograd.grad(of, at, vectors, **how)
    except RuntimeError as error:
        if not once(error):
            raise
        raise _refused(error) from error


def _refused(error: RuntimeError) -> ValueError:
    return ValueError(
        f"model: a layer of it cannot be differentiated as often as Gauss-Newton needs ({str(error).splitlines()[0]}); put another in its "
        "place, or give derivative='auto', which takes differences"
    )


def memory(model: nn.Module, leak: Leak) -> int | None:
    """About how many bytes one Gauss-Newton step takes, without computing it; None where that cannot be told.

    The model is run on tensors that have a shape and no content, and what its graphs would keep is added up.
    """
    like = next(model.parameters())

    def ghost(t: Tensor) -> Tensor:
        return torch.empty_like(t, device="meta")

    state = {n: ghost(p).requires_grad_() for n, p in model.named_parameters()}
    buffers = {n: ghost(b) for n, b in model.named_buffers()}
    update = Leak({n: ghost(g) for n, g in leak.grads.items()}, leak.batch_size, leak.image_shape)
    images = torch.empty(leak.batch_size, *leak.image_shape, dtype=like.dtype, device="meta", requires_grad=True)
    labels = torch.empty(leak.batch_size, dtype=torch.long, device="meta")
    own = {t.untyped_storage()._cdata for t in state.values()}
    storages = {}

    def keep(t: Tensor) -> Tensor:
        storages[t.untyped_storage()._cdata] = t.untyped_storage()
        return t

    def forward(x: Tensor) -> Tensor:
        return functional_call(model, {**state, **buffers}, (x,))

    try:
        with saved_tensors_hooks(keep, lambda t: t), sdpa_kernel(SDPBackend.MATH):
            values: list[Residual] = [lambda _, grads, leak: objectives.relative_differences(grads, leak)]
            (differences,) = residuals(
                forward, {n: state[n] for n in leak.grads}, update, labels, Pixels(), values, images
            )
            _backward(
                differences, images, [torch.empty_like(r, requires_grad=True) for r in differences], create_graph=True
            )
    except (RuntimeError, NotImplementedError, ValueError):
        return None
    graphs = sum(s.nbytes() for key, s in storages.items() if key not in own)
    return graphs + VECTORS * sum(g.numel() * like.element_size() for g in leak.grads.values())


VECTORS = 6  # as long as the update, which a product holds beside the graphs; so the estimate is within a fifth of what was measured


def available(device: torch.device) -> float:
    """Bytes that are free there; on a card with what torch keeps for itself and does not use."""
    if device.type != "cuda":
        return machine.memory()[1] * 1e9
    return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def check_memory(model: nn.Module, leak: Leak) -> None:
    """MemoryError, with an estimate, where a Gauss-Newton step would not fit."""
    device = next(model.parameters()).device
    free, needed = available(device), memory(model, leak)
    if needed is not None and needed > free:
        raise MemoryError(
            f"leak: its batch of {leak.batch_size} would take about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free; "
            "give fewer images, a shorter float format, or a smaller model"
        )
