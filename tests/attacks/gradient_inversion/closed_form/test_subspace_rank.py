"""The rank that `subspace` reports is the rank of what it recovers: predicted, reported and measured null space are one."""

import functools
import warnings

import pytest
import timm
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from privlab import data, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.defences import perturbation
from privlab.leak import observe

QKV = ["blocks.0.attn.qkv.weight"]
LABEL = torch.tensor([3])


def grey_noise(side, seed=0):
    """Every direction of a patch at about unit size: then what is off by half of that was not recovered, photographs being smooth."""
    return torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(seed))


def ranks(model, image, dtype=torch.float64, damage=lambda leak: (leak, None)):
    """Hidden directions of a patch: predicted from the model alone, reported by the solve, measured against the true patches.
    damage: what a leak becomes on its way, and the noise that the attacker knows of.
    """
    model = model.to(dtype).eval()
    model.normalise = data.Normalise((0.5,) * 3, (0.289,) * 3)  # uniform noise at unit deviation
    leak, noise = damage(observe(model, image, LABEL, names=QKV))
    patch = model.patch_embed.patch_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recovery = closed_form.subspace(model, leak, noise)
        axes = torch.linalg.svd(closed_form.equations(model, leak, noise).system).Vh
    off = F.unfold((recovery.images - image.double()) / 0.289, patch, stride=patch)[0]  # (numbers of a patch, patches)
    missed = (axes[:, : len(off)] @ off).square().mean(1).sqrt() > 0.5
    return closed_form.hidden_directions(model), recovery.hidden, int(missed.sum())


def built(seed=0, **changes):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes = dict(img_size=16, patch_size=4, embed_dim=128, num_heads=4, depth=2, num_classes=10)
        return VisionTransformer(**{**sizes, **changes})


TOKENS = st.fixed_dictionaries(
    dict(
        class_token=st.booleans(),
        reg_tokens=st.integers(0, 7),
        no_embed_class=st.booleans(),
        init_values=st.sampled_from([None, 1e-5, 0.1, 1.0]),
        norm_layer=st.sampled_from([nn.LayerNorm, functools.partial(nn.LayerNorm, bias=False), nn.RMSNorm]),
        qkv_bias=st.booleans(),
    )
)


@settings(max_examples=20, deadline=None)
@given(TOKENS, st.integers(0, 10_000))
def test_predicted_reported_and_measured_null_space_are_equal(tokens, seed):
    if not tokens["class_token"]:
        tokens = {**tokens, "global_pool": "avg"}
    predicted, reported, measured = ranks(built(seed, **tokens), grey_noise(16, seed))
    assert predicted == reported == measured


def wire(dtype):
    return lambda leak: (leak.rounded(dtype), None)


def noise(by_name, share=0.01):
    """Normal noise of a share of the gradient's size, and what the attacker is told of it: its deviation, or the share."""
    told = lambda leak: {QKV[0]: share * leak[QKV[0]].square().mean().sqrt().item()} if by_name else share  # noqa: E731
    return lambda leak: (perturbation.gaussian(leak, share), told(leak))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("deit3_small_patch16_224", wire(torch.float16)),  # of 192 directions all were lost, and 161 to 179 reported
        ("vit_small_patch16_224", wire(torch.bfloat16)),  # loses none
        ("deit3_small_patch16_224", noise(by_name=True)),
        ("vit_medium_patch16_reg4_gap_256", noise(by_name=False)),
    ],
)
def test_the_rank_is_that_of_what_comes_back_where_noise_drowns_the_row_space(name, damage):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = timm.create_model(name, img_size=64, patch_size=8, num_classes=10, depth=3)
    _, reported, measured = ranks(model, grey_noise(64, 1), torch.float32, damage)
    assert abs(reported - measured) <= 192 / 10


def test_an_image_of_another_size_or_dropped_tokens_are_refused():
    model = models.build("vit_cifar", img_size=64, patch_size=8, embed_dim=256, depth=1, dynamic_img_size=True)
    small = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([1]))
    with pytest.raises(ValueError, match=r"makes patches of \(3, 32, 32\)"):
        closed_form.subspace(model, small)
    dropping = models.build("vit_cifar", embed_dim=256, depth=1, pos_drop_rate=0.1)
    leak = observe(dropping, torch.rand(1, 3, 32, 32), torch.tensor([1]))
    closed_form.subspace(dropping, leak)
    with pytest.raises(ValueError, match="nothing but a position embedding stands between"):
        closed_form.subspace(dropping.train(), leak)
