"""The zoo, IR ResNets, APRIL's two architectures, and position embeddings."""

import pytest
import timm
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from weights import same

from privlab import models
from privlab.models import april, ir_resnet, morph, position_embeddings, representations

X = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["resnet18", "deit_tiny_distilled_patch16_224", "mobilenetv3_small_050"])
def test_a_stock_model_is_timms_own_and_can_be_differentiated_twice(name):
    """A gradient attack follows the distance of two gradients back to the pixels; torch's own hard sigmoid cannot, nor fused attention."""
    size, x = models.sized(name, 32), X.clone()
    ours, theirs = models.build(name, 10, seed=3, **size), timm.create_model(name, num_classes=10, **size).eval()
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)
    assert ours.normalise.mean == pytest.approx(theirs.pretrained_cfg["mean"])
    sent = torch.autograd.grad(ours(x.requires_grad_()).square().sum(), list(ours.parameters()), create_graph=True)
    (slope,) = torch.autograd.grad(sum(g.square().sum() for g in sent), x)
    assert slope.isfinite().all() and slope.any()


def test_the_seed_decides_and_the_callers_generator_is_left_alone():
    before = torch.get_rng_state()
    a, b, c = (models.build("vit_cifar", depth=1, seed=s) for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert same(a, b) and not same(a, c)


@pytest.mark.parametrize("name", ["resnet18", "vit_tiny_patch16_224", "mixer_s32_224", "swin_cifar"])
def test_what_is_built_for_one_size_is_told_another(name):
    told = models.sized(name, 64)
    assert told == ({} if name == "resnet18" else {"img_size": 64})
    assert models.sized("swin_cifar", 32) == {}  # what it has already is no change
    assert models.build(name, 10, **told)(X.repeat(1, 1, 2, 2)).shape == (2, 10)


@pytest.mark.parametrize(
    "name, count",
    [  # the four of Zhang et al. 2024, section 3.2, in millions: 23.52, 42.51, 27.51, 48.80; and table 9's last step
        ("resnet50_cifar", 23_520_842),
        ("resnet101_cifar", 42_512_970),
        ("swin_tiny_cifar", 27_506_020),
        ("swin_small_cifar", 48_800_884),
        ("convnext_tiny_cifar", 27_827_818),
        # P8S8 of Zhong, Deng 2021: 63.2 million, without the head of 40 x 513
        ("face_transformer", 63_238_696),
        ("ir152", 62_599_848),  # counted by hand
        ("repvgg_d2", 131_056_296),  # of timm's repvgg_d2se without its squeeze and excitation
    ],
)
def test_the_papers_models_by_their_counts(name, count):
    with torch.device("meta"):
        model = models.build(name)
    assert sum(p.numel() for p in model.parameters()) == count


def test_the_stem_for_small_images_keeps_their_size():
    small, large = models.build("resnet_cifar"), models.build("resnet_cifar", stem="imagenet")
    assert [model.maxpool(model.conv1(X)).shape[-1] for model in (small, large)] == [32, 8]
    fan_out = small.conv1.out_channels * 9  # as timm draws a convolution
    assert small.conv1.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


def test_the_narrow_vgg_is_a_chain_of_two_convolutions_at_each_width():
    model = models.build("vgg_narrow", 7, in_chans=1)
    convolutions = [m for m in model.features if isinstance(m, nn.Conv2d)]
    assert [m.out_channels for m in convolutions] == [16, 16, 32, 32, 64, 64, 128, 128]
    assert all(m.kernel_size == (3, 3) and m.stride == (1, 1) for m in convolutions)
    assert model(X[:, :1]).shape == (2, 7) and sum(p.numel() for p in model.parameters()) < 3e5


def test_images_of_another_number_of_channels_pass_as_they_are():
    grey, face = models.build("convnext_cifar", 4, in_chans=1), models.build("face_transformer", depth=1, in_chans=1)
    assert torch.equal(grey.normalise(X[:, :1]), X[:, :1]) and grey(X[:, :1]).shape == (2, 4)
    assert torch.equal(face.normalise(X[:, :1]), 2 * X[:, :1] - 1)  # but where one number serves all of them
    assert face.pos_embed.shape == (1, 14 * 14 + 1, 512) and face.blocks[0].attn.num_heads == 8


@pytest.mark.parametrize("name", ["resnet_cifar", "swin_cifar", "vit_cifar", "vgg_narrow"])
def test_a_bottleneck_lets_few_numbers_through_and_leaves_the_rest_alone(name):
    model, plain = models.build(name, 2, bottleneck=3), models.build(name, 2)
    assert not model.training and model(X).shape == (2, 2)
    assert representations.read(model, X)[representations.LAST].shape == (2, 3)
    head = representations.last_linear(plain)
    rest = {n: t for n, t in plain.state_dict().items() if not n.startswith(head)}
    assert all(torch.equal(model.state_dict()[n], t) for n, t in rest.items())
    assert torch.equal(models.build(name, 2, bottleneck=3)(X), model(X))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: models.build("resnet5"), "'resnet5' is not in the zoo; nearest: resnet50"),
        (lambda: models.build("vit_cifar", img_size=30), "img_size=30 is no multiple of patch_size=8; try 32"),
        (lambda: models.build("deit_tiny_distilled_patch16_224", bottleneck=3), "by one Linear layer .*'head_dist'"),
        (lambda: models.build("resnet18", position="random"), "ResNet has no position embedding; try a ViT"),
        (lambda: morph.build(15), r"step=15 is none of the fourteen; give 1 \(ResNet-50\) to 14"),
        (lambda: april.build("b", position="low_rank", position_rank=17), "position_rank=17 is no rank .*try 1 to 16"),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(("size", "side"), [(28, 2), (33, 3)])
def test_each_stage_halves_the_map_rounding_up(size, side):
    model = models.build("ir152", 5, layers=(1, 1, 1, 1), in_chans=1, image_size=size)
    x = torch.rand(2, 1, size, size)
    assert model.stages(model.stem(x)).shape == (2, 512, side, side) and model(x).shape == (2, 5)
    assert not model.training and model.normalise.mean == model.normalise.std == (0.5,)


@pytest.mark.parametrize("outside", [4, 8])
def test_a_block_by_hand(outside):
    x, block = torch.randn(2, 4, 6, 6), ir_resnet.Block(4, outside, 2).eval()
    bn1, conv1, _prelu, conv2, bn2 = block.body
    y = F.conv2d(x / (1 + bn1.eps) ** 0.5, conv1.weight, padding=1)
    y = torch.where(y > 0, y, 0.25 * y)  # PReLU begins at a slope of .25
    y = F.conv2d(y, conv2.weight, stride=2, padding=1) / (1 + bn2.eps) ** 0.5
    short = x[:, :, ::2, ::2]
    if outside != 4:
        short = F.conv2d(short, block.shortcut[0].weight) / (1 + bn2.eps) ** 0.5
    torch.testing.assert_close(block(x), y + short)


def test_architecture_b_is_timms_vit_at_the_papers_sizes():
    b, sizes = april.build("b"), dict(img_size=32, patch_size=8, embed_dim=384, depth=4, num_heads=4, num_classes=10)
    stock = timm.create_model("vit_tiny_patch16_224", **sizes).eval()
    stock.load_state_dict(b.state_dict())
    torch.testing.assert_close(b(X), stock(X), rtol=1e-4, atol=1e-5)
    assert b.pos_embed.shape == (1, 17, 384) and b.pos_embed.std().item() == pytest.approx(0.02, rel=0.1)


def test_architecture_a_by_its_figure():
    a = april.build("a", depth=2, width=64)
    z = a._pos_embed(a.patch_embed(X))
    for block in a.blocks:
        z = block.mlp(block.norm(block.attn(z)))  # no shortcut, and nothing before the first attention
    torch.testing.assert_close(a(X), a.head(a.norm(z)[:, 0]))


@pytest.mark.parametrize("kind", position_embeddings.KINDS)
def test_scale_and_that_every_kind_but_learnable_is_frozen(kind):
    rank = 5 if kind == "low_rank" else None
    for std in () if kind == "none" else (0.02, 1.0):
        drawn = position_embeddings.draw(kind, (4, 4), 64, std, rank)
        assert drawn.square().mean().sqrt().item() == pytest.approx(std, rel=0.25 if rank else 1e-5)
    model = april.build("b", depth=1, width=64, position=kind, position_rank=rank)
    assert model.pos_embed.requires_grad == (kind == "learnable") and model(X).shape == (2, 10)


@settings(max_examples=20)
@given(st.integers(1, 16), st.floats(0.001, 10), st.integers(0, 1000))
def test_low_rank_is_exact_in_float32(rank, std, seed):
    drawn = position_embeddings.draw("low_rank", (4, 4), 48, std, rank, seed)
    spectrum = torch.linalg.svdvals(drawn.double())
    assert (spectrum > 1e-12 * spectrum[0]).sum() == rank


def test_the_2d_sinusoid_is_a_function_of_row_plus_a_function_of_column():
    table = position_embeddings.draw("sinusoid_2d", (5, 5), 32).double()
    grid = table.view(5, 5, 32)
    assert (grid[1:, 1:] - grid[:-1, 1:] - grid[1:, :-1] + grid[:-1, :-1]).abs().max() < 1e-6
    assert torch.linalg.matrix_rank(torch.cat([table, torch.ones(25, 1)], dim=1), rtol=1e-6) == 2 * 5 - 1


def test_the_1d_sinusoid_by_its_definition():
    drawn = position_embeddings.draw("sinusoid_1d", (2, 3), 4)
    assert torch.allclose(drawn[0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    angle = torch.tensor([5.0, 5.0 / 100])
    assert torch.allclose(drawn[5], torch.stack([angle.sin(), angle.cos()], 1).flatten(), atol=1e-6)
