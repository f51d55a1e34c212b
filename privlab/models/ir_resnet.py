"""IR ResNets ("improved residual", the backbone of ArcFace-style face recognition): IR-152 is the target net of GMI, KEDMI and LOMMA.

Koh et al. 2024 attack an "IR152" on 64 x 64 faces (section 3.3, tables 3 and 12) and cite the first ResNet paper for it, which has none. So
the layout is the field's (Deng et al. 2019, ArcFace, section 3.1), as the targets of those attacks use it. What was read into it:

- A block is BatchNorm, convolution 3x3, PReLU, convolution 3x3 with the stride, BatchNorm; ArcFace has one more BatchNorm before the PReLU.
- A shortcut is MaxPool(1, stride) where the channels stay, else a 1x1 convolution with the stride and BatchNorm. Nothing follows the sum.
- Each of the four stages begins with stride 2, the first one too, and the stem has stride 1: 64 x 64 pixels end as a map of 4 x 4.
- The map is normed, dropped out (0.5), flattened and mapped to 512 numbers, which are normed; the classifier is one more Linear layer.
- Convolutions and Linear layers are drawn by Xavier's uniform rule, biases are 0.
"""

from collections.abc import Sequence

from torch import Tensor, nn

WIDTHS = (64, 128, 256, 512)  # channels of each stage; the first is the stem's too


class Block(nn.Module):
    """shortcut(x) + body(x): (n, channels in, h, w) -> (n, channels out, h / stride, w / stride)."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.shortcut: nn.Module = nn.MaxPool2d(1, stride)
        if inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        first, second = (nn.Conv2d(a, outside, 3, s, 1, bias=False) for a, s in ((inside, 1), (outside, stride)))
        self.body = nn.Sequential(nn.BatchNorm2d(inside), first, nn.PReLU(outside), second, nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.shortcut(x)


class IR(nn.Module):
    """stem, stages, head (the embedding), fc (the classifier), in train mode; weights are drawn from torch's generator.

    layers: blocks of each stage.  num_classes: rows of the classifier; KEDMI's private set has 1,000 people.
    in_chans: channels of an image.  image_size: its side in pixels, which the head depends on.
    """

    def __init__(
        self, layers: Sequence[int] = (3, 8, 36, 3), num_classes: int = 1000, in_chans: int = 3, image_size: int = 64
    ) -> None:
        super().__init__()
        inside = WIDTHS[0]
        stem = nn.Conv2d(in_chans, inside, 3, 1, 1, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(inside), nn.PReLU(inside))
        self.stages = nn.Sequential()
        for depth, outside in zip(layers, WIDTHS, strict=True):
            rest = (Block(outside, outside, 1) for _ in range(depth - 1))
            self.stages.append(nn.Sequential(Block(inside, outside, 2), *rest))
            inside = outside
        embedding = nn.Linear(inside * (-(-image_size // 16)) ** 2, 512)  # each stage halves, rounding up
        self.head = nn.Sequential(nn.BatchNorm2d(inside), nn.Dropout(0.5), nn.Flatten(), embedding, nn.BatchNorm1d(512))
        self.fc = nn.Linear(512, num_classes)
        self.feature_info = [dict(module=f"stages.{i}") for i in range(len(layers))]
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.head(self.stages(self.stem(x))))  # (n, num_classes)
