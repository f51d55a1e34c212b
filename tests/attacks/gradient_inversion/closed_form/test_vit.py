"""The theorems, the three closed forms, where they stop, and the rank rule as a law over random embeddings."""

import dataclasses

import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab import data, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import observe
from privlab.models import april


def psnr(images, truth):
    return metrics.psnr(images, truth).item()


def relative(a, b):
    return ((a - b).norm() / b.norm()).item()


@pytest.mark.parametrize("bias", [True, False])
def test_theorem_1(bias):
    """(dL/dZ)^T Z = Wq^T dWq + Wk^T dWk + Wv^T dWv, for any loss, batch of one, with or without biases."""
    torch.manual_seed(0)
    attention = timm.layers.Attention(24, num_heads=3, qkv_bias=bias).double()
    z = torch.randn(1, 7, 24, dtype=torch.float64, requires_grad=True)
    attention(z).pow(3).sin().sum().backward()
    w, g = attention.qkv.weight.detach(), attention.qkv.weight.grad
    right = sum(w[i : i + 24].T @ g[i : i + 24] for i in (0, 24, 48))
    assert relative(z.grad[0].T @ z[0].detach(), right) < 1e-12


def test_theorem_2(photos):
    """The position embedding's gradient is that at the input of attention."""
    model, entered = april.build("a", depth=2, width=64).double(), []
    image, label = photos.one(0)
    model.blocks[0].attn.register_forward_pre_hook(lambda _, args: entered.append(args[0]))
    loss = torch.nn.functional.cross_entropy(model(model.normalise(image.double())), label)
    (at_attention,) = torch.autograd.grad(loss, entered)
    torch.testing.assert_close(observe(model, image, label)["pos_embed"], at_attention)


@pytest.mark.parametrize(("dtype", "at_least"), [(torch.float64, 200), (torch.float32, 70)])
def test_attention_on_architecture_a(photos, dtype, at_least):
    model = april.build("a").to(dtype)
    x, y = photos.one(2)
    recovery = closed_form.attention(model, observe(model, x, y))
    assert psnr(recovery.images, x) > at_least and (recovery.rank, recovery.unknowns, recovery.hidden) == (17, 17, 0)


@pytest.mark.parametrize(
    ("name", "size", "at_least"),
    [
        ("vit_small_patch32_224", 224, 100),
        ("deit_tiny_distilled_patch16_224", 160, 85),  # two prefix tokens; fewer patches (100) than width (192)
        ("deit3_small_patch16_224", 224, 60),  # no position of the class token; a layer scale of 1e-6
    ],
)
def test_patch_embedding_on_stock_models(name, size, at_least):
    x, y = data.load("imagenet_samples").one(3, size=size)
    model = models.build(name, img_size=size, depth=3)
    leak = observe(model, x, y, names=["pos_embed", "patch_embed.proj.weight"])
    assert psnr(closed_form.patch_embedding(model, leak).images, x) > at_least
    if at_least > 80:
        assert psnr(closed_form.patch_embedding(model, leak.rounded(torch.bfloat16)).images, x) > 25


def test_subspace_with_an_affine_norm(photos):
    """After training gamma and beta are not 1 and 0: sigma becomes an unknown as well."""
    model, draw = april.build("b", position="random", position_std=1.0).double(), torch.Generator().manual_seed(0)
    norm = model.blocks[0].norm1
    norm.weight.data += 0.3 * torch.rand(norm.weight.shape, generator=draw)
    norm.bias.data += 0.1 * torch.randn(norm.bias.shape, generator=draw)
    x, y = photos.one(1)
    recovery = closed_form.subspace(model, observe(model, x, y))
    assert recovery.unknowns == 3 * 8 * 8 + 1 and psnr(recovery.images, x) > 100


def test_pixels_are_exact_when_the_width_allows(photos):
    """Equation 11: width 192 = 3 * 8 * 8 is the narrowest that gives every pixel back."""
    x, _ = photos.one(0)
    for width, exact in ((192, True), (188, False)):
        model = april.build("a", width=width, depth=1).double()
        normalised = model.normalise(x.double())
        patches = torch.nn.functional.unfold(normalised, 8, stride=8)[0].T
        embedded = model.patch_embed(normalised)[0].detach()
        assert (relative(closed_form.pixels(model, embedded), patches) < 1e-8) == exact


FORMS = {"patch_embedding": ["pos_embed", "patch_embed.proj.weight"], "subspace": ["blocks.0.attn.qkv.weight"]}


@pytest.mark.parametrize("form", FORMS)
def test_noise_known_tensor_by_tensor(form, photos):
    """To know its size in numbers is worth more than as a share, and to know it right more than to think it small or large."""
    solve, gains = getattr(closed_form, form), []
    patch, scale = (4, 0.02) if form == "patch_embedding" else (8, 1.0)  # ill-conditioned, as a small embedding is
    model = models.build("vit_cifar", depth=2, patch_size=patch, position_std=scale)
    for number in range(2):
        x, y = photos.one(number)
        clean, draw = observe(model, x, y, names=FORMS[form]), torch.Generator().manual_seed(number)
        std = {n: 3e-3 * g.square().mean().sqrt().item() for n, g in clean.grads.items()}
        grads = {n: g + std[n] * torch.randn(g.shape, generator=draw) for n, g in clean.grads.items()}
        noisy = dataclasses.replace(clean, grads=grads)
        known = [{n: share * s for n, s in std.items()} for share in (1, 1e-3, 100)] + [3e-3]
        right, *others = (psnr(solve(model, noisy, noise=noise).images, x) for noise in known)
        gains.append([right - other for other in others])
    small, large, share = torch.tensor(gains).min(0).values.tolist()
    # the subspace of a tensor that is noisy all over is the same whatever the size
    assert small > -0.1 and large > 3 and share > {"patch_embedding": 2, "subspace": 5}[form]
    plain = solve(model, clean).images
    for nothing in ({}, {"head.weight": 1.0}, dict.fromkeys(FORMS[form], 0.0)):  # to the bit
        assert torch.equal(solve(model, clean, noise=nothing).images, plain)


def test_narrow_models_warn_with_the_rank(photos):
    narrow, wider = (april.build("b", patch_size=4, width=width, depth=2).double() for width in (48, 80))
    leak = observe(narrow, *photos.one(0))
    with pytest.warns(UserWarning, match="width 48 is not above the 64 patches: rank 47"):
        assert closed_form.patch_embedding(narrow, leak).hidden == 64 - 47
    bare = april.build("a", width=12, depth=2).double()
    with pytest.warns(UserWarning, match="width 12 is below the 17 tokens: rank 12"):
        assert closed_form.attention(bare, observe(bare, *photos.one(0))).hidden == 17 - 12
    with pytest.raises(ValueError, match="width 48 leaves no equation beside 65 tokens"):
        closed_form.subspace(narrow, leak)
    with pytest.warns(UserWarning, match="width 80 less 65 tokens leaves 14 equations for the 48 pixels"):
        closed_form.subspace(wider, observe(wider, *photos.one(0)))


def test_architecture_b_breaks_the_attention_form_and_is_told(photos):
    model = april.build("b").double()
    x, y = photos.one(0)
    with pytest.warns(UserWarning, match="Theorem 1 does not hold; try closed_form.patch_embedding"):
        recovery = closed_form.attention(model, observe(model, x, y))
    assert psnr(recovery.images, x) < 20
    assert psnr(closed_form.patch_embedding(model, observe(model, x, y)).images, x) > 150


def test_what_does_not_fit_is_named(photos):
    x, y = photos.one(0)
    plain, other = (april.build("a", depth=1, width=width) for width in (64, 96))
    clip = models.build("vit_base_patch32_clip_224", num_classes=10, depth=1, img_size=32, patch_size=8)
    leak, forms = observe(plain, x, y), (closed_form.attention, closed_form.patch_embedding, closed_form.subspace)
    nothing = dataclasses.replace(leak, grads={n: torch.zeros_like(g) for n, g in leak.grads.items()})
    for form, model, sent, says in (
        (closed_form.attention, models.build("resnet_cifar"), None, "no VisionTransformer of timm where .*ResNet"),
        (closed_form.subspace, plain, None, "its first block has no norm before its attention"),
        (closed_form.subspace, clip, None, "nothing but a position embedding stands between"),  # a norm before block 0
        *((form, plain, observe(plain, *photos.take([0, 1])), "leak: it averages 2 images") for form in forms),
        (closed_form.attention, other, leak, "give the model that the client trained"),
        (closed_form.attention, plain, nothing, "'pos_embed' is zero everywhere"),
    ):
        with pytest.raises(ValueError, match=says):
            form(model, sent or observe(model, x, y))


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 16), st.sampled_from([0.02, 1.0]), st.integers(0, 10_000), st.integers(0, 19))
def test_rank_rule_over_random_embeddings(rank, std, seed, index):
    """hidden = min(3 p^2, n - rank[E 1]), told from the model alone; a random E of rank r < n has rank[E 1] = r + 1."""
    position = dict(position="low_rank", position_rank=rank, position_std=std, seed=seed)
    model = april.build("b", width=256, depth=2, **position).double()
    leak = observe(model, *data.load("cifar10_samples").one(index), names=["blocks.0.attn.qkv.weight"])
    predicted, counted = closed_form.hidden_directions(model), closed_form.subspace(model, leak).hidden
    assert predicted == counted == max(16 - (rank + 1), 0)
