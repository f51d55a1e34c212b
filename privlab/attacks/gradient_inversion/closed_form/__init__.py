"""A photograph out of one gradient without a search: linear systems that gradients satisfy.

    attention         Lu et al. 2022, Algorithm 1: needs the position embedding's gradient and attention right behind it
    patch_embedding   ours: needs the gradient of an embedding that is added to patches, in any model, whatever comes behind it
    subspace          ours: needs no gradient of the position embedding, so a frozen one does not stop it

Systems are solved in float64, whatever the gradients are, and damped at rounding and known `noise`: a number, the error in the gradients
over their size; or parameter name -> standard deviation in each number of its gradient, as `defences.perturbation.deviations` gives it, by
which rows are weighed (not in `attention`).
"""

from privlab.attacks.gradient_inversion.closed_form.least_squares import BACKWARD, Noise, Recovery
from privlab.attacks.gradient_inversion.closed_form.patches import patch_embedding
from privlab.attacks.gradient_inversion.closed_form.row_space import equations, hidden_directions, recovered, subspace
from privlab.attacks.gradient_inversion.closed_form.vit import attention, pixels

__all__ = ["BACKWARD", "Noise", "Recovery", "attention", "equations", "hidden_directions", "patch_embedding", "pixels"]
__all__ += ["recovered", "subspace"]
