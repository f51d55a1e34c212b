"""Skip connections scaled and removed: against stock models, against blocks computed by hand, against counts by hand."""

import copy
import json
import pickle

import pytest
import timm
import torch
import torch.nn.functional as F
from timm.models.resnet import BasicBlock
from torch import nn
from weights import same

from privlab import models
from privlab.models import dense_connections, ir_resnet, skip_connections
from privlab.training import epoch_loop

BUILD = {  # small members of each family, and the side of their images
    "resnet18": (lambda: timm.create_model("resnet18", channels=(8, 16, 32, 64), num_classes=5), 32),
    "resnet50": (
        lambda: timm.create_model("resnet50", channels=(8, 16, 32, 64), layers=(1, 2, 2, 2), num_classes=5),
        32,
    ),
    "densenet121": (
        lambda: timm.create_model("densenet121", growth_rate=8, block_config=(2, 2, 2, 3), num_classes=5),
        32,
    ),
    "efficientnet_b0": (lambda: timm.create_model("efficientnet_b0", num_classes=5), 32),
    "maxvit": (
        lambda: timm.create_model(
            "maxvit_tiny_tf_224",
            img_size=64,
            embed_dim=(32, 32, 64, 64),
            depths=(1, 1, 1, 2),
            stem_width=16,
            num_classes=5,
        ),
        64,
    ),
    "vit": (
        lambda: timm.create_model(
            "vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=32, num_heads=2, depth=8, num_classes=5
        ),
        32,
    ),
    "repvgg_a0": (lambda: timm.create_model("repvgg_a0", width_factor=0.25, num_classes=5), 32),
    "ir18": (lambda: models.build("ir18", 5, widths=(8, 16, 16, 32), image_size=32), 32),
}


@pytest.fixture(scope="module", params=BUILD)
def family(request, stirred):
    build, side = BUILD[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.rand(2, 3, side, side)
        return request.param, stirred(build()), x


@pytest.fixture(scope="session")
def small(stirred):
    """Gives a small member of a family, by its name."""

    def build(name="resnet18"):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return stirred(BUILD[name][0]())

    return build


def count(model):
    return sum(p.numel() for p in model.parameters())


def passed(model, module, x):
    """(input, output) of one module in a forward pass."""
    seen = []
    hook = module.register_forward_hook(lambda m, args, out: seen.append((args[0].clone(), out.clone())))
    with torch.no_grad():
        model(x)
    hook.remove()
    return seen[0]


# -- what holds for every family ------------------------------------------------------------------------------------------------


def test_k_1_is_the_stock_model_bit_for_bit(family):
    _, model, x = family
    for stage in skip_connections.stages(model):
        same = skip_connections.scale(model, stage, 1)
        assert same is not model and type(same) is type(model)
        assert torch.equal(same(x), model(x))
        assert list(same.state_dict()) == list(model.state_dict())


def test_the_argument_stays_as_it_is(family):
    _, model, x = family
    before, state, text = model(x), copy.deepcopy(model.state_dict()), str(model)
    for stage in skip_connections.stages(model):
        with torch.no_grad():
            for p in skip_connections.remove(model, stage).parameters():
                p.fill_(float("nan"))  # shares no memory
    assert torch.equal(model(x), before) and str(model) == text
    assert same(state, model)


def test_a_removed_stage_has_no_shortcuts_left_and_the_others_keep_theirs(family):
    _, model, x = family
    full = skip_connections.stages(model)
    for stage in full:
        cut = skip_connections.remove(model, stage)
        assert skip_connections.stages(cut) == {s: n for s, n in full.items() if s != stage}
        assert not torch.allclose(cut(x), model(x), rtol=1e-3)
        names = set(cut.state_dict())
        assert names <= set(model.state_dict())
        with pytest.raises(ValueError, match=rf"stage={stage}"):
            skip_connections.remove(cut, stage)


def test_what_stays_is_the_models_and_what_is_new_is_in_its_mode(family):
    name, model, _ = family
    stage, old = max(skip_connections.stages(model)), model.state_dict()
    for k in (0,) if name == "repvgg_a0" else (0, 0.5):
        cut = skip_connections.scale(model, stage, k)
        assert not any(part.training for part in cut.modules())
        for key, value in cut.state_dict().items():
            if name != "densenet121" or value.shape == old[key].shape:  # what a dense layer keeps is tested below
                assert torch.equal(value, old[key]), key


def test_copies_and_files_give_the_same_net(family, tmp_path, stirred):
    name, model, x = family
    stage = max(skip_connections.stages(model))
    for k in (0,) if name == "repvgg_a0" else (0, 0.3):
        cut = skip_connections.scale(model, stage, k)
        expected = cut(x)
        assert torch.equal(copy.deepcopy(cut)(x), expected)
        assert torch.equal(pickle.loads(pickle.dumps(cut))(x), expected)
        other = skip_connections.scale(stirred(BUILD[name][0](), seed=1), stage, k)
        assert not torch.equal(other(x), expected)
        other.load_state_dict(cut.state_dict())
        assert torch.equal(other(x), expected)


def test_a_cut_net_learns_and_each_of_its_weights_has_a_gradient(family):
    name, model, x = family
    for k in (0,) if name == "repvgg_a0" else (0, 0.3):
        cut = skip_connections.scale(model, max(skip_connections.stages(model)), k).train()
        optimiser = torch.optim.SGD(cut.parameters(), lr=0.01)
        loss = F.cross_entropy(cut(torch.cat([x, x.flip(-1)])), torch.tensor([0, 1, 2, 3]))
        loss.backward()
        optimiser.step()
        assert loss.isfinite()
        assert all(p.grad is not None for p in cut.parameters())
        assert all(p.grad is None for p in model.parameters())


def test_factors_multiply(family):
    name, model, x = family
    if name in ("densenet121", "repvgg_a0"):
        return  # scaled once, and not at all
    stage = max(skip_connections.stages(model))
    twice = skip_connections.scale(skip_connections.scale(model, stage, 0.5), stage, 0.25)
    torch.testing.assert_close(twice(x), skip_connections.scale(model, stage, 0.125)(x))  # powers of 2: no rounding
    assert torch.equal(
        skip_connections.remove(skip_connections.scale(model, stage, 0.5), stage)(x),
        skip_connections.remove(model, stage)(x),
    )


# -- ResNet and IR --------------------------------------------------------------------------------------------------------------


def branch(block, x):
    """g(x), layer by layer."""
    if isinstance(block, ir_resnet.Block):
        return block.body(x)
    x = F.relu(block.bn1(block.conv1(x)))
    if isinstance(block, BasicBlock):
        return block.bn2(block.conv2(x))
    return block.bn3(block.conv3(F.relu(block.bn2(block.conv2(x)))))


@pytest.mark.parametrize("k", [0, 0.2, 0.5])
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "ir18"])
def test_a_block_is_its_branch_and_k_of_its_shortcut(name, k, small):
    model, x = small(name), torch.rand(2, 3, 32, 32)
    cut = skip_connections.scale(model, 4, k)
    after = F.relu if name.startswith("resnet") else nn.Identity()
    old = skip_connections.blocks(model, 4)
    new = cut.layer4 if name.startswith("resnet") else cut.stages[3]
    assert len(new) == len(old) == 2
    for stock, block in zip(old, new, strict=True):
        z, out = passed(cut, block, x)
        shortcut = (stock.shortcut if name == "ir18" else stock.downsample) or nn.Identity()
        with torch.no_grad():
            torch.testing.assert_close(out, after(branch(stock, z) + k * shortcut(z)))


def test_the_factor_holds_in_training_too_and_norms_of_what_is_gone_do_not_count(small):
    model, x = small("resnet50").train(), torch.rand(4, 3, 32, 32)
    half, cut = skip_connections.scale(model, 2, 0.5), skip_connections.remove(model, 2)
    block = half.layer2[0]
    z, out = passed(half, block, x)
    with torch.no_grad():
        torch.testing.assert_close(out, F.relu(branch(block, z) + 0.5 * model.layer2[0].downsample(z)))
    assert half.layer2[0].downsample[1].num_batches_tracked == 1
    cut(x)
    assert not [name for name, _ in cut.named_buffers() if "layer2" in name and "downsample" in name]
    assert cut.layer2[0].bn3.num_batches_tracked == 1


def test_a_fresh_resnet_can_learn_without_shortcuts():
    """timm draws the last BatchNorm of a branch as 0: a block without its shortcut would give 0, and ReLU would pass no gradient."""
    fresh, x = BUILD["resnet18"][0](), torch.rand(4, 3, 32, 32)
    assert not fresh.layer4[1].bn2.weight.any()
    cut = skip_connections.remove(fresh, 4)
    assert cut.layer4[1].bn2.weight.eq(1).all() and not cut.layer3[1].bn2.weight.any()
    F.cross_entropy(cut(x), torch.arange(4)).backward()
    assert cut.conv1.weight.grad.norm() > 0
    fresh.layer4[1].bn2.weight.data[0] = 0.1  # a trained one is left alone
    assert torch.equal(skip_connections.remove(fresh, 4).layer4[1].bn2.weight, fresh.layer4[1].bn2.weight)


@pytest.mark.parametrize(("fraction", "last"), [(0.01, 1), (0.24, 2), (0.5, 5), (1, 10)])
def test_the_last_fraction_of_a_stage(fraction, last):
    model = timm.create_model("resnet18", channels=(4, 4, 8, 8), layers=(1, 1, 10, 1), num_classes=5)
    skip_connections.cut(model, 3, 0.0, fraction)
    gone = [isinstance(block.downsample, skip_connections.Gone) for block in model.layer3]
    assert gone == [False] * (10 - last) + [True] * last
    assert skip_connections.stages(model).get(3, 0) == 10 - last


# -- DenseNet -------------------------------------------------------------------------------------------------------------------


def apply(layer, weight_index, x):
    """A stock dense layer with only these of its input channels."""
    norm = layer.norm1
    mean, var = norm.running_mean[weight_index], norm.running_var[weight_index]
    x = F.relu(F.batch_norm(x, mean, var, norm.weight[weight_index], norm.bias[weight_index], eps=norm.eps))
    x = F.conv2d(x, layer.conv1.weight[:, weight_index])
    return layer.conv2(layer.norm2(x))


@pytest.mark.parametrize(("k", "a", "b"), [(0, 0, 0), (0.25, 4, 2), (0.5, 8, 4)])
def test_a_dense_block_by_hand(k, a, b, small):
    """Growth 8 on 16 channels: the input's first a channels and each layer's first b go on."""
    model = small("densenet121")
    cut = skip_connections.scale(model, 1, k)
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


def test_the_last_dense_block_by_hand(small):
    """Three layers on 16 channels, k = 0: a chain, and the classifier sees the last layer's 8 channels."""
    model, x = small("densenet121"), torch.rand(2, 3, 32, 32)
    cut = skip_connections.remove(model, 4)
    z, _ = passed(cut, cut.features.denseblock4, x)
    assert z.shape[1] == 16
    one, two, three = model.features.denseblock4.values()
    last = list(range(32, 40))
    with torch.no_grad():
        f = apply(three, list(range(24, 32)), apply(two, list(range(16, 24)), one(z)))
        norm = model.features.norm5
        f = F.batch_norm(
            f, norm.running_mean[last], norm.running_var[last], norm.weight[last], norm.bias[last], eps=norm.eps
        )
        logits = F.relu(f).mean((2, 3)) @ model.classifier.weight[:, last].T + model.classifier.bias
        torch.testing.assert_close(cut(x), logits)
    assert cut.classifier.in_features == 8


def test_what_a_dense_layer_does_not_pass_on_is_lost_to_all_behind_it(small):
    """Without the first shortcut the block's 16 input channels end in the first layer, whatever the later ones would carry."""
    model, x = small("densenet121"), torch.rand(2, 3, 32, 32)
    z, _ = passed(model, model.features.denseblock4, x)
    cut = copy.deepcopy(model)
    dense_connections.narrow(cut, 4, {0: 0.0})
    _, out = passed(cut, cut.features.denseblock4, x)
    one, two, three = model.features.denseblock4.values()
    with torch.no_grad():
        f1 = one(z)
        f2 = apply(two, list(range(16, 24)), f1)
        f3 = apply(three, list(range(16, 32)), torch.cat([f1, f2], 1))
        torch.testing.assert_close(out, torch.cat([f1, f2, f3], 1))
    assert skip_connections.stages(cut)[4] == 2


@pytest.mark.parametrize(
    ("name", "layers", "growth", "given"), [("densenet121", 16, 32, 512), ("densenet161", 24, 48, 1056)]
)
def test_full_size_dense_nets(name, layers, growth, given):
    with torch.device("meta"):
        model = timm.create_model(name)
    assert skip_connections.stages(model)[4] == layers
    cut = skip_connections.remove(model, 4)
    width, narrow = given + layers * growth, growth
    lost = sum(given + (i - 1) * growth for i in range(1, layers))  # channels that layers 1, 2, ... no longer read
    # each costs a norm's weight and bias, and a column of the 1x1 convolution; the last norm and the classifier shrink too
    assert count(model) - count(cut) == lost * (2 + 4 * growth) + (width - narrow) * (2 + 1000)
    assert set(cut.state_dict()) == set(model.state_dict())


def test_a_dense_net_with_a_narrow_head():
    cut = models.build("densenet121", 5, growth_rate=8, block_config=(2, 2, 2, 2), bottleneck=3, skips=[(4, 0)])
    assert cut.classifier[0].in_features == 8 and cut(torch.rand(1, 3, 32, 32)).shape == (1, 5)


# -- EfficientNet, MaxViT, ViT, RepVGG -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 0.5])
def test_efficientnets_block(k, small):
    model, x = small("efficientnet_b0"), torch.rand(2, 3, 32, 32)
    assert skip_connections.stages(model) == {2: 1, 3: 1, 4: 2, 5: 2, 6: 3}
    cut = skip_connections.scale(model, 6, k)
    for stock, block in zip(model.blocks[5], cut.blocks[5], strict=True):
        z, out = passed(cut, block, x)
        bare = copy.deepcopy(stock)
        bare.has_skip = False
        with torch.no_grad():
            torch.testing.assert_close(out, bare(z) + (k * z if stock.has_skip else 0))


def test_stochastic_depth_still_acts():
    """Half of the images lose the branch, the others have it twice."""
    net = timm.create_model("efficientnet_b0", drop_path_rate=0.9, num_classes=5)
    cut = skip_connections.remove(net, 6).train()
    block = cut.blocks[5][3]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        out = block(torch.rand(64, block.conv_pw.in_channels, 4, 4))
    lost = out.flatten(1).eq(0).all(1).float().mean().item()
    assert lost == pytest.approx(block.drop_path.drop_prob, abs=0.15) and block.drop_path.drop_prob > 0.5
    vit = timm.create_model("vit_tiny_patch16_224", embed_dim=8, num_heads=1, depth=8, drop_path_rate=0.9)
    block = skip_connections.remove(vit, 1).blocks[1].train()
    block.drop_path2.drop_prob = 0.999
    assert block(torch.rand(1, 5, 8)).eq(0).all()


@pytest.mark.parametrize("k", [0, 0.5])
def test_maxvits_block(k, small):
    model, x = small("maxvit"), torch.rand(2, 3, 64, 64)
    assert skip_connections.stages(model) == {1: 5, 2: 5, 3: 5, 4: 10}
    cut = skip_connections.scale(model, 4, k)
    for stock, block in zip(model.stages[3].blocks, cut.stages[3].blocks, strict=True):
        z, out = passed(cut, block, x)
        with torch.no_grad():
            y = stock.conv(z) - (1 - k) * stock.conv.shortcut(z)
            y = y.permute(0, 2, 3, 1)
            for part in (stock.attn_block, stock.attn_grid):
                y = part._partition_attn(part.norm1(y)) + k * y
                y = part.mlp(part.norm2(y)) + k * y
            torch.testing.assert_close(out, y.permute(0, 3, 1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", [0, 0.5])
def test_a_vits_block(k, small):
    model, x = small("vit"), torch.rand(2, 3, 32, 32)
    assert skip_connections.stages(model) == {1: 4}  # 8 blocks, 2 in the first quarter, 2 shortcuts each
    cut = skip_connections.scale(model, 1, k)
    for stock, block in zip(model.blocks[:2], cut.blocks[:2], strict=True):
        z, out = passed(cut, block, x)
        with torch.no_grad():
            y = stock.attn(stock.norm1(z)) + k * z
            torch.testing.assert_close(out, stock.mlp(stock.norm2(y)) + k * y)
    assert type(cut.blocks[2]) is type(model.blocks[2])
    mask = torch.zeros(17, 17)
    torch.testing.assert_close(cut.forward_features(x, attn_mask=mask), cut.forward_features(x))


@pytest.mark.parametrize(("depth", "first"), [(1, 1), (3, 1), (7, 1), (8, 2), (12, 3)])
def test_the_first_quarter_of_a_vit(depth, first):
    model = timm.create_model("vit_tiny_patch16_224", embed_dim=8, num_heads=1, depth=depth)
    assert skip_connections.stages(model) == {1: 2 * first}
    assert (
        len(skip_connections.ends(model)) == min(depth, 4)
        and skip_connections.ends(model)[min(depth, 4)] is model.blocks[-1]
    )


def test_repvggs_identity_branch(small):
    model, x = small("repvgg_a0"), torch.rand(2, 3, 64, 64)
    assert skip_connections.stages(model) == {1: 1, 2: 3, 3: 13}
    cut = skip_connections.remove(model, 3)
    width = model.stages[2][1].identity.num_features
    assert count(model) - count(cut) == 13 * 2 * width
    for stock, block in zip(model.stages[2], cut.stages[2], strict=True):
        z, out = passed(cut, block, x)
        with torch.no_grad():
            torch.testing.assert_close(out, F.relu(stock.conv_1x1(z) + stock.conv_kxk(z)))


# -- zoo ------------------------------------------------------------------------------------------------------------------------


def test_the_zoo_cuts_what_it_builds():
    settings = dict(channels=(8, 16, 32, 64), in_chans=1, num_classes=5, seed=3)
    plain = models.build("resnet18", **settings)
    entries = json.loads("[[4, 0], [3, 0, 0.1], [2, 0.2]]")
    cut = models.build("resnet18", skips=entries, **settings)
    assert skip_connections.stages(cut) == {1: 2, 2: 2, 3: 1}
    assert cut.layer2[1].downsample[-1].k == 0.2
    assert cut.normalise == plain.normalise and not cut.training
    old = plain.state_dict()
    drawn = {k: v for k, v in cut.state_dict().items() if not k.endswith("bn2.weight")}  # these timm sets to 0
    assert all(torch.equal(v, old[k]) for k, v in drawn.items())
    alike = models.build("resnet18", skips=entries, zero_init_last=False, **settings)
    full = models.build("resnet18", zero_init_last=False, **settings).state_dict()
    assert all(torch.equal(v, full[k]) for k, v in alike.state_dict().items())
    assert models.build("resnet18", skips=(), **settings).state_dict().keys() == old.keys()


# -- bad input ------------------------------------------------------------------------------------------------------------------


def test_what_cannot_be_cut_is_told(small):
    for model, stage, k, says in (
        (small(), 4, 1.1, r"k=1.1 is no number in \[0, 1\]; 0 removes the shortcuts"),
        (small(), 5, 0, r"stage=5: ResNet has no shortcuts there .*stages that have some: 1, 2, 3, 4"),
        (small("efficientnet_b0"), 7, 0, "stage=7: EfficientNet .*stages that have some: 2, 3, 4, 5, 6"),
        (small("vit"), 2, 0, "stage=2: VisionTransformer .*that can be cut; stages that have some: 1$"),
        (small("repvgg_a0"), 1, 0.5, "k=0.5: RepVGG's identity branch can be removed, k=0, but not scaled"),
    ):
        with pytest.raises(ValueError, match=says):
            skip_connections.scale(model, stage, k)
    with torch.device("meta"):
        for name in ("vgg11", "swin_tiny_patch4_window7_224", "coatnet_0_rw_224", "efficientnetv2_s", "morph_1"):
            with pytest.raises(
                ValueError, match="has no skip connections, or some that are not known here.*ResNet, DenseNet"
            ):
                skip_connections.stages(models.build(name))


@pytest.mark.parametrize("name", ["efficientnet_b0", "vit", "maxvit"])
def test_two_factors_are_two_targets_to_an_attack_that_is_kept(name, small):
    """What the store knows a target by, see `training.epoch_loop.fingerprint`: structure, names of weights, weights."""
    model = small(name)
    stage = max(skip_connections.stages(model))
    known = [epoch_loop.fingerprint(skip_connections.scale(model, stage, k)) for k in (0.0, 0.2, 0.9, 1.0)]
    assert len({json.dumps(each) for each in known}) == 4
