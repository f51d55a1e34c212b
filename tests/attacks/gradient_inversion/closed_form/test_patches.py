"""A position embedding is one by what it does: any model that adds a learnable parameter to its patches is read, whatever its class."""

import warnings

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


def picture(side=32, index=3):
    return (
        data.load("cifar10_samples").one(index)[0]
        if side == 32
        else data.load("imagenet_samples").one(index, size=side)[0]
    )


class Hand(nn.Module):
    """A ViT by hand, in one of many ways to write it."""

    def __init__(self, way="conv", width=128, patch=8, side=32, fixed=False):
        super().__init__()
        torch.manual_seed(0)
        self.way, self.patch = way, patch
        places, numbers = (side // patch) ** 2, 3 * patch**2
        if way == "overlapping":
            self.embed, places = nn.Conv2d(3, width, patch, patch // 2, patch // 4), (side // (patch // 2)) ** 2
        elif way in ("linear", "shuffled"):
            self.embed = nn.Linear(numbers, width, bias=way == "linear")
        else:
            self.embed = nn.Conv2d(3, width, patch, patch, bias=way != "no bias")
        self.norm = nn.LayerNorm(width) if way == "norm between" else nn.Identity()
        self.cls = nn.Parameter(0.02 * torch.randn(1, 1, width))
        extra = {"class token behind": 1, "class token with position": 1}.get(way, 0)
        shape = (1, width, side // patch, side // patch) if way == "map" else (1, places + extra, width)
        position = 0.02 * torch.randn(shape)
        self.where = nn.Parameter(position, requires_grad=not fixed)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = {"normalises itself": (x - 0.45) / 0.2, "bent": x.tanh()}.get(self.way, x)
        if isinstance(self.embed, nn.Linear):
            x = nn.functional.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
            if self.way == "shuffled":
                x = x[:, torch.arange(x.shape[1]).flip(0)].flip(2)
            z = self.embed(x)
        elif self.way == "map":
            z = (self.embed(x) + self.where).flatten(2).transpose(1, 2)
        else:
            z = self.norm(self.embed(x).flatten(2).transpose(1, 2))
        if self.way == "class token with position":
            z = torch.cat([self.cls, z], 1) + self.where
        elif self.way == "class token behind":
            z = torch.cat([z, self.cls], 1) + self.where
        elif self.way == "map":
            z = torch.cat([self.cls, z], 1)
        else:
            z = torch.cat([self.cls, z + self.where], 1)
        return self.head(self.body(z).mean(1))


WAYS = "no bias, linear, shuffled, map, normalises itself, overlapping"
WAYS += ", class token with position, class token behind"


@pytest.mark.parametrize("way", WAYS.split(", "))
def test_a_vit_by_hand_is_read_however_it_is_written(way):
    model = Hand(way).eval()
    x = picture()
    assert metrics.psnr(closed_form.patch_embedding(model, observe(model, x, LABEL)).images, x).item() > 60


def test_a_vit_of_torchvision_is_read():
    torch.manual_seed(0)
    model = torchvision.models.VisionTransformer(64, 16, 2, 4, 128, 256, num_classes=10).eval()
    nn.init.normal_(model.heads[-1].weight, std=0.02)  # torchvision begins at zero, where no gradient passes
    x = picture(64)
    assert metrics.psnr(closed_form.patch_embedding(model, observe(model, x, LABEL)).images, x).item() > 60


@pytest.mark.parametrize("name", ["eva02_tiny_patch14_224", "cait_xxs24_224", "nest_tiny"])
def test_models_of_timm_that_are_no_vision_transformer_are_read(name):
    """NesT adds its embedding to patches that it has put into another order."""
    side = {"eva02_tiny_patch14_224": 112, "cait_xxs24_224": 160, "nest_tiny": 64}[name]
    torch.manual_seed(0)
    depth = {} if name == "nest_tiny" else {"depth": 2}
    model = timm.create_model(name, num_classes=10, img_size=side, **depth).eval()
    x = picture(side)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NesT has 256 patches of width 96
        image = closed_form.patch_embedding(model, observe(model, x, LABEL)).images
    assert name == "nest_tiny" or metrics.psnr(image, x).item() > 50


@pytest.mark.parametrize(
    "model", [Hand("norm between"), Hand(fixed=True), nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))]
)
def test_what_adds_nothing_learnable_to_its_patches_is_told_so_in_one_line(model):
    with pytest.raises(ValueError, match="no learnable position embedding of this .* may be fixed or rotary") as error:
        closed_form.patch_embedding(model.eval(), observe(model, picture(), LABEL))
    assert "\n" not in str(error.value)


def test_what_is_bent_on_its_way_to_the_patches_is_refused():
    with pytest.raises(ValueError, match="what enters 'embed.weight' is not affine in the image"):
        closed_form.patch_embedding(model := Hand("bent").eval(), observe(model, picture(), LABEL))


def test_an_embedding_that_is_resized_or_behind_a_head_of_zeros_is_not_taken_for_none():
    model = models.build("vit_cifar", img_size=48, embed_dim=64, depth=1, num_heads=1, dynamic_img_size=True)
    with pytest.raises(ValueError, match="resized, behind a norm, or a last layer of zeros lets no gradient through"):
        patches.find(model, observe(model, picture(), LABEL))
    assert patches.find(model, observe(model, torch.rand(1, 3, 48, 48), LABEL)).names[0] == "pos_embed"


def test_the_model_is_left_as_it_was_and_a_frozen_copy_is_named():
    model = Hand("shuffled")
    leak = observe(model, picture(), LABEL)
    closed_form.patch_embedding(model, leak)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    with pytest.raises(ValueError, match="model: all its parameters are frozen"):
        closed_form.patch_embedding(model.requires_grad_(False), leak)
