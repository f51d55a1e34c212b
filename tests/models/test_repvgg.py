"""Folding a RepVGG keeps outputs and input gradients (Koh et al. 2024, section 9.1); D2 is without squeeze and excitation."""

import timm
import torch
from torch import nn
from weights import same

from privlab import models
from privlab.models import skip_connections

A0 = dict(num_classes=7, width_factor=0.25)


def answers(model, x):
    """(logits, gradient of a loss in the pixels)."""
    x = x.clone().requires_grad_()
    logits = model(x)
    return logits.detach(), torch.autograd.grad(nn.functional.cross_entropy(logits, torch.arange(len(x))), x)[0]


def test_folding_keeps_outputs_and_input_gradients_and_leaves_the_model(stirred):
    model = stirred(models.build("repvgg_a0", **A0).double()).train()
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


def test_a_kernel_folded_by_hand(stirred):
    """Equations 4 to 7: gamma / sigma of each branch times its kernel; the identity's is 1 at the centre of its own channel."""
    model = stirred(models.build("repvgg_a0", **A0).double())
    block, folded = model.stages[0][1], skip_connections.fold(model).stages[0][1].reparam_conv

    def factor(norm):
        return norm.weight / (norm.running_var + norm.eps).sqrt()

    def shift(norm):
        return norm.bias - norm.running_mean * factor(norm)

    kernel = factor(block.conv_kxk.bn)[:, None, None, None] * block.conv_kxk.conv.weight
    kernel[:, :, 1, 1] += factor(block.conv_1x1.bn)[:, None] * block.conv_1x1.conv.weight[:, :, 0, 0]
    kernel[:, :, 1, 1] += torch.diag(factor(block.identity))
    torch.testing.assert_close(folded.weight, kernel)
    torch.testing.assert_close(folded.bias, sum(map(shift, (block.conv_kxk.bn, block.conv_1x1.bn, block.identity))))


def test_d2_is_without_squeeze_and_excitation():
    with torch.device("meta"):
        model, with_attention = models.build("repvgg_d2", 1000), timm.create_model("repvgg_d2se")
    attention = sum(p.numel() for name, p in with_attention.named_parameters() if ".attn." in name)
    count = sum(p.numel() for p in model.parameters())
    assert count == 131_056_296 == sum(p.numel() for p in with_attention.parameters()) - attention
