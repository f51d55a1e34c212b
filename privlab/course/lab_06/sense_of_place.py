"""What a gradient says of *where* a patch stands: shuffled photographs, the mean patch and the rest, rows of the position gradient."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab.attacks.gradient_inversion import derivatives
from privlab.attacks.gradient_inversion.objectives import cosine_distance, position_direction, squared_distance
from privlab.leak import Leak, observe

PATCH = 8  # pixels a side, of 32


def patches(image: Tensor) -> Tensor:
    """(patches, numbers of a patch) of an image (1, channels, 32, 32)."""
    return F.unfold(image, PATCH, stride=PATCH)[0].T


def parts(found: Tensor, truth: Tensor) -> tuple[float, float]:
    """PSNR of the mean patch in dB, and the correlation of what is left of each patch with the truth, -1 to 1."""
    x, y = patches(found), patches(truth)
    error = (x.mean(0) - y.mean(0)).square().mean().item()
    left, right = (z - z.mean(0) for z in (x, y))
    return -10 * math.log10(error), torch.cosine_similarity(left.flatten(), right.flatten(), dim=0).item()


def shuffled(image: Tensor, seed: int) -> Tensor:
    """The same image with its patches in another order."""
    rows = patches(image)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    return F.fold(rows[order].T[None], image.shape[-2:], PATCH, stride=PATCH)


def rows_alike(leak: Leak) -> float:
    """Mean cosine between the gradients at the positions of any two patches."""
    rows = F.normalize(leak["pos_embed"][0, 1:], dim=1)
    return (((rows @ rows.T).sum() - len(rows)) / (len(rows) * (len(rows) - 1))).item()


def measured(model: nn.Module, truth: Tensor, label: Tensor, seed: int) -> tuple[float, float]:
    """How far the gradient moves when the photograph's patches are shuffled, over how far it is from that of noise; and the latter.

    Both as one minus cosine of the gradients as wholes, in float64.
    """
    victim = copy.deepcopy(model).double()
    noise = torch.rand(truth.shape, generator=torch.Generator().manual_seed(seed))
    client, moved, far = (observe(victim, x, label) for x in (truth, shuffled(truth, seed), noise))
    distance = cosine_distance(truth, far.grads, client).item()
    return cosine_distance(truth, moved.grads, client).item() / distance, distance


def gradient_share(model: nn.Module, leak: Leak, seed: int) -> float:
    """Of the steepness of APRIL's two terms over the pixels, at noise, the share that is the position term's at alpha = 1."""
    assert leak.labels is not None
    noise = torch.randn(1, *leak.image_shape, generator=torch.Generator().manual_seed(seed))
    x = noise.to(next(model.parameters())).requires_grad_()
    wanted: dict[str, Tensor] = {name: model.get_parameter(name) for name in leak.grads}
    grads = derivatives.gradients(F.cross_entropy(model(x), leak.labels), wanted, create_graph=True)
    of_distance, of_position = (
        torch.autograd.grad(term(x, grads, leak), x, retain_graph=True)[0].norm().item()
        for term in (squared_distance, position_direction)
    )
    return of_position / (of_distance + of_position)
