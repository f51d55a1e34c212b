"""Lab 02: the check of the four bugs names each, whatever else is right."""

import pytest
import torch

from privlab.attacks.membership_inference import signals
from privlab.notebook import checks


def odds(logits, labels):
    p = logits.softmax(1)[torch.arange(len(labels)), labels]
    return (p / (1 - p)).log()


def attack(train=False, shift=lambda: 0, signal=signals.margin, sign=1):
    def score(victim, models, keep, pixels, labels):
        with torch.no_grad():
            own, *others = (signal(model.train(train)(pixels.roll(shift(), -1)), labels) for model in (victim, *models))
        outside = [torch.stack(others)[~column, i] for i, column in enumerate(keep.T)]
        mean, std = (torch.stack([f(each) for each in outside]) for f in (torch.mean, torch.std))
        return sign * (own - mean) / std

    return score


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (attack(train=True), "wrong mode"),
        (attack(shift=lambda: torch.randint(-1, 2, (1,)).item()), "drawn at random"),
        (attack(signal=odds), "NaN, infinite"),
        (attack(sign=-1), "The sign is turned"),
        (attack(signal=signals.loss), "You compare log p"),
        (attack(shift=lambda: 1), "in another order"),
        (lambda *given: torch.zeros(10), "the same for several images"),
        (lambda *given: 3 * attack()(*given) + 1, ""),  # any scores in the right order
    ],
)
def test_each_bug_is_named(answer, why):
    outcome = checks.verify("02.four_bugs", answer)
    assert outcome.passed is not bool(why) and why in outcome.why
