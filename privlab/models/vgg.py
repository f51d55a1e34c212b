"""VGG, which never had a skip connection, at widths that a laptop trains; timm has the full ones, `vgg16_bn` and `vgg19_bn`.

It stands beside ResNets in the study of Koh et al. 2024 (section 12, Table 11).
"""

from __future__ import annotations

from typing import Any

from timm.layers import ClassifierHead
from timm.models.vgg import VGG
from torch import nn

# channels of each 3x3 convolution; "M" halves the map. Two convolutions at each width, as in the small ResNets of the labs.
PLAN = [16, 16, "M", 32, 32, "M", 64, 64, "M", 128, 128, "M"]


def build(num_classes: int = 10, in_chans: int = 3, **changes: Any) -> VGG:
    """timm's VGG with BatchNorm, "vgg_narrow" in the zoo; its weights are drawn from torch's generator, as timm draws them.

    In place of VGG's two layers of 4,096, made for 1,000 classes, the last maps are averaged and go into one linear layer, as in a ResNet.
    """
    model: Any = VGG(
        PLAN, num_classes=num_classes, in_chans=in_chans, mlp_ratio=1 / 4096, norm_layer=nn.BatchNorm2d, **changes
    )
    model.pre_logits, model.head = nn.Identity(), ClassifierHead(128, num_classes)
    model.num_features = model.head_hidden_size = 128
    return model
