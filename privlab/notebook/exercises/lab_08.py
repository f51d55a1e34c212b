"""Checks of lab 08: names of a selection, who makes up a gradient's length, and how little is enough for an image or a label."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion import closed_form, label_recovery
from privlab.leak import Leak, observe
from privlab.models import april
from privlab.notebook.exercises import answers
from privlab.notebook.exercises.answers import OPEN, a_function
from privlab.notebook.exercises.lab_00 import _number
from privlab.notebook.exercises.reports import safe

# -- names of a selection ------------------------------------------------------------------------------------------------

BLOCKS = 12  # two digits from block 10 on, which a careless pattern takes for block 1


def _names() -> list[str]:
    """The parameters of a ViT with 12 blocks, by timm's names."""
    block = ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
    layers = ["patch_embed.proj", *(f"blocks.{i}.{layer}" for i in range(BLOCKS) for layer in block), "norm", "head"]
    return ["cls_token", "pos_embed", *(f"{layer}.{leaf}" for layer in layers for leaf in ("weight", "bias"))]


def _right_names(first: int, last: int) -> set[str]:
    return {f"blocks.{i - 1}.attn.{layer}.weight" for i in range(first, last + 1) for layer in ("qkv", "proj")}


@a_function
def select(answer: Callable[..., Any]) -> Iterator[str]:
    for first, last in ((2, 2), (5, 8), (1, 12), (10, 11)):
        value = answer(_names(), first, last)
        if value is None:
            yield OPEN
            return
        if isinstance(value, str):
            yield f"attention_weights(names, {first}, {last}) gives one word, {value!r}; give a list of names."
            return
        names_given, right = list(value), _right_names(first, last)
        if any(not isinstance(name, str) for name in names_given):
            yield f"attention_weights(names, {first}, {last}) gives {type(names_given[0]).__name__}s; give the names themselves."
            return
        where = f"attention_weights(names, {first}, {last})"
        yield from (f"{where}: {why}" for why in _why_names(names_given, right, first, last))
        if len(names_given) > len(right):
            yield f"{where} names some twice."


def _why_names(names_given: list[str], right: set[str], first: int, last: int) -> Iterator[str]:
    extra, missing = sorted(set(names_given) - right), sorted(right - set(names_given))
    if set(names_given) == _right_names(first + 1, last + 1) or set(names_given) == _right_names(
        first + 1, last + 1
    ) & set(_names()):
        yield "those are the blocks after: the papers count from 1, the names from 0."
    if set(names_given) == _right_names(first, last - 1):
        yield f"block {last} is missing: both ends are included."
    if any(name.endswith("bias") for name in extra):
        yield f"'{next(n for n in extra if n.endswith('bias'))}' is a bias; weights were asked for."
    if any(".mlp." in name for name in extra):
        yield "the MLP has weights too; take the names with 'attn' in them alone."
    if any(".norm" in name for name in extra):
        yield "a norm's weight stands in front of attention, and is none of its own."
    if any(not name.startswith("blocks.") for name in extra):
        stray = next(n for n in extra if not n.startswith("blocks."))
        yield f"'{stray}' is in no block. (The patch embedding has a 'proj' as well.)"
    if any(".attn." in name for name in extra):
        block = next(n for n in extra if ".attn." in n).split(".")[1]
        yield f"block {block} (of the names) is not among them. Compare whole numbers: 'blocks.1' begins 'blocks.10' too."
    if missing and all(".proj." in name for name in missing):
        yield "the output projection, attn.proj, is attention's as well (parts.attention counts it)."
    if missing and all(".qkv." in name for name in missing):
        yield "query, key and value, attn.qkv, are missing."
    if missing:
        yield f"'{missing[0]}' is missing."
    if extra:
        yield f"'{extra[0]}' was not asked for."


# -- who makes up the length ---------------------------------------------------------------------------------------------


def _grads() -> tuple[dict[str, Tensor], dict[str, list[str]]]:
    """Gradients of five tensors in three parts, whose squared norms are 36, 4, 24, 32 and 9."""
    grads = {
        "pos_embed": torch.full((3, 4), 3**0.5), "proj": torch.full((4,), -1.0), "qkv": torch.full((6,), 2.0),
        "fc1": torch.full((2, 4), -2.0), "fc2": torch.full((1,), 3.0),
    }  # fmt: skip
    return grads, {"stem": ["pos_embed", "proj"], "attention": ["qkv"], "mlp": ["fc1", "fc2"]}


@a_function
def share(answer: Callable[..., Any]) -> Iterator[str]:
    grads, groups = _grads()
    squares = {n: g.square().sum().item() for n, g in grads.items()}
    right = {part: sum(squares[n] for n in names) / sum(squares.values()) for part, names in groups.items()}
    value = answer(dict(grads), {part: list(names) for part, names in groups.items()})
    if value is None:
        yield OPEN
        return
    if not isinstance(value, dict) or set(value) != set(groups):
        what = sorted(value) if isinstance(value, dict) else type(value).__name__
        yield f"Give a dict with the parts {', '.join(groups)}; yours is {what}."
        return
    shares = {part: float(torch.as_tensor(number).double()) for part, number in value.items()}
    if _same(shares, right):
        return
    norms = {n: s**0.5 for n, s in squares.items()}
    counts = {n: float(g.numel()) for n, g in grads.items()}
    for why, numbers, divisor in (
        ("Those are the squared norms; divide by their sum.", squares, 1.0),
        ("In percent; give fractions that sum to 1.", squares, sum(squares.values()) / 100),
        ("You added the norms of the tensors. Lengths do not add up, their squares do (Pythagoras).", norms, sum(norms.values())),
        ("Those are shares of how *many* numbers there are.", counts, sum(counts.values())),
        (
            "You took the mean square of each tensor: then a bias weighs as much as a matrix. Sum the squares.",
            {n: squares[n] / counts[n] for n in squares}, sum(squares[n] / counts[n] for n in squares),
        ),
        (
            "You added the numbers themselves, signs and all.",
            {n: g.sum().item() for n, g in grads.items()}, sum(g.sum().item() for g in grads.values()),
        ),
        (
            "You added absolute values. The cosine divides by a Euclidean length: squares.",
            {n: g.abs().sum().item() for n, g in grads.items()}, sum(g.abs().sum().item() for g in grads.values()),
        ),
    ):  # fmt: skip
        if _same(shares, {part: sum(numbers[n] for n in names) / divisor for part, names in groups.items()}):
            yield why
    if _same(shares, {part: right[part] ** 0.5 for part in right}):
        yield "Those are shares of the *length*; they sum to more than 1. Leave the root out."
    roots = {part: number**0.5 for part, number in right.items()}
    if _same(shares, {part: root / sum(roots.values()) for part, root in roots.items()}):
        yield "You took a root for each part. Lengths do not add up, their squares do (Pythagoras)."
    part = next(p for p in right if abs(shares[p] - right[p]) > 1e-4)
    yield (
        f"The share of {part} should be {right[part]:.4g}, and yours is {shares[part]:.4g}. (Yours sum to {sum(shares.values()):.4g}.)"
    )


def _same(a: dict[str, float], b: dict[str, float]) -> bool:
    return all(abs(a[part] - b[part]) <= 1e-4 * max(1.0, abs(b[part])) for part in b)


# -- how little is enough ------------------------------------------------------------------------------------------------


PARTS = ("stem", "attention", "mlp", "norm", "head")  # as the lab groups the parameters


@cache
def _small() -> tuple[VisionTransformer, Leak, Tensor]:
    """A ViT that both closed forms break, one image's leak, and the image."""
    model = april.build("b", width=224, depth=2, position_std=1.0)
    image = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(8))
    return model, observe(model, image, torch.tensor([3])), image


def _some_names(answer: object, leak: Leak) -> str:
    """What is wrong with a set of names as such; nothing if it can be tried."""
    names = answers.collection(answer)
    if isinstance(answer, str):
        return f"Give a set of parameter names; with one name it is {{{answer!r}}}."
    if names is None:
        return "Give a set of parameter names."
    if not names:
        return "The set is empty; with no gradient there is nothing to go by."
    if strange := sorted(str(n) for n in set(names) - leak.grads.keys()):
        if strange[0] in PARTS:
            return f"'{strange[0]}' is a part. Give names of its parameters: parts['{strange[0]}'] lists them."
        return f"The leak has no gradient named '{strange[0]}'; sorted(leak.grads) lists all."
    return ""


def fewest(answer: object) -> Iterator[str]:
    model, leak, image = _small()
    if why := _some_names(answer, leak):
        yield why
        return
    names = set(answer)  # type: ignore[call-overload]
    part, needed = leak.only(names), {"pos_embed", "patch_embed.proj.weight"}
    sent = sum(g.numel() for g in part.grads.values())
    if names == needed:
        return
    if needed <= names:
        yield f"These do, with {sent:,} numbers. But '{sorted(names - needed)[0]}' is not needed."
    if "blocks.0.attn.qkv.weight" in names:
        decibels = metrics.psnr(closed_form.subspace(model, part).images, image).item()
        yield (
            f"subspace finds the image in them ({decibels:.0f} dB), but {sent:,} numbers are not the fewest: the other closed form takes "
            "a third of that."
        )
    if present := sorted(needed & names):
        other = (needed - names).pop()
        yield f"'{present[0]}' is right, and not enough: the form solves dL/dW = G^T X, and needs '{other}' for the other known."
    yield "No closed form of ours reads these. One needs what is added to the patches and what multiplies them; one, the first attention."


def rows(answer: object) -> Iterator[str]:
    for (image_size, patch), right in {(32, 8): 17, (32, 4): 65, (224, 16): 197, (224, 32): 50}.items():
        patches = (image_size // patch) ** 2
        mistakes = {
            float(patches): "One too few: the class token enters the first attention as well, and takes a dimension.",
            float(image_size // patch + 1): "Patches fill the image both ways: there are (image_size // patch) squared.",
            float(image_size // patch): "Patches fill the image both ways: there are (image_size // patch) squared, and a class token.",
            float(3 * patch**2): "Those are the pixels of a patch. What has to be spanned are the tokens.",
            float(3 * image_size**2): "Those are all pixels. Rows were asked for: how many dimensions do the tokens span?",
            float(3 * (patches + 1)): "Query, key and value read the same tokens: their rows lie in one space, and any of them will do.",
        }  # fmt: skip
        mistakes.pop(float(right), None)
        for reason in _number(answer, (image_size, patch), float(right), mistakes):
            yield f"rows_needed(image_size={image_size}, patch={patch}): {reason}"


def label(answer: object) -> Iterator[str]:
    model, leak, _ = _small()
    if why := _some_names(answer, leak):
        yield why
        return
    names = set(answer)  # type: ignore[call-overload]
    sent = sum(g.numel() for g in leak.only(names).grads.values())
    if names == {"head.bias"}:
        return
    if "head.bias" in names:
        yield f"'head.bias' is right, and enough by itself: {sent:,} numbers where 10 do."
    if "head.weight" in names:
        part = replace(leak.only(names), labels=None)
        recovered = label_recovery.row_products(model, part).item() == 3
        yield f"That does{' ' if recovered else ' not '}give the label, by its rows, but with {sent:,} numbers. Ten are enough."
    if any(n.startswith("norm.") for n in names):
        yield "The final norm is counted with the head. But the logits' gradients are mixed by the head's weights before they get there."
    if any(n.startswith(("blocks.", "pos_", "patch_", "cls_")) for n in names):
        yield "Before the head all classes are mixed. Which gradient has one number for each class?"
    yield "The smallest of them must point at the label: which gradient is p - [label], and nothing else?"


BECAUSE = {
    "08.label": "The gradient of the class scores is p - y: the probabilities, minus a one for the true class. The bias is added to the "
    "scores, so its gradient is the same. Its only number below zero stands at the label.",
    "08.fewest": "The form solves dL/dW = G^T X. The left side is the gradient of the patch embedding, and the rows of G are the "
    "gradients of the position embedding. The first attention is enough, too, but it has about three times as many numbers.",
    "08.safe": "One search says only where this search found most. Another attack (c), a longer one (f) and what is left (a) show ways "
    "that need no stem. And where another weight puts another part first (d), the ranking is one of the attack.",
}
CHECKS = {
    "08.select": select, "08.share": share, "08.fewest": fewest, "08.rows": rows, "08.label": label, "08.safe": safe
}  # fmt: skip
DEEPER = {"depth_with_gradvit": ("08.select",), "rows": ("08.rows",)}
