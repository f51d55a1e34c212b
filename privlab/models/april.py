"""The two architectures of APRIL (Lu et al. 2022, figure 1), at the paper's sizes for small and large images."""

from typing import Any

from timm.layers import Attention, Mlp
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from privlab.data import NORMALISE, Normalise
from privlab.models import zoo


class PlainBlock(nn.Module):
    """Attention, norm, MLP, one after the other, with no shortcut around them (figure 1A).

    Nothing stands between the position embedding and the first attention: the closed form's condition.
    """

    def __init__(self, dim: int, num_heads: int, mlp_ratio: float = 4.0, qkv_bias: bool = True, **_: object) -> None:
        super().__init__()
        # timm's: q, k, v = Q z, K z, V z (eq. 3), h = softmax(q k^T / sqrt(d)) v (eq. 4, the scale inside), W h (eq. 5)
        self.attn = Attention(dim, num_heads=num_heads, qkv_bias=qkv_bias)
        self.norm = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, z: Tensor, **_: object) -> Tensor:
        return self.mlp(self.norm(self.attn(z)))  # (batch, tokens, width)


def build(
    architecture: str,
    image_size: int = 32,
    patch_size: int = 8,
    width: int = 384,
    depth: int = 4,
    heads: int = 4,
    channels: int = 3,
    normalise: Normalise | None = None,
    **changes: Any,
) -> VisionTransformer:
    """Architecture "a" or "b", fresh, in eval mode, of 10 classes.

    The defaults are the paper's for CIFAR-10: width 384, 4 heads, depth 4, 4 x 4 patches (section 4 says four patches; the code it
    names counts patches a row, so 16 and a class token). For ImageNet: image_size=224, patch_size=16, width=768, depth=12, heads=12.
    Architecture "b" is timm's ViT with nothing changed. The scale inside the softmax is the usual one (equation 4 prints it outside).
    normalise: the preprocessing; CIFAR-10's for small colour images, ImageNet's for large ones, none for grey ones if not given.
    changes: of `zoo.build`: num_classes, seed, position, position_std, position_rank.
    """
    if architecture not in ("a", "b"):
        raise ValueError(f"architecture={architecture!r}; try 'a' (attention on the embedding) or 'b' (a real ViT)")
    changes |= {"block_fn": PlainBlock} if architecture == "a" else {}
    model = zoo.build(
        "vit_tiny_patch16_224", **{"num_classes": 10, **changes},
        img_size=image_size, patch_size=patch_size, embed_dim=width, depth=depth, num_heads=heads, in_chans=channels,
    )  # fmt: skip
    if normalise or channels == 3:
        model.normalise = normalise or NORMALISE["cifar10" if image_size <= 64 else "imagenet_samples"]
    return model
