"""The damped solve: least squares without noise, Wiener's filter with it, and the rank that is left."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab.attacks import ridge

NONE = torch.tensor(0.0, dtype=torch.float64)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_without_noise_it_is_least_squares(unknowns, more, seed):
    A, B = drawn(unknowns + more, unknowns, seed=seed), drawn(unknowns + more, 2, seed=seed + 1)
    solved = ridge.solve(A, B, 0.0, NONE)
    torch.testing.assert_close(solved.X, torch.linalg.pinv(A) @ B, rtol=1e-6, atol=1e-6)
    assert solved.rank == unknowns and solved.condition == pytest.approx(torch.linalg.cond(A).item(), rel=1e-6)


def test_noise_in_the_right_hand_side_damps_as_wiener_does():
    """s = 4 and 1/4 with errors of size 1: s / (s^2 + 1) in place of 1 / s, and one singular value stands above them."""
    A, B = torch.diag(torch.tensor([4.0, 0.25])).double(), torch.ones(2, 1).double()
    solved = ridge.solve(A, B, 0.0, torch.tensor(1.0).double())
    assert solved.X.flatten().tolist() == pytest.approx([4 / 17, 0.25 / (1 / 16 + 1)])
    assert solved.rank == 1 and solved.condition == 16


def test_a_turn_counts_for_the_rank_alone():
    A, B = torch.diag(torch.tensor([4.0, 0.25])).double(), torch.ones(2, 1).double()
    straight, turned = ridge.solve(A, B, 0.0, NONE), ridge.solve(A, B, 0.0, NONE, turn=0.1)
    assert torch.equal(straight.X, turned.X) and (straight.rank, turned.rank) == (2, 1)


def test_the_norm_of_errors_is_that_of_errors():
    A = 3 * drawn(80, 60)
    errors = [torch.linalg.matrix_norm(0.01 * ridge.rms(A) * drawn(80, 60, seed=s), 2).item() for s in range(1, 6)]
    assert ridge.norm_of_errors(A, 0.01).item() == pytest.approx(sum(errors) / 5, rel=0.1)


def test_sizes_by_hand():
    A = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert ridge.row_sizes(A).flatten().tolist() == pytest.approx([12.5**0.5, 1.0])  # 1 for zeros: they can be divided
    assert ridge.rms(A).item() == pytest.approx(2.5)
