"""A position embedding is one by what it does: any model that adds a learnable parameter to its patches is read, whatever its class."""

from functools import partial

import pytest
import timm
import torch
import torchvision
from torch import nn

from privlab import data, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.gradient_inversion.closed_form import patches
from privlab.leak import observe

LABEL = torch.tensor([3])


def read(model, side=32):
    """An image, and what the closed form makes of its gradient: how near it is, in dB."""
    name = "cifar10_samples" if side == 32 else "imagenet_samples"
    x = data.load(name).one(3, size=side)[0]
    return metrics.psnr(closed_form.patch_embedding(model, observe(model, x, LABEL)).images, x).item()


class Hand(nn.Module):
    """A ViT by hand, in one of many ways to write it."""

    def __init__(self, way="conv", fixed=False):
        super().__init__()
        torch.manual_seed(0)
        self.way, places, width = way, 16, 128
        if way == "overlapping":
            self.embed, places = nn.Conv2d(3, width, 8, 4, 2), 64
        else:
            self.embed = nn.Linear(192, width, bias=False) if way == "shuffled" else nn.Conv2d(3, width, 8, 8)
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        shape = (1, width, 4, 4) if way == "map" else (1, places + way.startswith("class token"), width)
        self.where = nn.Parameter(0.02 * torch.randn(shape), requires_grad=not fixed)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = {"normalises itself": (x - 0.45) / 0.2, "bent": x.tanh()}.get(self.way, x)
        if isinstance(self.embed, nn.Linear):
            z = self.embed(nn.functional.unfold(x, 8, stride=8).transpose(1, 2).flip(1, 2))
        elif self.way == "map":
            z = (self.embed(x) + self.where).flatten(2).transpose(1, 2)
        else:
            z = self.embed(x).flatten(2).transpose(1, 2)
        if self.way == "class token with position":
            z = torch.cat([self.cls, z], 1) + self.where
        elif self.way == "class token behind":
            z = torch.cat([z, self.cls], 1) + self.where
        else:
            z = torch.cat([self.cls, z if self.way == "map" else z + self.where], 1)
        return self.head(self.body(z).mean(1))


WAYS = ["shuffled", "map", "normalises itself", "overlapping", "class token with position", "class token behind"]


@pytest.mark.parametrize("way", WAYS)
def test_a_vit_by_hand_is_read_however_it_is_written(way):
    assert read(Hand(way).eval()) > 60


def of_torchvision():
    model = torchvision.models.VisionTransformer(64, 16, 2, 4, 128, 256, num_classes=10)
    nn.init.normal_(model.heads[-1].weight, std=0.02)  # torchvision begins at zero, where no gradient passes
    return model


@pytest.mark.filterwarnings("ignore:width 96 is not above")
@pytest.mark.parametrize(
    ("build", "side", "least"),
    [
        (of_torchvision, 64, 60),
        (partial(timm.create_model, "eva02_tiny_patch14_224", num_classes=10, img_size=112, depth=2), 112, 50),
        (partial(timm.create_model, "cait_xxs24_224", num_classes=10, img_size=160, depth=2), 160, 50),
        # adds its embedding to patches that it has put into another order; 256 of them, of width 96
        (partial(timm.create_model, "nest_tiny", num_classes=10, img_size=64), 64, 10),
    ],
)
def test_models_of_libraries_that_are_no_vision_transformer_of_timm_are_read(build, side, least):
    torch.manual_seed(0)
    assert read(build().eval(), side) > least


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Hand(fixed=True), "no learnable position embedding .* may be fixed or rotary"),
        (nn.Sequential(nn.Flatten(), nn.Linear(3072, 10)), "no learnable position embedding"),
        (Hand("bent"), "what enters 'embed.weight' is not affine in the image"),
    ],
)
def test_what_adds_nothing_learnable_to_its_patches_or_bends_them_is_told_so_in_one_line(model, says):
    with pytest.raises(ValueError, match=says) as error:
        read(model.eval())
    assert "\n" not in str(error.value)


def test_an_embedding_that_is_resized_or_behind_a_head_of_zeros_is_not_taken_for_none():
    model = models.build("vit_cifar", img_size=48, embed_dim=64, depth=1, num_heads=1, dynamic_img_size=True)
    with pytest.raises(ValueError, match="resized, behind a norm, or a last layer of zeros lets no gradient through"):
        patches.find(model, observe(model, torch.rand(1, 3, 32, 32), LABEL))
    assert patches.find(model, observe(model, torch.rand(1, 3, 48, 48), LABEL))[0][0] == "pos_embed"


def test_the_model_is_left_as_it_was_and_a_frozen_copy_is_named():
    model = Hand("shuffled")
    leak = observe(model, torch.rand(1, 3, 32, 32), LABEL)
    closed_form.patch_embedding(model, leak)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with pytest.raises(ValueError, match="model: all its parameters are frozen"):
        closed_form.patch_embedding(model.requires_grad_(False), leak)
