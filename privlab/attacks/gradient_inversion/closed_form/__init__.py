"""A photograph out of one gradient by a linear solve, without a search."""

from privlab.attacks.gradient_inversion.closed_form.least_squares import BACKWARD, Noise
from privlab.attacks.gradient_inversion.closed_form.row_space import equations, hidden_directions, recovered, subspace
from privlab.attacks.gradient_inversion.closed_form.vit import Recovery, attention, patch_embedding, pixels

__all__ = ["BACKWARD", "Noise", "Recovery", "attention", "equations", "hidden_directions", "patch_embedding", "pixels"]
__all__ += ["recovered", "subspace"]
