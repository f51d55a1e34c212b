from .vit import BACKWARD, Noise, Recovery, attention, equations, hidden_directions, patch_embedding, pixels, subspace

__all__ = [
    "BACKWARD",
    "Noise",
    "Recovery",
    "attention",
    "equations",
    "hidden_directions",
    "patch_embedding",
    "pixels",
    "subspace",
]
