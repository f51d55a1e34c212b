"""What goes into a step: every image once an epoch, augmentation that only moves pixels, mixing that is timm's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from timm.data import Mixup

from privlab import data
from privlab.training import Recipe, batches
from privlab.training.recipes import steps

PIXELS = torch.randint(0, 256, (9, 2, 16, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def test_a_subset_is_the_images_at_these_places_as_stored():
    images = data.load("cifar10_samples")
    pixels, labels = batches.subset(images, [3, 0])
    assert pixels.dtype == torch.uint8
    assert torch.equal(pixels.float() / 255, images.take([3, 0])[0]) and torch.equal(labels, images.labels[[3, 0]])
    assert torch.equal(batches.subset((PIXELS, LABELS), np.array([8, 8]))[0], PIXELS[[8, 8]])


@pytest.mark.parametrize(
    ("pixels", "labels", "says"),
    [
        (PIXELS[0], LABELS, r"pixels of shape \(2, 16, 8\) with labels of shape \(9,\)"),
        (PIXELS, LABELS.float(), "of torch.float32; give .* one whole number each"),
        (PIXELS.float(), LABELS, r"pixels go from 0 to 255; give values in \[0, 1\], or bytes"),
    ],
)
def test_what_is_no_set_is_named(pixels, labels, says):
    with pytest.raises(ValueError, match=says):
        batches.pair((pixels, labels))


@given(st.integers(1, 60), st.data())
def test_an_epoch_sees_every_image_once_and_no_image_alone(images, draw):
    size = draw.draw(st.integers(1, images))
    recipe = Recipe(epochs=1, batch_size=size)
    order = batches.order(images, recipe, drawn(0))
    assert sorted(torch.cat(order).tolist()) == list(range(images)) and len(order) == steps(recipe, images)
    lengths = [len(rows) for rows in order]
    assert lengths[:-1] == [size] * (len(order) - 1) and lengths[-1] <= size + 1
    assert lengths[-1] > 1 or size == 1


def windows(image):
    """All crops of an image (2, 16, 8) in a black frame of 2 rows and 1 column, and their mirror images."""
    framed = torch.zeros(2, 20, 10, dtype=image.dtype)
    framed[:, 2:18, 1:9] = image
    crops = [framed[:, top : top + 16, left : left + 8] for top in range(5) for left in range(3)]
    return [*crops, *(crop.flip(-1) for crop in crops)]


def test_crop_and_flip_move_each_image_by_itself():
    many = PIXELS[:1].repeat(400, 1, 1, 1)
    moved = batches.augmented(many, "crop_flip", drawn(0))
    possible = windows(PIXELS[0])
    counts = [sum(torch.equal(window, image) for image in moved) for window in possible]
    assert sum(counts) == 400  # each is one of the thirty
    assert min(counts) > 0 and max(counts) < 40  # and none is rare: 13.3 are expected of each
    for image, got in zip(PIXELS, batches.augmented(PIXELS, "crop_flip", drawn(1)), strict=True):
        assert any(torch.equal(window, got) for window in windows(image))  # no image takes pixels of another


def test_flip_turns_about_half():
    got = batches.augmented(PIXELS[:1].repeat(1000, 1, 1, 1), "flip", drawn(0))
    turned = (got == PIXELS[:1].flip(-1)).flatten(1).all(1)
    assert (turned | (got == PIXELS[:1]).flatten(1).all(1)).all() and 450 < turned.sum() < 550
    assert batches.augmented(PIXELS, "none", drawn(0)) is PIXELS


def ramps(n, height=20, width=30):
    """Each pixel's place from left to right and from top to bottom, as shares of the side."""
    across = ((torch.arange(width) + 0.5) / width).expand(height, width)
    down = ((torch.arange(height) + 0.5) / height)[:, None].expand(height, width)
    return torch.stack([across, down]).expand(n, 2, height, width)


def test_the_window_is_square_to_the_image_lies_inside_it_and_has_the_area_told():
    got = batches._cropped(ramps(2000), drawn(0))  # (n, [across, down], height, width)
    side = torch.stack([(got[:, 0, 10, 25] - got[:, 0, 10, 5]) * 1.5, (got[:, 1, 15, 15] - got[:, 1, 5, 15]) * 2])
    torch.testing.assert_close(side[0], side[1], atol=1e-4, rtol=0)
    area = side[0] ** 2
    assert area.min() > 0.85 - 1e-3 and area.max() < 1 + 1e-3
    assert area.mean().item() == pytest.approx(0.925, abs=0.005)
    assert area.std().item() == pytest.approx(0.15 / 12**0.5, rel=0.1)
    for middle in (got[:, 0, 10, 14:16].mean(1), got[:, 1, 9:11, 15].mean(1)):
        room = (1 - side[0]) / 2  # to either side, before the window leaves the image
        offset = (middle - 0.5) / room.clamp_min(1e-3)
        assert offset.abs().max() < 1.05 and offset.min() < -0.9 and offset.max() > 0.9 and offset.mean().abs() < 0.05


def test_brightness_and_contrast_by_hand():
    """.2 and .6 are a tenth brighter .22 and .66, and a tenth nearer to their mean .44 then .242 and .638."""
    grey = torch.tensor([0.2, 0.6]).view(1, 1, 2)
    torch.testing.assert_close(batches._jitter(grey, 0.1, 0, 0, 0).flatten(), torch.tensor([0.22, 0.66]))
    torch.testing.assert_close(batches._jitter(grey, 0.1, -0.1, 0.3, 0.3).flatten(), torch.tensor([0.242, 0.638]))
    # brightness comes first: white stays at 1 and only then comes nearer to the mean
    black_and_white = torch.tensor([0.0, 1.0]).view(1, 1, 2)
    torch.testing.assert_close(batches._jitter(black_and_white, 0.2, -0.1, 0, 0).flatten(), torch.tensor([0.05, 0.95]))


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
@pytest.mark.parametrize("size", [1, 3, 9])
def test_in_an_odd_batch_the_middle_stays_and_the_others_pair_up(mixup, cutmix, size):
    mix = Mixup(mixup, cutmix, label_smoothing=0, num_classes=3)
    x, labels = PIXELS[:size].float() / 255, LABELS[:size]
    onehot = torch.eye(3)[labels]
    for seed in range(10):
        np.random.seed(seed)
        got, targets = batches.mixed(mix, x.clone(), labels)
        middle = size // 2
        torch.testing.assert_close(got[middle], x[middle])
        torch.testing.assert_close(targets[middle], onehot[middle])
        if size == 1:
            continue
        share = (targets[0] - onehot[-1])[0] / (onehot[0] - onehot[-1])[0]  # what the first image keeps of its label
        assert 0 <= share <= 1
        torch.testing.assert_close(targets, share * onehot + (1 - share) * onehot.flip(0))
        swapped = got == x.flip(0)
        if not (swapped.any() and (swapped | (got == x)).all()):  # else cutmix: a box of the other image
            torch.testing.assert_close(got, share * x + (1 - share) * x.flip(0))


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
def test_queries_by_hand(name, expected):
    (asked,) = batches.queries(torch.arange(1, 7).view(1, 1, 2, 3), [name])
    assert asked[0, 0].tolist() == expected
