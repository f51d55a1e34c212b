"""Lab 02: how many stand behind a likelihood, a ratio by hand, non-members of a small rate; deeper, an attack with four bugs."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from privlab import data
from privlab.attacks.membership_inference import lira, signals
from privlab.notebook.kit import OPEN, a_function, each, function, number

behind = each(
    number(3, {
        4: "Four networks are trained with the picture, or without it. One of them is the victim, and one its partner.",
        6: "That is both sides together.",
    }, "Leave out the victim and its partner, and halve the rest.", rel=1e-6),
    number(1, {
        2: "Two shadow models are left, and one of them is trained with the picture.",
    }, "Leave out the victim and its partner, and halve the rest.", rel=1e-6),
    number(130, {
        128: "So many shadow models are needed. The victim and its partner belong to the fleet, too.",
        64: "64 are needed with the picture, and 64 without it.",
    }, "How many shadow models are on both sides together? Who else is in the fleet?", rel=1e-6),
    ask="Give three numbers: for a fleet of eight, for a fleet of four, and the size of the fleet with 64 on each side.",
)  # fmt: skip


def _ratio(victim: Tensor, inside: Tensor, outside: Tensor, correction: int = 1) -> Tensor:
    """The log ratio of two Gaussians, fitted with a standard deviation over n - correction."""
    one, other = (Normal(x.mean(), x.std(correction=correction)).log_prob(victim) for x in (inside, outside))
    return one - other


# Margins of the shadow models
IN, OUT = torch.tensor([[3.5, 5.0, 4.2, 6.1], [1.0, 2.5, 0.3, 1.9]], dtype=torch.float64)
log_ratio = function(
    _ratio,
    [(torch.tensor(4.0), IN, OUT), (torch.tensor(2.0), OUT, IN[:3]), (torch.tensor(60.0), IN, OUT)],
    {
        "Your standard deviations divide by n. With so few models that makes them too small; divide by n - 1.":
            lambda v, a, b: _ratio(v, a, b, correction=0),
        "Your Gaussians are all of the same height. A narrow one is higher: 1 / std stands before the exponential.":
            lambda v, a, b: _ratio(v, a, b) + (a.std() / b.std()).log(),
        "Right, but for a victim far out, where a density is 0, and its logarithm lost. Let no density appear: stay with the logarithms.":
            lambda v, a, b: _ratio(v, a, b) if v < 60 else torch.nan,
    },
    "Set each of the two log densities beside torch.distributions.Normal's, and let no density appear: far out it is 0.",
)  # fmt: skip

non_members = each(
    number(1_000, {
        500: "1 of 500 non-members is 0.2%, more than 0.1%.",
        10_000: "First the number for one false positive, then that for ten.",
    }, "What share of so many non-members is one?", rel=1e-6),
    number(10_000, {
        1_000: "10 of 1,000 non-members are one in a hundred. That is 1%, and not 0.1%.",
    }, "What share of so many non-members are ten?", rel=1e-6),
    ask="Give a pair: how many for one false positive, then how many for ten.",
)  # fmt: skip


def fleet(gap: float) -> tuple[nn.Module, list[nn.Module], Tensor, Tensor, Tensor]:
    """What an attack is given: a victim, eight shadow models, who was trained on what, ten images, and the classes that all see in them.

    gap: about how far the logit of the true class lies above the others.
    """
    draw = torch.Generator().manual_seed(13)  # so that no two scores are close
    patterns = torch.randn(5, 108, generator=draw)  # one for each class
    models: list[nn.Module] = []
    for _ in range(9):
        head = nn.utils.skip_init(nn.Linear, 108, 5, bias=False)
        head.weight.data = gap / 108 * (patterns + 0.5 * torch.randn(5, 108, generator=draw))
        models.append(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), head).eval())
    labels = torch.arange(10) % 5
    pixels = (patterns[labels] + 0.5 * torch.randn(10, 108, generator=draw)).view(10, 3, 6, 6)
    return models[0], models[1:], data.in_out(10, 8, 13), pixels, labels


def mended(given: tuple, signal: Callable = signals.margin) -> Tensor:
    """What the attack should return: how many spreads the victim's margin lies above those of models without the image."""
    victim, models, keep, pixels, labels = given
    with torch.no_grad():
        own, *others = (signal(model(pixels), labels)[:, None] for model in (victim, *models))
    fit = lira.gaussians(torch.stack(others), keep, "per-example")
    return ((own - fit.mean_out) / fit.std_out)[:, 0]


def four_bugs(answer: Callable) -> Iterator[str]:
    yield from a_function(answer)
    given, sure = fleet(gap=4.0), fleet(gap=80.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        (scored, changed), (again, _), (certain, _) = (_asked(answer, case) for case in (given, given, sure))
    if not scored.numel():
        yield OPEN
    if changed:
        yield "Your questions change BatchNorm's statistics: a model that takes account of what it is shown is in the wrong mode."
    if not torch.allclose(scored, again, rtol=1e-3, atol=1e-3, equal_nan=True):
        yield "The same call twice gives different scores: something is drawn at random. Is every model asked the same question?"
    if not certain.isfinite().all() or len(certain.unique()) < 10:
        yield (
            "Where the models are very sure your scores are NaN, infinite or the same for several images. So near to 1 a probability has "
            "lost how sure the model was, and nothing that is made of it, or cut off, brings it back. Where is it still to be seen?"
        )
    if _alike(-scored, mended(given)):
        yield "The sign is turned: the surer the victim is, beside models that never saw the image, the lower your score."
    if _alike(scored, mended(given, signals.loss)):
        yield "You compare log p. The net's code compared the log of p over 1 - p, which is nearer a Gaussian; keep that."
    if not (_alike(scored, mended(given)) and _alike(certain, mended(sure))):
        yield "The images are in another order than they should be. Show every model the picture as given, and mend the four, no more."


def _asked(answer: Callable, given: tuple) -> tuple[Tensor, bool]:
    """What an attack says of models as training leaves them, in train mode; and whether it changed their running statistics."""
    victim, models, *rest = copy.deepcopy(given)
    asked = [model.train() for model in (victim, *models)]
    scored = answer(victim, models, *rest)
    changed = any(int(model.get_buffer("0.num_batches_tracked")) for model in asked)
    return torch.as_tensor([] if scored is None else scored).detach().double(), changed


def _alike(scored: Tensor, due: Tensor) -> bool:
    """Whether two sets of scores order the images alike."""
    return torch.equal(scored.argsort(), due.argsort())
