"""Lab 06: a twin is one by its gradients, and what is none is told why."""

import pytest
import torch

from privlab.notebook import checks


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda image: image * 0.99, "but for a few hundredths"),
        (lambda image: image.flip(-1), "within their patches"),
        (lambda image: image.roll(4, dims=-1), "the patches are cut through"),
        (lambda image: torch.cat([image[..., :8], image[..., :24]], -1), "is there twice"),
        (lambda image: 1 - image, "changed the pixels themselves"),
        (lambda image: image + 1, "must stay in [0, 1]"),
        (lambda image: image[0], "yours is (3, 32, 32)"),
    ],
)
def test_what_is_no_twin_is_told_why(answer, why):
    assert why in checks.verify("06.twin", answer).why


def test_patches_in_any_other_order_are_a_twin():
    order = torch.tensor([1, 0, 2, 3])
    assert checks.verify("06.twin", lambda image: image.unflatten(-1, (4, 8))[..., order, :].flatten(-2)).passed
