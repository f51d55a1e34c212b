"""Checks of lab 02: a likelihood ratio by hand, an attack with four bugs, how many non-members a small rate needs, and an audit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from privlab import data
from privlab.attacks.membership_inference import signals
from privlab.notebook.exercises.answers import a_function
from privlab.notebook.exercises.lab_01 import OPEN, combine, compare
from privlab.notebook.exercises.reports import auditor

# -- the ratio by hand -----------------------------------------------------------------------------------------------------

MARGINS = [  # the victim's, those of models trained on the image, and of models that were not
    tuple(torch.tensor(x, dtype=torch.float64) for x in margins)
    for margins in (
        (4.0, [3.5, 5.0, 4.2, 6.1], [1.0, 2.5, 0.3, 1.9, 2.2]),  # likely a member
        (0.8, [2.0, 4.5, 3.0], [1.2, -0.5, 0.9, 2.0]),
        (2.0, [1.0, 2.5, 4.0, 1.5, 3.0], [1.9, 2.2, 2.6]),  # likely in either, but more so in the narrower one
    )
]
FAR = tuple(torch.tensor(x, dtype=torch.float64) for x in (60.0, [3.5, 5.0, 4.2, 6.1], [1.0, 2.5, 0.3, 1.9, 2.2]))


def _gaussian(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return -(((x - mean) / std) ** 2) / 2 - std.log() - math.log(2 * math.pi) / 2


# fmt: off
SPREADS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of the models on one side, and of those on both
    "": lambda side, _: side.std(),
    "Your standard deviations divide by n. With so few models that makes them too small; divide by n - 1.":
        lambda side, _: side.std(correction=0),
    "You put the variance where the standard deviation belongs: take its root.":
        lambda side, _: side.var(),
    "You put the variance where the standard deviation belongs (and it divides by n, not by n - 1).":
        lambda side, _: side.var(correction=0),
    "You took one spread for both sides together. Each Gaussian has its own.":
        lambda _, both: both.std(),
    "You took 1 for every spread. How far the models are apart says how much a distance from their mean is worth.":
        lambda side, _: torch.ones_like(side.mean()),
}
CENTRES: dict[str, Callable[[Tensor], Tensor]] = {
    "": torch.mean,
    "Your Gaussians stand at the medians; fit them at the means.": lambda side: side.quantile(0.5),
}
DENSITIES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "": _gaussian,
    "Your Gaussians are all of the same height. A narrow one is higher: 1 / std stands before the exponential.":
        lambda x, mean, std: -(((x - mean) / std) ** 2) / 2,
    "The half is missing from the exponent.":
        lambda x, mean, std: -(((x - mean) / std) ** 2) - std.log(),
    "The square is missing from the exponent.":
        lambda x, mean, std: -((x - mean) / std) / 2 - std.log(),
    "You took the share of models below the victim, not the density at it.":
        lambda x, mean, std: torch.special.log_ndtr((x - mean) / std),
}
RATIOS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of two log densities, in and out
    "": lambda a, b: a - b,
    "The sign is turned: yours is high where \"out\" is the likelier.": lambda a, b: b - a,
    "That is the ratio itself. Its logarithm is asked for.": lambda a, b: (a - b).exp(),
    "That is the ratio itself, and upside down. Its logarithm is asked for, of in over out.": lambda a, b: (b - a).exp(),
    "That is the log density under \"in\" alone. An image that is easy for all models has a high one, too.": lambda a, b: a,
    "That is the log density under \"out\" alone, which says how usual the margin is for a non-member.": lambda a, b: b,
    "That says how unusual the margin is for a non-member: the offline attack, nearly. The models that hold the image are not used.":
        lambda a, b: -b,
    "You divided one logarithm by the other. A quotient of densities is something else of their logarithms.": lambda a, b: a / b,
    "That is the difference of the densities, not the logarithm of their quotient.": lambda a, b: a.exp() - b.exp(),
    "You added the two logarithms: that is the logarithm of a product.": lambda a, b: a + b,
    "That is the probability of \"in\", were both as likely before. Its logit is the answer.": lambda a, b: (a - b).sigmoid(),
    "That is a logarithm to base 10; take the natural one.": lambda a, b: (a - b) / math.log(10),
    "That is a logarithm to base 2; take the natural one.": lambda a, b: (a - b) / math.log(2),
}
# fmt: on


def _ratio(spread: Callable, centre: Callable, density: Callable, ratio: Callable) -> Callable[..., Tensor]:
    def score(victim: Tensor, inside: Tensor, outside: Tensor) -> Tensor:
        both = torch.cat([inside, outside])
        return ratio(*(density(victim, centre(side), spread(side, both)) for side in (inside, outside)))

    return score


def log_ratio(answer: object) -> Iterator[str]:
    ratios = combine(_ratio, SPREADS, CENTRES, DENSITIES, RATIOS)
    right = ratios.pop("")
    yield from compare(
        answer, MARGINS, right, ratios, "Set each of the two log densities beside torch.distributions.Normal's."
    )
    try:
        lost = any(compare(answer, [FAR], right, {}, ""))
    except (ArithmeticError, ValueError):  # what Python's own arithmetic says to 0 / 0 and to log 0
        lost = True
    if lost:
        yield (
            "Right as long as the victim is not far out. At a margin of 60 a density here is 0 even in float64, and its logarithm is lost. "
            "Let no density appear: stay with the logarithms."
        )


# -- four bugs -------------------------------------------------------------------------------------------------------------

IMAGES = 10


class Fleet(NamedTuple):
    """What an attack is given; the victim and the shadow models are small networks with BatchNorm, in eval mode."""

    victim: nn.Module
    models: list[nn.Module]
    keep: Tensor  # (models, n), each image in half of the models
    pixels: Tensor  # (n, 3, 6, 6)
    labels: Tensor  # (n,)


def fleet(gap: float, seed: int = 145) -> Fleet:
    """A victim and eight shadow models that agree on the classes of ten images.

    gap: how far the logit of the true class lies above the next, at the least; at most, it is three times as far.
    seed: of weights, images and halves; with this one all the orders below differ, and no two scores are close.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        one = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8, momentum=None), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)
        )
        one(torch.randn(64, 3, 6, 6))  # in train mode: the running statistics of some other images
        models: list[nn.Module] = [copy.deepcopy(one).eval() for _ in range(9)]
        for model in models:
            for weight in model.parameters():
                weight.add_(0.2 * weight.std() * torch.randn_like(weight))
        pixels = torch.randn(200, 3, 6, 6)
        logits = torch.stack([model(pixels) for model in models])  # (models, n, classes)
        top = logits.topk(2).values
        agreed = (logits.argmax(2) == logits[0].argmax(1)).all(0)
        least, best = ((top[..., 0] - top[..., 1]).amin(0) * agreed).topk(IMAGES)  # the images that all are surest of
        for model in models:
            for weight in list(model.children())[-1].parameters():
                weight.mul_(gap / least.min())
    return Fleet(models[0], models[1:], data.in_out(IMAGES, 8, seed), pixels[best], logits[0, best].argmax(1))


def scores(
    setting: Fleet,
    side: Callable[[Tensor], Tensor] = torch.logical_not,
    signal: Callable = signals.margin,
    unit: bool = True,
) -> Tensor:
    """What the attack returns once it is mended: how far the victim's margin lies above those of models without the image.

    side: of the keep matrix, the models to compare with.  signal: what is read off the logits.  unit: divide by the spread.
    """
    victim, models, keep, pixels, labels = setting
    with torch.no_grad():
        margins = torch.stack([signal(model(pixels), labels) for model in models])
        compared = [margins[column, i] for i, column in enumerate(side(keep).T)]
        mean, std = (torch.stack([f(each) for each in compared]) for f in (torch.mean, torch.std))
        return (signal(victim(pixels), labels) - mean) / (std if unit else 1)


# fmt: off
ORDERS: dict[str, Callable[[Fleet], Tensor]] = {
    "You compare the victim with the models that were trained *on* the image, which say nothing of a non-member. What does keep mean?":
        lambda setting: scores(setting, side=lambda keep: keep),
    "You compare the victim with all models. Those that were trained on the image are no measure of a non-member.":
        lambda setting: scores(setting, side=torch.ones_like),
    "The spread has got lost: to be 1 above the mean is much where the models agree, and little where they do not.":
        lambda setting: scores(setting, unit=False),
    "You compare log p. The net's code compared the log of p over 1 - p, which is nearer a Gaussian; keep that.":
        lambda setting: scores(setting, signal=signals.loss),
    "You return how sure the victim is. That says little before it is held against the other models.":
        lambda setting: signals.margin(setting.victim(setting.pixels), setting.labels),
}
# fmt: on


@a_function
def four_bugs(answer: Callable[..., Any]) -> Iterator[str]:
    setting = fleet(gap=2.0)
    scored = _ask(answer, setting, seed=1)
    if not scored.numel():
        yield OPEN
        return
    if scored.shape != (IMAGES,):
        yield f"Give one score an image, shape ({IMAGES},) for {IMAGES} images; yours has the shape {tuple(scored.shape)}."
        return
    if _changes(answer, setting):
        yield (
            "Your questions change the models: BatchNorm's running statistics are not what they were. A model that takes account of what "
            "it is shown is in the wrong mode."
        )
    if not _same(scored, _ask(answer, setting, seed=2)):
        yield (
            "The same call twice gives different scores: something is drawn at random. Is every model asked the same question, and "
            "the same one each time?"
        )
    few = setting._replace(keep=setting.keep[:, :4], pixels=setting.pixels[:4], labels=setting.labels[:4])
    if not _same(scored[:4], _ask(answer, few, seed=1)):
        yield (
            "An image gets another score when other images are asked along with it. In train mode BatchNorm does that: it takes the mean "
            "and the variance of the batch. Each image is to be judged by itself."
        )
    direction = _direction(scored, scores(setting))
    plain = setting._replace(
        pixels=setting.pixels[..., :1, :1].expand_as(setting.pixels)
    )  # of one colour: no move shows
    if not direction and _direction(_ask(answer, plain, seed=1), scores(plain)):
        yield (
            "Your scores are right for pictures of one colour, and for others they are not: a picture is moved or mirrored on its way to a "
            "model. Show all models the same one, as it was given."
        )
    sure = fleet(gap=40.0)
    certain = _ask(answer, sure, seed=1)
    where = "Where the models are very sure, with one logit 40 to 120 above the others,"
    if broken := int((~certain.isfinite()).sum()):
        yield (
            f"{where} {broken} of {IMAGES} scores are NaN or infinite. So near to 1 a probability has lost how sure the model was, and "
            "nothing that is made of it, or cut off, brings it back. Where is it still to be seen?"
        )
    if len(certain.unique()) < IMAGES:
        yield f"{where} different images get the same score. What told them apart was rounded away before the comparison."
    if direction < 0:
        yield "The sign is turned: the surer the victim is, beside models that never saw the image, the lower your score."
    for why, order in ORDERS.items():
        if not direction and _direction(scored, order(setting)):
            yield why
    for which, got, due in (("", scored, scores(setting)), (" of the very sure models", certain, scores(sure))):
        if _direction(got, due) < 1:
            yield (
                f"None of the four is in sight, but from the lowest score{which} to the highest the images should be "
                f"{due.argsort().tolist()}, and yours are {got.argsort().tolist()}. Mend the four, and leave the rest as it is."
            )


def _ask(answer: Callable, setting: Fleet, seed: int) -> Tensor:
    """What an attack says, in float64; it gets a copy, and draws from a generator of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scored = answer(*_handed(setting))
    return torch.as_tensor([] if scored is None else scored).detach().double()


def _handed(setting: Fleet) -> Fleet:
    """A copy, with the models as training leaves them: in train mode."""
    handed = copy.deepcopy(setting)
    for model in (handed.victim, *handed.models):
        model.train()
    return handed


def _changes(answer: Callable, setting: Fleet) -> bool:
    """Whether the running statistics of a model are others after an attack."""

    def counted(fleet: Fleet) -> list:
        return [buffer.tolist() for model in (fleet.victim, *fleet.models) for buffer in model.buffers()]

    asked = _handed(setting)
    _ask(lambda *_: answer(*asked), setting, seed=1)
    return counted(asked) != counted(setting)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-3, equal_nan=True)


def _direction(scored: Tensor, due: Tensor) -> int:
    """1 if two sets of scores order the images alike, -1 if the other way round, else 0."""
    return next((sign for sign in (1, -1) if torch.equal((sign * scored).argsort(), due.argsort())), 0)


# -- how many non-members --------------------------------------------------------------------------------------------------


def non_members(answer: object) -> Iterator[str]:
    if isinstance(answer, (str, set, frozenset, dict)) or not isinstance(answer, Collection) or len(answer) != 2:
        yield f"Give a pair: how many for one false positive, then how many for ten. {answer!r} is none."
        return
    one, ten = (float(n) for n in answer)
    if one > ten:
        yield "Ten false positives need fewer non-members than one? First the number for one, then that for ten."
    for count, n in ((1, one), (10, ten)):
        if not n >= 1:
            yield f"{n:g} is no number of non-members."
            return
        share, count_of = count / n, f"{count} of {n:,.6g} non-members {'is' if count == 1 else 'are'}"
        if math.isclose(share, 0.1):
            yield f"{count_of} one in ten. That is 10%, and not 0.1%."
        elif math.isclose(share, 0.01):
            yield f"{count_of} one in a hundred. That is 1%, and not 0.1%."
        elif not math.isclose(share, 0.001):
            verdict = "more than 0.1%" if share > 0.001 else "less than 0.1%: fewer will do"
            yield f"{count_of} {100 * share:.4g}%, {verdict}."


CHECKS = {
    "02.log_ratio": log_ratio,
    "02.non_members": non_members,
    "02.auditor": auditor,
    "02.four_bugs": four_bugs,
}
DEEPER = {"careless_code": ("02.four_bugs",)}
