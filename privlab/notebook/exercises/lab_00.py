"""Checks of lab 00: what a server sees, how a reconstruction is scored, which gradients are enough, and what a leaflet may say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from timm.models.vision_transformer import VisionTransformer

from privlab import models
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import Leak, observe
from privlab.notebook.exercises import answers

SEEN = {"architecture", "weights", "gradients", "batch size", "preprocessing"}
UNSEEN = {
    "images": "the images never leave the client: that is the promise of federated learning",
    "random seed of the client": "what the client drew at random stays on the client",
    "value of the loss": "the client computes this number and keeps it; only its gradient is sent",
}


def threat(answer: object) -> Iterator[str]:
    words = answers.words(answer)
    if words is None:
        yield f"Give a set of words; this is a {type(answer).__name__}."
        return
    if not words:
        yield "The set is empty. Start with what the server sent to the client in the first place."
    for word, why in UNSEEN.items():
        if word in words:
            yield f"Take out '{word}': {why}."
    if strange := sorted(words - SEEN - UNSEEN.keys()):
        yield f"'{strange[0]}' is not on the list above."
    hint = {  # the hardest comes last
        "weights": "the client has it from the server, and it belongs to the model",
        "architecture": "the client has it from the server, and it belongs to the model",
        "gradients": "it is the client's answer",
        "preprocessing": "it belongs to the recipe that every client follows",
        "batch size": "without it the server could not weigh this client against the others",
    }
    if missing := [item for item in hint if item not in words]:
        yield f"Right so far, but something is missing: {hint[missing[0]]}."


def psnr(answer: object) -> Iterator[str]:
    black = torch.zeros(1, 3, 4, 4)
    grey = torch.full((1, 3, 4, 4), 0.1)
    yield from _number(answer, (grey, black), 20.0, {
        -20.0: "The sign is wrong: a smaller error must give a larger PSNR.",
        46.0517: "That is the natural logarithm; decibels take the one to base 10.",
        10.0: "Square the differences before you average them.",
        2.0: "Decibels are ten times the logarithm.",
        40.0: "That squares twice: 20 log10 goes with the root of the mean squared error, 10 log10 with the mean itself.",
        3.1876: "That sums over the pixels; PSNR takes their mean, or it would change with the size of the image.",
    })  # fmt: skip
    half = torch.cat([torch.full((1, 3, 4, 2), 0.2), torch.zeros(1, 3, 4, 2)], dim=-1)
    yield from _number(answer, (half, black), 16.9897, {
        20.0: "Right for an error that is the same everywhere, wrong for one that is not: average the squares, not the differences.",
    })  # fmt: skip


def enough(answer: object) -> Iterator[str]:
    items = answers.collection(answer)
    if items is None:
        yield "Give the set of parameter names that the server needs."
        return
    names = {str(item).strip() for item in items}
    needed = {"pos_embed", "patch_embed.proj.weight"}
    model, leak = _small_leak()
    if strange := sorted(n for n in names if n not in leak.grads):
        yield f"The leak has no gradient named '{strange[0]}'; look at sorted(leak.grads)."
        return
    try:
        closed_form.patch_embedding(model, leak.only(names))
    except ValueError as error:
        yield f"With these alone the solve stops: {error}."
        return
    if extra := sorted(names - needed):
        yield f"It works, but '{extra[0]}' is not needed: leave it out and try again."


# A leaflet: the sentences that what was measured shows to be false, and why; and those that hold.
FALSE = {
    "b": "you computed a photograph from such a gradient, with one linear system. Millions of numbers make this easier, not harder",
    "c": "the weights of your model were random, and the photograph came back all the same. The leak is in how the model is built",
    "d": "look at the pictures from bfloat16: they are worse, and everybody recognises them",
}
HOLDS = {
    "a": "it is true that the photograph itself is not sent. What is sent is enough to compute it, and the leaflet keeps quiet about that",
    "e": "the linear system needs an embedding that is added to each patch. Lab 04 takes models that have none",
}


def leaflet(answer: object) -> Iterator[str]:
    false = {letter: f"{letter.upper()} is false: {why}" for letter, why in FALSE.items()}
    holds = {letter: f"{letter.upper()} is not false: {why}" for letter, why in HOLDS.items()}
    yield from answers.sentences(answer, false, holds, "sentences")


def _number(answer: object, arguments: tuple, right: float, mistakes: dict[float, str]) -> Iterator[str]:
    """Yield why answer(*arguments) is not `right`; `mistakes` maps the values that known slips give to what to say."""
    if not callable(answer):
        yield f"Give a function; this is a {type(answer).__name__}."
        return
    call: Callable = answer
    value = call(*arguments)
    if value is None:
        yield "Nothing is written yet; replace the dots."
        return
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        yield f"Give one number; this has the shape {tuple(value.shape)}."
        return
    value = float(value)
    if abs(value - right) <= 1e-3 * max(1.0, abs(right)):
        return
    for wrong, why in mistakes.items():
        if abs(value - wrong) <= 1e-3 * max(1.0, abs(wrong)):
            yield why
            return
    yield f"For the example it should be {right:.6g}, and yours gives {value:.6g}."


def _small_leak() -> tuple[VisionTransformer, Leak]:
    model = models.build("vit_cifar", depth=1, embed_dim=64, num_heads=4)
    generator = torch.Generator().manual_seed(0)
    return model, observe(model, torch.rand(1, 3, 32, 32, generator=generator), torch.tensor([0]))


BECAUSE = {
    "00.threat": "Model and recipe come from the server, the gradient and the number of images from the client. The value of the loss "
    "is a number that the client computes on the way to the gradient, and does not send."
}
CHECKS = {"00.threat": threat, "00.psnr": psnr, "00.enough": enough, "00.leaflet": leaflet}
