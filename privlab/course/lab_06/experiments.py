"""Lab 06: the four searches of Lu et al. 2022, Table 1, on its architectures A and B; what it hangs on whether they see the image."""

import copy
import itertools
import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from privlab import metrics, training
from privlab.attacks.gradient_inversion import closed_form, label_recovery
from privlab.attacks.gradient_inversion.schedules import constant, cosine
from privlab.course.lab_06 import sense_of_place
from privlab.course.lab_06.searches import FOUR, attack, fall, final, invert
from privlab.experiments import Size, Trial, experiment, tiled
from privlab.experiments.protocol import Settings, Values
from privlab.experiments.victims.april import OWN_DRAW, victim
from privlab.experiments.victims.batches import CURVED, family, labels_read, lbfgs

SCORES = "psnr ssim mse"  # mse in the unit that fits the printed SSIM of Table 1
B = "architecture B in the paper's size, fresh; Adam's step length and alpha, which it does not name, are ours"
SHORT = "two layers, a fraction of the paper's steps"
TINY, WIDER, TWO = dict(width=96, depth=2), dict(width=224, depth=2), dict(depth=2)
POSITION, QKV = "pos_embed", "blocks.0.attn.qkv.weight"
KINDS: dict[str, Settings] = {  # what the client does with its position embedding -> how the victim differs
    "shared": dict(position_std=1.0),
    "withheld": dict(position_std=1.0),
    "sinusoid_1d": dict(position="sinusoid_1d"),
    "sinusoid_2d": dict(position="sinusoid_2d"),
    "sinusoid_2d_class_1": dict(position="sinusoid_2d", class_std=1.0),
    "private": dict(position_std=1.0),
}
# a control: as many hidden as of sinusoid_2d
LOW_RANK: Settings = dict(position="low_rank", position_rank=6, position_std=1.0)


def word(std: float) -> str:
    """A standard deviation as part of a name: std_0p02."""
    return f"std_{std:g}".replace(".", "p")


@experiment("april_by_optimisation.mnist", on=partial(Trial.of, name="mnist"), data=("mnist",))
@Size("smoke", 2, "two narrow layers, 3 steps", steps=3, stds=[1.0], shape=TINY)
@Size("class", 8, f"{SHORT}: 30 of 800", steps=30, stds=[1.0], shape=TWO)
@Size("night", 16, B, own=True, steps=800, stds=[1.0, 0.02], shape={})
def four_attacks(trial: Trial, steps: int, stds: list[float], shape: Settings) -> Values:
    """Table 1: its attacks, and APRIL with alpha = 1, at each scale of the position embedding; scale 1 bears no key of its own."""
    yield from trial.guesses(f"{trial.name}, ", SCORES)
    rows, ways = [trial.images], {}
    for std in stds:
        model, at = victim(trial, **shape, position_std=std), "" if std == 1 else f", {word(std)}"
        for by in (*FOUR, "april_alpha_1"):
            result = invert(by, trial, model, steps)
            yield from trial.scores(f"{trial.name}, {by}{at}", final(result), SCORES)
            if std == 1:
                rows.append(final(result))
                ways[by] = [(s.step, metrics.psnr(s.images, trial.images).item()) for s in result.snapshots]
            if std == 1 and by == "april":
                yield "log10_grad_loss_drop[position_shared]", fall(result)
    three = {by: ways[by] for by in ("april", "dlg", "tag")}
    bar = min(way[-1][1] for way in three.values())  # Figure 3: where the worst of three ends
    for by, way in three.items():
        yield f"steps_to_threshold[{by}]", next(step for step, dB in way if dB >= bar)
        for tenth in range(11):
            near = min(way, key=lambda shot: abs(shot[0] - tenth * steps / 10))
            yield f"psnr[{by}, tenth_{tenth}]", near[1]
    yield "picture[photograph_april_dlg_ig_tag]", tiled([rows[:5]])


@experiment("april_by_optimisation.cifar10", on=Trial.of)
@Size("smoke", 2, "two narrow layers, 3 steps", steps=3, stds=[1.0, 0.02], shape=TINY)
@Size("class", 8, f"{SHORT}: 30 of 1,500", steps=30, stds=[1.0], shape=TWO)
@Size("night", 16, B, own=True, steps=1500, stds=[1.0, 0.02], shape={})
def cifar10(trial: Trial, steps: int, stds: list[float], shape: Settings) -> Values:
    """Table 1, Figures 3, 7 and 8, section 4.2: the four attacks, and what is left of them without the position embedding's gradient."""
    yield from four_attacks.function(trial, steps, stds, shape)
    rows = [trial.images]
    for std in stds:
        model, at = victim(trial, **shape, position_std=std), "" if std == 1 else f", {word(std)}"
        for by in ("dlg", "ig", "tag") if std == 1 else ("dlg",):  # without that gradient APRIL is DLG, to the bit
            result = invert(by, trial, model, steps, hide=[POSITION])
            yield from trial.scores(f"position_hidden, {by}{at}", final(result), SCORES)
            if by == "dlg":
                yield f"log10_grad_loss_drop[position_hidden{at}]", fall(result)
            rows.append(final(result))
    yield "picture[photograph_without_position_gradient]", tiled([rows])


@experiment("april_by_optimisation.distances", on=Trial.of)
@Size("smoke", 2, "two narrow layers, 2 steps", steps=2, shape=TINY)
@Size("night", 8, "architecture B in its paper's size, 800 steps", first=1100, steps=800, shape={})
def distances(trial: Trial, steps: int, shape: Settings) -> Values:
    """Ours: what APRIL's term and TAG's absolute differences bring, alone and together, and whether each tensor should count alike."""
    yield from trial.guesses("cifar10, ", SCORES)
    model, rows = victim(trial, **shape, position_std=1.0), [trial.images]
    for by in ("dlg", "april", "relative", "april_relative", "tag", "april_tag"):
        rows.append(final(invert(by, trial, model, steps)))
        yield from trial.scores(f"distance, {by}", rows[-1])
    yield "picture[photograph_and_distances]", tiled([rows])


@experiment("april_by_optimisation.step_lengths", on=Trial.of)
@Size("smoke", 1, "two narrow layers, 2 steps", steps=2, lengths=[0.1, 0.01], shape=TINY)
@Size("night", 4, "architecture B in its paper's size, fresh, 500 of 1,500 steps, by two step lengths that fall or stay",
    first=1200, steps=500, lengths=[0.1, 0.01], shape={})  # fmt: skip
def step_lengths(trial: Trial, steps: int, lengths: list[float], shape: Settings) -> Values:
    """What the paper leaves open: the four losses of squared distance by step length, its course, and alpha (0, 1, by rule)."""
    seed = trial.number + OWN_DRAW
    yield from trial.guesses("cifar10, ", SCORES)
    model = victim(trial, **shape, position_std=1.0)
    received, rows = replace(trial.leak(model), labels=None), [trial.images]
    for by in ("dlg", "april_alpha_1", "april", "tag"):
        usual = attack(by, steps, model, received, seed)
        for lr, (course, decay) in itertools.product(lengths, (("falling", cosine), ("constant", constant))):
            rows.append(final(trial.search(replace(usual, lr=lr, schedule=decay), model, received, seed)))
            yield from trial.scores(f"{by}, step_{lr:g}, {course}".replace(".", "p"), rows[-1], SCORES)
    yield "picture[photograph_and_cells]", tiled([rows])


@experiment("april_by_optimisation.architecture_a", on=Trial.of)
@Size("smoke", 2, "two narrow layers, 2 steps", steps=2, shape=TINY)
@Size("class", 8, f"{SHORT}: 20 of 1,500", steps=20, shape=TWO)
@Size("night", 16, B.replace("B", "A"), own=True, steps=1500, shape={})
def architecture_a(trial: Trial, steps: int, shape: Settings) -> Values:
    """Figures 2 and 8 (A): the closed form and the four searches on architecture A, and one without the position gradient."""
    yield from trial.guesses("cifar10, ", SCORES)
    model = victim(trial, "a", **shape, position_std=1.0)
    solved = closed_form.attention(model, trial.leak(model)).images.cpu()
    yield from trial.scores("arch_a, closed_form", solved)
    rows = [trial.images, solved.clamp(0, 1)]
    for key, by, hide in (*((by, by, []) for by in FOUR), ("position_hidden", "dlg", [POSITION])):
        result = invert(by, trial, model, steps, hide)
        rows.append(final(result))
        yield from trial.scores(f"arch_a, {key}", rows[-1], SCORES)
    yield "log10_grad_loss_drop[arch_a, position_hidden]", fall(result)
    yield "picture[photograph_closed_form_april_dlg_ig_tag_hidden]", tiled([rows])


@experiment("april_by_optimisation.batches")
@Size("smoke", 2, "two narrow layers, 2 steps", steps=2, sizes=[4], shape=TINY)
@Size("class", 8, f"{SHORT}: 30 of 1,500", steps=30, sizes=[4], shape=TWO)
@Size("night", 16, B, own=True, steps=1500, sizes=[4], shape={})
def batches(repeat: int, steps: int, sizes: list[int], shape: Settings, device: str = "cpu") -> Values:
    """Figure 4: APRIL on a batch of different classes, its labels by the row minimum; the images in the order of their labels."""
    for size in sizes:
        trial = Trial.of(repeat, size=size, device=device)
        model = victim(trial, **shape, position_std=1.0)
        counted = labels_read("bias_counts", model, [(trial.images, trial.labels)])
        yield f"label_accuracy[bias_counts, batch_{size}]", counted
        found, read = in_order(trial, "april", model, steps)
        yield f"label_accuracy[row_minimum, batch_{size}]", read
        yield from trial.scores(f"april, batch_{size}", found, SCORES)
        for name, value in trial.guesses("cifar10, ", SCORES):
            yield name.replace("]", f", batch_{size}]"), value
        yield f"picture[batch_{size}, truth_above_found]", tiled([trial.images, found])


@experiment("april_by_optimisation.labels_of_a_batch", on=partial(Trial.of, size=4))
@Size("smoke", 2, "two narrow layers, 2 steps", steps=2, shape=TINY)
@Size("night", 8, B, own=True, first=1108, steps=1500, shape={})  # a further try: one claim came out open
def labels_of_a_batch(trial: Trial, steps: int, shape: Settings) -> Values:
    """Ours: APRIL on a batch of four classes, once with its labels by the row minimum and once by the last layer's bias."""
    yield from trial.guesses("cifar10, ", SCORES)
    model, rows = victim(trial, **shape, position_std=1.0), [trial.images]
    for rule, by in (("row_minimum", "april"), ("bias_counts", "april_by_the_bias")):
        found, read = in_order(trial, by, model, steps)
        rows.append(found)
        yield f"label_accuracy[{rule}]", read
        yield from trial.scores(f"april, {rule}", found, SCORES)
    yield "picture[photographs_row_minimum_bias_counts]", tiled(rows)


def in_order(trial: Trial, by: str, model: torch.nn.Module, steps: int) -> tuple[Tensor, float]:
    """The images that a search finds, (batch, 3, height, width), in the order of the trial's labels, and the share of them that it read."""
    result = invert(by, trial, model, steps)
    read = result.labels.tolist()
    places = [read.index(y) if y in read else k for k, y in enumerate(trial.labels.tolist())]
    return final(result)[places], label_recovery.overlap(result.labels, trial.labels)


@experiment("april_by_optimisation.label_rule", data=("cifar10", "mnist"))
@Size("smoke", 2, "two narrow layers", shape=TINY)
@Size("class", 16, "architectures A and B in the paper's size, fresh", own=True, shape={})
def label_rule(repeat: int, shape: Settings) -> Values:
    """Algorithm 2, line 3: the share of labels that are read right, over both architectures and two scales of the position embedding."""
    for name, key in (("cifar10", "batch_1"), ("mnist", "batch_1, mnist")):
        trial, right = Trial.of(repeat, name=name), []
        for architecture, std in itertools.product("ab", (1.0, 0.02)):
            model = victim(trial, architecture, **shape, position_std=std)
            right.append(labels_read("row_products", model, [(trial.images, trial.labels)]))
        yield f"label_accuracy[dot_product_rule, {key}]", sum(right) / len(right)


@experiment("april_by_optimisation.scale", on=Trial.of)
@Size("smoke", 2, "two narrow layers, 3 steps", steps=3, stds=[0.02, 1.0], shape=TINY)
@Size("class", 8, "two layers, 60 steps", steps=60, stds=[0.02, 0.2, 1.0, 2.0], shape=TWO)
@Size("night", 16, "architecture B in its paper's size, 300 steps",
    steps=300, stds=[0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0], shape={})  # fmt: skip
def scale(trial: Trial, steps: int, stds: list[float], shape: Settings) -> Values:
    """Ours: nothing changed but the standard deviation of the position embedding: what a search and the closed form find, and why."""
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
        leak, seed = trial.leak(model), trial.number + OWN_DRAW
        solved = closed_form.patch_embedding(model, leak)
        yield from trial.scores(f"patch_embedding, {word(std)}", solved.images)
        yield f"log10_condition[fresh, {word(std)}]", math.log10(solved.condition)
        yield f"row_cosine[position_gradient, {word(std)}]", sense_of_place.rows_alike(leak)
        sense, far = sense_of_place.measured(model, trial.images, trial.labels, seed)
        yield f"log10_sense_of_place[{word(std)}]", math.log10(sense)
        yield f"log10_distance_of_noise[{word(std)}]", math.log10(far)
        if std == 1:
            yield "slope_share[position, alpha_1]", sense_of_place.gradient_share(model, leak, seed)
    for std, class_std in ((1.0, 0.02), (0.02, 1.0)):
        model = victim(trial, class_std=class_std, **shape, position_std=std)
        found = final(invert("annealed", trial, model, steps))
        yield from trial.scores(f"patches_{word(std)}, class_{word(class_std)}", found)
    yield "picture[photograph_and_scales]", tiled([rows])


@experiment("april_by_optimisation.embeddings", on=Trial.of)
@Size("smoke", 2, "two narrow layers, 2 steps", steps=2, shape=WIDER)
@Size("class", 8, "two layers, 60 steps", steps=60, shape=TWO)
@Size("night", 16, "architecture B in its paper's size, 300 steps", steps=300, shape={})
def embeddings(trial: Trial, steps: int, shape: Settings) -> Values:
    """A position embedding withheld, frozen as a sinusoid, or private: by the annealed search, and by algebra from the same message."""
    yield from trial.guesses("cifar10, ", SCORES)
    rows = [trial.images]
    for kind, how in KINDS.items():
        model = victim(trial, **shape, **how)
        server = copy.deepcopy(model)
        if kind == "private":  # a server that was never told the embedding has a draw of its own
            draw = torch.Generator().manual_seed(trial.number + 2 * OWN_DRAW)
            server.pos_embed.data = torch.randn(server.pos_embed.shape, generator=draw).to(server.pos_embed)
        result = invert("annealed", trial, model, steps, [POSITION] if kind in ("withheld", "private") else [], server)
        rows.append(final(result))
        yield from trial.scores(f"search, {kind}", final(result))
        yield f"log10_distance_fall[search, {kind}]", fall(result)
        yield from trial.scores(f"subspace, {kind}", closed_form.subspace(server, trial.leak(model, [QKV])).clamped)
        yield f"hidden_directions[{kind}]", closed_form.hidden_directions(server)
    yield "picture[photograph_and_embeddings]", tiled([rows])


@experiment("april_by_optimisation.fixed_sinusoid", on=Trial.of)
@Size("smoke", 1, "two narrow layers, 1 step", steps=1, restarts=2, shape=WIDER)
@Size("night", 16, "architecture B in its paper's size, fresh; a search of ours, 15 steps of L-BFGS (some 300 evaluations), three starts",
    first=1200, steps=15, restarts=3, shape={})  # fmt: skip
def fixed_sinusoid(trial: Trial, steps: int, restarts: int, shape: Settings) -> Values:
    """Ours: behind a sinusoid, which is fixed and known, a search inside the family that the first attention's gradient leaves open."""
    yield from trial.guesses("cifar10, ", SCORES)
    rows = [trial.images]
    search, seeds = lbfgs(steps, CURVED), [k * OWN_DRAW + trial.number for k in range(1, restarts + 1)]
    cases = [*itertools.product(("sinusoid_1d", "sinusoid_2d"), ("float32", "float64")), ("low_rank", "float32")]
    for kind, sent in cases:
        model = victim(trial, "b", getattr(torch, sent), **shape, **KINDS.get(kind, LOW_RANK))
        leak = replace(trial.leak(model), labels=None)
        # the client adds up in float32: without some last places beyond the format the family misses the photograph
        space, starts, known = family(model, leak, trial.images, seeds, 1e-6 if sent == "float32" else None)
        run = partial(search.run, model, leak, space=space, snapshots=0, progress=False)
        found = [run(start=start) for start in starts if space.hidden]
        # the lowest score counts, which the attacker sees; where the algebra leaves nothing open its answer
        known["inside"] = min(found, key=lambda result: result.score).images if found else known["guess"]
        rows.append(known["inside"].cpu().float().clamp(0, 1))
        yield f"hidden[{kind}, {sent}]", space.hidden
        for name, image in known.items():
            yield f"psnr[{name}, {kind}, {sent}]", metrics.psnr(image.cpu().clamp(0, 1), trial.images.to(image.dtype))
    yield "picture[photograph_and_inside]", tiled([rows])


@experiment("april_by_optimisation.trained", on=Trial.of)
@Size("smoke", 2, "two narrow layers, 2 epochs on 32 images, 2 steps", steps=2, images=32, epochs=2, width=96, depth=2)
@Size("class", 8, "two layers, 4 epochs on 400 images, 60 steps", steps=60, images=400, epochs=4, width=192, depth=2)
def trained(trial: Trial, steps: int, images: int, epochs: int, width: int, depth: int) -> Values:
    """Two victims, drawn at 0.02 and at 1, trained alike on images of the repeat's own, then searched."""
    yield from trial.guesses("cifar10, ", SCORES)
    recipe = replace(training.RECIPES["smoke"], epochs=epochs)
    members = torch.randperm(50_000, generator=torch.Generator().manual_seed(trial.number))[:images]
    for std in (0.02, 1.0):
        model, accuracy = training.victim(
            "vit_cifar", recipe, images=members, test=1_000, seed=abs(trial.number), device=trial.device,
            model=dict(embed_dim=width, depth=depth, position_std=std),
        )  # fmt: skip
        yield from trial.scores(f"trained, {word(std)}", final(invert("annealed", trial, model, steps)))
        yield f"test_accuracy[trained, {word(std)}]", accuracy
        yield f"position_std[trained, {word(std)}]", model.get_parameter("pos_embed").std().item()
