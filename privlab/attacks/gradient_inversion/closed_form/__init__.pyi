from .errors import BACKWARD, Noise
from .recovery import Recovery
from .subspace import equations, hidden_directions, subspace
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
