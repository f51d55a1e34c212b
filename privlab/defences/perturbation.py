"""What a client may do to its gradients before it sends them, noise on a model's weights, and noise on each step of a training (DP-SGD).

Gradients: `gaussian`, `laplacian`, `clipped`, `sparse` and `low_bits` map a Leak to a Leak. To withhold some is leak.without(names), see
`parts.names`; to spread one budget of noise over them is `noise_budget.spread`.

The noise of `gaussian` and `laplacian` is stated relative to the gradient: `relative` is the expected norm of the noise over the norm of
the gradient, so each number of a tensor g gets noise of standard deviation relative * |g| / sqrt(numbers in g). Lu et al. 2022 (section
4.2, figure 6) compare a *variance* with a *norm*, which changes with the scale of the gradient; this is what their finding says in a form
that does not.

DP-SGD (Abadi et al. 2016) bounds what any one image can change: each step takes each image with the same small chance, cuts the gradient
of each to a norm, adds them up, and adds noise of that norm's size. Opacus (the extra "dp") cuts, adds the noise and counts epsilon; the
gradients of single images come from torch.func, and not from Opacus' hooks, which in-place activations and additions of timm's nets break.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from privlab.leak import Leak
from privlab.training import Recipe, recipes
from privlab.training.defence import Defence

Draw = Callable[[Tensor, torch.Generator | None], Tensor]  # noise of variance 1, shaped like a tensor

AT_ONCE = 64  # images whose gradients are held together: each is as large as the model


def gaussian(leak: Leak, relative: float, seed: int | None = 0) -> Leak:
    """Normal noise on every gradient tensor, of `relative` times its norm (0 or more).  seed: None draws from torch's own generator."""
    return _noisy(leak, relative, seed, normal)


def laplacian(leak: Leak, relative: float, seed: int | None = 0) -> Leak:
    """Laplacian noise on every gradient tensor, of `relative` times its norm (0 or more); heavier tails at the same energy."""
    return _noisy(leak, relative, seed, laplace)


def normal(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Normal noise of variance 1, shaped like a tensor; drawn on its device from torch's own generator where none is given."""
    return torch.randn(like.shape, generator=generator, device=like.device if generator is None else generator.device)


def laplace(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Laplacian noise of variance 1, in float64; otherwise as `normal`."""
    device = like.device if generator is None else generator.device
    u = torch.rand(like.shape, generator=generator, device=device, dtype=torch.float64) - 0.5
    u = u.clamp(min=-0.5 + 2**-54)  # (-1/2, 1/2): the end itself would be infinite
    return -u.sign() * torch.log1p(-2 * u.abs()).div(2**0.5)


def seeded(seed: int | None) -> torch.Generator | None:
    """A generator on the CPU, so that noise is the same on every device; None, torch's own on the device, for no seed."""
    return None if seed is None else torch.Generator().manual_seed(seed)


KINDS: dict[str, Draw] = {"gaussian": normal, "laplacian": laplace}


def _noisy(leak: Leak, relative: float, seed: int | None, draw: Draw) -> Leak:
    check_relative(relative, "the gradient's norm")
    generator = seeded(seed)
    grads = {}
    for name, g in leak.grads.items():
        size = relative * g.norm() / g.numel() ** 0.5
        grads[name] = g + size * draw(g, generator).to(g)
    return replace(leak, grads=grads)


def check_relative(relative: float, of: str) -> None:
    """Raise ValueError unless the share is 0 or more, and finite."""
    if not 0 <= relative < math.inf:
        raise ValueError(f"relative={relative} is no share of {of}; try 0.01")


def clipped(leak: Leak, norm: float) -> Leak:
    """The whole message cut to a norm: all gradients times one factor where they are longer together, as they are otherwise.

    norm: a positive number, in the units of the gradients.  Raises ValueError for any other.
    Source: Abadi et al. 2016, algorithm 1, where the gradient of each single image is cut like this.
    """
    if not 0 < norm < math.inf:
        raise ValueError(f"norm={norm} is no length to cut to; give a positive number, such as {leak.norm.item():.2g}")
    if leak.norm <= norm:
        return leak
    return replace(leak, grads={name: g * (norm / leak.norm).to(g) for name, g in leak.grads.items()})


def sparse(leak: Leak, share: float) -> Leak:
    """The largest numbers of the whole message, by magnitude, and 0 for all others.

    share: of the numbers that are kept, above 0 and at most 1; rounded to whole numbers, one at least.  Raises ValueError outside.
    Source: Zhu et al. 2019, section 5 (gradient compression as a defence).
    """
    if not 0 < share <= 1:
        raise ValueError(f"share={share} of the numbers cannot be kept; give one above 0 and at most 1, such as 0.1")
    sizes = torch.cat([g.abs().flatten() for g in leak.grads.values()])  # (numbers,)
    kept = torch.zeros_like(sizes, dtype=torch.bool)
    kept[sizes.topk(max(1, round(share * len(sizes)))).indices] = True
    places = kept.split([g.numel() for g in leak.grads.values()])
    grads = {name: g.where(place.view_as(g), 0.0) for (name, g), place in zip(leak.grads.items(), places, strict=True)}
    return replace(leak, grads=grads)


def low_bits(leak: Leak, bits: int, seed: int | None = None) -> Leak:
    """Each gradient tensor rounded to 2^bits levels, evenly spread from its smallest number to its largest.

    bits: 1 to 16.
    seed: None rounds to the nearest level; a whole number rounds up or down by chance, so that each number stays the same on average
        (Alistarh et al. 2017 round like this, on other levels).
    Rounding to the nearest errs like noise of the standard deviation (largest - smallest) / (2^bits - 1) / sqrt(12), where the levels lie
    close; with few bits a tensor's small numbers become one level, which need not be 0.  Raises ValueError for other bits.
    Source: Zhu et al. 2019, section 5 (low precision as a defence).
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
        raise ValueError(f"bits={bits!r} is no number of bits; give 1 to 16, such as 8")
    generator = None if seed is None else torch.Generator().manual_seed(seed)

    def rounded(g: Tensor) -> Tensor:
        low, high = g.double().aminmax()
        if low == high:
            return g
        place = (g.double() - low) / (high - low) * (2**bits - 1)  # in steps from the lowest level
        if generator is None:
            place = place.round()
        else:
            place = (place + torch.rand(g.shape, generator=generator).to(place)).floor().clamp(max=2**bits - 1)
        return (low + place / (2**bits - 1) * (high - low)).to(g)

    return replace(leak, grads={name: rounded(g) for name, g in leak.grads.items()})


def parameters(model: nn.Module, relative: float, seed: int = 0, only: Sequence[str] | None = None) -> nn.Module:
    """A copy of a model with normal noise on its weights, of `relative` times the norm of each tensor; a tensor of zeros stays.

    relative: 0 or more.  only: names of the parameters that get noise, see `parts.names`; all if not given.
    The mode of the copy is the model's, and its buffers (running statistics) are.
    Raises ValueError for a negative share, and for names that the model lacks.
    Source: Zhang et al. 2024, section 7.2, which proposes noise on parameters and leaves its scale open.
    """
    check_relative(relative, "a weight tensor's norm")
    known = [name for name, _ in model.named_parameters()]
    if isinstance(only, str):
        raise ValueError(f"only={only!r} is one word; give a list of parameter names: [{only!r}]")
    if unknown := [name for name in only or () if name not in known]:
        raise ValueError(
            f"only: {type(model).__name__} has no parameter {unknown[0]!r}; it has {len(known)}, such as {known[0]!r}"
        )
    noisy = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in noisy.named_parameters():
            noise = normal(p, generator).to(p)  # drawn for all, so that a seed means the same whatever `only` is
            if only is None or name in only:
                p.add_(relative * p.norm() / p.numel() ** 0.5 * noise)
    return noisy


@dataclass(frozen=True)
class DP(Defence):
    """See `dp`."""

    epsilon: float
    delta: float
    clip: float

    def __post_init__(self) -> None:
        for name, fits, say in (
            ("epsilon", self.epsilon > 0, "a positive number, such as 8"),
            ("delta", 0 < self.delta < 1, "a small chance, below one by the number of images, such as 1e-5"),
            ("clip", self.clip > 0, "a positive norm, such as 1.0"),
        ):
            if not fits or not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r} is out of range; give {say}")

    def check(self, model: nn.Module, recipe: Recipe, images: int) -> None:
        _opacus()
        norms = [n for n, m in model.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        if norms:
            raise ValueError(
                f"model: {norms[0]!r} is a BatchNorm, in which each image changes what the others become, so no image's part in a step "
                'can be bounded; build a timm ResNet with norm_layer="groupnorm1", or take a ViT, Swin or ConvNeXt, which have LayerNorm'
            )
        if self.delta * images >= 1:
            raise ValueError(
                f"delta={self.delta:g} would let one of the {images:,} images be given away whole; give less than {1 / images:.2g}"
            )

    def steps(self, recipe: Recipe, images: int) -> PrivateSteps:
        return PrivateSteps(self, recipe, images)

    def record(self, recipe: Recipe, images: int) -> dict[str, dict[str, float]]:
        """{"dp": ...}: the epsilon that all steps together spend, by Opacus' accountant, and what it follows from."""
        steps = recipe.epochs * recipes.steps(recipe, images)
        rate, noise = recipe.batch_size / images, self.noise(recipe, images)
        epsilon = spent(noise, rate, steps, self.delta)
        return {"dp": dict(epsilon=epsilon, delta=self.delta, noise=noise, rate=rate, steps=steps)}

    def noise(self, recipe: Recipe, images: int) -> float:
        """The noise multiplier with which the whole training spends this epsilon: standard deviation of the noise, in units of `clip`."""
        steps = recipe.epochs * recipes.steps(recipe, images)
        return _noise(self.epsilon, self.delta, recipe.batch_size / images, steps)


def dp(epsilon: float, delta: float, clip: float = 1.0) -> DP:
    """DP-SGD: the trained model is (epsilon, delta)-differentially private in each of its images.

    epsilon: positive; what the whole training may spend, by the RDP accountant; the noise follows from it, see `DP.noise`.
    delta: below one by the number of images.  clip: the norm that each image's gradient is cut to.
    A batch takes each image with the chance batch_size / images (Poisson sampling), so it varies in size and may be empty; a step divides
    by the recipe's batch_size all the same. What was spent is printed at the end, and kept in the run's note "defences", see `DP.record`.
    The promise is of the weights alone: a History is measured on the images themselves. And it supposes that nobody knows the seed, from
    which the noise is drawn so that trainings can be repeated: this is for study, not for release.
    Raises ValueError for numbers out of range; and a training with it, for a model with BatchNorm, mixed images, or a penalty beside it;
    ImportError without Opacus.
    Source: Abadi et al. 2016, algorithm 1; Mironov et al. 2019 for the accounting.
    """
    return DP(epsilon, delta, clip)


def spent(noise: float, rate: float, steps: int, delta: float) -> float:
    """The epsilon of so many steps, by Opacus' RDP accountant.

    noise: the noise multiplier.  rate: each image's chance to be in a batch.
    """
    accountant = _opacus().accountants.RDPAccountant()
    accountant.history = [(noise, rate, steps)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Optimal order is the")  # a little too much is told, not too little
        return float(accountant.get_epsilon(delta=delta))


class PrivateSteps:
    """DP-SGD's way to take the steps of one training, see `defence.Steps`; it remembers nothing from step to step."""

    def __init__(self, defence: DP, recipe: Recipe, images: int) -> None:
        self.defence, self.recipe, self.images = defence, recipe, images

    def order(self, generator: torch.Generator) -> list[Tensor]:
        rate = self.recipe.batch_size / self.images
        count = recipes.steps(self.recipe, self.images)
        return [(torch.rand(self.images, generator=generator) < rate).nonzero()[:, 0] for _ in range(count)]

    def gradients(self, model: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        noise, size = self.defence.noise(self.recipe, self.images), self.recipe.batch_size
        return private_gradients(model, x, labels, self.defence.clip, noise, size, self.recipe.label_smoothing)


def private_gradients(
    model: nn.Module, x: Tensor, labels: Tensor, clip: float, noise: float, size: float, smoothing: float = 0.0
) -> Tensor:
    """Leave in each parameter that learns (sum of the images' gradients, each cut to `clip`, + noise) / size; returns the mean loss.

    x: (n, channels, height, width), normalised; n may be 0, and the noise is there all the same.  labels: (n,).
    noise: standard deviation in units of `clip`, drawn from torch's generator.  size: the expected n.
    The model must hold no BatchNorm. Source: Abadi et al. 2016, algorithm 1.
    """
    learnable = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def loss(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        said = functional_call(model, parameters, (image[None],))
        return F.cross_entropy(said, label[None], label_smoothing=smoothing)

    each = vmap(grad_and_value(loss), in_dims=(None, 0, 0), randomness="different")
    held = torch.optim.SGD(learnable.values())  # Opacus wants an optimiser to know the parameters by; it takes no step
    private = _opacus().optimizers.DPOptimizer(
        held, noise_multiplier=noise, max_grad_norm=clip, expected_batch_size=size
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


@lru_cache(maxsize=64)
def _noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Optimal order is the")
        return _opacus().accountants.utils.get_noise_multiplier(
            target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=steps, accountant="rdp"
        )


def _opacus() -> Any:
    """Opacus, which is an extra: most of the book does without."""
    try:
        import opacus
        import opacus.accountants.utils
        import opacus.optimizers
    except ImportError as error:
        raise ImportError("DP-SGD needs Opacus, which is not installed here: pip install -e '.[dp]'") from error
    return opacus
