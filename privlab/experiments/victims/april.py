"""APRIL's two architectures as victims of one repeat, and searches on them: what labs 05 and 06 measure with.

A repeat has its own photograph (its place in the test split), weights, noise on the way, and noise to begin with.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from privlab import data, metrics
from privlab.attacks.gradient_inversion import label_recovery, objectives, presets, results
from privlab.attacks.gradient_inversion.results import Result
from privlab.attacks.gradient_inversion.search import GradientMatching
from privlab.compute import store
from privlab.defences import perturbation
from privlab.experiments.protocol import Values
from privlab.experiments.reconstruction import baselines
from privlab.leak import Leak, observe
from privlab.models import april

TINY: dict[str, Any] = dict(width=96, depth=2)
DIGITS: dict[str, Any] = dict(channels=1, image_size=28, patch_size=7, normalise=data.NORMALISE["mnist"])
HEAD = ["head.weight", "head.bias"]
BEGIN = 100_000  # added to the number of a repeat for the noise that a search begins with; another one than that of the weights
BALANCED = {  # April with alpha by rule -> what it compares gradients by
    "april": objectives.squared_distance,
    "april_by_the_bias": objectives.squared_distance,
    "april_tag": objectives.tag(),
    "april_relative": objectives.relative_distance,
}
SNAPSHOTS = 30  # of a search, so that 1,500 steps are seen every 50


def word(std: float) -> str:
    """A standard deviation as part of a name: std_0p02."""
    return f"std_{std:g}".replace(".", "p")


def photographs(name: str) -> data.Images:
    """The set that photographs under attack are taken from: the test split where there is one."""
    return data.load(name, "train" if name.endswith("_samples") else "test")


def batch(repeat: int, size: int) -> list[int]:
    """Places of the first photographs of different classes, from one of the repeat's own on; repeats 1,000 apart share them."""
    labels, places = photographs("cifar10").labels, dict[int, int]()
    at = 10 * repeat
    while len(places) < size:
        places.setdefault(int(labels[at % len(labels)]), at % len(labels))
        at += 1
    return [*places.values()]


def guesses(name: str, truth: Tensor, other_than: int | None = None) -> Values:
    """Scores of two pictures that look at no gradient: mid-grey, and the mean of the public photographs.

    truth: (batch, channels, height, width).  other_than: place of the photograph under attack, in a set without a split for the public.
    """
    if other_than is None:
        mean, key = baselines(name)["mean_photograph"], name
    else:
        others = [i for i in range(len(photographs(name))) if i != other_than]
        mean = torch.cat([photographs(name).one(i, size=truth.shape[-1])[0] for i in others]).mean(0, keepdim=True)
        key = name.removesuffix("_samples")
    for label, picture in (("grey", torch.full_like(truth, 0.5)), ("mean_photograph", mean.expand_as(truth))):
        yield from scores(picture, truth, name, key, label)


def scores(images: Tensor, truth: Tensor, name: str, *keys: str) -> Values:
    """PSNR and SSIM, and the error of normalised images, the unit that fits the printed SSIM of Lu et al. 2022, Table 1."""
    normalise, keyed = photographs(name).normalise, ", ".join(keys)
    yield f"psnr[{keyed}]", metrics.psnr(images, truth).mean().item()
    yield f"ssim[{keyed}]", metrics.ssim(images, truth).mean().item()
    yield f"mse[{keyed}]", (normalise(images) - normalise(truth)).square().mean().item()


def build(repeat: int, architecture: str = "b", class_std: float | None = None, **changes: Any) -> nn.Module:
    """A fresh victim.  class_std: size of the class token's own embedding, if it is to differ."""
    model: Any = april.build(architecture, seed=repeat, **changes)
    if class_std is not None:
        drawn = torch.randn(model.embed_dim, generator=torch.Generator().manual_seed(repeat + 3 * BEGIN))
        model.pos_embed.data[:, 0] = class_std * drawn
    return model


def another_embedding(model: nn.Module, repeat: int) -> Any:
    """What a server has that was never told the embedding: the same victim with a draw of its own."""
    other: Any = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(repeat + 2 * BEGIN)
    other.pos_embed.data = torch.randn(other.pos_embed.shape, generator=draw).to(other.pos_embed)
    return other


def observed(
    repeat: int,
    size: int = 1,
    *,
    name: str = "cifar10",
    victim: Mapping[str, Any],
    names: Iterable[str] | None = None,
    device: str = "cpu",
) -> tuple[Any, Leak]:
    """The repeat's victim, and what it sends of its photograph, or of a batch of different classes.  Arguments as in `invert`."""
    digits = DIGITS if name == "mnist" else {}
    model = build(repeat, **{**digits, **victim}).to(device)
    source, side = photographs(name), victim.get("image_size")
    images, labels = source.one(repeat % len(source), size=side) if size == 1 else source.take(batch(repeat, size))
    return model, observe(model, images, labels, names=names)


def attack(by: str, steps: int, model: nn.Module, leak: Leak, seed: int) -> GradientMatching:
    """A search by its name: one of Table 1, "april" with alpha by rule, "april_alpha_1", or ours.

    Ours are "annealed", April with labels by the last layer's bias, "april_by_the_bias", and April's or DLG's with another distance:
    "april_tag", "relative", "april_relative".
    """
    if by in BALANCED:
        return presets.april_balanced(steps, model, leak, seed, BALANCED[by])
    if by == "relative":
        return presets.april(steps, distance=objectives.relative_distance).without("position")
    if by.startswith("annealed"):
        chosen = replace(presets.annealed(steps), labels=presets.one_or_many)
        return chosen.without("smoothness") if by == "annealed_bare" else chosen
    return presets.lu2022(steps)["april" if by == "april_alpha_1" else by]


def altered(sent: str, leak: Leak, repeat: int) -> Leak:
    """What the client sends: "everything", "withheld" (no position gradient), or noise such as "gaussian 0.03"."""
    if sent == "withheld":
        return leak.without(["pos_embed"])
    if sent != "everything":
        kind, relative = sent.split()
        noisy: Callable[[Leak, float, int], Leak] = getattr(perturbation, kind)
        return noisy(leak, float(relative), repeat)
    return leak


def invert(
    by: str,
    repeat: int,
    steps: int,
    size: int = 1,
    *,
    name: str = "cifar10",
    sent: str = "everything",
    private: bool = False,
    victim: Mapping[str, Any],
    trained: tuple[nn.Module, str] | None = None,
    device: str = "cpu",
) -> Result:
    """One search, its label read off; kept in the store, where a search that was interrupted goes on.

    by: see `attack`.  size: photographs in the batch.  sent: see `altered`.  private: the server has not the client's embedding.
    victim: what `build` takes, or names a trained one by.  trained: that one, and what it was trained on.
    """
    about = dict(
        by=by, repeat=repeat, steps=steps, size=size, data=name, sent=sent, private=private, victim=dict(victim)
    )
    state = "fresh" if trained is None else trained[1]
    run = store.keyed("april", {**about, "state": state}, format=results.FORMAT, device=device)
    if run.complete:
        return results.kept(run)
    if trained is None:
        model, leak = observed(repeat, size, name=name, victim=victim, device=device)
    else:
        model, leak = trained[0], observe(trained[0], *photographs(name).one(repeat))
    received = altered(sent, replace(leak, labels=None), repeat)
    server = another_embedding(model, repeat) if private else model
    if by == "april_by_the_bias":
        received = replace(received, labels=label_recovery.bias_counts(server, received))
    search = attack(by, steps, server, received, repeat + BEGIN)
    shots = min(SNAPSHOTS, steps)
    return search.run(server, received, seed=repeat + BEGIN, snapshots=shots, store=run, progress=False)


def final(result: Result) -> Tensor:
    """The images that a search ends with, as in the paper.

    Not those of its lowest score, which float32 no longer tells apart near the end: with APRIL's alpha by rule the rounding of the cosine
    is as large as the distance that is left.
    """
    return result.snapshots[-1].images


def label_right(repeat: int, name: str, victim: Mapping[str, Any]) -> bool:
    """Whether Algorithm 2, line 3, reads the label of the repeat's photograph."""
    model, leak = observed(repeat, name=name, victim=victim, names=HEAD)
    read = label_recovery.row_products(model, replace(leak, labels=None))
    return bool(leak.labels is not None and read.item() == leak.labels.item())
