"""Checks of lab 11: pixels that convince, evidence, the distance to the right person, a comparison, a loss, a branch that is folded."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from privlab.attacks.model_inversion import evaluation, losses
from privlab.notebook.kit import OPEN, a_function, function, in_turn, keeps

# fmt: off
PICTURE = 0.5 + 0.4 * torch.arange(108).mul(1.7).sin().view(1, 3, 6, 6)
TARGETS = (1, 2)  # both unlikely at first
_HIDDEN = 0.1 * torch.arange(720).square().mul(0.31).sin().view(90, 8)
_OUT = 2 * torch.arange(40).square().mul(1.1).sin().view(8, 5)


def network(x: Tensor) -> Tensor:
    """A small fixed network, (n, 3, 6, 6) pixels to (n, 5) logits. It is blind to the last column of the picture."""
    return ((x[..., :-1] - 0.5).flatten(1) @ _HIDDEN).tanh() @ _OUT


def _persuaded(answer: Callable[..., Any]) -> Iterator[str]:
    for target in TARGETS:
        image = answer(network, PICTURE.clone(), target)
        if image is None:
            yield OPEN
        if image.requires_grad:
            yield "What you return still needs a gradient, and drags its graph into all that is done with it. Return the pixels alone."
        if image.shape != PICTURE.shape:
            yield f"The new picture should have the shape of the old, {tuple(PICTURE.shape)}; yours has {tuple(image.shape)}."
        if not (image.min() >= -1e-6 and image.max() <= 1 + 1e-6):
            yield f"Your pixels go from {image.min():.2f} to {image.max():.2f}. Outside [0, 1] there is no picture that anybody could show."
        before, after = (network(x).softmax(1)[0, target].item() for x in (PICTURE, image))
        moved = f"The model's belief in class {target} went from {before:.3f} to {after:.3f}"
        if after < before:
            yield f"{moved}. Do you go by `target`? Mind the sign of the loss, and that classes are counted from 0."
        if after <= 0.9:
            yield f"{moved}; more than 0.9 can be had. Are your steps long enough, and do you return the very tensor that they move?"
        if (image - PICTURE)[..., -1].abs().mean() > 0.1:
            yield "The model does not see the last column, so its gradient is 0 there, and yours has changed. Begin with `picture` itself."
        if torch.equal(answer(network, PICTURE.clone(), target, 1), image):
            yield "With steps=1 your picture is the same as without: use the argument `steps`."


convince = in_turn(a_function, _persuaded, keeps(network, PICTURE, TARGETS[0]))

# features and targets of reconstructions, features of photographs and who is on them
LOGITS = torch.tensor([[0.5, 1, -1], [3, 2, 1], [1, 1, 1], [-2, -1, 2.5], [2.5, 3, 2], [0, 4, 4]])
PRIVATE = torch.tensor([[0, 0, 0], [4, 1, 0], [1, 5, 2], [2, -3, 1], [-1, 2, 6], [3, 3, 3], [-4, 0.5, 1]])
PEOPLE = [(LOGITS, torch.tensor([1, 0, 2, 0, 1, 1]), PRIVATE, torch.tensor([0, 1, 0, 2, 1, 1, 0]))]
delta = function(
    lambda *given: evaluation.nearest(*given).square(),
    PEOPLE,
    {
        "That is not squared; PPA's measure is the square of the distance.": evaluation.nearest,
        "You take photographs of anybody, so a good likeness of somebody else counts as a success. The target's own count alone.":
            lambda f, t, p, y: torch.cdist(f, p).square().amin(1),
        "The others win, with 0. Their distances have to be so large that they never do.": lambda f, t, p, y: torch.zeros(len(f)),
        "You take the mean over the photographs. One is enough to say that it looks like the person: the nearest.":
            lambda f, t, p, y: torch.cdist(f, p).square().masked_fill(t[:, None] != y, torch.nan).nanmean(1),
    },
    "One number for each reconstruction: work out by hand how far it is to each photograph of its person.",
)


def _poincare(z: Tensor, t: int, length: Callable[[Tensor], Tensor], less: float = 1e-4) -> Tensor:
    """The distance without guards.  less: by what the target's 1 is drawn in."""
    u, v = z / length(z), (torch.eye(len(z))[t] - less).clamp(0, 1)
    of_u, of_v = ((1 - x.square().sum()).clamp_min(1e-6) for x in (u, v))
    return torch.arccosh(1 + 2 * (u - v).square().sum() / (of_u * of_v))


_distance = function(
    lambda z, t: losses.poincare(z[None], torch.tensor([t])),
    [(torch.tensor(z), t) for z, t in (
        ([2.25, -1.125, 0.75, 3.875], 3), ([-1.75, 0.25, -3.125], 0), ([60.0, 0.3, 0.3], 0),  # the last is nearly at v
    )],
    {
        "Your u is a softmax, which hardly changes any more where the model is sure. It is to be the logits, scaled.":
            lambda z, t: _poincare(z.softmax(0), t, torch.sum),
        "You divide by the Euclidean length. It puts every u on the rim of the unit ball, where 1 - |u|^2 is 0, or what rounding leaves.":
            partial(_poincare, length=torch.norm),
        "Your v is one-hot to the last digit. So it lies on the rim of the unit ball, infinitely far from all else; draw it in by 1e-4.":
            partial(_poincare, length=lambda z: z.abs().sum(), less=0.0),
    },
    "Print u and v: does u lie inside the unit ball, and v just inside, so that 1 - |v|^2 is 2e-4? A guard should change nothing here.",
    rel=1.5e-3,  # a guard may move it a little
)


def _guarded(answer: Callable[..., Any]) -> Iterator[str]:
    cases = [([0.0, 0.0, 0.0, 0.0], 1, 8, 12), ([0.0, 0.0, 3.0, 0.0], 2, 0, 60), ([0.0, 0.0, 3.0, 0.0], 0, 10, 60)]
    for logits, target, low, high in cases:  # every distance lies between the last two
        value = float(answer(torch.tensor(logits), target))
        if not low <= value <= high:
            zero = "1 - |u|^2 is 0, for u lies on the rim of the ball" if any(logits) else "the sum of absolute values is 0"
            yield f"poincare({logits}, {target}) gives {value:.3g}: {zero}. Keep what you divide by above 0; do not replace the result."


poincare = in_turn(_distance, _guarded)

MAPS = torch.arange(75).cos().view(1, 3, 5, 5)
LAYER = (  # weight, mean, var, gamma, beta, eps
    torch.arange(81).mul(1.3).sin().view(3, 3, 3, 3), torch.tensor([0.5, -0.35, -1.2]), torch.tensor([0.01, 1.25, 2.5]),
    torch.tensor([1.7, 0.55, -0.6]), torch.tensor([0.46, 0.36, 1.11]), 0.2,
)


def _output(folded: Callable[..., Any]) -> Callable[..., Any]:
    """What the one convolution makes of MAPS."""

    def of(*layer: Any) -> Any:
        new = folded(*layer)
        return None if new is None else F.conv2d(MAPS, *new)

    return of


def _scaled(weight: Tensor, mean: Tensor, beta: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    return weight * scale.view(-1, 1, 1, 1), beta - mean * scale


_folded = function(
    lambda w, m, v, g, b, eps: F.batch_norm(F.conv2d(MAPS, w), m, v, g, b, eps=eps),
    [LAYER],
    {
        "eps is forgotten: the norm divides by the root of var + eps.": _output(lambda w, m, v, g, b, eps: _scaled(w, m, b, g / v.sqrt())),
        "You divide by the variance; the norm divides by its root, the standard deviation.":
            _output(lambda w, m, v, g, b, eps: _scaled(w, m, b, g / (v + eps))),
        "You scale along the columns of the kernel: a bare product goes by the last dimension. There is a scale for each output channel.":
            _output(lambda w, m, v, g, b, eps: (w * g / (v + eps).sqrt(), b - m * g / (v + eps).sqrt())),
        "The mean is forgotten, which leaves a bias.": _output(lambda w, m, v, g, b, eps: _scaled(w, 0 * m, b, g / (v + eps).sqrt())),
    },
    "Give two tensors, the new weight and the new bias: what multiplies one channel y, and what does the norm make of a y that is 0?",
)
fold = in_turn(a_function, lambda answer: _folded(_output(answer)), keeps(*LAYER))
