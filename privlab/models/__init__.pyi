from . import (
    april,
    morph,
    parts,
    position_embeddings,
    pretrained_networks,
    representations,
    repvgg,
    skip_connections,
    zoo,
)
from .zoo import build, sized

__all__ = [
    "april",
    "build",
    "morph",
    "parts",
    "position_embeddings",
    "pretrained_networks",
    "representations",
    "repvgg",
    "sized",
    "skip_connections",
    "zoo",
]
