"""The damped solve: least squares without noise, Wiener's filter with it, and the rank that is left."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from privlab.attacks.gradient_inversion.closed_form import least_squares
from privlab.leak import observe
from privlab.models import april

NONE = torch.tensor(0.0, dtype=torch.float64)


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_without_noise_it_is_least_squares(unknowns, more, seed):
    A, B = drawn(unknowns + more, unknowns, seed=seed), drawn(unknowns + more, 2, seed=seed + 1)
    solved = least_squares.solve(A, B, 0.0, NONE)
    torch.testing.assert_close(solved.X, torch.linalg.pinv(A) @ B, rtol=1e-6, atol=1e-6)
    assert solved.rank == unknowns and solved.condition == pytest.approx(torch.linalg.cond(A).item(), rel=1e-6)


def test_noise_in_the_right_hand_side_damps_as_wiener_does():
    """s = 4 and 1/4 with errors of size 1: s / (s^2 + 1) in place of 1 / s, and one singular value stands above them."""
    A, B = torch.diag(torch.tensor([4.0, 0.25])).double(), torch.ones(2, 1).double()
    solved = least_squares.solve(A, B, 0.0, torch.tensor(1.0).double())
    assert solved.X.flatten().tolist() == pytest.approx([4 / 17, 0.25 / (1 / 16 + 1)])
    assert solved.rank == 1 and solved.condition == 16


def test_known_noise_weighs_rows_by_hand():
    """One unknown, exact rows x = 3 and a row of ten times the noise: 1 / noise^2 of each, and 1 for the damping."""
    A, B = torch.ones(2, 1).double(), torch.tensor([[3.0], [5.0]]).double()
    solved = least_squares.weighed(A, B, 1e-12, 0.0, torch.tensor([[0.1], [1.0]]))
    assert solved.X.item() == pytest.approx((100 * 3 + 1 * 5) / (100 + 1 + 1))
    both = least_squares.weighed(
        A, B, 1e-12, 0.05, torch.tensor([[0.0], [1.0]])
    )  # 2 * .05 = .1: errors of A count twice
    assert both.X.item() == pytest.approx((100 * 3 + 5 / 1.01) / (100 + 1 / 1.01 + 1))
    assert solved.rank == 1 and least_squares.weighed(A, B, 1e-12, 0.0, 1.5).rank == 0


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**31))
def test_weighed_without_noise_is_least_squares(unknowns, more, seed):
    A, X = drawn(unknowns + more, unknowns, seed=seed), drawn(unknowns, 2, seed=seed + 1)
    solved = least_squares.weighed(A, A @ X, 1e-14, 0.0, 0.0)
    torch.testing.assert_close(solved.X, X, rtol=1e-6, atol=1e-6)
    assert solved.rank == unknowns


def test_known_noise_row_by_row_is_worth_knowing():
    """Half of the rows a hundred times as noisy: weighed, the error is near that of the good rows alone; all alike, far off."""
    A, X = drawn(60, 5), drawn(5, 40, seed=1)
    noise = torch.cat([torch.full((30, 1), 0.01), torch.full((30, 1), 1.0)]).double()
    B = A @ X + noise * drawn(60, 40, seed=2)
    off = [
        (least_squares.weighed(A, B, 1e-12, 0.0, known).X - X).norm().item()
        for known in (noise, noise.square().mean().sqrt().item())
    ]
    good = (torch.linalg.lstsq(A[:30], B[:30]).solution - X).norm().item()
    assert off[0] < 1.05 * good and off[1] > 20 * good


# -- rounding has a floor --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float8_e5m2, torch.float8_e4m3fn]
)
def test_the_floor_is_half_a_last_step_of_the_format(dtype):
    """Numbers far below the smallest normal one err by the last step over sqrt(12), as a uniform error does."""
    smallest, last = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    drawn = torch.rand(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.5 * smallest
    model = april.build("b", depth=1, width=64).double()
    leak = observe(model, torch.rand(1, 3, 32, 32), torch.tensor([3]), names=["pos_embed"])
    leak.grads["pos_embed"] = drawn
    sent = leak.rounded(dtype)
    off = (sent.grads["pos_embed"] - drawn).square().mean().sqrt().item()
    assert least_squares.deviation(sent, None, "pos_embed") == pytest.approx(last / 12**0.5, rel=1e-6)
    assert off == pytest.approx(last / 12**0.5, rel=0.05)
    leak.grads["pos_embed"] = drawn + 8 * smallest  # normal numbers err in proportion: no floor
    assert least_squares.deviation(leak.rounded(dtype), None, "pos_embed") == 0
