"""DP-SGD (Abadi et al. 2016) bounds what any one image can change in a training.

Each step takes each image with the same small chance, cuts its gradient to a norm, adds all up, and adds noise of that norm's size. Opacus
(the extra "dp") counts epsilon; gradients of single images come from torch.func, as timm's in-place operations break Opacus' hooks.
"""

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from privlab.training import Recipe, recipes
from privlab.training.defence import Defence

AT_ONCE = 64  # images whose gradients are held together: each is as large as the model
warnings.filterwarnings("ignore", "Optimal order is the")  # of Opacus' accountant: it tells a little too much
warnings.filterwarnings("ignore", "There is a performance drop")  # of vmap, in pooling


@dataclass(frozen=True)
class DP(Defence):
    """DP-SGD: the trained model is (epsilon, delta)-differentially private in each of its images.

    epsilon: positive; what the whole training may spend, by the RDP accountant; the noise follows from it.
    delta: above 0, below one by the number of images.  clip: positive, the norm that each image's gradient is cut to.
    A batch takes each image with the chance batch_size / images (Poisson sampling); a step divides by the recipe's batch_size whatever
    came. The promise is of the weights alone, not of the losses on the way, and supposes that nobody knows the seed, from which the noise
    is drawn: this is for study, not for release.
    A training with it raises ValueError for a model with BatchNorm, mixed images, or a penalty beside it; ImportError without Opacus.
    Source: Abadi et al. 2016, algorithm 1; Mironov et al. 2019 for the accounting.
    """

    own_steps: ClassVar[bool] = True
    epsilon: float
    delta: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        for name, most in (("epsilon", math.inf), ("delta", 1.0), ("clip", math.inf)):
            if not 0 < (value := getattr(self, name)) < most:
                raise ValueError(f"{name}={value!r} is out of range; give a number above 0 and below {most:g}")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        _accountants()
        if norms := [n for n, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]:
            cure = 'build a timm ResNet with norm_layer="groupnorm1", or take a ViT, Swin or ConvNeXt'
            mixes = "which mixes images, so no image's part in a step can be bounded"
            raise ValueError(f"model: {norms[0]!r} is a BatchNorm, {mixes}; {cure}")
        if self.delta * images >= 1:
            raise ValueError(f"delta={self.delta:g} gives one of {images:,} images away; give below {1 / images:.2g}")
        self.noise(recipe, images)  # Opacus says where none is enough

    def order(self, recipe: Recipe, images: int, generator: torch.Generator) -> list[Tensor]:
        rate, count = recipe.batch_size / images, recipes.steps(recipe, images)
        return [(torch.rand(images, generator=generator) < rate).nonzero()[:, 0] for _ in range(count)]

    def gradients(self, model: nn.Module, x: Tensor, labels: Tensor, recipe: Recipe, images: int) -> Tensor:
        noise = self.noise(recipe, images)
        return private_gradients(model, x, labels, self.clip, noise, recipe.batch_size, recipe.label_smoothing)

    def record(self, recipe: Recipe, images: int) -> dict[str, dict[str, float]]:
        """{"dp": ...}: the epsilon that all steps together spend, by Opacus' accountant, and what it follows from."""
        steps, rate = recipe.epochs * recipes.steps(recipe, images), recipe.batch_size / images
        epsilon = spent(noise := self.noise(recipe, images), rate, steps, self.delta)
        return {"dp": dict(epsilon=epsilon, delta=self.delta, noise=noise, rate=rate, steps=steps)}

    def noise(self, recipe: Recipe, images: int) -> float:
        """The noise multiplier with which the whole training spends this epsilon: standard deviation of the noise, in units of `clip`."""
        steps = recipe.epochs * recipes.steps(recipe, images)
        return _noise(self.epsilon, self.delta, recipe.batch_size / images, steps)


def spent(noise: float, rate: float, steps: int, delta: float) -> float:
    """The epsilon of so many steps.  noise: the noise multiplier.  rate: each image's chance to be in a batch."""
    accountant = _accountants().RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    return float(accountant.get_epsilon(delta=delta))


@lru_cache(maxsize=64)
def _noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    return _accountants().utils.get_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=steps, accountant="rdp"
    )


def private_gradients(
    model: nn.Module, x: Tensor, labels: Tensor, clip: float, noise: float, size: float, smoothing: float = 0.0
) -> Tensor:
    """Leave in each parameter that learns (sum of the images' gradients, each cut to `clip`, + noise) / size; returns the mean loss.

    x: (n, channels, height, width), normalised; n may be 0, and the noise is there all the same.  labels: (n,).
    noise: standard deviation in units of `clip`, drawn from torch's generator.  size: the expected n.
    """
    learnable = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, parameters, (image[None],))
        return F.cross_entropy(logits, label[None], label_smoothing=smoothing)

    each = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    detached, total = {name: p.detach() for name, p in learnable.items()}, x.new_zeros(())
    cut = {name: torch.zeros_like(p) for name, p in detached.items()}  # the sum of the images' gradients
    for some, theirs in zip(x.split(AT_ONCE), labels.split(AT_ONCE), strict=True):
        if len(some):  # a batch may be empty
            gradients, losses = each(detached, some, theirs)  # name -> (n, *shape of the parameter)
            norms = torch.stack([g.reshape(len(g), -1).norm(dim=1) for g in gradients.values()], dim=1).norm(dim=1)
            factors = (clip / (norms + 1e-6)).clamp(max=1.0)  # as Opacus has them
            for name, g in gradients.items():
                cut[name] += torch.einsum("n,n...->...", factors, g)
            total = total + losses.sum()
    for name, p in learnable.items():
        p.grad = (cut[name] + torch.normal(0.0, noise * clip, p.shape, dtype=p.dtype, device=p.device)) / size
    return total.detach() / max(1, len(x))


def _accountants() -> Any:
    try:
        import opacus.accountants.utils
    except ImportError as error:
        raise ImportError("DP-SGD needs Opacus, which is not installed here: pip install -e '.[dp]'") from error
    return opacus.accountants
