"""IR ResNets ("improved residual", the backbone of ArcFace-style face recognition): IR-152 is the target net of GMI, KEDMI and LOMMA.

Koh et al. 2024 attack an "IR152" on 64 x 64 faces (section 3.3, tables 3 and 12) and cite the first ResNet paper for it, which has none. So
the layout is the field's (Deng et al. 2019, ArcFace, section 3.1), as the targets of those attacks use it. What was read into it:

- A block is BatchNorm, convolution 3x3, PReLU, convolution 3x3 with the stride, BatchNorm. ArcFace's has one more BatchNorm before the
  PReLU; the attacked nets lack it. `middle_norm=True` puts it there.
- A shortcut is MaxPool(1, stride) where the channels stay, else a 1x1 convolution with the stride and BatchNorm. Nothing follows the sum.
- Each of the four stages begins with stride 2, the first one too, and the stem has stride 1: 64 x 64 pixels end as a map of 4 x 4.
- The map is normed, dropped out (0.5), flattened and mapped to 512 numbers, which are normed; the classifier is one more Linear layer.
- Convolutions and Linear layers are drawn by Xavier's uniform rule, biases are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from privlab.data import sources

LAYERS: dict[str, tuple[int, ...]] = {
    "ir18": (2, 2, 2, 2),
    "ir34": (3, 4, 6, 3),
    "ir50": (3, 4, 14, 3),
    "ir100": (3, 13, 30, 3),
    "ir152": (3, 8, 36, 3),
}


class Block(nn.Module):
    """shortcut(x) + body(x): (n, channels in, h, w) -> (n, channels out, h / stride, w / stride)."""

    def __init__(self, inside: int, outside: int, stride: int, middle_norm: bool) -> None:
        super().__init__()
        self.shortcut: nn.Module = nn.MaxPool2d(1, stride)
        if inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.body = nn.Sequential(
            nn.BatchNorm2d(inside),
            nn.Conv2d(inside, outside, 3, 1, 1, bias=False),
            *([nn.BatchNorm2d(outside)] if middle_norm else []),
            nn.PReLU(outside),
            nn.Conv2d(outside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class IR(nn.Module):
    """stem, stages, head (the embedding), fc (the classifier); see `build`."""

    def __init__(
        self,
        layers: Sequence[int],
        widths: Sequence[int],
        num_classes: int,
        in_chans: int,
        image_size: int,
        embedding: int,
        dropout: float,
        middle_norm: bool,
    ) -> None:
        super().__init__()
        self.num_classes, self.image_size = num_classes, image_size
        stem = widths[0]
        self.stem = nn.Sequential(nn.Conv2d(in_chans, stem, 3, 1, 1, bias=False), nn.BatchNorm2d(stem), nn.PReLU(stem))
        self.stages = nn.Sequential()
        for depth, (inside, outside) in zip(layers, pairwise([stem, *widths]), strict=True):
            first = Block(inside, outside, 2, middle_norm)
            rest = (Block(outside, outside, 1, middle_norm) for _ in range(depth - 1))
            self.stages.append(nn.Sequential(first, *rest))
        side = -(-image_size // 2 ** len(layers))  # each stage halves, rounding up
        self.head = nn.Sequential(
            nn.BatchNorm2d(widths[-1]),
            nn.Dropout(dropout),
            nn.Flatten(),
            nn.Linear(widths[-1] * side**2, embedding),
            nn.BatchNorm1d(embedding),
        )
        self.fc = nn.Linear(embedding, num_classes)
        self.feature_info = [
            dict(num_chs=width, reduction=2 ** (i + 1), module=f"stages.{i}") for i, width in enumerate(widths)
        ]
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[-2:]) != (self.image_size, self.image_size):
            side = self.image_size
            raise ValueError(
                f"images: got {tuple(x.shape)}; this net takes {side} x {side}: resize, or build it with image_size"
            )
        return self.fc(self.head(self.stages(self.stem(x))))  # (n, num_classes)


def build(
    name_or_layers: str | Sequence[int],
    num_classes: int = 1000,
    in_chans: int = 3,
    widths: Sequence[int] = (64, 128, 256, 512),
    image_size: int = 64,
    embedding: int = 512,
    dropout: float = 0.5,
    middle_norm: bool = False,
    seed: int = 0,
) -> IR:
    """An IR ResNet, in train mode, its weights drawn from `seed`.

    name_or_layers: one of `LAYERS`, or the number of blocks of each stage.
    num_classes: rows of the classifier; KEDMI's private set has 1,000 people.
    in_chans: channels of an image.  widths: channels of each stage; the first is the stem's too.
    image_size: side of the images in pixels, which the Linear layer behind the map depends on.
    embedding: numbers that the classifier sees.  dropout: in [0, 1), before them.
    middle_norm: ArcFace's own block, with BatchNorm before the PReLU.
    Raises ValueError for an unknown name (with the nearest) and for numbers that build no net.
    Source: Deng et al. 2019 (ArcFace), section 3.1; the first lines of this file say what was chosen.
    """
    if isinstance(name_or_layers, str):
        if name_or_layers not in LAYERS:
            raise ValueError(f"name_or_layers={name_or_layers!r}{sources.nearest(name_or_layers, list(LAYERS))}")
        name_or_layers = LAYERS[name_or_layers]
    layers, widths = tuple(name_or_layers), tuple(widths)
    if not layers or len(layers) != len(widths):
        raise ValueError(f"layers={layers} and widths={widths} differ in length; give a depth and a width a stage")
    if min(*layers, *widths, num_classes, in_chans, image_size, embedding) < 1:
        raise ValueError(
            f"layers={layers}, widths={widths}, num_classes={num_classes}, in_chans={in_chans}, image_size={image_size}, "
            f"embedding={embedding}: each must be 1 or more"
        )
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} is outside [0, 1); ArcFace has 0.5")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return IR(layers, widths, num_classes, in_chans, image_size, embedding, dropout, middle_norm)
