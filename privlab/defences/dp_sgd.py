"""DP-SGD (Abadi et al. 2016) bounds what any one image can change in a training.

Each step takes each image with the same small chance, cuts the gradient of each to a norm, adds them up, and adds noise of that norm's
size. Opacus (the extra "dp") cuts, adds the noise and counts epsilon; the gradients of single images come from torch.func, and not from
Opacus' hooks, which in-place activations and additions of timm's nets break.
"""

from __future__ import annotations

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
# of Opacus' accountant: a little too much is told, not too little
warnings.filterwarnings("ignore", "Optimal order is the")
warnings.filterwarnings("ignore", "There is a performance drop")  # of vmap, in pooling


@dataclass(frozen=True)
class DP(Defence):
    """DP-SGD: the trained model is (epsilon, delta)-differentially private in each of its images.

    epsilon: positive; what the whole training may spend, by the RDP accountant; the noise follows from it.
    delta: below one by the number of images.  clip: the norm that each image's gradient is cut to.
    A batch takes each image with the chance batch_size / images (Poisson sampling); a step divides by the recipe's batch_size whatever
    came. What was spent is printed at the end, and kept in the run's note "defences". The promise is of the weights alone, not of
    the losses on the way, and supposes that nobody knows the seed, from which the noise is drawn: this is for study, not for release.
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
        _opacus()
        norms = [n for n, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        if norms:
            raise ValueError(
                f"model: {norms[0]!r} is a BatchNorm, which mixes images, so no image's part in a step can be bounded; build a "
                'timm ResNet with norm_layer="groupnorm1", or take a ViT, Swin or ConvNeXt'
            )
        if self.delta * images >= 1:
            raise ValueError(
                f"delta={self.delta:g} may give one of {images:,} images away; give less than {1 / images:.2g}"
            )
        try:
            self.noise(recipe, images)
        except ValueError as error:  # Opacus', which names neither
            many = (
                f"epsilon={self.epsilon:g} with delta={self.delta:g}: no noise keeps {recipe.epochs} epochs within it"
            )
            raise ValueError(f"{many}; give a larger epsilon or delta, or train for fewer epochs") from error

    def order(self, recipe: Recipe, images: int, generator: torch.Generator) -> list[Tensor]:
        rate, count = recipe.batch_size / images, recipes.steps(recipe, images)
        return [(torch.rand(images, generator=generator) < rate).nonzero()[:, 0] for _ in range(count)]

    def gradients(self, model: nn.Module, x: Tensor, labels: Tensor, recipe: Recipe, images: int) -> Tensor:
        noise = self.noise(recipe, images)
        return private_gradients(model, x, labels, self.clip, noise, recipe.batch_size, recipe.label_smoothing)

    def record(self, recipe: Recipe, images: int) -> dict[str, dict[str, float]]:
        """{"dp": ...}: the epsilon that all steps together spend, by Opacus' accountant, and what it follows from."""
        steps, rate = recipe.epochs * recipes.steps(recipe, images), recipe.batch_size / images
        noise = self.noise(recipe, images)
        epsilon = spent(noise, rate, steps, self.delta)
        return {"dp": dict(epsilon=epsilon, delta=self.delta, noise=noise, rate=rate, steps=steps)}

    def noise(self, recipe: Recipe, images: int) -> float:
        """The noise multiplier with which the whole training spends this epsilon: standard deviation of the noise, in units of `clip`."""
        steps = recipe.epochs * recipes.steps(recipe, images)
        return _noise(self.epsilon, self.delta, recipe.batch_size / images, steps)


dp = DP


def spent(noise: float, rate: float, steps: int, delta: float) -> float:
    """The epsilon of so many steps.  noise: the noise multiplier.  rate: each image's chance to be in a batch."""
    accountant = _opacus().accountants.RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    return float(accountant.get_epsilon(delta=delta))


@lru_cache(maxsize=64)
def _noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    return _opacus().accountants.utils.get_noise_multiplier(
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
    # Opacus wants an optimiser to know the parameters by; it takes no step
    private = _opacus().optimizers.DPOptimizer(
        torch.optim.SGD(learnable.values()), noise_multiplier=noise, max_grad_norm=clip, expected_batch_size=size
    )
    detached, total = {name: p.detach() for name, p in learnable.items()}, x.new_zeros(())
    parts = list(zip(x.split(AT_ONCE), labels.split(AT_ONCE), strict=True))  # one empty part of an empty batch
    for i, (some, theirs) in enumerate(parts, start=1):
        gradients = {name: p.new_zeros(0, *p.shape) for name, p in detached.items()}
        if len(some):
            gradients, losses = each(detached, some, theirs)  # name -> (n, *shape of the parameter)
            total = total + losses.sum()
        for name, p in learnable.items():
            p.grad_sample = gradients[name]  # type: ignore[attr-defined]
        private.signal_skip_step(i < len(parts))
        private.pre_step()
    for p in learnable.values():
        del p.grad_sample, p.summed_grad  # type: ignore[attr-defined]
    return total.detach() / max(1, len(x))


def _opacus() -> Any:
    try:
        import opacus
        import opacus.accountants.utils
        import opacus.optimizers
    except ImportError as error:
        raise ImportError("DP-SGD needs Opacus, which is not installed here: pip install -e '.[dp]'") from error
    return opacus
