"""Lab 06: the four searches of Lu et al. 2022, Table 1, on its architectures A and B; and what it hangs on whether a search sees the image.

At night `cifar10`, `mnist`, `architecture_a`, `batches` and `labels_of_a_batch` have the paper's own networks and steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from privlab import metrics, training
from privlab.attacks.gradient_inversion import closed_form, label_recovery
from privlab.attacks.gradient_inversion.search import constant, cosine
from privlab.course.lab_06 import sense_of_place
from privlab.course.lab_06.searches import FOUR, fall, four_attacks, in_order, without_a_search
from privlab.experiments import reconstruction
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims import april as april_victims
from privlab.experiments.victims import batch_family
from privlab.experiments.victims.april import (
    BEGIN,
    TINY,
    another_embedding,
    batch,
    build,
    final,
    guesses,
    invert,
    label_right,
    observed,
    photographs,
    scores,
    word,
)
from privlab.leak import observe

OWN = "architecture {} in the paper's size, fresh; Adam's step length and alpha, which it does not name, are ours"
SHORT = "two layers, a fraction of the paper's steps"
TWO: dict[str, Any] = dict(depth=2)
QKV = "blocks.0.attn.qkv.weight"


@experiment(
    "april_by_optimisation.cifar10",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 3 steps", settings=dict(steps=3, stds=[1.0, 0.02], shape=TINY)),
    class_=Size(8, f"{SHORT}: 30 of 1,500", settings=dict(steps=30, stds=[1.0], shape=TWO)),
    night=Size(16, OWN.format("B"), own=True, settings=dict(steps=1500, stds=[1.0, 0.02], shape={})),
    paper=Size(500, OWN.format("B"), own=True, settings=dict(steps=1500, stds=[1.0, 0.02], shape={})),
)
def cifar10(repeat: int, steps: int, stds: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Table 1, Figures 3, 7 and 8, section 4.2: the four attacks, and what is left of them without the position embedding's gradient."""
    yield from four_attacks(repeat, "cifar10", steps, stds, shape, device)
    truth, _ = photographs("cifar10").one(repeat)
    rows = [truth]
    for std in stds:
        # without that gradient APRIL is DLG, to the bit
        for attack in ("dlg", "ig", "tag") if std == 1 else ("dlg",):
            result = invert(
                attack, repeat, steps, sent="withheld", device=device, victim={**shape, "position_std": std}
            )
            last = [] if std == 1 else [word(std)]
            yield from scores(final(result), truth, "cifar10", "position_hidden", attack, *last)
            if attack == "dlg":
                yield f"log10_grad_loss_drop[{', '.join(['position_hidden', *last])}]", fall(result)
            rows.append(final(result))
    yield "picture[photograph_without_position_gradient]", tiled([rows])


@experiment(
    "april_by_optimisation.mnist",
    data=("mnist",),
    smoke=Size(2, "two narrow layers, 3 steps", settings=dict(steps=3, stds=[1.0], shape=TINY)),
    class_=Size(8, f"{SHORT}: 30 of 800", settings=dict(steps=30, stds=[1.0], shape=TWO)),
    night=Size(16, OWN.format("B"), own=True, settings=dict(steps=800, stds=[1.0, 0.02], shape={})),
    paper=Size(500, OWN.format("B"), own=True, settings=dict(steps=800, stds=[1.0, 0.02], shape={})),
)
def mnist(repeat: int, steps: int, stds: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Table 1: the four attacks on a digit."""
    yield from four_attacks(repeat, "mnist", steps, stds, shape, device)


@experiment(
    "april_by_optimisation.distances",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", settings=dict(steps=2, shape=TINY)),
    night=Size(8, "architecture B in its paper's size, 800 steps", first=1100, settings=dict(steps=800, shape={})),
)
def distances(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Ours: what APRIL's term and TAG's absolute differences bring, alone and together, and whether each tensor should count alike."""
    truth, _ = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    rows = [truth]
    for attack in ("dlg", "april", "relative", "april_relative", "tag", "april_tag"):
        result = invert(attack, repeat, steps, device=device, victim={**shape, "position_std": 1.0})
        rows.append(final(result))
        yield f"psnr[distance, {attack}]", metrics.psnr(final(result), truth)
    yield "picture[photograph_and_distances]", tiled([rows])


DECAYS: dict[str, Callable[[float], float]] = {"falling": cosine, "constant": constant}


@experiment("april_by_optimisation.step_lengths", data=("cifar10",),
    smoke=Size(1, "two narrow layers, 2 steps", settings=dict(steps=2, lengths=[0.1, 0.01], shape=TINY)),
    night=Size(
        4, "architecture B in its paper's size, fresh, 500 of 1,500 steps, by two step lengths that fall or stay",
        first=1200, settings=dict(steps=500, lengths=[0.1, 0.01], shape={}),
    ),
)  # fmt: skip
def step_lengths(repeat: int, steps: int, lengths: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """What the paper leaves open: the four losses of squared distance by step length, its course, and alpha (0, 1, by rule)."""
    truth, _ = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    model, leak = observed(repeat, victim={**shape, "position_std": 1.0}, device=device)
    received = replace(leak, labels=None)
    rows = [truth]
    for by in ("dlg", "april_alpha_1", "april", "tag"):
        usual = april_victims.attack(by, steps, model, received, repeat + BEGIN)
        for lr, (course, decay) in itertools.product(lengths, DECAYS.items()):
            search = replace(usual, lr=lr, schedule=decay)
            found = final(reconstruction.search(search, model, received, repeat + BEGIN))
            rows.append(found)
            yield from scores(found, truth, "cifar10", by, f"step_{lr:g}".replace(".", "p"), course)
    yield "picture[photograph_and_cells]", tiled([rows])


@experiment(
    "april_by_optimisation.architecture_a",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", settings=dict(steps=2, shape=TINY)),
    class_=Size(8, f"{SHORT}: 20 of 1,500", settings=dict(steps=20, shape=TWO)),
    night=Size(16, OWN.format("A"), own=True, settings=dict(steps=1500, shape={})),
    paper=Size(500, OWN.format("A"), own=True, settings=dict(steps=1500, shape={})),
)
def architecture_a(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Figures 2 and 8 (A): the closed form and the four searches on architecture A, and one without the position gradient."""
    truth, _ = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    victim = {**shape, "architecture": "a", "position_std": 1.0}
    model, leak = observed(repeat, victim=victim, device=device)
    solved = closed_form.attention(model, leak).images.cpu()
    yield "psnr[arch_a, closed_form]", metrics.psnr(solved, truth)
    rows = [truth, solved.clamp(0, 1)]
    for attack in FOUR:
        result = invert(attack, repeat, steps, device=device, victim=victim)
        yield from scores(final(result), truth, "cifar10", "arch_a", attack)
        rows.append(final(result))
    hidden = invert("dlg", repeat, steps, sent="withheld", device=device, victim=victim)
    yield from scores(final(hidden), truth, "cifar10", "arch_a", "position_hidden")
    yield "log10_grad_loss_drop[arch_a, position_hidden]", fall(hidden)
    yield "picture[photograph_closed_form_april_dlg_ig_tag_hidden]", tiled([[*rows, final(hidden)]])


@experiment(
    "april_by_optimisation.batches",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", settings=dict(steps=2, sizes=[4], shape=TINY)),
    class_=Size(8, f"{SHORT}: 30 of 1,500", settings=dict(steps=30, sizes=[4], shape=TWO)),
    night=Size(16, OWN.format("B"), own=True, settings=dict(steps=1500, sizes=[4], shape={})),
    paper=Size(100, OWN.format("B"), own=True, settings=dict(steps=1500, sizes=[2, 4], shape={})),
)
def batches(repeat: int, steps: int, sizes: list[int], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Figure 4: APRIL on a batch of different classes, its labels by the row minimum; the images in the order of their labels."""
    victim = {**shape, "position_std": 1.0}
    for size in sizes:
        model, leak = observed(repeat, size, victim=victim, device=device)
        truth, wanted = photographs("cifar10").take(batch(repeat, size))
        right = label_recovery.overlap(label_recovery.bias_counts(model, leak).cpu(), wanted)
        yield f"label_accuracy[bias_counts, batch_{size}]", right
        result = invert("april", repeat, steps, size, device=device, victim=victim)
        yield f"label_accuracy[row_minimum, batch_{size}]", label_recovery.overlap(result.labels, wanted)
        found = in_order(result, wanted)
        yield from scores(found, truth, "cifar10", "april", f"batch_{size}")
        for name, value in guesses("cifar10", truth):
            yield name.replace("]", f", batch_{size}]"), value
        yield f"picture[batch_{size}, truth_above_found]", tiled([truth, found])


@experiment(
    "april_by_optimisation.labels_of_a_batch",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", settings=dict(steps=2, shape=TINY)),
    night=Size(  # a further try: of the first eight one claim came out open
        8, OWN.format("B"), own=True, first=1108, settings=dict(steps=1500, shape={})
    ),
)
def labels_of_a_batch(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Ours: APRIL on a batch of four classes, once with its labels by the row minimum and once by the last layer's bias."""
    truth, wanted = photographs("cifar10").take(batch(repeat, 4))
    yield from guesses("cifar10", truth)
    rows = [truth]
    for rule, by in (("row_minimum", "april"), ("bias_counts", "april_by_the_bias")):
        result = invert(by, repeat, steps, 4, device=device, victim={**shape, "position_std": 1.0})
        rows.append(in_order(result, wanted))
        yield f"label_accuracy[{rule}]", label_recovery.overlap(result.labels, wanted)
        yield from scores(rows[-1], truth, "cifar10", "april", rule)
    yield "picture[photographs_row_minimum_bias_counts]", tiled(rows)


@experiment(
    "april_by_optimisation.label_rule",
    data=("cifar10", "mnist"),
    smoke=Size(2, "two narrow layers", settings=dict(shape=TINY)),
    class_=Size(16, "architectures A and B in the paper's size, fresh", own=True, settings=dict(shape={})),
)
def label_rule(repeat: int, shape: dict[str, Any]) -> Values:
    """Algorithm 2, line 3: the share of labels that are read right, over both architectures and two scales of the position embedding."""
    for name, key in (("cifar10", "batch_1"), ("mnist", "batch_1, mnist")):
        cells = [dict(architecture=a, position_std=std, **shape) for a in "ab" for std in (1.0, 0.02)]
        yield f"label_accuracy[dot_product_rule, {key}]", sum(label_right(repeat, name, v) for v in cells) / len(cells)


# -- ours: the scale of the position embedding ---------------------------------------------------------------------------------


@experiment("april_by_optimisation.scale", data=("cifar10",),
    smoke=Size(2, "two narrow layers, 3 steps", settings=dict(steps=3, stds=[0.02, 1.0], shape=TINY)),
    class_=Size(8, "two layers, 60 steps", settings=dict(steps=60, stds=[0.02, 0.2, 1.0, 2.0], shape=TWO)),
    night=Size(
        16, "architecture B in its paper's size, 300 steps",
        settings=dict(steps=300, stds=[0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0], shape={}),
    ),
)  # fmt: skip
def scale(repeat: int, steps: int, stds: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Nothing changed but the standard deviation of the position embedding: what a search and the closed form find, and why."""
    truth, _ = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    rows = [truth]
    for std in stds:
        victim = {**shape, "position_std": std}
        found = final(invert("annealed", repeat, steps, victim=victim, device=device))
        rows.append(found)
        yield f"psnr[fresh, {word(std)}]", metrics.psnr(found, truth)
        mean_patch, rest = sense_of_place.parts(found, truth)
        yield f"psnr[mean_patch, {word(std)}]", mean_patch
        yield f"correlation[differences_between_patches, {word(std)}]", rest
        if std in (stds[0], 1.0, stds[-1]):
            bare = final(invert("annealed_bare", repeat, steps, victim=victim, device=device))
            yield f"psnr[gradients_alone, {word(std)}]", metrics.psnr(bare, truth)
        yield from without_a_search(repeat, std, victim, device)
    for std, class_std in ((1.0, 0.02), (0.02, 1.0)):
        victim = {**shape, "position_std": std, "class_std": class_std}
        found = final(invert("annealed", repeat, steps, victim=victim, device=device))
        yield f"psnr[patches_{word(std)}, class_{word(class_std)}]", metrics.psnr(found, truth)
    yield "picture[photograph_and_scales]", tiled([rows])


KINDS: dict[
    str, dict[str, Any]
] = {  # what the client does with its position embedding -> how victim and message differ
    "shared": dict(),
    "withheld": dict(sent="withheld"),
    "sinusoid_1d": dict(position="sinusoid_1d", position_std=None),
    "sinusoid_2d": dict(position="sinusoid_2d", position_std=None),
    "sinusoid_2d_class_1": dict(position="sinusoid_2d", position_std=None, class_std=1.0),
    "private": dict(sent="withheld", private=True),
}


@experiment(
    "april_by_optimisation.embeddings",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", settings=dict(steps=2, shape=dict(width=224, depth=2))),
    class_=Size(8, "two layers, 60 steps", settings=dict(steps=60, shape=TWO)),
    night=Size(16, "architecture B in its paper's size, 300 steps", settings=dict(steps=300, shape={})),
)
def embeddings(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """A position embedding withheld, frozen as a sinusoid, or private: by the annealed search, and by algebra from the same message."""
    truth, _ = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    rows = [truth]
    for kind, how in KINDS.items():
        victim = {**shape, "position_std": 1.0, **{k: v for k, v in how.items() if k not in ("sent", "private")}}
        sent = {k: how[k] for k in ("sent", "private") if k in how}
        result = invert("annealed", repeat, steps, victim=victim, device=device, **sent)
        rows.append(final(result))
        yield f"psnr[search, {kind}]", metrics.psnr(final(result), truth)
        yield f"log10_distance_fall[search, {kind}]", fall(result)
        model, leak = observed(repeat, victim=victim, names=[QKV], device=device)
        server = another_embedding(model, repeat) if kind == "private" else model
        yield f"psnr[subspace, {kind}]", metrics.psnr(closed_form.subspace(server, leak).clamped.cpu(), truth)
        yield f"hidden_directions[{kind}]", closed_form.hidden_directions(server)
    yield "picture[photograph_and_embeddings]", tiled([rows])


# embedding -> of the victim, formats of its gradient; one of low rank hides 9 directions, as the sinusoid in two dimensions does
BEHIND: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "sinusoid_1d": (dict(position="sinusoid_1d"), ("float32", "float64")),
    "sinusoid_2d": (dict(position="sinusoid_2d"), ("float32", "float64")),
    "low_rank": (dict(position="low_rank", position_rank=6, position_std=1.0), ("float32",)),
}
# some last places beyond the format, as the client adds up in float32; without them the family misses the photograph
ROUNDED = {"float32": 1e-6, "float64": None}


@experiment("april_by_optimisation.fixed_sinusoid", data=("cifar10",),
    smoke=Size(1, "two narrow layers, 1 step", settings=dict(steps=1, restarts=2, shape=dict(width=224, depth=2))),
    night=Size(
        16, "architecture B in its paper's size, fresh; a search of ours, 15 steps of L-BFGS (some 300 evaluations), three starts",
        first=1200, settings=dict(steps=15, restarts=3, shape={}),
    ),
)  # fmt: skip
def fixed_sinusoid(repeat: int, steps: int, restarts: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Ours: behind a sinusoid, which is fixed and known, a search inside the family that the first attention's gradient leaves open.

    Of several starts the one that ends with the lowest score counts, which the attacker sees. Behind a random embedding of low rank, at
    scale 1, as many directions are hidden: a control. Where the algebra leaves none open its answer counts.
    """
    truth, label = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    rows = [truth]
    for kind, (embedding, formats) in BEHIND.items():
        for sent in formats:
            model = build(repeat, **shape, **embedding).to(device, getattr(torch, sent))
            leak = replace(observe(model, truth, label), labels=None)
            seeds = [(k + 1) * BEGIN + repeat for k in range(restarts)]
            hidden, images = batch_family.inside(model, leak, truth, seeds, steps, ROUNDED[sent])
            rows.append(images["inside"].cpu().float().clamp(0, 1))
            yield f"hidden[{kind}, {sent}]", hidden
            for name, found in images.items():
                yield f"psnr[{name}, {kind}, {sent}]", metrics.psnr(found.cpu().clamp(0, 1), truth.to(found.dtype))
    yield "picture[photograph_and_inside]", tiled([rows])


@experiment("april_by_optimisation.trained", data=("cifar10",),
    smoke=Size(
        2, "two narrow layers, 2 epochs on 32 images, 2 steps",
        settings=dict(steps=2, images=32, epochs=2, width=96, depth=2),
    ),
    class_=Size(
        8, "two layers of width 192, 4 epochs on 400 images, 60 steps",
        settings=dict(steps=60, images=400, epochs=4, width=192, depth=2),
    ),
    gpu=Size(
        8, "architecture B in its paper's size, 15 epochs on 10,000 images, 300 steps",
        settings=dict(steps=300, images=10_000, epochs=15, width=384, depth=4),
    ),
)  # fmt: skip
def trained(repeat: int, steps: int, images: int, epochs: int, width: int, depth: int, device: str = "cpu") -> Values:
    """Two victims, drawn at 0.02 and at 1, trained alike on images of the repeat's own, then searched."""
    truth, _ = photographs("cifar10").one(repeat)
    yield from guesses("cifar10", truth)
    recipe = replace(training.RECIPES["smoke"], epochs=epochs)
    members = torch.randperm(50_000, generator=torch.Generator().manual_seed(repeat))[:images]
    for std in (0.02, 1.0):
        body = dict(embed_dim=width, depth=depth, position_std=std)
        model, history = training.victim(
            "vit_cifar", recipe, images=members, test=1_000, sample=200, seed=abs(repeat), model=body, device=device, progress=False
        )  # fmt: skip
        of = f"{recipe} on {images} images"
        found = final(invert("annealed", repeat, steps, victim=body, trained=(model, of), device=device))
        yield f"psnr[trained, {word(std)}]", metrics.psnr(found, truth)
        yield f"test_accuracy[trained, {word(std)}]", history.test_accuracy[-1]
        yield f"position_std[trained, {word(std)}]", model.get_parameter("pos_embed").std().item()
