"""The damped solve: least squares without noise, Wiener's filter with it, and the rank that is left."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab.attacks.gradient_inversion.closed_form import least_squares

NONE = torch.tensor(0.0, dtype=torch.float64)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_without_noise_it_is_least_squares(unknowns, more, seed):
    A, B = drawn(unknowns + more, unknowns, seed=seed), drawn(unknowns + more, 2, seed=seed + 1)
    solved = least_squares.solve(A, B, 0.0, NONE)
    torch.testing.assert_close(solved.X, torch.linalg.pinv(A) @ B, rtol=1e-6, atol=1e-6)
    assert solved.rank == unknowns and solved.condition == pytest.approx(torch.linalg.cond(A).item(), rel=1e-6)
    weighed = least_squares.weighed(A, A @ solved.X, 1e-14, 0.0, 0.0)
    torch.testing.assert_close(weighed.X, solved.X, rtol=1e-6, atol=1e-6)
    assert weighed.rank == unknowns


def test_noise_in_the_right_hand_side_damps_as_wiener_does():
    """s = 4 and 1/4 with errors of size 1: s / (s^2 + 1) in place of 1 / s, and one singular value stands above them."""
    A, B = torch.diag(torch.tensor([4.0, 0.25])).double(), torch.ones(2, 1).double()
    solved = least_squares.solve(A, B, 0.0, torch.tensor(1.0).double())
    assert solved.X.flatten().tolist() == pytest.approx([4 / 17, 0.25 / (1 / 16 + 1)])
    assert solved.rank == 1 and solved.condition == 16


def test_known_noise_weighs_rows_by_hand():
    """One unknown: a row of 1s in A and in B errs by (.1, 1) of its size; 1 / noise^2 of each, and 1 for the damping."""
    A, B = torch.tensor([[1.0], [10.0]]).double(), torch.tensor([[3.0], [50.0]]).double()
    solved = least_squares.weighed(A, B, 1e-12, 0.0, 1.0)
    assert solved.X.item() == pytest.approx((1 * 3 + 10 * 50) / (1 + 100 + 1))
    both = least_squares.weighed(A, B, 1e-12, 0.5, 0.0)  # 2 * .5 = 1: errors of A count twice
    assert both.X.item() == pytest.approx(solved.X.item())
    assert solved.rank == 1 and least_squares.weighed(A, B, 1e-12, 0.0, 150.0).rank == 0
