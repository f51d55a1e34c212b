"""Checks of lab 08: names of a selection, who makes up a gradient's length, and how little is enough for an image or a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from functools import cache
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import Leak, observe
from privlab.models import april
from privlab.notebook.kit import Check, function, pick

LAYERS = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
LEAVES = ("weight", "bias")
NAMES = [  # of a ViT with 12 blocks: two digits from block 10 on, which a careless pattern takes for block 1
    *(f"patch_embed.proj.{leaf}" for leaf in LEAVES),
    *(f"blocks.{block}.{layer}.{leaf}" for block in range(12) for layer in LAYERS for leaf in LEAVES),
    *(f"{layer}.{leaf}" for layer in ("norm", "head") for leaf in LEAVES),
]


def _chosen(names: list[str], first: int, last: int, of: str = "attn", leaf: str = "weight") -> list[str]:
    blocks = {f"blocks.{number - 1}" for number in range(first, last + 1)}
    return [n for n in names if ".".join(n.split(".")[:2]) in blocks and f".{of}" in n and n.endswith(leaf)]


# fmt: off
select = pick(
    _chosen,
    [(NAMES, first, last) for first, last in ((2, 2), (5, 8), (1, 12), (10, 11))],
    {
        "Those are the blocks after: the papers count from 1, the names from 0.":
            lambda names, first, last: _chosen(names, first + 1, last + 1),
        "The last block is missing: both ends are included.": lambda names, first, last: _chosen(names, first, last - 1),
        "There are biases among them; weights were asked for.": lambda names, first, last: _chosen(names, first, last, leaf=""),
        "The output projection, attn.proj, is attention's as well (parts.attention counts it).":
            lambda names, first, last: _chosen(names, first, last, of="attn.qkv"),
        "Compare whole numbers: 'blocks.1' begins 'blocks.10' too.": lambda names, first, last: [
            n for n in names if n.startswith(tuple(f"blocks.{i - 1}" for i in range(first, last + 1))) and ".attn." in n and "weight" in n],
    },
    "Attention has two weights a block, attn.qkv and attn.proj. (The patch embedding has a 'proj' as well.)",
)
# fmt: on

GRADS = {  # squared norms 36, 4, 24, 32 and 9
    "pos_embed": torch.full((3, 4), 3**0.5),
    "proj": torch.full((4,), -1.0),
    "qkv": torch.full((6,), 2.0),
    "fc1": torch.full((2, 4), -2.0),
    "fc2": torch.full((1,), 3.0),
}
GROUPS = {"stem": ["pos_embed", "proj"], "attention": ["qkv"], "mlp": ["fc1", "fc2"]}


def _sums(grads: dict[str, Tensor], groups: dict[str, list[str]], size: Callable[[Tensor], Any]) -> Tensor:
    return torch.tensor([sum(float(size(grads[name])) for name in names) for names in groups.values()])


def _shares(grads: dict[str, Tensor], groups: dict[str, list[str]], size: Callable[[Tensor], Any]) -> Tensor:
    sums = _sums(grads, groups, size)
    return sums / sums.sum()


_of_all = function(
    lambda g, groups: _shares(g, groups, lambda x: x.square().sum()),
    [(GRADS, GROUPS)],
    {
        "Those are the squared norms; divide by their sum.": lambda g, groups: _sums(
            g, groups, lambda x: x.square().sum()
        ),
        "You added the norms of the tensors. Lengths do not add up, their squares do (Pythagoras).": (
            lambda g, groups: _shares(g, groups, torch.Tensor.norm)
        ),
        "Those are shares of the *length*; they sum to more than 1. Leave the root out.": (
            lambda g, groups: _shares(g, groups, lambda x: x.square().sum()).sqrt()
        ),
        "Those are shares of how *many* numbers there are.": lambda g, groups: _shares(g, groups, torch.Tensor.numel),
        "You added absolute values. The cosine divides by a Euclidean length: squares.": (
            lambda g, groups: _shares(g, groups, lambda x: x.abs().sum())
        ),
    },
    "Fractions, which sum to 1: the squares of all numbers of a part, over the squares of all numbers there are.",
)


def share(answer: Any) -> Iterator[str]:
    if callable(answer):
        shares = answer({name: g.clone() for name, g in GRADS.items()}, dict(GROUPS))
        if shares is not None and (not isinstance(shares, dict) or shares.keys() != GROUPS.keys()):
            yield f"Give a dict with the parts {', '.join(GROUPS)}; yours is {shares!r:.60}."
            return

    def listed(grads: dict[str, Tensor], groups: dict[str, list[str]]) -> Any:
        shares = answer(grads, groups)
        return shares if shares is None else [float(shares[part]) for part in groups]

    yield from _of_all(listed if callable(answer) else answer)


# -- how little is enough ------------------------------------------------------------------------------------------------

NEEDED = {"pos_embed", "patch_embed.proj.weight"}


@cache
def _small() -> tuple[VisionTransformer, Leak, Tensor]:
    """A ViT that both closed forms break, one image's leak, and the image."""
    model = april.build("b", width=224, depth=2, position_std=1.0)
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(8))
    return model, observe(model, image, torch.tensor([3])), image


def _untried(answer: Any, leak: Leak) -> str:
    """What is wrong with a set of names as such; "" where it can be tried."""
    if not isinstance(answer, Set | list | tuple):
        return f"Give a set of parameter names; this is a {type(answer).__name__}. With one name it is {{'cls_token'}}."
    if not answer:
        return "The set is empty; with no gradient there is nothing to go by."
    strange = sorted(str(name) for name in answer if name not in leak.grads)
    return f"The leak has no gradient named {strange[0]!r}; sorted(leak.grads) lists all." if strange else ""


def _numbers(names: set[str], leak: Leak) -> int:
    return sum(leak[name].numel() for name in names)


def fewest(answer: Any) -> Iterator[str]:
    model, leak, image = _small()
    if why := _untried(answer, leak):
        yield why
        return
    names = set(answer)
    if names == NEEDED:
        return
    if names > NEEDED:
        yield f"These do, with {_numbers(names, leak):,} numbers. But {min(names - NEEDED)!r} is not needed."
    if "blocks.0.attn.qkv.weight" in names:
        decibels = metrics.psnr(closed_form.subspace(model, leak.only(names)).images, image).item()
        yield (
            f"subspace finds the image in them ({decibels:.0f} dB), but {_numbers(names, leak):,} numbers are not the fewest: the other "
            "closed form takes a third of that."
        )
    if half := names & NEEDED:
        yield f"{min(half)!r} is right, and not enough: the form solves dL/dW = G^T X, and needs another gradient for the other known."
    yield "No closed form of ours reads these. One needs what is added to the patches and what multiplies them; one, the first attention."


def label(answer: Any) -> Iterator[str]:
    leak = _small()[1]
    if why := _untried(answer, leak):
        yield why
        return
    names = set(answer)
    if names == {"head.bias"}:
        return
    if "head.bias" in names:
        yield f"'head.bias' is right, and enough by itself: {_numbers(names, leak):,} numbers where 10 do."
    if "head.weight" in names:
        yield f"That gives the label, by its rows, but with {_numbers(names, leak):,} numbers. Ten are enough."
    yield "Before the head all classes are mixed. Which gradient is p - [label], one number for each class, and nothing else?"


# fmt: off


# fmt: on
CHECKS: dict[str, Check] = {
    "08.select": select,
    "08.share": share,
    "08.fewest": fewest,
    "08.label": label,
}
