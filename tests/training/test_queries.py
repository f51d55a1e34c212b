"""The pictures that a model is asked about: by hand, beside SciPy's shift, and the laws of mirroring and moving."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from privlab.training import queries

SMALL = torch.arange(1, 7).view(1, 1, 2, 3)  # [[1, 2, 3], [4, 5, 6]]
PHOTO = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

moves = st.tuples(st.integers(-6, 6), st.integers(-4, 4)).filter(any)


def one(name, pixels=PHOTO):
    return next(queries.apply(pixels, [name]))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("image", [[1, 2, 3], [4, 5, 6]]),
        ("mirror", [[3, 2, 1], [6, 5, 4]]),
        ("shift_1_0", [[1, 1, 2], [4, 4, 5]]),  # to the right; the left edge is repeated
        ("shift_-2_0", [[3, 3, 3], [6, 6, 6]]),
        ("shift_0_1", [[1, 2, 3], [1, 2, 3]]),  # down
        ("shift_1_-1", [[4, 4, 5], [4, 4, 5]]),
        ("mirror_shift_1_0", [[3, 3, 2], [6, 6, 5]]),  # mirrored first
    ],
)
def test_by_hand(name, expected):
    assert one(name, SMALL)[0, 0].tolist() == expected


@given(moves)
def test_shift_is_scipys(move):
    right, down = move
    theirs = ndimage.shift(PHOTO.numpy(), (0, 0, down, right), order=0, mode="nearest")
    assert np.array_equal(one(f"shift_{right}_{down}").numpy(), theirs)


@given(moves)
def test_a_mirror_turns_a_shift_around(move):
    right, down = move
    assert one(f"shift_{right}_{down}").flip(-1).equal(one(f"mirror_shift_{-right}_{down}"))


@given(moves)
def test_back_again_but_for_the_border(move):
    right, down = move
    there = one(f"shift_{right}_{down}")
    back = one(f"shift_{-right}_{-down}", there)
    rows, columns = slice(max(-down, 0), 5 - max(down, 0)), slice(max(-right, 0), 7 - max(right, 0))
    assert back[..., rows, columns].equal(PHOTO[..., rows, columns])


@pytest.mark.parametrize("name", ["image", "mirror", "shift_2_-1", "mirror_shift_0_3"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_type_shape_and_input_are_kept(name, dtype):
    pixels = PHOTO.to(dtype)
    before = pixels.clone()
    asked = one(name, pixels)
    assert (asked.dtype, asked.shape) == (dtype, pixels.shape)
    assert pixels.equal(before)
    assert asked[1:].equal(one(name, pixels[1:]))  # each image by itself


def test_apply_goes_in_the_order_given():
    names = ["mirror", "image", "shift_0_1"]
    assert all(a.equal(one(name)) for a, name in zip(queries.apply(PHOTO, names), names, strict=True))
    assert not one("mirror").equal(PHOTO)


def test_shifts_by_hand():
    assert queries.shifts(0) == ["image"]
    assert queries.shifts(1) == ["image", "shift_-1_0", "shift_0_-1", "shift_0_1", "shift_1_0"]


@given(st.integers(0, 12))
def test_shifts_are_4d_plus_1_at_distance_d(d):
    names = queries.shifts(d)
    assert len(set(names)) == len(names) == 4 * d + 1
    moved = [[int(part) for part in name.split("_")[1:]] for name in names[1:]]
    assert all(abs(right) + abs(down) == d for right, down in moved)


@given(st.integers(1, 4))
def test_every_shift_is_a_query_and_another_picture(d):
    distinct = torch.arange(81).view(1, 1, 9, 9)
    asked = list(queries.apply(distinct, queries.shifts(d)))
    assert len({tuple(picture.flatten().tolist()) for picture in asked}) == 4 * d + 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: queries.query("miror"), "query='miror' is not known; did you mean 'mirror'.* as in shift_1_0"),
        (lambda: queries.query("shift_1"), "did you mean 'shift_DX_DY'"),
        (lambda: queries.query("shift_1.5_0"), "query='shift_1.5_0' is not known"),
        (lambda: queries.query("shift_01_0"), "query='shift_01_0' is not known"),  # one name a picture
        (lambda: queries.query(3), "query=3 is not known"),
        (lambda: queries.query("shift_0_0"), "query='shift_0_0' moves nothing; give 'image'"),
        (lambda: queries.query("mirror_shift_0_0"), "moves nothing; give 'mirror'"),
        (lambda: one("shift_7_0"), "shift_7_0 leaves nothing of 5 x 7 pixels but the edge; shift by less"),
        (lambda: one("shift_0_-5"), "leaves nothing of 5 x 7 pixels"),
        (lambda: queries.apply(PHOTO[0], ["image"]), r"got shape \(3, 5, 7\); give \(n, channels, height, width\)"),
        (lambda: queries.apply(PHOTO, []), r"names=\[\] is no list of queries; give one or more"),
        (lambda: queries.apply(PHOTO, "mirror"), "names='mirror' is no list of queries"),
        (lambda: queries.apply(PHOTO, ["image", "crop"]), "query='crop' is not known"),  # at the call
        (lambda: queries.apply(PHOTO, ["image", "mirror", "image"]), "names: 'image' stands there twice"),
        (lambda: queries.shifts(-1), "d=-1 is no distance in pixels; give 0 or more"),
        (lambda: queries.shifts(1.0), "d=1.0 is no distance"),
        (lambda: queries.shifts(True), "d=True is no distance"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
