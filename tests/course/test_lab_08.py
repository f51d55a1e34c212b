"""Lab 08: the checks of "how little is enough" solve with the gradients that are named."""

import pytest

from privlab.notebook import checks

STEM = ["pos_embed", "patch_embed.proj.weight"]


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("08.fewest", STEM, ""),
        ("08.fewest", {"blocks.0.attn.qkv.weight"}, "subspace finds the image in these 150,528 numbers"),
        ("08.fewest", {*STEM, "cls_token"}, "But 46,816 are enough"),
        ("08.fewest", {"pos_embed"}, "'pos_embed' is right, and not enough"),
        ("08.fewest", {"blocks.0.mlp.fc1.weight"}, "No closed form of ours"),
        ("08.fewest", {"stem"}, "no gradient named 'stem'"),
        ("08.label", ("head.bias",), ""),
        ("08.label", {"head.weight", "head.bias"}, "Ten are enough"),
        ("08.label", {"norm.bias"}, "one number for each class"),
        ("08.share", lambda grads, groups: dict.fromkeys(grads, 0.2), "Give a dict, each part -> a fraction"),
    ],
)
def test_what_is_said_of_an_answer(name, answer, why):
    outcome = checks.verify(name, answer)
    assert outcome.passed is not bool(why) and why in outcome.why
