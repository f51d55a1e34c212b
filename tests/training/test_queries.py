"""The pictures that a model is asked about: by hand, beside SciPy's shift, and the laws of mirroring and moving."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from privlab.training import batches

SMALL = torch.arange(1, 7).view(1, 1, 2, 3)  # [[1, 2, 3], [4, 5, 6]]
PHOTO = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

moves = st.tuples(st.integers(-6, 6), st.integers(-4, 4))


def one(name, pixels=PHOTO):
    return next(batches.queries(pixels, [name]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("image", [[1, 2, 3], [4, 5, 6]]),
        ("mirror", [[3, 2, 1], [6, 5, 4]]),
        ("shift_1_0", [[1, 1, 2], [4, 4, 5]]),  # to the right; the left edge is repeated
        ("shift_-2_0", [[3, 3, 3], [6, 6, 6]]),
        ("shift_0_1", [[1, 2, 3], [1, 2, 3]]),  # down
        ("shift_1_-1", [[4, 4, 5], [4, 4, 5]]),
    ],
)
def test_by_hand(name, expected):
    assert one(name, SMALL)[0, 0].tolist() == expected


@given(moves)
def test_shift_is_scipys(move):
    right, down = move
    theirs = ndimage.shift(PHOTO.numpy(), (0, 0, down, right), order=0, mode="nearest")
    assert np.array_equal(one(f"shift_{right}_{down}").numpy(), theirs)
