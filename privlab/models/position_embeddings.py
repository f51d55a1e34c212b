"""What a ViT adds to its patches: position embeddings, learnable or fixed, and how large they are.

The scale matters more to a gradient attack than most architecture choices do, and papers seldom state it. timm draws the
embedding with a standard deviation of 0.02; the public ViT code that Lu et al. 2022 build on draws it with 1.
"""

import math

import torch
from timm.layers import build_sincos2d_pos_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

DRAWN = ("learnable", "random")
KINDS = (*DRAWN, "sinusoid_1d", "sinusoid_2d", "low_rank", "none")


def draw(
    kind: str, grid: tuple[int, int], width: int, std: float | None = None, rank: int | None = None, seed: int = 0
) -> Tensor:
    """The embedding of every patch, (rows * columns, width), float32.

    kind: "learnable" and "random" draw it normal; "low_rank" draws it normal but of the given rank; "sinusoid_1d" counts patches in
        reading order (Vaswani et al. 2017), "sinusoid_2d" encodes row and column apart (Chen et al. 2021, through timm); "none" is 0.
    std: root mean square of its numbers, for "low_rank" over all draws; 0.02 where drawn and the sinusoid's own (about 0.7) if not given.
    rank: for "low_rank" alone, 1 to the number of patches.
    """
    tokens, generator = grid[0] * grid[1], torch.Generator().manual_seed(seed)
    small = 0.02 if std is None else std
    if kind == "none":
        return torch.zeros(tokens, width)
    if kind == "low_rank":
        if rank is None or not 1 <= rank <= (most := min(tokens, width)):
            raise ValueError(f"position_rank={rank} is no rank of {tokens} x {width} numbers; try 1 to {most}")
        return _low_rank(tokens, width, rank, small, generator)
    if kind in DRAWN:
        drawn, std = torch.randn(tokens, width, generator=generator), small
    elif kind == "sinusoid_2d":
        drawn = build_sincos2d_pos_embed(list(grid), width)
    elif kind == "sinusoid_1d":
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))  # (width / 2,)
        angles = torch.arange(tokens)[:, None] * rates  # (tokens, width / 2)
        drawn = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)  # (tokens, width)
    else:
        raise ValueError(f"position={kind!r} is no position embedding; try one of {', '.join(KINDS)}")
    return drawn if std is None else drawn * (std / drawn.square().mean().sqrt())


def _low_rank(tokens: int, width: int, rank: int, std: float, generator: torch.Generator) -> Tensor:
    """A product of factors with few bits, so that it is exact in float32 and has no higher rank than this one, to the last bit.

    A rounded product has full rank again, 1e-8 below its size, and an attacker who solves in float64 can use that.
    """
    left = torch.randint(-8, 9, (tokens, rank), generator=generator).double()  # of mean square 24
    right = torch.randn(rank, width, generator=generator, dtype=torch.float64) * (std / (24 * rank) ** 0.5)
    quantum = 2.0 ** (math.floor(math.log2(right.abs().max())) - 11)
    return (left @ ((right / quantum).round() * quantum)).float()


def place(model: VisionTransformer, kind: str, std: float | None, rank: int | None, seed: int) -> None:
    """Give a timm ViT this position embedding, in place.

    Every kind but "learnable" is frozen: the client computes no gradient for it, so none can leak (Lu et al. 2022, section 4.2).
    A class token's own embedding is drawn like the others for "random" and "learnable", and 0 for the rest.
    """
    if not isinstance(old := getattr(model, "pos_embed", None), nn.Parameter):
        raise ValueError(f"model: {type(model).__name__} has no position embedding; try a ViT or DeiT of timm")
    patches = draw(kind, model.patch_embed.grid_size, old.shape[-1], std, rank, seed)  # (patches, width)
    prefix = torch.zeros(old.shape[1] - len(patches), old.shape[-1])  # tokens before the patches
    if kind in DRAWN:
        prefix = torch.randn(prefix.shape, generator=torch.Generator().manual_seed(seed + 1))
        prefix *= 0.02 if std is None else std
    model.pos_embed = nn.Parameter(torch.cat([prefix, patches])[None], requires_grad=kind == "learnable")
