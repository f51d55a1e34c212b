"""Lab 08: what the checks of "how little is enough" tell apart, by solving with the gradients that are named."""

import pytest

from privlab.notebook import checks


@pytest.mark.parametrize(
    ("name", "answer", "why"),
    [
        ("08.fewest", ["pos_embed", "patch_embed.proj.weight"], ""),
        ("08.fewest", {"blocks.0.attn.qkv.weight"}, "subspace finds the image in them"),
        ("08.fewest", {"pos_embed", "patch_embed.proj.weight", "cls_token"}, "'cls_token' is not needed"),
        ("08.fewest", {"pos_embed"}, "'pos_embed' is right, and not enough"),
        ("08.fewest", {"blocks.0.mlp.fc1.weight"}, "No closed form of ours"),
        ("08.fewest", {"stem"}, "no gradient named 'stem'"),
        ("08.fewest", set(), "The set is empty"),
        ("08.fewest", "pos_embed", "Give a set"),
        ("08.label", ("head.bias",), ""),
        ("08.label", {"head.weight"}, "Ten are enough"),
        ("08.label", {"head.weight", "head.bias"}, "enough by itself"),
        ("08.label", {"norm.bias"}, "one number for each class"),
        (
            "08.share",
            lambda grads, groups: dict.fromkeys(grads, 0.2),
            "Give a dict with the parts stem, attention, mlp",
        ),
    ],
)
def test_what_is_said_of_an_answer(name, answer, why):
    outcome = checks.verify(name, answer)
    assert outcome.passed is not bool(why) and why in outcome.why
