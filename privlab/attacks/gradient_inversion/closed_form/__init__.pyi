from .least_squares import BACKWARD, Noise
from .row_space import equations, hidden_directions, subspace
from .tokens import Recovery
from .vit import attention, patch_embedding, pixels

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
