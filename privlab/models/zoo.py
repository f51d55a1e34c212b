"""One door to every victim: timm's models by their own names, small members of the same families for 32 x 32 images, one for faces.

And one network trained on ImageNet that an attacker brings along: a prior for GradViT, and features to compare images by.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import timm
import torch
from safetensors.torch import load_file
from timm.layers import ClassifierHead
from timm.layers.activations import HardSigmoid
from timm.models.resnet import ResNet
from timm.models.vgg import VGG
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from privlab.data import NORMALISE, Normalise, sources
from privlab.models import ir_resnet, morph, position_embeddings, representations, skip_connections
from privlab.models.forward import drawn_by, preprocessing

# Victims for 32 x 32 images: timm's classes by timm's names, with what differs and the preprocessing. The small ones fit a laptop; the
# four large ones have the parameter counts that Zhang et al. 2024 print (section 3.2: 23.52, 42.51, 27.51 and 48.80 million).
# "stem": "cifar" gives a ResNet the 3x3 stem of stride 1, without pooling, that those counts imply; timm has no option for it.
_SWIN = dict(img_size=32, drop_path_rate=0.0, num_classes=10)
_SMALL_SWIN = dict(embed_dim=48, depths=(1, 1, 2, 1), num_heads=(3, 6, 12, 24), **_SWIN)
_SMALL_RESNET = dict(layers=(1, 1, 1, 1), channels=(32, 64, 128, 256), stem="cifar", num_classes=10)
CIFAR: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet_cifar": ("resnet50", _SMALL_RESNET),
    "swin_cifar": ("swin_tiny_patch4_window7_224", _SMALL_SWIN),
    "vit_cifar": (  # omihub777/ViT-CIFAR's shape, as Lu et al. 2022 use it for small images, with timm's blocks
        "vit_tiny_patch16_224",
        dict(img_size=32, patch_size=8, embed_dim=384, depth=4, num_heads=4, num_classes=10),
    ),
    "convnext_cifar": ("convnext_tiny", dict(depths=(1, 1, 2, 1), dims=(48, 96, 192, 384), num_classes=10)),
    "resnet50_cifar": ("resnet50", dict(stem="cifar", num_classes=10)),
    "resnet101_cifar": ("resnet101", dict(stem="cifar", num_classes=10)),
    "swin_tiny_cifar": ("swin_tiny_patch4_window7_224", _SWIN),
    "swin_small_cifar": ("swin_small_patch4_window7_224", _SWIN),
    "convnext_tiny_cifar": ("convnext_tiny", dict(num_classes=10)),
}

# Victims for faces. FaceTransformer's P8S8 (Zhong, Deng 2021: 112 x 112, patches of 8 side by side, 63 M parameters) read as a timm ViT,
# with a row of the head for each of ORL's 40 people. The authors' head is a margin loss on cosines, ours is linear; they draw class token
# and position embedding with a standard deviation of 1 (position_std=1.0 draws the embedding as theirs), scale attention by the whole
# width, not a head's, and feed bytes as they are, where we map pixels to [-1, 1].
_FACE = dict(img_size=112, patch_size=8, embed_dim=512, depth=20, num_heads=8, qkv_bias=False, num_classes=40)
# timm has the RepVGGs of Koh et al. 2024 but one: of D2 only the one with squeeze-and-excitation, which is taken out here.
_NAMED = CIFAR | {
    "face_transformer": ("vit_base_patch16_224", _FACE),
    "repvgg_d2": ("repvgg_d2se", dict(attn_layer="")),
}


def build(
    name: str,
    num_classes: int | None = None,
    seed: int = 0,
    position: str = "learnable",
    position_std: float | None = None,
    position_rank: int | None = None,
    bottleneck: int | None = None,
    skips: Sequence[Sequence[float]] = (),
    **changes: Any,
) -> Any:
    """A fresh victim in eval mode, its weights drawn from `seed`, with its preprocessing in `model.normalise`.

    name: any timm model, one of `CIFAR`, "face_transformer", "repvgg_d2", "vgg_narrow", "ir152", or a step of the morph, "morph_1" to
        "morph_14".
    num_classes: rows of the head; the model's own number if not given.
    position, position_std, position_rank: kind, scale and rank of a ViT's position embedding, see `position_embeddings.draw`.
    bottleneck: put a Linear layer with so many outputs before the last one, which then sees no more of an image than these numbers; for
        models with one Linear head.
    skips: (stage, k) or (stage, k, fraction) each, see `skip_connections.cut`. RoLSS is [(4, 0)], RoLSS+ is [(4, 0), (3, 0, 0.1)], SSF is
        [(4, 0.2)] (Koh et al. 2024, section 5). What remains has the weights of the uncut model of the same seed.
    changes: passed to timm as they are: img_size, patch_size, embed_dim, depth, num_heads, in_chans, ...; and `stem`, see `CIFAR`.
        Those of a step of the morph are `morph.build`'s, those of "ir152" `ir_resnet.IR`'s. Where in_chans does not fit the model's
        preprocessing, the victim has none; set `model.normalise` to that of the images.
    Gradient attacks differentiate twice, so attention is built unfused, and torch's hard sigmoid (MobileNetV3's and GhostNet's gates) is
    exchanged for timm's, which computes the same: torch's fused kernels of both have no second derivative.
    Raises ValueError for a name that is not there, with the nearest, and for settings that do not fit the model.
    """
    changes |= {} if num_classes is None else {"num_classes": num_classes}
    if name in morph.NAMES:
        model: Any = morph.build(morph.NAMES[name], seed=seed, **changes)
    else:
        model = _drawn(name, seed, changes)
    if bottleneck is not None:
        _narrow(model, bottleneck, seed)
    if (position, position_std, position_rank) != ("learnable", None, None):
        position_embeddings.place(model, position, position_std, position_rank, seed)
    for cut in skips:
        skip_connections.cut(model, *cut)  # type: ignore[arg-type]
    return model.eval()


def sized(name: str, side: int) -> dict[str, int]:
    """What `build` must be told so that a model takes images of `side` pixels: img_size where it is built for one size, else nothing.

    name: as for `build`. A ViT, a Swin and a Mixer are built for one size; a ResNet takes any.
    """
    timm_name, settings = _NAMED.get(name, (name, {}))
    config = timm.get_pretrained_cfg(timm_name) if timm.is_model(timm_name) else None
    fixed = config is not None and config.fixed_input_size
    return {"img_size": side} if fixed and settings.get("img_size") != side else {}


def efficientnet_lite0() -> Any:
    """EfficientNet-lite0 trained on ImageNet (49 BatchNorm layers), in eval mode and frozen, its preprocessing in `.normalise`."""
    state = load_file(sources.fetch("efficientnet_lite0") / "tf_efficientnet_lite0.safetensors")
    with torch.device("meta"):  # draws no weights, so it leaves the caller's generator alone
        network: Any = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict(state, assign=True)
    network.normalise = Normalise((127 / 255,) * 3, (128 / 255,) * 3)  # (255 x - 127) / 128 of pixels x in [0, 1]
    return network.eval().requires_grad_(False)


def _drawn(name: str, seed: int, changes: dict[str, Any]) -> Any:
    """A model of timm's, or one of `_OURS`, with its preprocessing."""
    timm_name, settings = _NAMED.get(name, (name, {}))
    if name not in _OURS and not timm.is_model(timm_name):
        known = [*_NAMED, *_OURS, *morph.NAMES, *timm.list_models()]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        raise ValueError(f"name={name!r} is not in the zoo; nearest: {', '.join(near) or 'see timm.list_models()'}")
    settings = {**settings, **changes}
    stem = settings.pop("stem", "imagenet")
    with drawn_by(seed):
        model: Any = _OURS[name](**settings) if name in _OURS else timm.create_model(timm_name, **settings)
        if stem != "imagenet":
            _small_stem(model, stem)
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.Hardsigmoid):
            model.set_submodule(path, HardSigmoid())
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    if isinstance(model, VisionTransformer):
        size, patch = model.patch_embed.img_size[0], model.patch_embed.patch_size[0]
        if size % patch:  # timm would leave the border out and say nothing
            raise ValueError(f"img_size={size} is no multiple of patch_size={patch}; try {size - size % patch + patch}")
    own = NORMALISE["cifar10"] if name in CIFAR else preprocessing(model)
    own = Normalise((0.5,), (0.5,)) if name in ("face_transformer", "ir152") else own
    fits = len(own.mean) in (1, settings.get("in_chans", len(own.mean)))
    model.normalise = own if fits else Normalise()
    return model


def _vgg(num_classes: int = 10, in_chans: int = 3, **changes: Any) -> VGG:
    """timm's VGG with BatchNorm, which never had a skip connection, at widths that a laptop trains (Koh et al. 2024, section 12, Table 11).

    In place of VGG's two layers of 4,096, made for 1,000 classes, the last maps are averaged and go into one linear layer, as in a ResNet.
    """
    # channels of each 3x3 convolution; "M" halves the map. Two convolutions at each width, as in the small ResNets of the labs.
    plan = [16, 16, "M", 32, 32, "M", 64, 64, "M", 128, 128, "M"]
    changes |= dict(num_classes=num_classes, in_chans=in_chans, mlp_ratio=1 / 4096, norm_layer=nn.BatchNorm2d)
    model: Any = VGG(plan, **changes)
    model.pre_logits, model.head = nn.Identity(), ClassifierHead(128, num_classes)
    model.num_features = model.head_hidden_size = 128
    return model


_OURS: dict[str, Callable[..., Any]] = {"vgg_narrow": _vgg, "ir152": ir_resnet.IR}  # what timm has no class for


def _small_stem(model: Any, stem: object) -> None:
    """Give a ResNet the stem for small images: a 3x3 convolution of stride 1, drawn as timm draws the others, and no pooling."""
    fits = isinstance(model, ResNet) and isinstance(model.conv1, nn.Conv2d)  # not a deep stem
    if stem != "cifar" or not fits:
        raise ValueError(f'stem={stem!r} does not fit {type(model).__name__}; a ResNet takes "imagenet" or "cifar"')
    model.conv1 = nn.Conv2d(model.conv1.in_channels, model.conv1.out_channels, 3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()


def _narrow(model: nn.Module, width: int, seed: int) -> None:
    """Put a Linear layer of so many outputs before the head; both are drawn anew from `seed`, as torch draws them."""
    name = representations.only_head(model)
    head: Any = model.get_submodule(name)
    with drawn_by(seed):
        both = nn.Sequential(nn.Linear(head.in_features, width), nn.Linear(width, head.out_features))
    model.set_submodule(name, both)
