"""Equation 2 of Koh et al. 2024, measured: against blocks taken apart by hand, and without a trace in the model."""

import copy

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import nn
from weights import same

from privlab import models
from privlab.attacks.model_inversion import gradient_flow
from privlab.models import ir_resnet

LABELS = torch.tensor([0, 3, 1])


def summed(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")


def images(dtype=torch.float64, chans=3, size=32):
    return torch.rand(3, chans, size, size, generator=torch.Generator().manual_seed(0)).to(dtype)


def resnet(name="resnet18", **settings):
    small = dict(channels=(8, 16, 32, 64), num_classes=5, zero_init_last=False)
    return models.build(name, **{**small, **settings}).double()


def ir18(**settings):
    return models.build("ir18", 5, widths=(8, 8, 16, 16), image_size=32, **settings).double()


NETS = {
    "resnet18": resnet,
    "resnet50": lambda: resnet("resnet50", layers=(1, 2, 2, 1)),
    "scaled and cut": lambda: resnet(skips=[(4, 0.2), (3, 0), (2, 0.5)]),
    "stochastic depth": lambda: resnet(drop_path_rate=0.5),
    "attention": lambda: resnet("seresnet18"),
    "ir18": ir18,
    "ir18, scaled and cut": lambda: ir18(skips=[(4, 0.2), (1, 0)]),
}


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_both_parts_are_the_whole(name, train, dtype, bound):
    model = NETS[name]().to(dtype).train(train)
    rows = gradient_flow.split(model, images(dtype), LABELS, summed)
    assert [row.block for row in rows] == [
        n for n, m in model.named_modules() if hasattr(m, "drop_path") or isinstance(m, ir_resnet.Block)
    ]
    for row in rows:
        assert row.error < bound, row
        assert row.total > 0 and abs(row.skip - row.branch) * (1 - 1e-5) <= row.total <= (row.skip + row.branch) * (
            1 + 1e-5
        )


@pytest.mark.parametrize("index", [0, 1])
def test_a_resnets_block_taken_apart_by_hand(index):
    model, x = resnet(), images()
    block = model.layer3[index]
    rest = nn.Sequential(*model.layer3[index + 1 :], model.layer4, model.global_pool, model.fc)
    with torch.no_grad():
        z = model.normalise(x)
        z = model.layer2(model.layer1(model.maxpool(F.relu(model.bn1(model.conv1(z))))))
        z = model.layer3[:index](z)

    def branch(z):
        return block.bn2(block.conv2(F.relu(block.bn1(block.conv1(z)))))

    def shortcut(z):
        return block.downsample(z) if block.downsample else z

    with torch.no_grad():
        total = branch(z) + shortcut(z)
    arriving = torch.func.grad(lambda s: summed(rest(F.relu(s)), LABELS))(total)
    by_branch = torch.func.vjp(branch, z)[1](arriving)[0]
    by_skip = torch.func.vjp(shortcut, z)[1](arriving)[0]
    row = next(row for row in gradient_flow.split(model, x, LABELS, summed) if row.block == f"layer3.{index}")
    by_hand = [
        part.flatten(1).norm(dim=1).mean().item() for part in (arriving, by_skip, by_branch, by_branch + by_skip)
    ]
    assert [row.arriving, row.skip, row.branch, row.total] == pytest.approx(by_hand, rel=1e-10)


def test_an_ir_block_taken_apart_by_hand():
    model, x = ir18(), images()
    block = model.stages[2][0]
    with torch.no_grad():
        z = model.stages[:2](model.stem(model.normalise(x)))
        total = block(z)
    rest = nn.Sequential(model.stages[2][1], model.stages[3], model.head, model.fc)
    arriving = torch.func.grad(lambda s: summed(rest(s), LABELS))(total)
    row = gradient_flow.split(model, x, LABELS, summed)[4]
    assert row.block == "stages.2.0"
    for measured, part in ((row.branch, block.body), (row.skip, block.shortcut)):
        by_hand = torch.func.vjp(part, z)[1](arriving)[0]
        assert measured == pytest.approx(by_hand.flatten(1).norm(dim=1).mean().item(), rel=1e-10)


def test_what_a_shortcut_returns():
    """An identity all that arrives, a scaled one k of it, a removed one nothing: then the branch is the whole."""
    plain = {row.block: row for row in gradient_flow.split(resnet(), images(), LABELS, summed)}
    assert plain["layer2.1"].skip == plain["layer2.1"].arriving > 0
    assert plain["layer2.0"].skip != plain["layer2.0"].arriving
    scaled = {row.block: row for row in gradient_flow.split(resnet(skips=[(2, 0.25)]), images(), LABELS, summed)}
    assert scaled["layer2.1"].skip == pytest.approx(0.25 * scaled["layer2.1"].arriving, rel=1e-12)
    cut = {row.block: row for row in gradient_flow.split(resnet(skips=[(2, 0)]), images(), LABELS, summed)}
    assert cut["layer2.1"].skip == cut["layer2.0"].skip == 0
    assert cut["layer2.1"].branch == pytest.approx(cut["layer2.1"].total, rel=1e-12)


MAXVIT = dict(img_size=32, embed_dim=(32, 32, 32, 32), depths=(1, 1, 1, 1), stem_width=8)
VIT = dict(img_size=32, patch_size=8, embed_dim=16, num_heads=2, depth=8)
FAMILIES = {
    "resnet18": (resnet, 4),
    "densenet121": (lambda: models.build("densenet121", 5, growth_rate=8, block_config=(2, 2, 2, 2)), 4),
    "efficientnet_b0": (lambda: models.build("efficientnet_b0", 5), 7),
    "maxvit": (lambda: models.build("maxvit_tiny_tf_224", 5, **MAXVIT), 4),
    "vit": (lambda: models.build("vit_tiny_patch16_224", 5, **VIT), 4),
    "repvgg": (lambda: models.build("repvgg_a0", 5, width_factor=0.25), 4),
    "ir18": (ir18, 4),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_norms_of_every_family(name):
    build, stages = FAMILIES[name]
    model = build().double()
    found = gradient_flow.norms(model, images(), LABELS, summed)
    assert list(found) == [*range(1, stages + 1), "input"]
    assert all(norm.shape == (3,) and norm.min() > 0 for norm in found.values())
    alone = [gradient_flow.norms(model, images()[i : i + 1], LABELS[i : i + 1], summed) for i in range(3)]
    for where, norm in found.items():  # in eval mode images do not mix
        torch.testing.assert_close(norm, torch.cat([one[where] for one in alone]), rtol=1e-8, atol=0)
    x = images().requires_grad_()
    F.cross_entropy(model(model.normalise(x)), LABELS, reduction="sum").backward()
    torch.testing.assert_close(found["input"], x.grad.flatten(1).norm(dim=1), rtol=1e-8, atol=0)


def test_norms_at_stages_by_hand():
    model = ir18()
    with torch.no_grad():
        z = model.stages[:2](model.stem(model.normalise(images())))
    z.requires_grad_()
    F.cross_entropy(model.fc(model.head(model.stages[2:](z))), LABELS, reduction="sum").backward()
    torch.testing.assert_close(
        gradient_flow.norms(model, images(), LABELS, summed)[2], z.grad.flatten(1).norm(dim=1), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("measure", [gradient_flow.split, gradient_flow.norms])
def test_no_trace_is_left(measure):
    def fails(logits, labels):
        raise RuntimeError("no such loss")

    for train in (True, False):
        model = resnet(drop_path_rate=0.5, drop_rate=0.5).train(train)
        model.conv1.weight.grad = torch.ones_like(model.conv1.weight)
        model.layer1.eval()  # a mode for a part
        modes = [m.training for m in model.modules()]
        state, generator = copy.deepcopy(model.state_dict()), torch.get_rng_state()
        x = images()
        with torch.no_grad():  # a caller's setting does not matter
            measure(model, x, LABELS, summed)
        with pytest.raises(RuntimeError, match="no such loss"):
            measure(model, x, LABELS, fails)
        assert torch.equal(torch.get_rng_state(), generator)
        assert not any(m._forward_hooks or m._forward_pre_hooks or m._backward_hooks for m in model.modules())
        assert [m.training for m in model.modules()] == modes
        assert model.conv1.weight.grad.eq(1).all() and model.fc.weight.grad is None and not x.requires_grad
        assert same(state, model)


@pytest.mark.parametrize("kept", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_images_and_weights_may_be_of_two_float_types(dtype, kept):
    model, x = resnet(), images(kept)
    expected = gradient_flow.norms(model, x.double(), LABELS, summed)
    measured = gradient_flow.norms(model.to(dtype), x, LABELS, summed)
    assert measured["input"].dtype == kept and measured[1].dtype == dtype
    exact = dtype != torch.bfloat16  # the deviations of bfloat16 add up over the layers
    for stage, norm in expected.items():
        torch.testing.assert_close(measured[stage].double(), norm, rtol=1e-2 if exact else 0.3, atol=0)
    assert gradient_flow.split(model, x, LABELS, summed)[0].error < (1e-5 if exact else 0.1)


def test_bad_input():
    dense = timm.create_model("densenet121", growth_rate=4, block_config=(1, 1, 1, 1))
    with pytest.raises(ValueError, match="DenseNet has no residual blocks known here; give a timm ResNet or an IR net"):
        gradient_flow.split(dense, images(torch.float32), LABELS, summed)
    with pytest.raises(ValueError, match="VGG has no skip connections"), torch.device("meta"):
        gradient_flow.norms(timm.create_model("vgg11"), images(), LABELS, summed)
    for x, y in ((images()[0], LABELS), (images(), LABELS[:2]), (images()[:0], LABELS[:0]), (images().byte(), LABELS)):
        with pytest.raises(ValueError, match=r"images: got .* labels; give floats in \[0, 1\]"):
            gradient_flow.norms(resnet(), x, y, summed)


def test_images_and_labels_are_moved_to_the_model():
    def loss(logits, labels):
        assert logits.device == labels.device
        return summed(logits, labels)

    found = gradient_flow.norms(resnet().to("meta"), images(), LABELS, loss)
    assert {each.device.type for each in found.values()} == {"meta"}
