"""A position embedding is one by what it does: any model that adds a learnable parameter to its patches is read, whatever its class."""

import dataclasses
import warnings

import pytest
import timm
import torch
import torchvision
from torch import nn

from privlab import data, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.gradient_inversion.closed_form import errors, patches, tokens
from privlab.leak import observe

LABEL = torch.tensor([3])


def picture(side=32, index=3):
    return (
        data.load("cifar10_samples").one(index)[0]
        if side == 32
        else data.load("imagenet_samples").one(index, size=side)[0]
    )


class Hand(nn.Module):
    """A ViT by hand, in one of many ways to write it."""

    def __init__(self, way="conv", width=128, patch=8, side=32, scale=1.0, fixed=False):
        super().__init__()
        torch.manual_seed(0)
        self.way, self.patch, self.scale = way, patch, scale
        places, numbers = (side // patch) ** 2, 3 * patch**2
        if way == "overlapping":
            self.embed, places = nn.Conv2d(3, width, patch, patch // 2, patch // 4), (side // (patch // 2)) ** 2
        elif way in ("linear", "bare matrix", "shuffled"):
            self.embed = nn.Linear(numbers, width, bias=way == "linear")
        else:
            self.embed = nn.Conv2d(3, width, patch, patch, bias=way != "no bias")
        self.norm = nn.LayerNorm(width) if way == "norm between" else nn.Identity()
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        extra = {"class token behind": 1, "class token with position": 1}.get(way, 0)
        shape = {
            "map": (1, width, side // patch, side // patch),
            "channels last": (1, side // patch, side // patch, width),
        }
        position = 0.02 * torch.randn(shape.get(way, (1, places + extra, width)))
        self.where = nn.Parameter(position, requires_grad=not fixed)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        if self.way == "normalises itself":
            x = (x - 0.45) / 0.2
        if isinstance(self.embed, nn.Linear):
            x = nn.functional.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
            if self.way == "shuffled":
                x = x[:, torch.arange(x.shape[1]).flip(0)].flip(2)
            z = self.embed(x)
        elif self.way == "map":
            z = (self.embed(x) + self.where).flatten(2).transpose(1, 2)
        elif self.way == "channels last":
            z = (self.embed(x).permute(0, 2, 3, 1) + self.where).flatten(1, 2)
        else:
            z = self.norm(self.embed(x).flatten(2).transpose(1, 2))
        if self.way == "class token with position":
            z = torch.cat([self.cls, z], 1) + self.where
        elif self.way == "class token behind":
            z = torch.cat([z, self.cls], 1) + self.where
        elif self.way in ("map", "channels last"):
            z = torch.cat([self.cls, z], 1)
        else:
            z = torch.cat([self.cls, z * self.scale + self.where], 1)
        return self.head(self.body(z).mean(1))


WAYS = [
    "conv",
    "no bias",
    "linear",
    "bare matrix",
    "shuffled",
    "map",
    "channels last",
    "class token with position",
    "class token behind",
    "normalises itself",
    "overlapping",
]


@pytest.mark.parametrize("way", WAYS)
def test_a_vit_by_hand_is_read_however_it_is_written(way):
    model = Hand(way).eval()
    x = picture()
    assert metrics.psnr(closed_form.patch_embedding(model, observe(model, x, LABEL)).images, x).item() > 60


def test_patches_that_are_scaled_before_the_embedding_is_added():
    model, x = Hand(scale=11.3).eval(), picture()
    leak = observe(model, x, LABEL)
    assert patches.find(model, leak).scale == pytest.approx(11.3, rel=1e-5)
    assert metrics.psnr(closed_form.patch_embedding(model, leak).images, x).item() > 60


def test_a_vit_of_torchvision_is_read():
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(64, 16, 2, 4, 128, 256, num_classes=10).eval()
    nn.init.normal_(model.heads[-1].weight, std=0.02)  # torchvision begins at zero, where no gradient passes
    x = picture(64)
    assert metrics.psnr(closed_form.patch_embedding(model, observe(model, x, LABEL)).images, x).item() > 60


@pytest.mark.parametrize("name", ["eva02_tiny_patch14_224", "cait_xxs24_224"])
def test_models_of_timm_that_are_no_vision_transformer_are_read(name):
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, img_size=112 if "eva" in name else 160).eval()
    x = picture(112 if "eva" in name else 160)
    leak = observe(model, x, LABEL)
    assert metrics.psnr(closed_form.patch_embedding(model, leak).images, x).item() > 50


@pytest.mark.parametrize(
    "model", [Hand("norm between"), Hand(fixed=True), nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))]
)
def test_what_adds_nothing_learnable_to_its_patches_is_told_so_in_one_line(model):
    with pytest.raises(
        ValueError, match=r"no learnable position embedding that is added .* fixed or rotary one has no gradient"
    ) as error:
        closed_form.patch_embedding(model.eval(), observe(model, picture(), LABEL))
    assert "\n" not in str(error.value)


def test_a_head_of_zeros_is_told_apart_from_a_model_without_an_embedding():
    """timm begins Hiera's head at zero, so no gradient passes; with another head the embedding is seen, at 3,136 patches of width 96."""
    torch.manual_seed(0)
    model = timm.create_model("hiera_tiny_224", num_classes=10).eval()
    leak = observe(model, picture(224), LABEL)
    with pytest.raises(ValueError, match=r"no gradient comes back to the patches of this Hiera.* was not tried"):
        patches.find(model, leak)
    nn.init.normal_(model.head.fc.weight, std=0.02)
    read = patches.find(model, leak)
    assert (read.position, read.weight) == ("pos_embed", "patch_embed.proj.weight")


def test_an_embedding_that_is_resized_is_told_apart_from_none():
    torch.manual_seed(0)
    model = timm.create_model("naflexvit_base_patch16_gap", num_classes=10, depth=2).eval()
    x = picture(64)
    with pytest.raises(ValueError, match=r"'embeds.pos_embed' is resized or mixed before .* was not tried"):
        patches.find(model, observe(model, x, LABEL))
    x = picture(256)  # 16 x 16 patches, as its embedding
    assert patches.find(model, observe(model, x, LABEL)).position == "embeds.pos_embed"


def test_a_model_of_several_scales_gives_the_one_that_its_width_can_solve():
    """CrossViT embeds the image twice, 400 patches of width 96 and 196 of 192; the second of a smaller copy."""
    torch.manual_seed(0)
    model, x = timm.create_model("crossvit_tiny_240", num_classes=10).eval(), picture(240)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert metrics.psnr(closed_form.patch_embedding(model, observe(model, x, LABEL)).images, x).item() > 25


# -- rounding has a floor --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float8_e5m2, torch.float8_e4m3fn]
)
def test_the_floor_is_half_a_last_step_of_the_format(dtype):
    """Numbers far below the smallest normal one err by the last step over sqrt(12), as a uniform error does."""
    smallest, last = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    drawn = torch.rand(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.5 * smallest
    model = models.april.build("b", depth=1, width=64).double()
    leak = observe(model, picture(), LABEL, names=["pos_embed"])
    leak.grads["pos_embed"] = drawn
    sent = leak.rounded(dtype)
    off = (sent.grads["pos_embed"] - drawn).square().mean().sqrt().item()
    assert errors.deviation(sent, None, "pos_embed") == pytest.approx(last / 12**0.5, rel=1e-6)
    assert off == pytest.approx(last / 12**0.5, rel=0.05)
    leak.grads["pos_embed"] = drawn + 8 * smallest  # normal numbers err in proportion: no floor
    assert errors.deviation(leak.rounded(dtype), None, "pos_embed") == 0


def test_the_floor_goes_by_token():
    """A class token with a large gradient does not hide that those of the patches lie below the smallest normal number."""
    normal, last = torch.finfo(torch.float16).smallest_normal, 2.0**-24
    model, generator = models.build("vit_cifar", depth=2), torch.Generator().manual_seed(0)
    leak = observe(model, picture(), LABEL, names=["pos_embed", "patch_embed.proj.weight"])
    drawn = torch.rand(leak["pos_embed"].shape, generator=generator) * normal  # (1, tokens, width)
    drawn[:, 0] = 0.1
    sent = dataclasses.replace(leak, grads={**leak.grads, "pos_embed": drawn}).rounded(torch.float16)
    tokens = sent["pos_embed"][0].double()
    assert errors.deviation(sent, None, "pos_embed") == 0  # taken as one row
    assert errors.deviation(sent, None, "pos_embed", tokens[1:]) == pytest.approx(last / 12**0.5, rel=1e-6)
    share = (len(tokens) - 1) / len(tokens)
    assert errors.deviation(sent, None, "pos_embed", tokens) == pytest.approx(last * (share / 12) ** 0.5, rel=1e-6)
    assert errors.deviation(sent, None, "pos_embed", tokens[:1]) == 0


def test_patch_embedding_looks_at_the_floor_of_the_patches_and_not_of_the_class_token():
    """Half of the patches below the floor, and a class token that lifts the whole embedding above it, which nothing else reads."""
    model, x = models.build("vit_cifar", depth=2), picture()
    leak = observe(model, x, LABEL, names=["pos_embed", "patch_embed.proj.weight"])
    middle = leak["pos_embed"][0, 1:].square().mean(1).sqrt().median()
    scale = 0.9 * torch.finfo(torch.float16).smallest_normal / middle
    scaled = {name: gradient * scale for name, gradient in leak.grads.items()}
    conditions = []
    for size in (0.0, 1.0):
        scaled["pos_embed"][:, 0] = size
        small = dataclasses.replace(leak, grads=dict(scaled)).rounded(torch.float16)
        conditions.append(closed_form.patch_embedding(model, small).condition)
    assert conditions[0] == conditions[1]


def test_a_float16_leak_whose_numbers_vanish_is_no_worse_than_grey():
    """LayerScale makes DeiT III's tokens' gradients tiny; solved as if they were exact, float16 gave noise at full rank."""
    model = models.build("deit3_small_patch16_224", img_size=64, patch_size=8, num_classes=1000)
    x, y = data.load("imagenet_samples").one(3, size=64)
    leak = observe(model, x, y, names=["pos_embed", "patch_embed.proj.weight"])
    recovery = closed_form.patch_embedding(model, leak.rounded(torch.float16))
    grey = metrics.psnr(model.normalise.inverse(torch.zeros(1, 3, 64, 64)), x).item()
    assert metrics.psnr(recovery.images, x).item() > grey - 0.5
    assert recovery.rank < recovery.unknowns


def test_a_resized_embedding_is_given_as_the_reason_behind_a_class_token_as_well():
    for token in ("token", "avg"):
        model = models.build(
            "vit_cifar", img_size=48, patch_size=8, embed_dim=64, depth=1, num_heads=1, dynamic_img_size=True, global_pool=token,
            class_token=token == "token",
        )  # fmt: skip
        leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([1]))
        with pytest.raises(ValueError, match="the embedding 'pos_embed' is resized or mixed"):
            closed_form.patch_embedding(model, leak)


def test_a_frozen_copy_is_named():
    model = models.build("vit_cifar", embed_dim=64, depth=1, num_heads=1)
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([1]))
    with pytest.raises(ValueError, match="model: all its parameters are frozen"):
        closed_form.patch_embedding(model.requires_grad_(False), leak)


def test_a_closed_form_on_a_cpu_asks_no_card_for_its_random_state(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda *_: pytest.fail("a card was initialised"))
    model = Hand()
    closed_form.patch_embedding(model, observe(model, picture(), LABEL))


def test_a_gradient_goes_where_the_model_is():
    model = Hand()
    leak = observe(model, picture(), LABEL)
    assert tokens.gradient(leak, model.to("meta"), "embed.weight").device.type == "meta"
