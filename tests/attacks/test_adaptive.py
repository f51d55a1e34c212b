"""The attacker who knows the defence: averages, weights by hand and as a law, what is dropped, and a search that is told."""

import math
from dataclasses import replace

import pytest
import torch

from privlab import metrics
from privlab.attacks import closed_form, gradient, objectives
from privlab.attacks.adaptive import averaged, dropped, informed, weighted, weights
from privlab.defences.budget import UNIFORM, deviations, spread
from privlab.leak import Leak, observe
from privlab.models import parts, zoo


def leak(**grads):
    return Leak({n: torch.tensor(g, dtype=torch.float64) for n, g in grads.items()}, 1, (1, 1, 1))


# -- averages ------------------------------------------------------------------------------------------------------------------


def test_the_mean_by_hand():
    mean = averaged([leak(a=[1.0, 2.0], b=[0.0]), leak(a=[3.0, 2.0], b=[1.0]), leak(a=[5.0, 2.0], b=[2.0])])
    assert mean["a"].tolist() == [3, 2] and mean["b"].tolist() == [1]
    one = leak(a=[1.0, 2.0])
    assert torch.equal(averaged(iter([one]))["a"], one["a"])


@pytest.mark.parametrize("rounds", [4, 25])
@pytest.mark.parametrize("kind", ["gaussian", "laplacian"])
def test_n_rounds_cut_the_noise_by_the_root_of_n(rounds, kind):
    sent = Leak({"a": torch.ones(20_000), "b": torch.ones(30_000)}, 1, (1, 1, 1))
    shares = {"a": 0.8, "b": 0.2}
    mean = averaged([spread(sent, shares, 0.5, seed, kind) for seed in range(rounds)])
    for name, std in deviations(sent, shares, 0.5).items():
        left = (mean[name] - sent[name]).square().mean().sqrt().item()
        assert left == pytest.approx(std / rounds**0.5, rel=0.05)


A = leak(a=[1.0, 2.0])


@pytest.mark.parametrize(
    "other",
    [
        leak(b=[1.0, 2.0]),
        leak(a=[1.0, 2.0, 3.0]),
        replace(A, batch_size=2),
        replace(A, image_shape=(3, 1, 1)),
        replace(A, labels=torch.tensor([1])),
    ],
)
def test_rounds_of_something_else(other):
    with pytest.raises(ValueError, match="leaks: round 3 .* is not of the batch and the parameters of the first"):
        averaged([A, A, other])
    labelled = replace(A, labels=torch.tensor([1]))
    averaged([labelled, labelled])
    with pytest.raises(ValueError, match="leaks: round 2"):
        averaged([labelled, replace(A, labels=torch.tensor([0]))])


def test_no_round():
    with pytest.raises(ValueError, match=r"leaks=\[\] has no round"):
        averaged([])


# -- weights -------------------------------------------------------------------------------------------------------------------


def test_weights_by_hand():
    """The size of all three numbers is 6: a floor of a tenth is .6."""
    sent = leak(a=[2.0, 10.0], b=[2.0])
    assert weights(sent, {"a": 0.8, "b": 0.0}, floor=0.1) == pytest.approx({"a": 1.0, "b": 1 / 0.6})
    assert weights(sent, {"a": 30.0, "elsewhere": 1.0}, floor=1e-9) == pytest.approx({"a": 1 / 30, "b": 1 / 6e-9})
    assert len(set(weights(sent, {}).values())) == 1 and weights(sent, {"a": 0.5, "b": 0.5}, 1e-9)[
        "a"
    ] == pytest.approx(2)


def test_weighted_is_the_likelihood():
    """Sum of squared differences over variances."""
    sent, ours = leak(a=[3.0, 4.0], b=[2.0]), leak(a=[2.0, 6.0], b=[5.0])
    value = weighted(sent, {"a": 0.5, "b": 3.0}, floor=1e-9)(None, ours.grads, sent)
    assert value.item() == pytest.approx((1 + 4) / 0.25 + 9 / 9)
    by_norm = weighted(sent, {"a": 0.5, "b": 3.0}, objectives.layer_norms, floor=1e-9)(None, ours.grads, sent)
    assert by_norm.item() == pytest.approx(5**0.5 / 0.5 + 3 / 3)


def test_weighing_wins_where_noise_is_unequal():
    """A message that is linear in x, two tensors with noise of .1 and 2. The objective is a quadratic form, so one step of Newton's finds
    its minimum. Over 200 draws: the covariance of weighted least squares, by Gauss and Markov; plain squares do four times worse."""
    draw = torch.Generator().manual_seed(0)
    linear = {n: torch.randn(rows, 4, generator=draw, dtype=torch.float64) for n, rows in (("a", 8), ("b", 30))}
    std = {"a": 0.1, "b": 2.0}
    x = torch.randn(4, generator=draw, dtype=torch.float64)
    errors, bends = {"weighted": [], "plain": []}, {}
    for _ in range(200):
        sent = Leak(
            {n: m @ x + std[n] * torch.randn(len(m), generator=draw).double() for n, m in linear.items()}, 1, (1, 1, 1)
        )
        for name, value in (("weighted", weighted(sent, std, floor=1e-9)), ("plain", objectives.squared_distance)):

            def loss(guess, value=value, sent=sent):
                return value(None, {n: m @ guess for n, m in linear.items()}, sent)

            guess = torch.zeros(4, dtype=torch.float64, requires_grad=True)
            (slope,) = torch.autograd.grad(loss(guess), guess)
            if name not in bends:  # the same for all draws
                bends[name] = torch.autograd.functional.hessian(loss, guess)
            errors[name].append((-torch.linalg.solve(bends[name], slope) - x).square().sum().item())
    mean = {name: sum(some) / len(some) for name, some in errors.items()}
    covariance = torch.linalg.inv(sum(m.T @ m / std[n] ** 2 for n, m in linear.items()))
    assert mean["weighted"] == pytest.approx(covariance.trace().item(), rel=0.25)
    assert mean["weighted"] < mean["plain"] / 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weights(A, {}, floor=0), "floor=0 is no share of a gradient's size; give a positive number"),
        (lambda: weights(A, {"a": -1.0}), r"deviations\['a'\]=-1.0 is no standard deviation; give 0 or more"),
        (lambda: weights(A, {"a": math.inf}), r"deviations\['a'\]=inf is no standard deviation"),
        (lambda: weights(leak(a=[0.0]), {"a": 1.0}), "leak: its gradients are zero throughout"),
        (lambda: dropped(A, {"a": math.nan}), r"deviations\['a'\]=nan is no standard deviation"),
        (lambda: dropped(A, {}, above=0), "above=0 is no share of a gradient's size"),
        (
            lambda: dropped(A, {"a": 10.0}, above=0.5),
            "above=0.5 leaves no gradient; the cleanest, 'a', has a share of noise of 6.3",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# -- what is dropped -----------------------------------------------------------------------------------------------------------


def test_tensors_of_noise_are_dropped():
    """Sizes 5 and 2, and one tensor of zeros, which is dropped if noise is known in it: there should be some."""
    sent = leak(a=[5.0, -5.0], b=[2.0], c=[0.0, 0.0])
    known = {"a": 2.0, "b": 1.0, "elsewhere": 9.0}
    assert [*dropped(sent, known, above=0.5).grads] == ["a", "b", "c"]
    assert [*dropped(sent, known, above=0.45).grads] == ["a", "c"]
    assert [*dropped(sent, {**known, "c": 1e-9}, above=0.45).grads] == ["a"]


def test_half_signal_is_a_share_of_seven_tenths():
    clean = Leak({"a": torch.ones(10_000), "b": torch.ones(10_000)}, 1, (1, 1, 1))
    shares = {"a": 0.6, "b": 0.4}
    noisy = spread(clean, shares, 1.0)  # |noise| = |gradient|: variances 1.2 and .8 beside a signal of 1
    assert [*dropped(noisy, deviations(clean, shares, 1.0), above=0.5**0.5).grads] == ["b"]


# -- in an attack --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def victim():
    model = zoo.build("vit_cifar", embed_dim=64, depth=2, num_heads=2, position_std=1.0)
    photo = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    photo = torch.nn.functional.interpolate(photo, (32, 32), mode="bicubic").clamp(0, 1)
    return model, photo, observe(model, photo, torch.tensor([3]))


def test_rounds_undo_noise_in_the_closed_form(victim):
    model, photo, sent = victim
    rounds = [spread(sent, {"stem": 1.0}, 3e-5, seed, model=model) for seed in range(16)]
    std = deviations(sent, {"stem": 1.0}, 3e-5, model)
    less = {name: size / 4 for name, size in std.items()}
    one = metrics.psnr(closed_form.patch_embedding(model, rounds[0], noise=std).images, photo)
    all_of_them = metrics.psnr(closed_form.patch_embedding(model, averaged(rounds), noise=less).images, photo)
    assert all_of_them > one + 3  # 12 dB, if the error were proportional to the noise


def test_a_search_that_is_told(victim):
    """Terms on gradients are weighed, others are as they were. Half of the message is noise, in two parts of five: who knows which does as
    well as on the rest alone, nearly as well as without noise, and better than who does not know."""
    model, photo, sent = victim
    shares = {"attention": 0.5, "mlp": 0.5}
    noisy, std = spread(sent, shares, 1.0, 1, model=model), deviations(sent, shares, 1.0, model)
    attack = gradient.inverting_gradients(40)
    told = informed(attack, noisy, std)
    assert told.terms[1:] == attack.terms[1:] and told.steps == 40 and len(told.terms) == 2
    assert repr(told.terms[0].value) == repr(weighted(noisy, std, objectives.cosine_distance))
    rest = dropped(noisy, std)
    assert {*rest.grads} == {*sent.grads} - {*parts.names(model, "attention", "mlp")}
    cases = dict(naive=(attack, noisy), told=(told, noisy), rest=(attack, rest), clean=(attack, sent))
    found = {n: metrics.psnr(a.run(model, m, progress=False).images, photo).item() for n, (a, m) in cases.items()}
    assert found["told"] > found["naive"] + 1 and abs(found["told"] - found["rest"]) < 0.2
    assert abs(found["told"] - found["clean"]) < 0.5


def test_even_noise_changes_no_search(victim):
    """The same noise everywhere is weighed alike."""
    _, _, sent = victim
    found = weights(spread(sent, UNIFORM, 10.0), deviations(sent, UNIFORM, 10.0))
    assert max(found.values()) == pytest.approx(min(found.values()), rel=1e-12)
