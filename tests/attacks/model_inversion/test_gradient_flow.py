"""Equation 2 of Koh et al. 2024, measured: against blocks taken apart by hand, and without a trace in the model."""

import copy

import pytest
import torch
import torch.nn.functional as F
from timm.models.resnet import BasicBlock, Bottleneck
from torch import nn
from weights import same

from privlab import models
from privlab.attacks.model_inversion import gradient_flow

LABELS = torch.tensor([0, 3, 1])


def summed(logits, labels):
    return F.cross_entropy(logits, labels, reduction="sum")


def images():
    return torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()


def resnet(name="resnet18", **settings):
    small = dict(channels=(8, 16, 32, 64), num_classes=5, zero_init_last=False)
    return models.build(name, **{**small, **settings}).double()


NETS = {
    "resnet18": resnet,
    "resnet50": lambda: resnet("resnet50", layers=(1, 2, 2, 1)),
    "scaled and cut": lambda: resnet(skips=[(4, 0.2), (3, 0), (2, 0.5)]),
    "attention": lambda: resnet("seresnet18"),
}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_both_parts_are_the_whole(name, train):
    model = NETS[name]().train(train)
    rows = {row.block: row for row in gradient_flow.split(model, images(), LABELS, summed)}
    assert [*rows] == [n for n, m in model.named_modules() if isinstance(m, BasicBlock | Bottleneck)]
    for row in rows.values():
        assert row.error < 1e-12 and row.total > 0, row
        assert abs(row.skip - row.branch) * (1 - 1e-5) <= row.total <= (row.skip + row.branch) * (1 + 1e-5)
    if name == "scaled and cut":  # an identity returns k of what arrives, a removed shortcut nothing
        assert rows["layer2.1"].skip == pytest.approx(0.5 * rows["layer2.1"].arriving, rel=1e-12)
        assert rows["layer3.1"].skip == rows["layer3.0"].skip == 0


@pytest.mark.parametrize("index", [0, 1])
def test_a_resnets_block_taken_apart_by_hand(index):
    model, x = resnet(), images()
    block = model.layer3[index]
    stem = nn.Sequential(model.conv1, model.bn1, model.act1, model.maxpool, model.layer1, model.layer2)
    rest = nn.Sequential(*model.layer3[index + 1 :], model.layer4, model.global_pool, model.fc)
    shortcut = block.downsample or nn.Identity()
    branch = nn.Sequential(block.conv1, block.bn1, nn.ReLU(), block.conv2, block.bn2)
    with torch.no_grad():
        z = model.layer3[:index](stem(model.normalise(x)))
        total = branch(z) + shortcut(z)
    arriving = torch.func.grad(lambda s: summed(rest(F.relu(s)), LABELS))(total)
    by_skip, by_branch = (torch.func.vjp(way, z)[1](arriving)[0] for way in (shortcut, branch))
    row = next(row for row in gradient_flow.split(model, x, LABELS, summed) if row.block == f"layer3.{index}")
    parts = (arriving, by_skip, by_branch, by_branch + by_skip)
    by_hand = [part.flatten(1).norm(dim=1).mean().item() for part in parts]
    assert [row.arriving, row.skip, row.branch, row.total] == pytest.approx(by_hand, rel=1e-10)


def test_the_norm_at_the_pixels():
    model, x = resnet(), images().requires_grad_()
    summed(model(model.normalise(x)), LABELS).backward()
    found = gradient_flow.input_norms(model, images(), LABELS, summed)
    torch.testing.assert_close(found, x.grad.flatten(1).norm(dim=1), rtol=1e-8, atol=0)


@pytest.mark.parametrize("measure", [gradient_flow.split, gradient_flow.input_norms])
def test_no_trace_is_left(measure):
    def fails(logits, labels):
        raise RuntimeError("no such loss")

    model = resnet().train()
    state, x = copy.deepcopy(model.state_dict()), images()
    with torch.no_grad():  # a caller's setting does not matter
        measure(model, x, LABELS, summed)
    with pytest.raises(RuntimeError, match="no such loss"):
        measure(model, x, LABELS, fails)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert model.fc.weight.grad is None and not x.requires_grad and same(state, model)
