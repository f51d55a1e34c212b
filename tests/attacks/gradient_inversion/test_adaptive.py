"""The attacker who knows the defence: averages, weights by hand and as a law, what never came, searches that are told."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import objectives
from privlab.attacks.gradient_inversion.adaptive import LEFT_OVER, arrived, compared, tempered, unclipped
from privlab.leak import Leak

SEARCH = gradient_inversion.annealed(10)


def leak(**grads):
    return Leak({n: torch.tensor(g, dtype=torch.float64) for n, g in grads.items()}, 1, (1, 1, 1))


def drawn(seed, *sizes):
    draw = torch.Generator().manual_seed(seed)
    return leak(**{n: (size * torch.randn(4, generator=draw)).tolist() for n, size in zip("abc", sizes, strict=False)})


def heard(search):
    """What a search compares."""
    return search.terms[0].value


def test_tempered_weights_by_hand():
    """|a| = 5 and noise of 2 LEFT_OVER on it, so 2 more; |b| = 3 and none; c is drowned, with noise of 60 on it."""
    update = leak(a=[3.0, 4.0, 0.0, 0.0], b=[1.0, 2.0, 2.0], c=[0.6, 0.8, 0.0, 0.0])
    value = heard(tempered(SEARCH, update, {"a": LEFT_OVER, "c": 30.0, "elsewhere": 7.0}))
    ours = {"a": update["a"] + 2, "b": update["b"] - 1, "c": update["c"] + 1}
    expected = 16 / (25 + 4) + 3 / 9 + 4 / (1 + (60 / LEFT_OVER) ** 2)
    assert value(None, ours, update).item() == pytest.approx(expected)


@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(-8, 3))
def test_without_noise_it_is_the_relative_distance(seed, large, small):
    """Tensors below the floor included, and one of zeros, of which a search on a clean update keeps away likewise."""
    update, ours = drawn(seed, 10**large, 10**small, 0.0), drawn(seed + 1, 10**large, 10**small, 1e-7).grads
    expected = objectives.relative_distance(None, ours, update).item()
    for known in ({}, {"a": 0.0}):
        assert heard(tempered(SEARCH, update, known))(None, ours, update).item() == pytest.approx(expected, rel=1e-9)


def test_only_terms_on_gradients_change_and_a_key_tells_what_became_of_them():
    told = tempered(SEARCH, leak(a=[1.0, 2.0]), {"a": 0.1})
    assert told.terms[1:] == SEARCH.terms[1:] and replace(told, terms=SEARCH.terms) == SEARCH
    assert replace(told.terms[0], value=SEARCH.terms[0].value) == SEARCH.terms[0]
    others = [tempered(SEARCH, leak(a=[1.0, 2.0]), {"a": std}) for std in (0.0, 0.2)]
    assert len({repr(search) for search in (SEARCH, told, *others, arrived(told), unclipped(SEARCH))}) == 6


@pytest.mark.parametrize("objective", [objectives.cosine_distance, objectives.layer_norms])
def test_what_did_not_arrive_is_not_compared_and_a_clipped_update_is_searched_as_before(objective):
    update = leak(a=[1.0, 0.0, -2.0], b=[0.0, 3.0])
    ours = {"a": torch.tensor([1.5, 9.0, -1.0]).requires_grad_(), "b": torch.tensor([7.0, 2.0]).requires_grad_()}
    without = {"a": torch.tensor([1.5, 0.0, -1.0]), "b": torch.tensor([0.0, 2.0])}
    value = heard(arrived(compared(SEARCH, objective)))(None, ours, update)
    torch.testing.assert_close(value, objective(None, without, update))
    for slope, g in zip(torch.autograd.grad(value, [*ours.values()]), update.grads.values(), strict=True):
        assert torch.equal(slope != 0, g != 0)

    update, ours = drawn(1, 1.0, 2.0), drawn(2, 1.0, 2.0).grads
    value = heard(unclipped(compared(SEARCH, objective)))
    scaled = [value(None, {n: factor * g for n, g in ours.items()}, update) for factor in (0.1, 1.0, 30.0)]
    torch.testing.assert_close(scaled, [scaled[0]] * 3)
    assert value(None, {n: 7.0 * g for n, g in update.grads.items()}, update).item() == pytest.approx(0, abs=1e-6)
