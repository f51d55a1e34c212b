"""Lab 02: a likelihood ratio by hand, how many non-members a small rate needs, an auditor's report, and an attack with four bugs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from privlab import data
from privlab.attacks.membership_inference import lira, signals
from privlab.notebook.kit import OPEN, Check, each, function, number

# -- the ratio by hand -----------------------------------------------------------------------------------------------------


def _case(*margins: float | list[float]) -> tuple:
    return tuple(torch.tensor(x, dtype=torch.float64) for x in margins)


def _lira(victim: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
    keep = torch.arange(len(inside) + len(outside)) < len(inside)
    shadows = torch.cat([inside, outside])[:, None, None]  # (models, 1, 1)
    return lira.score(victim.view(1, 1), shadows, keep[:, None], variance="per-example")


def _with_spread(victim: Tensor, inside: Tensor, outside: Tensor, std: Callable[[Tensor], Tensor]) -> Tensor:
    one, other = (Normal(side.mean(), std(side)).log_prob(victim) for side in (inside, outside))
    return one - other


HINT = "Set each of the two log densities beside torch.distributions.Normal's."
_near = function(
    _lira,
    [  # the victim's margin, those of models trained on the image, and of models that were not
        _case(4.0, [3.5, 5.0, 4.2, 6.1], [1.0, 2.5, 0.3, 1.9, 2.2]),  # likely a member
        _case(0.8, [2.0, 4.5, 3.0], [1.2, -0.5, 0.9, 2.0]),
        _case(2.0, [1.0, 2.5, 4.0, 1.5, 3.0], [1.9, 2.2, 2.6]),  # likely in either, but more so in the narrower one
    ],
    {
        "Your standard deviations divide by n. With so few models that makes them too small; divide by n - 1.":
            lambda v, a, b: _with_spread(v, a, b, lambda side: side.std(correction=0)),
        "You put the variance where the standard deviation belongs: take its root.":
            lambda v, a, b: _with_spread(v, a, b, torch.var),
        "Your Gaussians are all of the same height. A narrow one is higher: 1 / std stands before the exponential.":
            lambda v, a, b: _lira(v, a, b) + (a.std() / b.std()).log(),
        'The sign is turned: yours is high where "out" is the likelier.': lambda v, a, b: -_lira(v, a, b),
        "That is the ratio itself. Its logarithm is asked for.": lambda v, a, b: _lira(v, a, b).exp(),
    },
    HINT,
    rel=1e-4,
)  # fmt: skip
_far = function(_lira, [_case(60.0, [3.5, 5.0, 4.2, 6.1], [1.0, 2.5, 0.3, 1.9, 2.2])], {}, HINT, rel=1e-4)


def log_ratio(answer: object) -> Iterator[str]:
    yield from _near(answer)
    try:
        lost = any(_far(answer))
    except (ArithmeticError, ValueError):  # what Python's own arithmetic says to 0 / 0 and to log 0
        lost = True
    if lost:
        yield (
            "Right as long as the victim is not far out. At a margin of 60 a density here is 0 even in float64, and its logarithm is lost. "
            "Let no density appear: stay with the logarithms."
        )


# -- how many, and a report ------------------------------------------------------------------------------------------------

non_members = each(
    number(1_000, {
        500: "1 of 500 non-members is 0.2%, more than 0.1%.",
        100: "1 of 100 non-members is one in a hundred. That is 1%, and not 0.1%.",
        10_000: "First the number for one false positive, then that for ten.",
    }, "What share of so many non-members is one?", rel=1e-6),
    number(10_000, {
        1_000: "10 of 1,000 non-members are one in a hundred. That is 1%, and not 0.1%.",
        5_000: "10 of 5,000 non-members are 0.2%, more than 0.1%.",
    }, "What share of so many non-members are ten?", rel=1e-6),
    ask="Give a pair: how many for one false positive, then how many for ten.",
)  # fmt: skip

# -- four bugs -------------------------------------------------------------------------------------------------------------

IMAGES = 10


class Fleet(NamedTuple):
    """What an attack is given; the victim and the shadow models are small networks with BatchNorm."""

    victim: nn.Module
    models: list[nn.Module]
    keep: Tensor  # (models, n), each image in half of the models
    pixels: Tensor  # (n, 3, 6, 6)
    labels: Tensor  # (n,)


def fleet(gap: float, seed: int = 13) -> Fleet:
    """A victim and eight shadow models, in eval mode, that agree on the classes of ten images.

    gap: about how far the logit of the true class lies above the others.
    seed: of weights, images and halves; with this one all the orders below differ, and no two scores are close.
    """
    draw = torch.Generator().manual_seed(seed)
    patterns = torch.randn(5, 108, generator=draw)  # one for each class
    models: list[nn.Module] = []
    for _ in range(9):
        head = nn.utils.skip_init(nn.Linear, 108, 5, bias=False)
        head.weight.data = gap / 108 * (patterns + 0.5 * torch.randn(5, 108, generator=draw))
        models.append(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), head).eval())
    labels = torch.arange(IMAGES) % 5
    pixels = (patterns[labels] + 0.5 * torch.randn(IMAGES, 108, generator=draw)).view(IMAGES, 3, 6, 6)
    return Fleet(models[0], models[1:], data.in_out(IMAGES, 8, seed), pixels, labels)


def mended(
    setting: Fleet, side: Callable = torch.logical_not, signal: Callable = signals.margin, unit: bool = True
) -> Tensor:
    """What the attack should return: how far the victim's margin lies above those of models without the image.

    side: of the keep matrix, the models to compare with.  signal: what is read off the logits.  unit: divide by the spread.
    """
    with torch.no_grad():
        said = torch.stack([signal(model(setting.pixels), setting.labels) for model in setting.models])
        compared = [said[column, i] for i, column in enumerate(side(setting.keep).T)]
        mean, std = (torch.stack([f(each) for each in compared]) for f in (torch.mean, torch.std))
        return (signal(setting.victim(setting.pixels), setting.labels) - mean) / (std if unit else 1)


OTHERS: dict[str, Callable[[Fleet], Tensor]] = {
    "You compare the victim with the models that were trained *on* the image, which say nothing of a non-member. What does keep mean?":
        lambda setting: mended(setting, side=lambda keep: keep),
    "You compare the victim with all models. Those that were trained on the image are no measure of a non-member.":
        lambda setting: mended(setting, side=torch.ones_like),
    "The spread has got lost: to be 1 above the mean is much where the models agree, and little where they do not.":
        lambda setting: mended(setting, unit=False),
    "You compare log p. The net's code compared the log of p over 1 - p, which is nearer a Gaussian; keep that.":
        lambda setting: mended(setting, signal=signals.loss),
}  # fmt: skip


def four_bugs(answer: Any) -> Iterator[str]:
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    setting, sure = fleet(gap=4.0), fleet(gap=80.0)
    scored, changed = _asked(answer, setting)
    if not scored.numel():
        yield OPEN
        return
    if scored.shape != (IMAGES,):
        yield f"Give one score an image, shape ({IMAGES},) for {IMAGES} images; yours has the shape {tuple(scored.shape)}."
        return
    if changed:
        yield (
            "Your questions change the models: BatchNorm's running statistics are not what they were. A model that takes account of what "
            "it is shown is in the wrong mode."
        )
    if not _same(scored, _asked(answer, setting, seed=2)[0]):
        yield (
            "The same call twice gives different scores: something is drawn at random. Is every model asked the same question, and "
            "the same one each time?"
        )
    few = setting._replace(keep=setting.keep[:, :4], pixels=setting.pixels[:4], labels=setting.labels[:4])
    if not _same(scored[:4], _asked(answer, few)[0]):
        yield (
            "An image gets another score when other images are asked along with it. In train mode BatchNorm does that: it takes the mean "
            "and the variance of the batch. Each image is to be judged by itself."
        )
    certain = _asked(answer, sure)[0]
    where = "Where the models are very sure, with one logit 50 to 90 above the others,"
    if broken := int((~certain.isfinite()).sum()):
        yield (
            f"{where} {broken} of {IMAGES} scores are NaN or infinite. So near to 1 a probability has lost how sure the model was, and "
            "nothing that is made of it, or cut off, brings it back. Where is it still to be seen?"
        )
    if len(certain.unique()) < IMAGES:
        yield f"{where} different images get the same score. What told them apart was rounded away before the comparison."
    order = _order(scored, mended(setting))
    if order < 0:
        yield "The sign is turned: the surer the victim is, beside models that never saw the image, the lower your score."
    yield from (why for why, other in OTHERS.items() if not order and _order(scored, other(setting)))
    plain = setting._replace(pixels=setting.pixels[..., :1, :1].expand_as(setting.pixels))  # no move shows
    if not order and _order(_asked(answer, plain)[0], mended(plain)):
        yield (
            "Your scores are right for pictures of one colour, and for others they are not: a picture is moved or mirrored on its way to a "
            "model. Show all models the same one, as it was given."
        )
    if order < 1 or _order(certain, mended(sure)) < 1:
        yield "None of the four is in sight, but the images are in another order than they should be. Mend the four, and no more."


def _asked(answer: Callable, setting: Fleet, seed: int = 1) -> tuple[Tensor, bool]:
    """What an attack says of models as training leaves them, in train mode; and whether their running statistics are others afterwards."""
    handed = copy.deepcopy(setting)
    asked = [model.train() for model in (handed.victim, *handed.models)]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scored = answer(*handed)
    before = [buffer for model in (setting.victim, *setting.models) for buffer in model.buffers()]
    after = [buffer for model in asked for buffer in model.buffers()]
    changed = not all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    return torch.as_tensor([] if scored is None else scored).detach().double(), changed


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-3, equal_nan=True)


def _order(scored: Tensor, due: Tensor) -> int:
    """1 if two sets of scores order the images alike, -1 if the other way round, else 0."""
    return next((sign for sign in (1, -1) if torch.equal((sign * scored).argsort(), due.argsort())), 0)


CHECKS: dict[str, Check] = {
    "02.log_ratio": log_ratio,
    "02.non_members": non_members,
    "02.four_bugs": four_bugs,
}
