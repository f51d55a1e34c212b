"""Skip connections scaled and removed: against stock models, and against blocks computed by hand; RepVGG folded."""

import copy
import itertools

import pytest
import timm
import torch
import torch.nn.functional as F
from timm.models._efficientnet_blocks import InvertedResidual
from timm.models.byobnet import RepVggBlock
from timm.models.maxxvit import MaxxVitBlock
from timm.models.resnet import BasicBlock, Bottleneck
from torch import nn
from weights import same

from privlab import models
from privlab.models import ir_resnet, skip_connections

BUILD = {  # small members of each family, and the side of their images
    "resnet18": (dict(channels=(8, 16, 32, 64)), 32),
    "resnet50": (dict(channels=(8, 16, 32, 64), layers=(1, 2, 2, 2)), 32),
    "densenet121": (dict(growth_rate=8, block_config=(2, 2, 2, 3)), 32),
    "efficientnet_b0": ({}, 32),
    "maxvit_tiny_tf_224": (dict(img_size=64, embed_dim=(32, 32, 64, 64), depths=(1, 1, 1, 2), stem_width=16), 64),
    "vit_tiny_patch16_224": (dict(img_size=32, patch_size=8, embed_dim=32, num_heads=2, depth=8), 32),
    "ir152": (dict(layers=(1, 1, 1, 2), image_size=32), 32),
}


def build(name, seed=0):
    return models.build(name, 5, seed, **BUILD[name][0])


@pytest.fixture(scope="module", params=BUILD)
def family(request, stirred):
    """A small member of a family, and images for it."""
    side = BUILD[request.param][1]
    return request.param, stirred(build(request.param)), torch.rand(2, 3, side, side)


@pytest.fixture
def small(stirred):
    return lambda name="resnet18": stirred(build(name))


def scaled(model, stage, k=0.0):
    """A copy that is cut."""
    model = copy.deepcopy(model)
    skip_connections.cut(model, stage, k)
    return model


def passed(model, module, x):
    """(input, output) of one module in a forward pass."""
    seen = []
    hook = module.register_forward_hook(lambda m, args, out: seen.append((args[0].clone(), out.clone())))
    with torch.no_grad():
        model(x)
    hook.remove()
    return seen[0]


def test_what_stays_is_the_models_and_its_weights_give_the_same_net(family, stirred):
    name, model, x = family
    old, full = model.state_dict(), skip_connections.stages(model)
    assert full == {"efficientnet_b0": [2, 3, 4, 5, 6], "vit_tiny_patch16_224": [1]}.get(name, [1, 2, 3, 4])
    for stage in full:  # it has no shortcuts left, and the others keep theirs
        cut = scaled(model, stage)
        assert skip_connections.stages(cut) == [each for each in full if each != stage]
        assert not torch.allclose(cut(x), model(x), rtol=1e-3)
        assert set(cut.state_dict()) <= set(old)
    for k in (0.0, 0.3) if name in ("resnet18", "resnet50", "densenet121", "ir152") else (0.0,):
        cut = scaled(model, stage, k)
        assert not any(part.training for part in cut.modules())
        for key, value in cut.state_dict().items():
            if name != "densenet121" or value.shape == old[key].shape:  # what a dense layer keeps is tested below
                assert torch.equal(value, old[key]), key
        expected = cut(x)
        other = scaled(stirred(build(name, 1), seed=1), stage, k)
        assert not torch.equal(other(x), expected)
        other.load_state_dict(cut.state_dict())
        assert torch.equal(other(x), expected)
        loss = F.cross_entropy(cut.train()(torch.cat([x, x.flip(-1)])), torch.tensor([0, 1, 2, 3]))
        loss.backward()
        assert loss.isfinite() and all(p.grad is not None for p in cut.parameters())


def branch(block, x):
    """g(x), layer by layer: what the block gives without its shortcuts."""
    if isinstance(block, ir_resnet.Block):
        return block.body(x)
    if isinstance(block, BasicBlock | Bottleneck):
        x = F.relu(block.bn1(block.conv1(x)))
        x = block.bn2(block.conv2(x))
        return x if isinstance(block, BasicBlock) else block.bn3(block.conv3(F.relu(x)))
    if isinstance(block, InvertedResidual):
        bare = copy.deepcopy(block)
        bare.has_skip = False
        return bare(x)
    if isinstance(block, MaxxVitBlock):
        x = (block.conv(x) - block.conv.shortcut(x)).permute(0, 2, 3, 1)
        for part in (block.attn_block, block.attn_grid):
            x = part.mlp(part.norm2(part._partition_attn(part.norm1(x))))
        return x.permute(0, 3, 1, 2)
    return block.mlp(block.norm2(block.attn(block.norm1(x))))


@pytest.mark.parametrize(
    ("name", "k"),
    [
        *itertools.product(("resnet18", "resnet50", "ir152"), (0, 0.5)),
        *itertools.product(("efficientnet_b0", "maxvit_tiny_tf_224", "vit_tiny_patch16_224"), (0,)),
    ],
)
def test_a_block_is_its_branch_and_k_of_its_shortcut(name, k, small):
    model, side = small(name), BUILD[name][1]
    stage = max(skip_connections.stages(model))
    cut = scaled(model, stage, k)
    for stock, block in zip(*(skip_connections._blocks(each)[stage] for each in (model, cut)), strict=True):
        z, out = passed(cut, block, torch.rand(2, 3, side, side))
        with torch.no_grad():
            expected = branch(stock, z)
            if k:
                expected += k * ((stock.shortcut if name == "ir152" else stock.downsample) or nn.Identity())(z)
            expected = expected.relu() if name.startswith("resnet") else expected
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("depth", "quarter"), [(1, 1), (7, 1), (12, 3)])
def test_the_first_quarter_of_a_vit_is_its_stage_and_keeps_its_mask(depth, quarter):
    """Rounded down, and never nothing."""
    model, x = models.build("vit_cifar", 5, depth=depth, embed_dim=32, num_heads=2), torch.rand(2, 3, 32, 32)
    cut = scaled(model, 1)
    changed = [type(a) is not type(b) for a, b in zip(cut.blocks, model.blocks, strict=True)]
    assert changed == [True] * quarter + [False] * (depth - quarter)
    torch.testing.assert_close(cut.forward_features(x, attn_mask=torch.zeros(17, 17)), cut.forward_features(x))


def test_a_fresh_resnet_can_learn_without_shortcuts():
    """timm draws the last BatchNorm of a branch as 0: a block without its shortcut would give 0, and ReLU would pass no gradient."""
    fresh = build("resnet18")
    assert not fresh.layer4[1].bn2.weight.any()
    cut = scaled(fresh, 4).train()
    assert cut.layer4[1].bn2.weight.eq(1).all() and not cut.layer3[1].bn2.weight.any()
    F.cross_entropy(cut(torch.rand(4, 3, 32, 32)), torch.arange(4)).backward()
    assert cut.conv1.weight.grad.norm() > 0
    fresh.layer4[1].bn2.weight.data[0] = 0.1  # a trained one is left alone
    assert torch.equal(scaled(fresh, 4).layer4[1].bn2.weight, fresh.layer4[1].bn2.weight)


@pytest.mark.parametrize(("fraction", "last"), [(0.01, 1), (0.24, 2), (0.5, 5), (1, 10)])
def test_the_last_fraction_of_a_stage(fraction, last):
    model = timm.create_model("resnet18", channels=(4, 4, 8, 8), layers=(1, 1, 10, 1), num_classes=5)
    skip_connections.cut(model, 3, 0.0, fraction)
    assert [getattr(block, "k", 1) for block in model.layer3] == [1] * (10 - last) + [0] * last


def apply(layer, index, x):
    """A stock dense layer with only these of its input channels."""
    norm = layer.norm1
    mean, var = norm.running_mean[index], norm.running_var[index]
    x = F.relu(F.batch_norm(x, mean, var, norm.weight[index], norm.bias[index], eps=norm.eps))
    return layer.conv2(layer.norm2(F.conv2d(x, layer.conv1.weight[:, index])))


@pytest.mark.parametrize(("k", "a", "b"), [(0, 0, 0), (0.25, 4, 2)])
def test_a_dense_block_by_hand(k, a, b, small):
    """Growth 8 on 16 channels: the input's first a channels and each layer's first b go on."""
    model = small("densenet121")
    cut = scaled(model, 1, k)
    z, out = passed(cut, cut.features.denseblock1, torch.rand(2, 3, 32, 32))
    first, second = model.features.denseblock1.values()
    with torch.no_grad():
        f1 = first(z)
        f2 = apply(second, [*range(a), *range(16, 24)], torch.cat([z[:, :a], f1], 1))
        torch.testing.assert_close(out, torch.cat([z[:, :a], f1[:, :b], f2], 1))
        index = [*range(a), *range(16, 16 + b), *range(24, 32)]
        stock, new = model.features.transition1, cut.features.transition1
        assert torch.equal(new.conv.weight, stock.conv.weight[:, index])
        for name in ("weight", "bias", "running_mean", "running_var"):
            assert torch.equal(getattr(new.norm, name), getattr(stock.norm, name)[index])


def test_what_a_dense_layer_does_not_pass_on_is_lost_to_all_behind_it(small):
    """Two thirds of the last block's three layers cut: the first still passes its input on to the second, and to nobody else."""
    model, x = small("densenet121"), torch.rand(2, 3, 32, 32)
    cut = copy.deepcopy(model)
    skip_connections.cut(cut, 4, 0.0, fraction=2 / 3)
    z, out = passed(cut, cut.features.denseblock4, x)
    one, two, three = model.features.denseblock4.values()
    with torch.no_grad():
        f1 = one(z)
        f2 = apply(two, list(range(24)), torch.cat([z, f1], 1))
        torch.testing.assert_close(out, apply(three, list(range(24, 32)), f2))
    assert cut.classifier.in_features == 8
    narrow = models.build("densenet121", 5, growth_rate=8, block_config=(2, 2, 2, 2), bottleneck=3, skips=[(4, 0)])
    assert narrow.classifier[0].in_features == 8 and narrow(x).shape == (2, 5)


def answers(model, x):
    """(logits, gradient of a loss in the pixels)."""
    x = x.clone().requires_grad_()
    logits = model(x)
    return logits.detach(), torch.autograd.grad(F.cross_entropy(logits, torch.arange(len(x))), x)[0]


def test_folding_keeps_outputs_and_input_gradients_and_leaves_the_model(stirred):
    model = stirred(models.build("repvgg_a0", 7, width_factor=0.25).double()).train()
    state = {n: t.clone() for n, t in model.state_dict().items()}
    folded = skip_connections.fold(model)
    assert model.training and not folded.training and same(state, model)
    x = torch.rand(2, 3, 32, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for before, after in zip(answers(model.eval(), x), answers(folded, x), strict=True):
        assert before.norm() > 0 and ((before - after).norm() / before.norm()).item() < 1e-10
    blocks = skip_connections.branches(model)["3x3"]
    assert skip_connections.branches(folded) == {"3x3": 0, "1x1": 0, "identity": 0, "folded": blocks}
    assert not [m for m in folded.modules() if isinstance(m, nn.BatchNorm2d)]
    assert all(m.kernel_size == (3, 3) for m in folded.modules() if isinstance(m, nn.Conv2d))


def test_a_block_of_one_channel_folded_by_hand():
    """Koh et al. 2024, equations 4 to 7: each branch times gamma / sqrt(variance + eps), the 1x1 and the identity at the centre."""
    block = RepVggBlock(1, 1, 3).double().eval()
    for branch, scale in ((block.conv_kxk, 2.0), (block.conv_1x1, 3.0), (block, 5.0)):
        norm = branch.identity if branch is block else branch.bn
        norm.eps, norm.running_var[0], norm.running_mean[0] = 0.0, 4.0, 0.5
        norm.weight.data.fill_(scale)
        norm.bias.data.fill_(scale / 10)
    block.conv_kxk.conv.weight.data.copy_(torch.arange(9.0).view(1, 1, 3, 3))
    block.conv_1x1.conv.weight.data.fill_(7.0)
    folded = skip_connections.fold(nn.Sequential(block))[0].reparam_conv
    kernel = torch.arange(9.0) * 2 / 2  # gamma over the deviation, which is 2
    kernel[4] += 7 * 3 / 2 + 5 / 2
    assert folded.weight.flatten().tolist() == kernel.tolist()
    assert folded.bias.item() == pytest.approx(0.2 + 0.3 + 0.5 - 0.5 * (2 + 3 + 5) / 2)


def test_the_branches_of_a_block_add_up_to_it(stirred):
    """Koh et al. 2024, equation 4, before the ReLU."""
    block = stirred(RepVggBlock(4, 4, 3).double()).eval()
    z = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    parts = skip_connections.branch_layers(block)
    f = sum(F.batch_norm(F.conv2d(z, w, padding="same"), *norm, eps=eps) for w, *norm, eps in parts)
    torch.testing.assert_close(f.relu(), block(z))


def test_what_cannot_be_cut_is_told(small):
    for name, stage, k, says in (
        ("resnet18", 4, 1.1, r"k=1.1 is no number in \[0, 1\]; 0 removes the shortcuts"),
        ("resnet18", 5, 0, "stage=5: ResNet has no shortcuts there .*stages that have: 1, 2, 3, 4"),
        ("vit_tiny_patch16_224", 1, 0.5, "VisionTransformer can be removed, k=0, but not scaled"),
    ):
        with pytest.raises(ValueError, match=says):
            scaled(small(name), stage, k)
    with torch.device("meta"):
        for name in ("vgg11", "coatnet_0_rw_224", "efficientnetv2_s"):
            with pytest.raises(ValueError, match="no skip connections, or some that are not known here"):
                skip_connections.stages(timm.create_model(name))
