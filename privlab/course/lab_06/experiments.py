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
from privlab.course.lab_06.searches import (
    FOUR,
    SCORES,
    another_embedding,
    attack,
    fall,
    final,
    four_attacks,
    in_order,
    invert,
    without_a_search,
    word,
)
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims import batch_family
from privlab.experiments.victims.april import OWN_DRAW, trial_of, victim

A, B = (
    f"architecture {name} in the paper's size, fresh; Adam's step length and alpha, which it does not name, are ours"
    for name in "AB"
)
SHORT = "two layers, a fraction of the paper's steps"
TINY: dict[str, Any] = dict(width=96, depth=2)
TWO: dict[str, Any] = dict(depth=2)
POSITION, QKV, HEAD = "pos_embed", "blocks.0.attn.qkv.weight", ["head.weight", "head.bias"]


# -- Table 1, Figures 2 to 4, 7 and 8 ------------------------------------------------------------------------------------------


@experiment(
    "april_by_optimisation.cifar10",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 3 steps", steps=3, stds=[1.0, 0.02], shape=TINY),
    class_=Size(8, f"{SHORT}: 30 of 1,500", steps=30, stds=[1.0], shape=TWO),
    night=Size(16, B, own=True, steps=1500, stds=[1.0, 0.02], shape={}),
    paper=Size(500, B, own=True, steps=1500, stds=[1.0, 0.02], shape={}),
)
def cifar10(repeat: int, steps: int, stds: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Table 1, Figures 3, 7 and 8, section 4.2: the four attacks, and what is left of them without the position embedding's gradient."""
    trial = trial_of(repeat, device=device)
    yield from four_attacks(trial, steps, stds, shape)
    rows = [trial.images]
    for std in stds:
        model = victim(trial, **shape, position_std=std)
        for by in ("dlg", "ig", "tag") if std == 1 else ("dlg",):  # without that gradient APRIL is DLG, to the bit
            result = invert(by, trial, model, steps, hide=[POSITION])
            at = "" if std == 1 else f", {word(std)}"
            yield from trial.scores(f"position_hidden, {by}{at}", final(result), SCORES)
            if by == "dlg":
                yield f"log10_grad_loss_drop[position_hidden{at}]", fall(result)
            rows.append(final(result))
    yield "picture[photograph_without_position_gradient]", tiled([rows])


@experiment(
    "april_by_optimisation.mnist",
    data=("mnist",),
    smoke=Size(2, "two narrow layers, 3 steps", steps=3, stds=[1.0], shape=TINY),
    class_=Size(8, f"{SHORT}: 30 of 800", steps=30, stds=[1.0], shape=TWO),
    night=Size(16, B, own=True, steps=800, stds=[1.0, 0.02], shape={}),
    paper=Size(500, B, own=True, steps=800, stds=[1.0, 0.02], shape={}),
)
def mnist(repeat: int, steps: int, stds: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Table 1: the four attacks on a digit."""
    yield from four_attacks(trial_of(repeat, name="mnist", device=device), steps, stds, shape)


@experiment(
    "april_by_optimisation.distances",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", steps=2, shape=TINY),
    night=Size(8, "architecture B in its paper's size, 800 steps", first=1100, steps=800, shape={}),
)
def distances(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Ours: what APRIL's term and TAG's absolute differences bring, alone and together, and whether each tensor should count alike."""
    trial = trial_of(repeat, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    model, rows = victim(trial, **shape, position_std=1.0), [trial.images]
    for by in ("dlg", "april", "relative", "april_relative", "tag", "april_tag"):
        rows.append(final(invert(by, trial, model, steps)))
        yield from trial.scores(f"distance, {by}", rows[-1])
    yield "picture[photograph_and_distances]", tiled([rows])


DECAYS: dict[str, Callable[[float], float]] = {"falling": cosine, "constant": constant}


@experiment("april_by_optimisation.step_lengths", data=("cifar10",),
    smoke=Size(1, "two narrow layers, 2 steps", steps=2, lengths=[0.1, 0.01], shape=TINY),
    night=Size(
        4, "architecture B in its paper's size, fresh, 500 of 1,500 steps, by two step lengths that fall or stay",
        first=1200, steps=500, lengths=[0.1, 0.01], shape={},
    ),
)  # fmt: skip
def step_lengths(repeat: int, steps: int, lengths: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """What the paper leaves open: the four losses of squared distance by step length, its course, and alpha (0, 1, by rule)."""
    trial, seed = trial_of(repeat, device=device), repeat + OWN_DRAW
    yield from trial.guesses("cifar10, ", SCORES)
    model = victim(trial, **shape, position_std=1.0)
    received, rows = replace(trial.leak(model), labels=None), [trial.images]
    for by in ("dlg", "april_alpha_1", "april", "tag"):
        usual = attack(by, steps, model, received, seed)
        for lr, (course, decay) in itertools.product(lengths, DECAYS.items()):
            rows.append(final(trial.search(replace(usual, lr=lr, schedule=decay), model, received, seed)))
            yield from trial.scores(f"{by}, step_{lr:g}, {course}".replace(".", "p"), rows[-1], SCORES)
    yield "picture[photograph_and_cells]", tiled([rows])


@experiment(
    "april_by_optimisation.architecture_a",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", steps=2, shape=TINY),
    class_=Size(8, f"{SHORT}: 20 of 1,500", steps=20, shape=TWO),
    night=Size(16, A, own=True, steps=1500, shape={}),
    paper=Size(500, A, own=True, steps=1500, shape={}),
)
def architecture_a(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Figures 2 and 8 (A): the closed form and the four searches on architecture A, and one without the position gradient."""
    trial = trial_of(repeat, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    model = victim(trial, "a", **shape, position_std=1.0)
    solved = closed_form.attention(model, trial.leak(model)).images.cpu()
    yield from trial.scores("arch_a, closed_form", solved)
    rows = [trial.images, solved.clamp(0, 1)]
    for by in FOUR:
        rows.append(final(invert(by, trial, model, steps)))
        yield from trial.scores(f"arch_a, {by}", rows[-1], SCORES)
    hidden = invert("dlg", trial, model, steps, hide=[POSITION])
    yield from trial.scores("arch_a, position_hidden", final(hidden), SCORES)
    yield "log10_grad_loss_drop[arch_a, position_hidden]", fall(hidden)
    yield "picture[photograph_closed_form_april_dlg_ig_tag_hidden]", tiled([[*rows, final(hidden)]])


@experiment(
    "april_by_optimisation.batches",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", steps=2, sizes=[4], shape=TINY),
    class_=Size(8, f"{SHORT}: 30 of 1,500", steps=30, sizes=[4], shape=TWO),
    night=Size(16, B, own=True, steps=1500, sizes=[4], shape={}),
    paper=Size(100, B, own=True, steps=1500, sizes=[2, 4], shape={}),
)
def batches(repeat: int, steps: int, sizes: list[int], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Figure 4: APRIL on a batch of different classes, its labels by the row minimum; the images in the order of their labels."""
    for size in sizes:
        trial = trial_of(repeat, size, device=device)
        model = victim(trial, **shape, position_std=1.0)
        counted = label_recovery.bias_counts(model, trial.leak(model)).cpu()
        yield f"label_accuracy[bias_counts, batch_{size}]", label_recovery.overlap(counted, trial.labels)
        result = invert("april", trial, model, steps)
        yield f"label_accuracy[row_minimum, batch_{size}]", label_recovery.overlap(result.labels, trial.labels)
        found = in_order(result, trial.labels)
        yield from trial.scores(f"april, batch_{size}", found, SCORES)
        for name, value in trial.guesses("cifar10, ", SCORES):
            yield name.replace("]", f", batch_{size}]"), value
        yield f"picture[batch_{size}, truth_above_found]", tiled([trial.images, found])


@experiment(
    "april_by_optimisation.labels_of_a_batch",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", steps=2, shape=TINY),
    # a further try: of the first eight one claim came out open
    night=Size(8, B, own=True, first=1108, steps=1500, shape={}),
)
def labels_of_a_batch(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Ours: APRIL on a batch of four classes, once with its labels by the row minimum and once by the last layer's bias."""
    trial = trial_of(repeat, 4, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    model, rows = victim(trial, **shape, position_std=1.0), [trial.images]
    for rule, by in (("row_minimum", "april"), ("bias_counts", "april_by_the_bias")):
        result = invert(by, trial, model, steps)
        rows.append(in_order(result, trial.labels))
        yield f"label_accuracy[{rule}]", label_recovery.overlap(result.labels, trial.labels)
        yield from trial.scores(f"april, {rule}", rows[-1], SCORES)
    yield "picture[photographs_row_minimum_bias_counts]", tiled(rows)


@experiment(
    "april_by_optimisation.label_rule",
    data=("cifar10", "mnist"),
    smoke=Size(2, "two narrow layers", shape=TINY),
    class_=Size(16, "architectures A and B in the paper's size, fresh", own=True, shape={}),
)
def label_rule(repeat: int, shape: dict[str, Any]) -> Values:
    """Algorithm 2, line 3: the share of labels that are read right, over both architectures and two scales of the position embedding."""
    for name, key in (("cifar10", "batch_1"), ("mnist", "batch_1, mnist")):
        trial, right = trial_of(repeat, name=name), 0
        for architecture, std in itertools.product("ab", (1.0, 0.02)):
            model = victim(trial, architecture, **shape, position_std=std)
            leak = replace(trial.leak(model, HEAD), labels=None)
            right += label_recovery.row_products(model, leak).equal(trial.labels)
        yield f"label_accuracy[dot_product_rule, {key}]", right / 4


# -- ours: the scale of the position embedding ---------------------------------------------------------------------------------


@experiment("april_by_optimisation.scale", data=("cifar10",),
    smoke=Size(2, "two narrow layers, 3 steps", steps=3, stds=[0.02, 1.0], shape=TINY),
    class_=Size(8, "two layers, 60 steps", steps=60, stds=[0.02, 0.2, 1.0, 2.0], shape=TWO),
    night=Size(
        16, "architecture B in its paper's size, 300 steps",
        steps=300, stds=[0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0], shape={},
    ),
)  # fmt: skip
def scale(repeat: int, steps: int, stds: list[float], shape: dict[str, Any], device: str = "cpu") -> Values:
    """Nothing changed but the standard deviation of the position embedding: what a search and the closed form find, and why."""
    trial = trial_of(repeat, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    rows = [trial.images]
    for std in stds:
        model = victim(trial, **shape, position_std=std)
        rows.append(final(invert("annealed", trial, model, steps)))
        yield from trial.scores(f"fresh, {word(std)}", rows[-1])
        mean_patch, rest = sense_of_place.parts(rows[-1], trial.images)
        yield f"psnr[mean_patch, {word(std)}]", mean_patch
        yield f"correlation[differences_between_patches, {word(std)}]", rest
        if std in (stds[0], 1.0, stds[-1]):
            bare = final(invert("annealed_bare", trial, model, steps))
            yield from trial.scores(f"gradients_alone, {word(std)}", bare)
        yield from without_a_search(trial, std, model)
    for std, class_std in ((1.0, 0.02), (0.02, 1.0)):
        model = victim(trial, class_std=class_std, **shape, position_std=std)
        found = final(invert("annealed", trial, model, steps))
        yield from trial.scores(f"patches_{word(std)}, class_{word(class_std)}", found)
    yield "picture[photograph_and_scales]", tiled([rows])


KINDS: dict[str, dict[str, Any]] = {  # what the client does with its position embedding -> how the victim differs
    "shared": dict(position_std=1.0),
    "withheld": dict(position_std=1.0),
    "sinusoid_1d": dict(position="sinusoid_1d"),
    "sinusoid_2d": dict(position="sinusoid_2d"),
    "sinusoid_2d_class_1": dict(position="sinusoid_2d", class_std=1.0),
    "private": dict(position_std=1.0),
}


@experiment(
    "april_by_optimisation.embeddings",
    data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 steps", steps=2, shape=dict(width=224, depth=2)),
    class_=Size(8, "two layers, 60 steps", steps=60, shape=TWO),
    night=Size(16, "architecture B in its paper's size, 300 steps", steps=300, shape={}),
)
def embeddings(repeat: int, steps: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """A position embedding withheld, frozen as a sinusoid, or private: by the annealed search, and by algebra from the same message."""
    trial = trial_of(repeat, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    rows = [trial.images]
    for kind, how in KINDS.items():
        model = victim(trial, **shape, **how)
        server = another_embedding(model, trial) if kind == "private" else model
        hide = [POSITION] if kind in ("withheld", "private") else []
        result = invert("annealed", trial, model, steps, hide, server)
        rows.append(final(result))
        yield from trial.scores(f"search, {kind}", final(result))
        yield f"log10_distance_fall[search, {kind}]", fall(result)
        yield from trial.scores(f"subspace, {kind}", closed_form.subspace(server, trial.leak(model, [QKV])).clamped)
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
    smoke=Size(1, "two narrow layers, 1 step", steps=1, restarts=2, shape=dict(width=224, depth=2)),
    night=Size(
        16, "architecture B in its paper's size, fresh; a search of ours, 15 steps of L-BFGS (some 300 evaluations), three starts",
        first=1200, steps=15, restarts=3, shape={},
    ),
)  # fmt: skip
def fixed_sinusoid(repeat: int, steps: int, restarts: int, shape: dict[str, Any], device: str = "cpu") -> Values:
    """Ours: behind a sinusoid, which is fixed and known, a search inside the family that the first attention's gradient leaves open.

    Of several starts the one that ends with the lowest score counts, which the attacker sees. Behind a random embedding of low rank, at
    scale 1, as many directions are hidden: a control. Where the algebra leaves none open its answer counts.
    """
    trial = trial_of(repeat, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    rows, seeds = [trial.images], [(k + 1) * OWN_DRAW + repeat for k in range(restarts)]
    for kind, (embedding, formats) in BEHIND.items():
        for sent in formats:
            model = victim(trial, "b", getattr(torch, sent), **shape, **embedding)
            leak = replace(trial.leak(model), labels=None)
            hidden, images = batch_family.inside(model, leak, trial.images, seeds, steps, ROUNDED[sent])
            rows.append(images["inside"].cpu().float().clamp(0, 1))
            yield f"hidden[{kind}, {sent}]", hidden
            for name, found in images.items():
                truth = trial.images.to(found.dtype)
                yield f"psnr[{name}, {kind}, {sent}]", metrics.psnr(found.cpu().clamp(0, 1), truth)
    yield "picture[photograph_and_inside]", tiled([rows])


@experiment("april_by_optimisation.trained", data=("cifar10",),
    smoke=Size(2, "two narrow layers, 2 epochs on 32 images, 2 steps", steps=2, images=32, epochs=2, **TINY),
    class_=Size(
        8, "two layers of width 192, 4 epochs on 400 images, 60 steps",
        steps=60, images=400, epochs=4, width=192, depth=2,
    ),
    gpu=Size(
        8, "architecture B in its paper's size, 15 epochs on 10,000 images, 300 steps",
        steps=300, images=10_000, epochs=15, width=384, depth=4,
    ),
)  # fmt: skip
def trained(repeat: int, steps: int, images: int, epochs: int, width: int, depth: int, device: str = "cpu") -> Values:
    """Two victims, drawn at 0.02 and at 1, trained alike on images of the repeat's own, then searched."""
    trial = trial_of(repeat, device=device)
    yield from trial.guesses("cifar10, ", SCORES)
    recipe = replace(training.RECIPES["smoke"], epochs=epochs)
    members = torch.randperm(50_000, generator=torch.Generator().manual_seed(repeat))[:images]
    for std in (0.02, 1.0):
        model, history = training.victim(
            "vit_cifar", recipe, images=members, test=1_000, sample=200, seed=abs(repeat), device=device,
            model=dict(embed_dim=width, depth=depth, position_std=std),
        )  # fmt: skip
        found = final(invert("annealed", trial, model, steps))
        yield from trial.scores(f"trained, {word(std)}", found)
        yield f"test_accuracy[trained, {word(std)}]", history.test_accuracy[-1]
        yield f"position_std[trained, {word(std)}]", model.get_parameter("pos_embed").std().item()
