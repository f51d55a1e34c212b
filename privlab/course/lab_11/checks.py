"""Checks of lab 11: a skip that is removed, pixels that convince, evidence, a comparison, a loss, a branch that is folded."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from privlab import models
from privlab.attacks.model_inversion import losses
from privlab.models.skip_connections import Scale
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

_body: Any = models.build("resnet18", seed=0, channels=(4, 8, 8, 8), layers=(2, 1, 1, 1), zero_init_last=False).eval()
IDENTITY, PROJECTION = _body.layer1[1], _body.layer2[0]  # what their skips are
INSIDE = torch.arange(288).mul(0.7).sin().view(2, 4, 6, 6)  # what enters a block


def _with(block: Any, **parts: nn.Module | None) -> Any:
    """The block, with these in the place of its own parts of that name."""
    for name, part in parts.items():
        setattr(block, name, part)
    return block


_without = partial(_with, downsample=Scale(0))
_removed = function(
    _without,
    [(IDENTITY,), (PROJECTION,)],
    {
        "The block is as it was: its input still goes past the branch.": _with,
        "The input itself is still added. It is so where downsample is None, and where it is nn.Identity; yours should add nothing.":
            partial(_with, downsample=None),
        "The ReLU behind the sum is gone, too. It stays: only the summand goes.": partial(_without, act2=nn.Identity()),
        "You remove the projections alone. A block without one adds its input as it is, and that is a skip, too.":
            lambda block: block if block.downsample is None else _without(block),
    },
    "Print block(z) and the branch alone, conv1 to bn2, behind a ReLU: they should be equal.",
    then=lambda block: block(INSIDE),
)


def _returns(answer: Callable[..., Any]) -> Iterator[str]:
    if not isinstance(answer(copy.deepcopy(IDENTITY)), nn.Module):
        yield "Return the block itself: the network goes on with what you return."


remove = in_turn(_removed, _returns)


def _poincare(z: Tensor, t: int) -> Tensor:
    return losses.poincare(z[None], torch.tensor([t]))


_distance = function(
    _poincare,
    [(torch.tensor(z), t) for z, t in (
        ([2.25, -1.125, 0.75, 3.875], 3), ([-1.75, 0.25, -3.125], 0), ([60.0, 0.3, 0.3], 0),  # the last is nearly at v
    )],
    {
        "Your u is a softmax, which hardly changes any more where the model is sure. It is to be the logits, scaled.":
            lambda z, t: _poincare(z.softmax(0), t),
        "Your v is one-hot to the last digit. So it lies on the rim of the unit ball, infinitely far from all else; draw it in by 1e-4.":
            lambda z, t: torch.inf,
    },
    "Print u and v: does u lie inside the unit ball (not on it: divide by the sum of absolute values, not by the length), and v just "
    "inside, so that 1 - |v|^2 is 2e-4? A guard should change nothing here.",
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


def _fold(w: Tensor, m: Tensor, v: Tensor, g: Tensor, b: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    return fuse_conv_bn_weights(w, None, m, v, eps, g, b)


_folded = function(
    _fold,
    [LAYER],
    {
        "eps is forgotten: the norm divides by the root of var + eps.":
            lambda w, m, v, g, b, eps: _fold(w, m, v, g, b, 0.0),
        "You divide by the variance; the norm divides by its root, the standard deviation.":
            lambda w, m, v, g, b, eps: _fold(w, m, (v + eps).square(), g, b, 0.0),
        "You scale along the columns of the kernel: a bare product goes by the last dimension. There is a scale for each output channel.":
            lambda w, m, v, g, b, eps: (w * g / (v + eps).sqrt(), _fold(w, m, v, g, b, eps)[1]),
        "The mean is forgotten, which leaves a bias.": lambda w, m, v, g, b, eps: _fold(w, 0 * m, v, g, b, eps),
    },
    "Give two tensors, the new weight and the new bias: what multiplies one channel y, and what does the norm make of a y that is 0?",
    then=lambda new: F.conv2d(MAPS, *new),
)
fold = in_turn(_folded, keeps(*LAYER))
