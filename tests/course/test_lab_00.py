"""Lab 00: what the check of "how little is enough" tells apart, by solving with the gradients that are named."""

import pytest

from privlab.notebook import checks


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ({"pos_embed"}, "no gradient named 'patch_embed.proj.weight'"),
        ({"pos_embed", "patch_embed.proj.weight", "head.bias"}, "'head.bias' is not needed"),
        ({"pos_embed", "patch_embed.weight"}, "no gradient named 'patch_embed.weight'"),
        ("pos_embed", "Give the set"),
    ],
)
def test_a_set_of_gradients_is_tried(names, why):
    assert why in checks.verify("00.enough", names).why
