from . import (
    april,
    morph,
    parts,
    position_embeddings,
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
    "representations",
    "sized",
    "skip_connections",
    "zoo",
]
