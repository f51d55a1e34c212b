from . import (
    april,
    morph,
    parts,
    position_embeddings,
    pretrained_networks,
    representations,
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
    "sized",
    "skip_connections",
    "zoo",
]
