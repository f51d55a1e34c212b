"""One budget of noise: deviations by hand, energy over many draws, every group and bad input."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab import metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.defences.noise_budget import UNIFORM, deviations, spread
from privlab.leak import Leak, observe
from privlab.models import parts


def message(seed=0, dtype=torch.float64):
    """Three tensors of 6, 10 and 4 numbers; the norm is 20 together."""
    drawn = torch.randn(20, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    a, b, c = (20 * drawn / drawn.norm()).split([6, 10, 4])
    return Leak({"a": a.view(2, 3), "b": b, "c": c}, 1, (3, 4, 4))


def noise(noisy, clean):
    return {name: noisy.grads[name] - g for name, g in clean.grads.items()}


# -- how it is spent -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        # energy (0.5 * 20)^2 = 100
        (UNIFORM, dict(a=math.sqrt(5), b=math.sqrt(5), c=math.sqrt(5))),
        ({"rest": 1}, dict(a=math.sqrt(5), b=math.sqrt(5), c=math.sqrt(5))),
        ({"b": 1.0}, dict(a=0, b=math.sqrt(10), c=0)),
        ({("a", "b"): 0.64, "rest": 0.36}, dict(a=2, b=2, c=3)),
        ({("a", "a", "b"): 0.64, "rest": 0.36}, dict(a=2, b=2, c=3)),
        ({"c": 1, "rest": 0}, dict(a=0, b=0, c=5)),
        # in two groups: variances 60 / 16 + 40 / 20 for a and b, 40 / 20 for c
        ({("a", "b"): 0.6, "all": 0.4}, dict(a=math.sqrt(5.75), b=math.sqrt(5.75), c=math.sqrt(2))),
    ],
)
def test_deviations_by_hand(shares, expected):
    sent = message()
    found = deviations(sent, shares, 0.5)
    assert found == pytest.approx(expected) and [*found] == ["a", "b", "c"]
    energy = sum(found[name] ** 2 * g.numel() for name, g in sent.grads.items())
    assert energy == pytest.approx(100)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 3), st.booleans())
def test_the_energy_is_the_budget_whatever_the_shares(weights, relative, overlap):
    if not sum(weights):
        weights = [1.0, 0.0, 0.0]
    a, b, c = (weight / sum(weights) for weight in weights)
    sent = message()
    found = deviations(sent, {("a", "b") if overlap else "a": a, "b": b, "c": c}, relative)
    energy = sum(found[name] ** 2 * g.numel() for name, g in sent.grads.items())
    assert energy == pytest.approx((relative * 20) ** 2, rel=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "laplacian"])
def test_the_energy_of_many_draws_is_the_budget_group_by_group(kind):
    """2,000 draws: the mean of so many energies of 4 numbers or more lies within 4% of its expectation, by far."""
    sent, shares = message(), {"a": 0.5, "b": 0.3, "c": 0.2}
    drawn = [noise(spread(sent, shares, 0.1, seed, kind), sent) for seed in range(2_000)]
    for name, share in shares.items():
        numbers = torch.stack([one[name].flatten() for one in drawn])  # (draws, numbers)
        assert numbers.square().sum(1).mean().item() == pytest.approx(share * (0.1 * 20) ** 2, rel=0.1)
        each = numbers.square().mean(0)  # every number of a group has its even part
        assert each.div(each.mean()).sub(1).abs().max() < 0.25
        assert (numbers.mean(0).abs() < 5 * each.sqrt() / 2_000**0.5).all()
    total = sum(square.square().sum() for one in drawn for square in one.values()) / 2_000
    assert total.item() == pytest.approx((0.1 * 20) ** 2, rel=0.04)


def test_kinds_have_their_tails():
    sent = Leak({"a": torch.ones(200, 300)}, 1, (3, 4, 4))
    for kind, kurtosis in (("gaussian", 3.0), ("laplacian", 6.0)):
        drawn = noise(spread(sent, UNIFORM, 1.0, 0, kind), sent)["a"].double()
        assert (drawn.pow(4).mean() / drawn.square().mean() ** 2).item() == pytest.approx(kurtosis, rel=0.1)


def test_seeds_pair_two_ways_to_spend():
    """The same seed gives the same noise but for its size, so that what differs between two allocations is the allocation."""
    sent = message()
    one, other = spread(sent, UNIFORM, 0.1, 3), spread(sent, {"b": 1.0}, 0.1, 3)
    assert torch.equal(other.grads["a"], sent.grads["a"]) and torch.equal(other.grads["c"], sent.grads["c"])
    factor = math.sqrt(20 / 10)
    torch.testing.assert_close(noise(other, sent)["b"], factor * noise(one, sent)["b"])
    assert torch.equal(spread(sent, UNIFORM, 0.1, 3)["a"], one["a"])
    assert not torch.equal(spread(sent, UNIFORM, 0.1, 4)["a"], one["a"])
    assert all(torch.equal(spread(sent, UNIFORM, 0.0)[name], g) for name, g in sent.grads.items())
    short = spread(message(dtype=torch.float32), UNIFORM, 0.1, kind="laplacian")
    assert short["a"].dtype == torch.float32 and (short.batch_size, short.image_shape) == (1, (3, 4, 4))


def test_an_attacker_reads_the_deviations_off_the_noisy_message():
    sent = Leak(
        {"a": torch.randn(300, 300, generator=torch.Generator().manual_seed(0)), "b": torch.ones(50)}, 1, (3, 4, 4)
    )
    shares, relative = {"a": 0.9, "b": 0.1}, 0.7
    noisy = spread(sent, shares, relative, seed=1)  # not the seed of the message itself
    guess = deviations(noisy, shares, relative / math.sqrt(1 + relative**2))
    assert guess == pytest.approx(deviations(sent, shares, relative), rel=0.02)


# -- parts of a model ----------------------------------------------------------------------------------------------------------


def vit(**changes):
    return models.build("vit_cifar", **(dict(embed_dim=64, depth=2, num_heads=2) | changes))


PHOTO = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(1))
LABEL = torch.tensor([3])


@pytest.fixture(scope="module")
def small():
    model = vit()
    return model, observe(model, PHOTO, LABEL)


def test_words_of_parts(small):
    model, sent = small
    found = deviations(sent, {"stem": 0.5, "activation": 0.25, "rest": 0.25}, 0.1, model)
    stem, straight = parts.stem(model), parts.activation(model)
    rest = [name for name in sent.grads if name not in stem and name not in straight]
    energy = (0.1 * sent.norm.item()) ** 2
    for names, share in ((stem, 0.5), (straight, 0.25), (rest, 0.25)):
        expected = math.sqrt(share * energy / sum(sent.grads[name].numel() for name in names))
        assert all(found[name] == pytest.approx(expected, rel=1e-5) for name in names)


def test_only_what_is_sent_counts(small):
    """Position withheld: the stem's share goes to what is left of it, and the norm is that of what is left."""
    model, sent = small
    less = sent.without(["pos_embed"])
    found = deviations(less, {"stem": 1.0}, 0.1, model)
    left = sum(less.grads[name].numel() for name in parts.stem(model) if name != "pos_embed")
    assert "pos_embed" not in found
    assert found["cls_token"] == pytest.approx(0.1 * less.norm.item() / math.sqrt(left), rel=1e-5)
    with pytest.raises(ValueError, match="shares: 'pos_embed' is no group"):
        deviations(less, {"pos_embed": 1.0}, 0.1, model)
    with pytest.raises(
        ValueError, match=r"shares\['position'\]=0.5: the message holds no parameter of it; leave it out"
    ):
        deviations(sent.without(parts.position(model)), {"position": 0.5, "rest": 0.5}, 0.1, model)


@pytest.mark.parametrize(
    ("shares", "message_", "more"),
    [
        ({}, "spends nothing; give group -> share", {}),
        (["a"], "spends nothing; give group -> share", {}),
        ({"a": 0.5, "b": 0.4}, "shares add up to 0.9, and a budget is spent whole; divide each by 0.9", {}),
        ({"a": 0.5, "b": 0.6}, "shares add up to 1.1.*divide each by 1.1", {}),
        ({"a": 0}, "shares add up to 0,.*give 1 to one of them", {}),
        ({"a": 1.5, "b": -0.5}, r"shares\['b'\]=-0.5 is no share of a budget; give 0 to 1", {}),
        ({"a": float("nan")}, r"shares\['a'\]=nan is no share", {}),
        ({"stm": 1}, "shares: 'stm' is no group; did you mean 'stem'.*rest, all", {}),
        ({"stem": 1}, "'stem' is a part of a model, which has to be looked at; give model=... too", {}),
        ({("a", "d"): 1}, "the message holds no gradient named 'd'; it has 3, such as 'a'", {}),
        ({(): 0.5, "rest": 0.5}, r"shares\[\(\)\]=0.5: the message holds no parameter of it", {}),
        ({"all": 0.5, "rest": 0.5}, r"shares\['rest'\]=0.5: the message holds no parameter of it; leave it out", {}),
        (UNIFORM, "relative=-0.1 is no share of the message's norm", dict(relative=-0.1)),
        (UNIFORM, "relative=inf is no share of the message's norm", dict(relative=math.inf)),
        (UNIFORM, "kind='laplace' is no noise; did you mean 'laplacian'", dict(kind="laplace")),
    ],
)
def test_bad_budgets(shares, message_, more):
    with pytest.raises(ValueError, match=message_):
        spread(message(), shares, **(dict(relative=0.1) | more))


def test_parts_that_a_model_lacks(small):
    model, sent = small
    with pytest.raises(
        ValueError, match="VisionTransformer learns nothing in 'conv'; it has stem, attention, mlp, norm, head"
    ):
        spread(sent, {"conv": 0.5, "rest": 0.5}, 0.1, model=model)


# -- what it does to an attack -------------------------------------------------------------------------------------------------


def recovered(model, leak, noise=None):
    return metrics.psnr(closed_form.patch_embedding(model, leak, noise).images, PHOTO).item()


def test_noise_hurts_the_closed_form_where_it_is_spent_and_by_how_much(small):
    """The form reads the stem: noise elsewhere costs nothing, all of the budget there more than an even spread; and more costs more."""
    model, sent = small
    elsewhere = recovered(model, spread(sent, {"head": 1.0}, 0.01, model=model))
    even, there = (
        [recovered(model, spread(sent, shares, relative, model=model)) for relative in (1e-5, 1e-3)]
        for shares in (UNIFORM, {"stem": 1.0})
    )
    assert elsewhere == recovered(model, sent) > 60
    assert elsewhere > even[0] > there[0] > there[1] and even[0] > even[1] > there[1]
    assert there[1] < 20
