"""Lab 08: which part of an update gives the photograph away, and does that depend on the gradients or on the attack?

A repeat has one photograph of CIFAR-10's test split, one draw of weights for each victim (and of training images), and one noise to begin
with. The attacker sees the gradients of some parameters alone: a part, such as attention, or some of the blocks.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, func, nn

from privlab import data, metrics, models, training
from privlab.attacks.gradient_inversion import GradientMatching, adaptive, closed_form, objectives
from privlab.experiments import Size, Trial, experiment, tiled
from privlab.experiments.protocol import Settings, Values
from privlab.experiments.victims import batches
from privlab.experiments.victims.designs import matching

PARTS = ("stem", "attention", "mlp", "norm", "head")
THIRDS = ("first", "middle", "last")
SHAPES: dict[str, tuple[str, Settings]] = {
    "three_blocks": ("vit_cifar", dict(embed_dim=224, depth=3)),  # wide enough for both closed forms
    "vit_s": ("vit_small_patch16_224", dict(img_size=32, patch_size=4, num_classes=10)),
    "vit_b": ("vit_base_patch16_224", dict(img_size=32, patch_size=4, num_classes=10)),
}
TIMES = {1.0: "", 0.1: ", tenth_weight", 10.0: ", tenfold_weight"}  # of the regularisation weight -> end of a name
OURS = "a small untrained ViT (three blocks of width 224)"
STOCK = "an untrained ViT-{} with patches of 4 pixels, {}, position embedding of standard deviation 1"
SMALL: Settings = dict(shape="three_blocks", attack="annealed", weights=[1.0, 0.1])
PAPERS: Settings = dict(attack="inverting_gradients", weights=[1.0, 0.1, 10.0])
ROWS = ("all", "without_first", "without_middle", "without_last", "attention", "mlp")
ALONE = ("only_first", "only_middle", "only_last", "withheld")


def victim(trial: Trial, shape: str) -> Any:
    """An untrained ViT whose position embedding has a standard deviation of 1."""
    name, changes = SHAPES[shape]
    built = trial.network(name, position_std=1.0, **changes)
    built.normalise = data.NORMALISE["cifar10"]
    return built


def selections(model: nn.Module) -> dict[str, list[str]]:
    """Name of a selection -> the parameters whose gradients the attacker sees. The number of blocks has to be a multiple of three."""
    names, third = [name for name, _ in model.named_parameters()], len(models.parts.blocks(model)) // 3
    of = {name: models.parts.depth(model, 1 + k * third, (k + 1) * third) for k, name in enumerate(THIRDS)}
    kept_back = {*models.parts.group(model)["stem"], *models.parts.depth(model, 1, 1)}
    return {
        "all": names,
        **models.parts.group(model),
        **{f"without_{name}": [n for n in names if n not in inside] for name, inside in of.items()},
        **{f"only_{name}": inside for name, inside in of.items()},
        "withheld": [n for n in names if n not in kept_back],
    }


def curvature(model: Any, seed: int) -> float:
    """Mean curvature of the cosine distance over all gradients, along four random directions from a grey image.

    The attacker can compute it: they have the model. A weight on smoothness is to be taken in units of it.
    """
    weights = {name: p.detach() for name, p in model.named_parameters()}
    like = next(iter(weights.values()))
    x, label = model.normalise(like.new_full((1, 3, 32, 32), 0.5)), like.new_zeros(1, dtype=torch.long)

    def sent(x: Tensor) -> Tensor:
        grads = func.grad(lambda w: F.cross_entropy(func.functional_call(model, w, (x,)), label))(weights)
        return torch.cat([g.flatten() for g in grads.values()]).double()

    noise = torch.randn(x.numel(), 4, generator=torch.Generator().manual_seed(seed))
    directions = torch.linalg.qr(noise).Q.T.reshape(4, *x.shape).to(like)
    unit, changes = sent(x), torch.stack([func.jvp(sent, (x,), (each,))[1] for each in directions])
    onto, length = changes @ unit, unit @ unit
    return ((changes.square().sum(1) - onto**2 / length) / length).mean().item()


@experiment("tracing_the_source.parts", on=Trial.unseen)
@Size("smoke", 2, f"{OURS}, 8 steps", steps=8, **SMALL)
@Size("class", 8, f"{OURS}, 120 steps of a shorter attack", steps=120, **SMALL)
@Size("night", 6, STOCK.format("S", "1,000 steps"), shape="vit_s", steps=1_000, **PAPERS)
@Size("gpu", 8, STOCK.format("B", "3,000 steps"), shape="vit_b", steps=3_000, **PAPERS)
def parts(trial: Trial, shape: str, attack: str, steps: int, weights: list[float]) -> Values:
    """Zhang et al. 2024, Table 6: the same search with all gradients and with one part alone, at several regularisation weights."""
    yield from trial.guesses()
    model = victim(trial, shape)
    leak, pictures, seen = trial.leak(model), [trial.images], selections(model)
    for times in weights:
        for chosen in ("all", *PARTS):
            image = trial.search(matching(attack, steps, times), model, leak.only(seen[chosen])).images
            pictures += [image] * (times == 1)
            yield from trial.scores(f"{chosen}_layers{TIMES[times]}", image)
    lengths = {part: leak.only(names).norm for part, names in models.parts.group(model).items()}
    even = objectives.by_part(model, **{part: 1 / length.item() for part, length in lengths.items()})
    balanced = adaptive.compared(matching(attack, steps), objectives.weighted(objectives.cosine_distance, even))
    yield from trial.scores("balanced", trial.search(balanced, model, leak).images)
    for part, length in lengths.items():
        yield f"share_of_square[{part}]", (length / leak.norm).item() ** 2
    for part, form in {"stem": closed_form.patch_embedding, "attention": closed_form.subspace}.items():
        yield from trial.scores(f"{part}_closed_form", form(model, leak.only(seen[part])).clamped)
    yield "picture[photograph_all_and_parts]", tiled([pictures])


def reached(trial: Trial, attack: GradientMatching, model: nn.Module, names: list[str]) -> float:
    """PSNR of what a search finds in the gradients of these parameters."""
    return metrics.psnr(trial.search(attack, model, trial.leak(model, names)).images, trial.images).item()


@experiment("tracing_the_source.best_weights", on=Trial.unseen)
@Size("smoke", 1, f"{OURS}, 8 steps", shape="three_blocks", steps=8, weights=[1.0, 0.1], chosen=["attention", "mlp"])
@Size("night", 4, STOCK.format("S", "300 steps of a shorter attack"), first=1100,
    shape="vit_s", steps=300, weights=[1.0, 0.1, 10.0], chosen=["attention", "mlp", "norm"])  # fmt: skip
def best_weights(trial: Trial, shape: str, steps: int, weights: list[float], chosen: list[str]) -> Values:
    """Parts of a ViT, each at the weight on smoothness that suits it: the best by the truth, and that which does best on a photograph of
    the attacker's own, whose gradient they compute on the same network."""
    images, labels = data.load("cifar10").take([trial.number])
    own = replace(trial, images=images, labels=labels)
    yield from trial.guesses()
    model = victim(trial, shape)
    for part in chosen:
        names, theirs, mine = selections(model)[part], {}, {}
        for times in weights:
            attack = matching("annealed", steps, times)
            theirs[times], mine[times] = (reached(each, attack, model, names) for each in (trial, own))
            yield f"psnr[{part}_layers{TIMES[times]}]", theirs[times]
            yield f"psnr[{part}_layers, own_photograph{TIMES[times]}]", mine[times]
        yield f"psnr[{part}_layers, best_weight]", max(theirs.values())
        yield f"psnr[{part}_layers, chosen_weight]", theirs[max(mine, key=mine.__getitem__)]


@experiment("tracing_the_source.depth", on=Trial.unseen)
@Size("smoke", 2, f"{OURS}, 8 steps", steps=8, images=64, epochs=2)
@Size("class", 8, f"{OURS}, 60 steps of a shorter attack; trained for 3 epochs on 800 images",
    steps=60, images=800, epochs=3)  # fmt: skip
def depth(trial: Trial, steps: int, images: int, epochs: int) -> Values:
    """A third of the blocks withheld, or sent alone; attention or MLP alone: on a fresh and on a trained victim, by two distances."""
    yield from trial.guesses("depth, ")
    seed, recipe = trial.number, replace(training.RECIPES["smoke"], epochs=epochs)
    members = torch.randperm(50_000, generator=torch.Generator().manual_seed(seed))[:images]
    fresh, trained = (victim(trial, "three_blocks") for _ in range(2))
    training.fit(trained, training.subset(data.load("cifar10"), members), recipe, seed=seed)
    yield "test_accuracy[trained]", training.evaluate(trained, data.load("cifar10", "test").sample(200, seed))
    weight = float(f"{curvature(trained, seed) / curvature(fresh, seed):.1g}")  # to it what 1 is to the fresh one
    attack, by_cosine, by_norms = (matching("annealed", steps, times) for times in (1.0, weight, 40 * weight**0.5))
    for row in (*ROWS, *ALONE):
        yield f"psnr[fresh_cosine, {row}]", reached(trial, attack, fresh, selections(fresh)[row])
    for row in ROWS:
        names = selections(trained)[row]
        yield f"psnr[trained_cosine, {row}]", reached(trial, by_cosine, trained, names)
        # GradViT's distance, as a share of it
        sent = sum(g.norm().item() for g in trial.leak(trained, names).grads.values())
        distance = replace(by_norms.terms[0], value=objectives.layer_norms, weight=1 / sent)
        own = replace(by_norms, terms=(distance, *by_norms.terms[1:]))
        yield f"psnr[trained_layer_norms, {row}]", reached(trial, own, trained, names)


@experiment("layer_gradients.depth_and_components", on=partial(batches.client, size=2))
@Size("smoke", 1, "a small trained ViT, 2 steps", steps=2, images=96, epochs=2, width=96)
@Size("class", 8, "a small trained ViT of three blocks, 20 steps", steps=20, images=400, epochs=3, width=192)
@Size("night", 12, "a small trained ViT of three blocks, 600 steps", steps=600, images=5_000, epochs=10)
def depth_and_components(trial: Trial, steps: int, images: int, epochs: int, width: int = 384) -> Values:
    """Hatamizadeh et al. 2022, Tables 4 and 5: GradViT on a batch of two, without a third of the blocks, or by one component alone."""
    yield from trial.guesses(which=batches.SCORES)
    for name, std in batches.STDS.items():
        model = batches.trained(trial, "vit", images, epochs, embed_dim=width, depth=3, position_std=std)
        leak, pictures, seen = trial.leak(model), [trial.images], selections(model)
        rows = {row: seen[row] for row in ROWS[:4]} | {"msa": seen["attention"], "mlp": seen["mlp"]}
        for row, tensors in rows.items():
            found = batches.search(trial, batches.gradvit(steps), model, leak.only(tensors)).images
            yield from trial.scores(f"trained, {row}, {name}", found, batches.SCORES)
            pictures.append(found)
        yield f"picture[photographs_and_selections, {name}]", tiled(pictures)
