"""Penalties on what a classifier's features tell of its images: BiDO (Peng et al. 2022) and MID (Wang et al. 2021).

BiDO wants the features of each stage to depend little on the image and much on the label; dependence is measured on a batch of m, by
HSIC, from kernel matrices K_ij = k(x_i, x_j), (m, m), centred to H K H, H = I - 1/m. MID sends the last features through a narrow, noisy
channel and pays for each nat that gets through.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
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

    x, y: (m, ...) floats, with a Gaussian kernel of variance sigma^2 * numbers an image, or labels (m,), with that of one-hot codes.
    Source: Ma et al. 2020 (HSIC bottleneck), section 3; BiDO takes its form.
    """
    return (_shares(x, sigma) * _shares(y, sigma)).sum().to(x.dtype)


def _shares(x: Tensor, sigma: float) -> Tensor:
    """K (K + epsilon m I)^-1 of the centred kernel matrix, (m, m) in double precision: each eigenvalue against the noise."""
    if x.is_floating_point():
        x = x.flatten(1).double()
        norms = x.square().sum(1)
        squares = (norms[:, None] + norms - 2 * x @ x.T).clamp(min=0)  # not cdist, whose root has no gradient at 0
        k = torch.exp(-squares / (2 * sigma**2 * x.shape[1]))
    else:
        k = (x[:, None] == x).double()
    k = k - k.mean(0)
    k = k - k.mean(1, keepdim=True)
    m = len(k)
    return torch.linalg.solve(k + EPSILON * m * torch.eye(m, dtype=k.dtype, device=k.device), k)


@dataclass(frozen=True)
class BiDO(Defence):
    """Bilateral dependency optimisation: to the loss is added the sum over stages of a1 d(X, Z) - a2 d(Z, Y).

    X: the normalised images, Z: what leaves a stage (of timm's `feature_info`; a ResNet's stem is its first), Y: the labels.
    a1, a2: 0 or more, and not both 0.  d: `hsic`.  sigma: width of its Gaussian kernels.
    A training with it raises ValueError for mixed images and for models whose stages are not known.
    Source: Peng et al. 2022, section 3; the weights are searched for each architecture.
    """

    penalises: ClassVar[bool] = True
    a1: float
    a2: float
    sigma: float = 5.0

    def __post_init__(self) -> None:
        if not (self.a1 >= 0 and self.a2 >= 0 and 0 < self.a1 + self.a2 < math.inf):
            raise ValueError(f"a1={self.a1!r}, a2={self.a2!r} are no defence; give 0 or more, such as 0.05 and 0.5")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        representations.stages(model)

    @contextmanager
    def listen(self, model: nn.Module) -> Iterator[Penalty]:
        with _outputs(model.get_submodule(name) for name in representations.stages(model)[:-1]) as features:

            def penalty(x: Tensor, labels: Tensor) -> Tensor:
                total, of_images, of_labels = x.new_zeros(()), _shares(x, self.sigma), _shares(labels, self.sigma)
                for z in features:
                    if self.a1:
                        total = total + self.a1 * (of_images * _shares(z, self.sigma)).sum().to(x.dtype)
                    if self.a2:
                        total = total - self.a2 * (_shares(z, self.sigma) * of_labels).sum().to(z.dtype)
                features.clear()
                return total

            yield penalty


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

    The KL bounds what z tells of the image. mu and sigma are linear in the last features. Head and channel are drawn anew.
    weight: positive, a nat of the mean image against a nat of cross-entropy.  width: numbers in z.
    A training with it raises ValueError for a model without a Linear head, or with two.
    Source: Wang et al. 2021, section 4, after the deep variational information bottleneck of Alemi et al. 2017.
    """

    penalises: ClassVar[bool] = True
    weight: float
    width: int

    def __post_init__(self) -> None:
        if not 0 < self.weight < math.inf or self.width < 1:
            raise ValueError(f"weight={self.weight!r}, width={self.width!r} are no defence; give 0.01 and 64, say")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        representations.only_head(model)

    def shape(self, model: nn.Module, epoch: int) -> bool:
        if any(isinstance(module, Channel) for module in model.modules()):
            return False
        name = representations.only_head(model)
        head: Any = model.get_submodule(name)
        new = nn.Sequential(Channel(head.in_features, self.width), nn.Linear(self.width, head.out_features))
        model.set_submodule(name, new.to(head.weight).train(head.training))
        return True

    @contextmanager
    def listen(self, model: nn.Module) -> Iterator[Penalty]:
        with _outputs(module.code for module in model.modules() if isinstance(module, Channel)) as codes:
            yield lambda x, labels: self.weight * divergence(*split(codes.pop().to(x.dtype))).mean()


@contextmanager
def _outputs(layers: Iterable[nn.Module]) -> Iterator[list[Tensor]]:
    """What the layers give, in order, while it is open."""
    outputs: list[Tensor] = []
    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_hook(lambda *passed: outputs.append(passed[-1])))
        yield outputs
