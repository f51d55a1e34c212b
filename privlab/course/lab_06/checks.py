"""Lab 06: an image with the same gradients, and APRIL's loss; deeper, when a search has arrived."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from privlab.attacks.gradient_inversion import objectives
from privlab.leak import Leak, observe
from privlab.models import april as april_vit
from privlab.models.forward import Gradients
from privlab.notebook.kit import OPEN, a_function, function


def twin(answer: Callable) -> Iterator[str]:
    yield from a_function(answer)
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    other = answer(image.clone())
    if other is None:
        yield OPEN
    other = torch.as_tensor(other).detach().float()
    if other.shape != image.shape or not (other.min() >= -1e-3 and other.max() <= 1 + 1e-3):
        yield f"A twin is an image of the same shape, {tuple(image.shape)}, with pixels in [0, 1]."
    if (other - image).square().mean().sqrt() < 0.05:
        yield "That is the image itself, or but for a few hundredths: too easy. Be clearly different."
    model = april_vit.build("b", width=32, depth=2, heads=2, position="none", patch_size=8).double()
    one, two = (observe(model, x.double(), torch.tensor([3])).grads for x in (image, other.clamp(0, 1)))
    apart = max(((one[name] - two[name]).norm() / one[name].norm()).item() for name in one)
    if apart > 1e-6:
        kept = torch.allclose(image.flatten().sort().values, other.flatten().sort().values)
        why = (
            "The pixels are all there, but the embedding sees how they lie in a patch: move whole patches of 8 x 8, from edge to edge."
            if kept
            else "You changed the pixels themselves. Without positions the model sees a bag of patches: change nothing but their order."
        )
        yield f"The gradients tell the two apart, by up to {apart:.1%} of a gradient's length. {why}"


def _two_gradients() -> tuple[Gradients, Gradients]:
    """Of the same three parameters, in different orders."""
    draw = torch.Generator().manual_seed(6)
    shapes = {"patch_embed.proj.weight": (4, 6), "pos_embed": (1, 3, 4), "head.weight": (2, 4)}
    mine = {n: torch.randn(shape, generator=draw) for n, shape in shapes.items()}
    return mine, {n: 0.6 * mine[n] + 0.5 * torch.randn(shapes[n], generator=draw) for n in reversed(shapes)}


def _april(mine: Gradients, theirs: Gradients, alpha: float, of: Callable = objectives.position_direction) -> Tensor:
    """Equation 12.  of: minus the cosine, or one minus it."""
    given = torch.empty(0), mine, Leak(theirs, 1, (3, 32, 32))
    return objectives.squared_distance(*given) + alpha * of(*given)


april = function(
    _april,
    [(*_two_gradients(), 2.0)],
    {
        "Your cosine is over all gradients. APRIL's is that of pos_embed's alone.":
            lambda mine, theirs, alpha: _april(mine, theirs, alpha, objectives.cosine_distance) - alpha,
    },
    "The distance adds up squares over all gradients, pos_embed's among them; alpha weighs the cosine alone, of one long vector.",
)  # fmt: skip


def _stays(curve: list, bar: float) -> int | None:
    return next((step for k, (step, _) in enumerate(curve) if all(dB >= bar for _, dB in curve[k:])), None)


CURVE = [(0, 8.0), (10, 14.5), (20, 11.0), (30, 15.0), (40, 16.0)]
steps = function(
    _stays,
    [(CURVE, 14.0), (CURVE, 15.0), (CURVE, 5.0), (CURVE, 20.0), ([*CURVE, (50, 12.0)], 14.0)],
    {
        "Yours is the first step at the bar, and it may fall below it again. It must stay.":
            lambda curve, bar: next((step for step, dB in curve if dB >= bar), None),
        "At the bar counts, not only above it: 15 dB at step 30 is enough.": lambda curve, bar: _stays(curve, bar + 1e-9),
    },
    "From which step on is every value at the bar or above? None, where it ends below.",
)  # fmt: skip
