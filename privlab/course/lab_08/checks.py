"""Checks of lab 08: names of a selection, who makes up a gradient's length, and how little is enough for an image or a label."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import Leak, observe
from privlab.models import april
from privlab.notebook.kit import function

# fmt: off
LAYERS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
NAMES = [f"blocks.{k}.{layer}.{leaf}" for k in range(12) for layer in LAYERS for leaf in ("weight", "bias")]
NAMES += ["patch_embed.proj.weight", "patch_embed.proj.bias", "head.weight", "head.bias"]


def _chosen(names: list[str], first: int, last: int) -> set[str]:
    """Of attention, in the blocks from `first` to `last`, counted from 1."""
    return {f"blocks.{k}.attn.{layer}.weight" for k in range(first - 1, last) for layer in ("qkv", "proj")} & {*names}


select = function(
    _chosen,
    [(NAMES, 2, 2), (NAMES, 5, 8), (NAMES, 1, 12), (NAMES, 10, 11)],
    {
        "Those are the blocks after: the names count from 0.": lambda names, first, last: _chosen(names, first + 1, last + 1),
        "Compare whole numbers: 'blocks.1' begins 'blocks.10' too.": lambda names, first, last: {
            name for name in _chosen(names, 1, 12) for k in range(first - 1, last) if name.startswith(f"blocks.{k}")},
    },
    "Attention has two weights a block, attn.qkv and attn.proj. (The patch embedding has a 'proj' as well.)",
)

GRADS = {  # squared norms 36, 4, 24, 32 and 9
    "pos_embed": torch.full((3, 4), 3**0.5), "proj": torch.full((4,), -1.0), "qkv": torch.full((6,), 2.0),
    "fc1": torch.full((2, 4), -2.0), "fc2": torch.full((1,), 3.0),
}
GROUPS = {"stem": ["pos_embed", "proj"], "attention": ["qkv"], "mlp": ["fc1", "fc2"]}
FEWEST = (17 + 3 * 8 * 8) * 224  # numbers that solve for an image: (positions + pixels of a patch) x width


def _shares(grads: dict, groups: dict, size: Callable = lambda g: g.square().sum()) -> dict[str, Tensor]:
    sums = torch.tensor([sum(size(grads[name]) for name in part) for part in groups.values()])
    return dict(zip(groups, sums / sums.sum(), strict=True))


share = function(
    _shares,
    [(GRADS, GROUPS)],
    {
        "You added norms. Lengths do not add up, their squares do (Pythagoras).": partial(_shares, size=torch.norm),
        "Those are shares of the *length*; they sum to more than 1. Leave the root out.":
            lambda grads, groups: {part: x.sqrt() for part, x in _shares(grads, groups).items()},
    },
    "Give a dict, each part -> a fraction: the squares of all numbers of the part, over those of all numbers there are.",
    then=lambda shares: [float(shares[part]) for part in GROUPS],
)


def _client() -> tuple[Any, Leak, Tensor]:
    """A ViT that both closed forms break, one image's leak, and the image."""
    model = april.build("b", width=224, depth=2, position_std=1.0)
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(8))
    return model, observe(model, image, torch.tensor([3])), image


def fewest(answer: Any) -> Iterator[str]:
    model, leak, image = _client()
    sent = leak.only(answer)
    numbers = sum(gradient.numel() for gradient in sent.grads.values())
    for form in (closed_form.patch_embedding, closed_form.subspace):
        with suppress(ValueError):  # it needs a gradient that is not among them
            decibels = metrics.psnr(form(model, sent).images, image).item()
            if numbers > FEWEST:
                yield f"{form.__name__} finds the image in these {numbers:,} numbers, at {decibels:.0f} dB. But {FEWEST:,} are enough."
            return
    if half := sent.grads.keys() & {"pos_embed", "patch_embed.proj.weight"}:
        yield f"{min(half)!r} is right, and not enough: the form solves dL/dW = G^T X, and needs another gradient for the other known."
    yield "No closed form of ours reads these. One needs what is added to the patches and what multiplies them; one, the first attention."


def label(answer: Any) -> Iterator[str]:
    names = _client()[1].only(answer).grads.keys()
    if not names & {"head.bias", "head.weight"}:
        yield "Before the head all classes are mixed. Which gradient is p - [label], one number for each class, and nothing else?"
    if names != {"head.bias"}:
        yield "That gives the label, but in more numbers than it takes. Ten are enough."
