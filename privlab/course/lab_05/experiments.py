"""Lab 05: what Lu et al. 2022 prove and read off in closed form, where it ends, and two systems that do without its conditions."""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form
from privlab.defences import perturbation
from privlab.experiments import Size, Trial, experiment, tiled
from privlab.experiments.protocol import Settings, Values
from privlab.experiments.victims.april import victim
from privlab.leak import Leak

QKV, POSITION, STEM = "blocks.0.attn.qkv.weight", "pos_embed", "patch_embed.proj.weight"
OWN = "in the paper's size for CIFAR-10, fresh"
SMALL: Settings = dict(depth=2, width=224)
GUESSES = "psnr ssim mse"
S_32, B_16, DEIT = "vit_small_patch32_224", "vit_base_patch16_224", "deit_tiny_patch16_224"
STOCK = {S_32: "vit_s_32", B_16: "vit_b_16", DEIT: "deit_tiny_16"}
FIXED: dict[str, Settings] = {
    "random_std1_patch8": dict(position="random", position_std=1.0),
    "random_std002_patch8": dict(position="random", position_std=0.02),
    "random_std1_patch4": dict(position="random", position_std=1.0, patch_size=4),
    "random_std002_patch4": dict(position="random", position_std=0.02, patch_size=4),
    "sinusoid_1d_patch8": dict(position="sinusoid_1d"),
    "sinusoid_2d_patch8": dict(position="sinusoid_2d"),
}
EMBEDDINGS: dict[str, Settings] = {
    **{f"rank_{n}": dict(position="low_rank", position_rank=n, position_std=1.0) for n in (1, 3, 5, 8, 12, 15, 16)},
    **{kind: dict(position=kind) for kind in ("random", "sinusoid_2d", "none")},
}


def solve(form: Callable[..., closed_form.Recovery], model: Any, leak: Leak) -> closed_form.Recovery:
    """What a closed form answers, also where it warns that the model does not meet its conditions."""
    with warnings.catch_warnings(action="ignore"):
        return form(model, leak)


def inside(model: Any, photo: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """What enters the first attention, and the loss's gradient there, as no server sees them: (tokens, width) each."""
    kept: list[Tensor] = []
    watch = model.blocks[0].attn.register_forward_hook(lambda _, args, __: kept.append(args[0]))
    logits = model(model.normalise(photo.double()))
    watch.remove()
    (gradient,) = torch.autograd.grad(F.cross_entropy(logits, label), kept[0])
    return kept[0][0].detach(), gradient[0]


def difference(model: Any, images: Tensor, labels: Tensor, direction: Tensor) -> Tensor:
    """Derivative of the loss as the input of the first attention moves along a direction, (tokens, width), without backpropagation."""
    normalised, h = model.normalise(images), 1e-3

    def loss(step: float) -> Tensor:
        nudge = model.blocks[0].attn.register_forward_pre_hook(lambda _, args: (args[0] + step * direction,))
        logits = model(normalised).detach()
        nudge.remove()
        return F.cross_entropy(logits, labels)

    return (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h)  # central differences, fourth order


@experiment("april_closed_form.theorems")
@Size("smoke", 2, "architecture A, narrow, float64", shape=SMALL)
@Size("class", 16, f"architecture A {OWN}, float64", own=True, shape={})
def theorems(repeat: int, shape: Settings) -> Values:
    """Both sides of Theorem 1; Theorem 2 against differences, since backpropagation would hand us the same tensor twice; equation 11."""
    trial = Trial.of(repeat)
    model = victim(trial, "a", torch.float64, **shape)
    leak = trial.leak(model)
    Z, dZ = inside(model, trial.images, trial.labels)
    right = model.blocks[0].attn.qkv.weight.detach().T @ leak[QKV]
    yield "relative_residual[theorem_1, float64]", (dZ.T @ Z - right).norm() / right.norm()
    sent = leak[POSITION][0]
    noise = torch.randn(sent.shape, generator=torch.Generator().manual_seed(repeat), dtype=sent.dtype)
    direction = sent / sent.norm() + noise / noise.norm()  # along the gradient alone a missing part would go unseen
    derivative = difference(model, trial.images.double(), trial.labels, direction)
    yield "relative_error[theorem_2, float64]", (derivative - (sent * direction).sum()).abs() / sent.norm()
    normalised = model.normalise(trial.images.double())
    again = closed_form.pixels(model, model.patch_embed(normalised)[0].detach())
    yield "mse[pixels_from_embedding]", (again - F.unfold(normalised, 8, stride=8)[0].T).square().mean()


@experiment("april_closed_form.solved")
@Size("smoke", 2, "architectures A and B, narrow", shape=SMALL)
@Size("class", 16, f"architectures A and B {OWN}", own=True, shape={}, first=32)  # a further try, after a look
def solved(repeat: int, shape: Settings) -> Values:
    """One image on A, from float32; the same solver on B, and on batches that it takes for one image."""
    trial = Trial.of(repeat)
    yield from trial.guesses("cifar10, ", GUESSES)
    model, other = victim(trial, "a", **shape), victim(trial, "b", **shape)
    on_a, on_b = (solve(closed_form.attention, m, trial.leak(m, [POSITION, QKV])) for m in (model, other))
    yield "mse[closed_form, arch_a, cifar10]", metrics.mse(on_a.images, trial.images)
    yield "mse[closed_form, batch_1]", metrics.mse(on_a.clamped, trial.images)
    rows = [trial.images, on_a.clamped]
    for size in (2, 4):
        batch = Trial.of(repeat, size=size)
        pretended = replace(batch.leak(model, [POSITION, QKV]), batch_size=1)
        rows.append(solve(closed_form.attention, model, pretended).clamped)
        yield f"mse[closed_form, batch_{size}]", metrics.mse(rows[-1].expand(size, -1, -1, -1), batch.images).min()
    yield "mse[closed_form, arch_b]", metrics.mse(on_b.images, trial.images)
    yield "picture[photograph_arch_a_batch_2_batch_4_arch_b]", tiled([[*rows, on_b.clamped]])


@experiment("april_closed_form.width")
@Size("smoke", 2, "two layers, 64 patches", widths=[32, 768])
@Size("class", 16, "two layers, 64 patches of 4 pixels", widths=[32, 64, 128, 384, 768])
def width(repeat: int, widths: list[int]) -> Values:
    """Figure 5: the closed form from half as many dimensions as patches to ViT-Base's width, from float32."""
    trial = Trial.of(repeat)
    rows = [trial.images]
    for wide in widths:
        model = victim(trial, "a", width=wide, patch_size=4, depth=2)
        answer = solve(closed_form.attention, model, trial.leak(model, [POSITION, QKV]))
        name = "width_half_of_patches" if wide == 32 else f"width_{wide}"
        yield f"mse[closed_form, {name}]", metrics.mse(answer.images, trial.images)
        yield from trial.scores(f"closed_form, {name}", answer.images)
        rows.append(answer.clamped)
    yield "picture[photograph_and_widths]", tiled([rows])


@experiment("april_closed_form.noise")
@Size("smoke", 2, "architecture A, narrow", shape=SMALL)
@Size("class", 24, f"architecture A {OWN}", own=True, shape={}, first=32)  # a further try, after a look
def noise(repeat: int, shape: Settings) -> Values:
    """Figure 6: the closed form under noise whose level it knows; and whether the level or the noise's own size counts."""
    trial = Trial.of(repeat)
    yield from trial.guesses("cifar10, ", GUESSES)
    model = victim(trial, "a", **shape)
    leak = trial.leak(model, [POSITION, QKV])
    rows = [trial.images]
    for kind, noisy in (("gaussian", perturbation.gaussian), ("laplacian", perturbation.laplacian)):
        for level in (0.001, 0.01, 0.03, 0.1, 1.0):  # norm of the noise over norm of the gradient
            rows.append(closed_form.attention(model, noisy(leak, level, repeat), noise=level).clamped)
            yield from trial.scores(f"{kind}, relative_{level:g}".replace(".", "p"), rows[-1], "ssim")
    for draw, scale, level, kind in ((1, 1, 0.1, "relative"), (2, 100, 0.1, "relative"), (3, 100, 0.001, "absolute")):
        scaled = replace(leak, grads={n: scale * g for n, g in leak.grads.items()})
        received = perturbation.gaussian(scaled, level, 1_000 * draw + repeat)
        error = metrics.mse(closed_form.attention(model, received, noise=level).images, trial.images).item()
        yield f"log10_mse[gradient_scale_{scale}, {kind}_0p1]", math.log10(error)
    yield "picture[photograph_gaussian_laplacian]", tiled([rows])


@experiment("april_closed_form.stock", data=("imagenet_samples",))
@Size("smoke", 2, "ViT-S/32 from float32", cells=[[S_32, "float32"]])
@Size("class", 10, "timm's own networks at 224 pixels, fresh, photographs of a sample of 20",
    cells=[[S_32, "float64"], [S_32, "float32"], [S_32, "bfloat16"], [B_16, "float32"], [B_16, "bfloat16"],
           [DEIT, "float32"]])  # fmt: skip
def stock(repeat: int, cells: list[list[str]], device: str = "cpu") -> Values:
    """Ours, the patch-embedding form on stock models: gradients computed in float64 or float32, and sent as they are or as bfloat16."""
    trial = Trial.of(repeat, "imagenet_samples", side=224, device=device)  # counted round 20 photographs
    for name, sent in cells:
        model = trial.network(name, num_classes=1000).to(torch.float64 if sent == "float64" else torch.float32)
        leak = trial.leak(model, [POSITION, STEM]).rounded(getattr(torch, sent))
        images = solve(closed_form.patch_embedding, model, leak).images
        yield from trial.scores(f"patch_embedding, {STOCK[name]}, {sent}", images)


@experiment("april_closed_form.subspace")
@Size("smoke", 2, "architecture B, two layers", shape=dict(depth=2))
@Size("class", 16, f"architecture B {OWN}", own=True, shape={}, first=32)  # a further try, after a look
def subspace(repeat: int, shape: Settings) -> Values:
    """Ours, fixed position embeddings against the subspace form, from float32 and float64; and a batch of two taken for one image."""
    trial, batch = Trial.of(repeat), Trial.of(repeat, size=2)
    yield from trial.guesses("cifar10, ", GUESSES)
    for name, position in FIXED.items():
        for dtype in ("float32", "float64"):
            model = victim(trial, "b", getattr(torch, dtype), **shape, **position)
            images = closed_form.subspace(model, trial.leak(model, [QKV])).images
            yield from trial.scores(f"subspace, {name}, {dtype}", images)
    model = victim(trial, "b", torch.float64, **shape, **FIXED["random_std1_patch8"])
    wrong = closed_form.subspace(model, replace(batch.leak(model, [QKV]), batch_size=1)).clamped
    yield "psnr[subspace, batch_2, float64]", metrics.psnr(wrong.expand(2, -1, -1, -1), batch.images).max()


@experiment("april_closed_form.rank_rule")
@Size("smoke", 2, "architecture B, two layers, three embeddings", kinds=["rank_1", "rank_15", "sinusoid_2d"])
@Size("class", 16, "architecture B, two layers, ten embeddings", kinds=[*EMBEDDINGS])
def rank_rule(repeat: int, kinds: list[str]) -> Values:
    """Directions of each patch that the solver leaves open, less those that the rule foretells from the model alone."""
    trial, gaps = Trial.of(repeat), []
    for kind in kinds:
        model = victim(trial, "b", torch.float64, depth=2, **EMBEDDINGS[kind])
        answer = closed_form.subspace(model, trial.leak(model, [QKV]))
        gaps.append(abs(answer.hidden - closed_form.hidden_directions(model)))
        yield f"hidden[{kind}]", answer.hidden
        yield from trial.scores(f"subspace, {kind}", answer.clamped)
    yield "null_space_gap[rank_rule]", max(gaps)
