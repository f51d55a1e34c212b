"""VGG, which never had a skip connection, at widths that a laptop trains; timm has the full ones, `vgg16_bn` and `vgg19_bn`.

It stands beside ResNets in the study of Koh et al. 2024 (section 12, Table 11).
"""

from __future__ import annotations

from typing import Any

from timm.models.vgg import VGG
from torch import nn

# channels of each 3x3 convolution; "M" halves the map. Two convolutions at each width, as in the small ResNets of the labs.
PLANS: dict[str, tuple[int | str, ...]] = {
    "vgg_narrow": (16, 16, "M", 32, 32, "M", 64, 64, "M", 128, 128, "M"),
}


def build(name: str, num_classes: int = 10, in_chans: int = 3, **changes: Any) -> VGG:
    """timm's VGG with BatchNorm, from one of PLANS; its weights are drawn from torch's generator, as timm draws them.

    changes: passed to timm's VGG. The head's first layer has a 64th of VGG's 4,096 outputs (`mlp_ratio`), or it would be most of the model.
    """
    settings = {"mlp_ratio": 1 / 64, "norm_layer": nn.BatchNorm2d, **changes}
    return VGG(list(PLANS[name]), num_classes=num_classes, in_chans=in_chans, **settings)
