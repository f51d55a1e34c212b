"""Penalties on what a classifier's features tell of its images: BiDO (Peng et al. 2022) and MID (Wang et al. 2021).

BiDO wants the features of each stage to depend little on the image and much on the label; dependence is measured on a batch, by HSIC,
from kernel matrices K_ij = k(x_i, x_j), which are (m, m) for m images and centred to H K H, H = I - 1/m.
MID sends the last features through a narrow, noisy channel and pays for each nat that gets through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.models import representations
from privlab.training import Recipe
from privlab.training.defence import Defence, Penalty

EPSILON = 1e-5  # of normalised HSIC: how much of each kernel's spectrum counts as noise


def hsic(x: Tensor, y: Tensor, sigma: float = 5.0) -> Tensor:
    """Normalised HSIC of a batch: trace(R_x R_y) with R = K (K + epsilon m I)^-1, K being a centred kernel matrix; 0 to below m.

    x, y: (m, ...) floats get a Gaussian kernel of variance sigma^2 * numbers an image; whole numbers (m,) are labels and get the linear
    kernel of their one-hot codes.
    Source: Ma et al. 2020 (HSIC bottleneck), section 3; BiDO takes its form.
    """
    if len(x) != len(y) or len(x) < 2:
        raise ValueError(f"x, y: got {len(x)} and {len(y)} rows; give the same two or more images in both")
    r_x, r_y = _shares(_kernel(x, sigma)), _shares(_kernel(y, sigma))
    return (r_x * r_y).sum().to(x.dtype)


@dataclass(frozen=True)
class BiDO(Defence):
    """Bilateral dependency optimisation: to the loss is added the sum over stages of a1 d(X, Z) - a2 d(Z, Y).

    X: the normalised images, Z: what leaves a stage, Y: the labels. Stages end where timm's `feature_info` says, which counts the stem
    of a ResNet as the first.
    a1, a2: 0 or more, and not both 0.  d: `hsic`.  sigma: width of its Gaussian kernels.
    Raises ValueError for weights that are no defence; and a training with it, for mixed images and for models whose stages are not known.
    Source: Peng et al. 2022, section 3; the weights are searched for each architecture.
    """

    penalises: ClassVar[bool] = True
    a1: float
    a2: float
    measure: str = "hsic"  # the only one; a field, since trained models are filed under it
    sigma: float = 5.0

    def __post_init__(self) -> None:
        for name in ("a1", "a2"):
            _check_weight(name, getattr(self, name))
        if self.a1 == self.a2 == 0:
            raise ValueError("a1=0 and a2=0 leave the loss as it is, which is no defence; give a1=0.05 and a2=0.5, say")
        if self.measure != "hsic":
            raise ValueError(f"measure={self.measure!r} is not known; there is 'hsic'")
        if not (math.isfinite(self.sigma) and self.sigma > 0):
            raise ValueError(f"sigma={self.sigma!r} is no width of a kernel; give a positive number, such as 5.0")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        representations.stages(model)
        if recipe.batch_size < 2:
            raise ValueError(f"batch_size={recipe.batch_size}: dependence shows between images; give 2 or more a batch")

    @contextmanager
    def listen(self, model: nn.Module) -> Iterator[Penalty]:
        features: dict[str, Tensor] = {}

        def penalty(x: Tensor, labels: Tensor) -> Tensor:
            total = x.new_zeros(())
            for z in features.values():
                if self.a1:
                    total = total + self.a1 * hsic(x, z, self.sigma).to(x.dtype)
                if self.a2:
                    total = total - self.a2 * hsic(z, labels, self.sigma)
            features.clear()
            return total

        def hook(layer: str) -> Callable[..., None]:
            return lambda module, inputs, output: features.update({layer: output})

        hooks = [model.get_submodule(n).register_forward_hook(hook(n)) for n in representations.stages(model)[:-1]]
        try:
            yield penalty
        finally:
            for each in hooks:
                each.remove()


bido = BiDO


class Channel(nn.Module):
    """features (n, inside) -> z (n, width), drawn from N(mu, sigma^2) in training; in evaluation z is mu, without noise."""

    def __init__(self, inside: int, width: int) -> None:
        super().__init__()
        self.code = nn.Linear(inside, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        mu, sigma = split(self.code(x))
        return mu + sigma * torch.randn_like(sigma) if self.training else mu


def split(code: Tensor) -> tuple[Tensor, Tensor]:
    """(n, 2 width) -> mu and sigma = softplus(s - 5), (n, width) each: about 0.007 where s is 0, so a training begins with little noise."""
    mu, s = code.chunk(2, dim=-1)
    return mu, F.softplus(s - 5)


def divergence(mu: Tensor, sigma: Tensor) -> Tensor:
    """KL(N(mu, sigma^2) || N(0, 1)) in nats, summed over the numbers of each image: (n, width) twice -> (n,)."""
    return ((mu.square() + sigma.square() - 1) / 2 - sigma.log()).sum(-1)


@dataclass(frozen=True)
class MID(Defence):
    """Mutual information regularisation: the head sees z ~ N(mu, sigma^2) alone, and weight * mean KL(N(mu, sigma^2) || N(0, 1)) is added.

    The KL bounds what z tells of the image, from above. mu and sigma are a linear map of the last features; in evaluation the mean is used,
    so that a victim answers the same twice. Head and channel are drawn anew.
    weight: positive, a nat of the mean image against a nat of cross-entropy.  width: numbers in z.
    Raises ValueError for a weight that is no defence, and for a model without a Linear head, or with two.
    Source: Wang et al. 2021, section 4, after the deep variational information bottleneck of Alemi et al. 2017.
    """

    penalises: ClassVar[bool] = True
    weight: float
    width: int

    def __post_init__(self) -> None:
        _check_weight("weight", self.weight)
        if self.weight == 0:
            raise ValueError("weight=0 lets everything through, which is no defence; give 0.01, say")
        if self.width < 1:
            raise ValueError(f"width={self.width!r} is no number of channels; give 1 or more, such as 64")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        representations.only_head(model)

    def shape(self, model: nn.Module, epoch: int) -> bool:
        if _channel(model) is not None:
            return False
        name = representations.only_head(model)
        head: Any = model.get_submodule(name)
        new = nn.Sequential(Channel(head.in_features, self.width), nn.Linear(self.width, head.out_features))
        model.set_submodule(name, new.to(head.weight).train(head.training))
        return True

    @contextmanager
    def listen(self, model: nn.Module) -> Iterator[Penalty]:
        channel, codes = _channel(model), list[Tensor]()
        if channel is None:
            raise ValueError(f"model: {type(model).__name__} has no channel yet; call shape(model, 0) first")
        hook = channel.code.register_forward_hook(lambda module, inputs, output: codes.append(output))
        try:
            yield lambda x, labels: self.weight * divergence(*split(codes.pop().to(x.dtype))).mean()
        finally:
            hook.remove()


mid = MID


def _channel(model: nn.Module) -> Channel | None:
    return next((module for module in model.modules() if isinstance(module, Channel)), None)


def _check_weight(name: str, value: float) -> None:
    if not 0 <= value < math.inf:
        raise ValueError(f"{name}={value!r} is no weight; give 0 or more, such as 0.05")


def _kernel(x: Tensor, sigma: float) -> Tensor:
    """The centred kernel matrix (m, m), in double precision."""
    if x.is_floating_point():
        x = x.flatten(1).double()
        norms = x.square().sum(1)
        squares = (norms[:, None] + norms - 2 * x @ x.T).clamp(min=0)  # not cdist, whose root has no gradient at 0
        k = torch.exp(-squares / (2 * sigma**2 * x.shape[1]))
    else:
        k = (x[:, None] == x).double()
    k = k - k.mean(0)
    return k - k.mean(1, keepdim=True)


def _shares(k: Tensor) -> Tensor:
    """K (K + epsilon m I)^-1: each eigenvalue against the noise."""
    m = len(k)
    return torch.linalg.solve(k + EPSILON * m * torch.eye(m, dtype=k.dtype, device=k.device), k)
