"""A batch narrowed down by algebra first, then searched for inside what is left, by searches that know curvature."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from privlab import data
from privlab.attacks.gradient_inversion import GaussNewton, GradientMatching, Term, objectives, priors, search_spaces
from privlab.attacks.gradient_inversion.results import Result
from privlab.attacks.gradient_inversion.schedules import constant
from privlab.leak import Leak

DLG = (Term("gradients", 1.0, objectives.squared_distance),)
CURVED = (  # Gauss-Newton's own terms; for L-BFGS the wish for smooth images fades by the clock
    Term("gradients", 1.0, objectives.relative_distance),
    Term("smoothness", 0.3, priors.squared_variation, of="images", end=1e-5),
)


def lbfgs(steps: int, terms: tuple[Term, ...] = DLG) -> GradientMatching:
    """L-BFGS, up to twenty evaluations a step."""
    return GradientMatching(terms, steps, lr=1.0, optimiser="lbfgs", schedule=constant, boxed=False)


def gauss_newton(like: Result | int) -> GaussNewton:
    """For as many passes as a search of first derivatives took (an evaluation is two); the passes end it, not the steps."""
    passes = like if isinstance(like, int) else 2 * like.evaluations
    return GaussNewton(passes)


def family(
    model: nn.Module, leak: Leak, truth: Tensor, number: int, noise: float | None = None
) -> tuple[search_spaces.Affine, Tensor, dict[str, Tensor]]:
    """The family of a batch in the coordinates of public patches, a start inside it, and what it says without a search.

    noise: how much the gradient errs beyond its format, as `closed_form.subspace` takes it.
    nearest_point: of the family to the truth, which only we can know.  guess: the likeliest point, the same for all images of the batch.
    """
    public = shrunk(data.load("cifar10").take(range(500))[0], leak.image_shape[-1])
    exact = search_spaces.family(model, leak, noise)  # type: ignore[arg-type]
    nearest = leak.normalise.inverse(exact.images(exact.begin(leak.normalise(truth.double()))))
    space = exact.expected(public)
    draw = torch.Generator().manual_seed(number)
    latent = 0.3 * torch.randn(len(truth), len(space.origin), space.hidden, generator=draw, dtype=torch.float64)
    guess, start = (leak.normalise.inverse(space.images(z.to(space.origin))) for z in (0 * latent, latent))
    known = {"nearest_point": nearest, "guess": guess}
    return space.to(next(model.parameters())), start.clamp(0, 1).float(), known


def inside(
    model: nn.Module, leak: Leak, truth: Tensor, seeds: Sequence[int], steps: int, noise: float | None
) -> tuple[int, dict[str, Tensor]]:
    """How many numbers of each patch the family hides; and beside what `family` says the best of a search inside from each start.

    The best is that of the lowest score, which the attacker sees. Where nothing is hidden algebra's own answer is all there is.
    """
    found = []
    for seed in seeds:
        space, start, known = family(model, leak, truth, seed, noise)
        if space.hidden:
            search = lbfgs(steps, CURVED)
            found.append(search.run(model, leak, start=start, space=space, snapshots=0, progress=False))
    best = min(found, key=lambda result: result.score).images if found else known["guess"]
    return space.hidden, {**known, "inside": best}


def shrunk(images: Tensor, side: int) -> Tensor:
    if images.shape[-1] == side:
        return images
    return F.interpolate(images, side, mode="bilinear", antialias=True).clamp(0, 1)
