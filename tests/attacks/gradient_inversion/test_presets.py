"""The papers' attacks: what each is made of, and that it finds what it should."""

from dataclasses import replace

import pytest
import torch
from small_network import network, sent
from torch import nn

from privlab import metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import presets
from privlab.leak import observe


def test_dlg_finds_image_and_label():
    model = network()
    images, leak = sent(model)
    result = gradient_inversion.dlg(25).run(model, replace(leak, labels=None), seed=1, progress=False)
    assert metrics.psnr(result.images, images).item() > 40
    assert torch.equal(result.labels, leak.labels)


def test_april_without_the_position_embedding_says_that_it_is_dlg():
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([3]))
    attack = gradient_inversion.april(2)
    assert set(next(attack.search(model, leak)).losses) == {"gradients", "position"}
    leak = leak.without(["pos_embed"])
    with pytest.warns(UserWarning, match="pos_embed"):
        *_, last = attack.search(model, leak)
    *_, plain = attack.without("position").search(model, leak)
    assert set(last.losses) == {"gradients"} and torch.equal(last.images, plain.images)
    with pytest.warns(UserWarning, match="pos_embed"):
        assert presets.april_balanced(5, model, leak) == presets.april(5)


def test_gradvit_is_scheduled_as_equations_5_and_6():
    prior = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).double()
    attack = gradient_inversion.gradvit(10, prior, patch=3)
    weights = {t.name: [t.weigh(p) for p in (0, 0.49, 0.5, 1)] for t in attack.terms}
    assert weights == {
        "gradients": [4e-3, 4e-3, 2e-3, 2e-3], "statistics": [0, 0, 0.2, 0.2], "patches": [1e-4] * 4,
        "registration": [1e-2] * 4, "pixels": [1e-4] * 4, "smoothness": [1e-4] * 4,
    }  # fmt: skip
    flat = attack.unscheduled()
    assert {t.name: t.weigh(0) for t in flat.terms} == {t.name: t.weight for t in attack.terms}
    assert {t.name for t in attack.terms} - {t.name for t in attack.without("patches").terms} == {"patches"}
    with pytest.raises(ValueError, match="the attack has no term 'patch'; it has gradients, "):
        attack.without("patch")
    model = network()
    _, leak = sent(model)
    states = list(attack.search(model, leak))
    assert [set(s.losses) for s in (states[4], states[5])] == [set(weights) - {"statistics"}, set(weights)]
    assert [s.score == s.score for s in states] == [False] * 5 + [True] * 6


@pytest.mark.parametrize("preset", [presets.tag, presets.april, presets.gradinversion, presets.gradvit])
def test_presets_run_on_a_vit(preset):
    model = models.build("vit_cifar", seed=0, depth=1, embed_dim=48)
    leak = replace(observe(model, torch.rand(2, 3, 32, 32), torch.tensor([3, 5])), labels=None)
    attack = preset(4)
    states = list(attack.search(model, leak))
    distance = [s.losses["gradients"] / attack.terms[0].weigh(s.step / 4) for s in states]
    assert states[-1].reason == "steps" and distance[-1] < 0.9 * distance[0]
