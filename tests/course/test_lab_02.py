"""Lab 02: the check of the four bugs names each, whatever else is right; that of the ratio sees a density that has become 0."""

import pytest
import torch
from torch.distributions import Normal

from privlab.attacks.membership_inference import signals
from privlab.course.lab_02.checks import OTHERS, Fleet
from privlab.notebook import checks


def attack(bug="", show=lambda pixels: pixels):
    """The mended attack, with one of the four bugs left in it, or another question for some of the models."""

    def odds(logits, labels):
        p = logits.softmax(1)[torch.arange(len(labels)), labels]
        return (p / (1 - p)).log()

    def score(victim, models, keep, pixels, labels):
        def ask(model):
            with torch.no_grad():
                model.train(bug == "mode")
                shift = torch.randint(-1, 2, (1,)).item() if bug == "question" else 0
                return (odds if bug == "float32" else signals.margin)(model(show(pixels).roll(shift, -1)), labels)

        said = torch.stack([ask(model) for model in models])
        outside = [said[~column, i] for i, column in enumerate(keep.T)]
        mean, std = (torch.stack([f(each) for each in outside]) for f in (torch.mean, torch.std))
        return (-1 if bug == "sign" else 1) * (ask(victim) - mean) / std

    return score


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (attack("mode"), "wrong mode"),
        (attack("question"), "drawn at random"),
        (attack("float32"), "NaN or infinite"),
        (attack("sign"), "The sign is turned"),
        (attack(show=lambda pixels: pixels.roll(1, -1)), "for pictures of one colour"),
        (lambda victim, models, keep, pixels, labels: torch.zeros(len(labels)), "get the same score"),
        (lambda victim, models, keep, pixels, labels: torch.zeros(10), "other images are asked along with it"),
        (lambda *given: 1.0, "yours has the shape ()"),
    ],
)
def test_each_bug_is_named(answer, why):
    assert why in checks.verify("02.four_bugs", answer).why


@pytest.mark.parametrize("why", OTHERS)
def test_what_else_the_victim_may_be_compared_with_is_named(why):
    def answer(victim, models, *given):
        return OTHERS[why](Fleet(victim.eval(), [model.eval() for model in models], *given))

    assert checks.verify("02.four_bugs", answer).why == why


def test_any_scores_in_the_right_order_are_taken():
    assert checks.verify("02.four_bugs", lambda *given: 3 * attack()(*given) + 1).passed


def test_a_density_that_has_become_0_is_seen():
    def answer(victim, inside, outside):
        one, other = (Normal(side.mean(), side.std()).log_prob(victim).exp() for side in (inside, outside))
        return (one / other).log()

    assert "Let no density appear" in checks.verify("02.log_ratio", answer).why
