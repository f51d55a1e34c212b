"""Lab 07: GradViT, a batch of images from one gradient; and beyond the papers a batch narrowed down by algebra first, then searched for."""

import itertools
import math
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from privlab import data, metrics, training
from privlab.attacks.gradient_inversion import GaussNewton, GradientMatching, Term, objectives, presets, search_spaces
from privlab.attacks.gradient_inversion.schedules import cosine
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.trial import Trial, mean_photograph, tiled
from privlab.experiments.victims import batches as ground
from privlab.experiments.victims.batches import SCORES, STDS, client, family, gradvit, lbfgs, search, trained, vit
from privlab.leak import observe

SHORT = "a small ViT, batches of 2, {} steps"
LBFGS = "small networks, batches of 2, {} steps of L-BFGS (some {} evaluations)"


@experiment("gradvit.labels", on=partial(client, size=4), protocol=2)  # 1 added shares up one by one
@Size("smoke", 1, "small networks", batches=3, width=128, images=96, epochs=2)
@Size("class", 8, "small networks, trained on 400 photographs", batches=10, width=256, images=400, epochs=3, first=16)
@Size("night", 12, "small networks, trained on 5,000 photographs", batches=40, images=5_000, epochs=10, first=1_012)
def labels(trial: Trial, batches: int, images: int, epochs: int, width: int = 384) -> Values:
    """Share of the labels of four images that each rule reads off the last layer: fresh and trained victims, labels distinct or drawn."""
    victims = {
        "vit, fresh": vit(trial.number, 1.0, trial.device, width=width),
        "vit, trained": trained(trial, "vit", images, epochs, embed_dim=width),
        "resnet, fresh": trial.network("resnet_cifar", channels=ground.CHANNELS),
        "resnet, trained": trained(trial, "resnet", images, epochs),
    }
    seeds = [1_000 * trial.number + k for k in range(batches)]
    drawn = {
        "distinct": [ground.photographs(4, seed) for seed in seeds],
        "repeated": [data.load("cifar10", "test").sample(4, seed) for seed in seeds],
    }
    rules = ("row_minimum", "bias_minimum", "bias_counts")
    for (who, model), (kind, some), rule in itertools.product(victims.items(), drawn.items(), rules):
        yield f"label_accuracy[{rule}, {who}, {kind}]", ground.labels_read(rule, model, some)
    usual = vit(trial.number, 0.02, trial.device, width=width)
    read = ground.labels_read("row_minimum", usual, drawn["distinct"])
    yield "label_accuracy[row_minimum, vit, fresh, distinct, std_0p02]", read


@experiment("gradvit.exchanged_patches", on=partial(client, size=2))
@Size("smoke", 1, "a fresh small ViT", width=128)
@Size("class", 16, "a fresh small ViT")
def exchanged_patches(trial: Trial, width: int = 384) -> Values:
    """Eq. 3 of the true batch with two neighbouring patches exchanged, as a share of that of noise."""
    images, moved = trial.images, trial.images.clone()
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(trial.number))
    moved[..., :8, 8:24] = torch.cat([images[..., :8, 16:24], images[..., :8, 8:16]], -1)  # of the first row
    for name, std in STDS.items():
        model = vit(trial.number, std, trial.device, width=width)
        leak, other, far = (observe(model, x, trial.labels) for x in (images, moved, noise))
        gap, whole = (objectives.layer_norms(images, each.grads, leak).item() for each in (other, far))
        yield f"grad_loss_ratio[exchanged_over_noise, {name}]", gap / whole


def ablation_rows(steps: int, **changes: Any) -> dict[str, GradientMatching]:
    """Table 2's rows. Registration is in none of the four, since two seeds blur each other early in a run; it is a fifth, on top."""
    whole = gradvit(steps, **changes)
    return {
        "grad": whole.without("patches", "statistics").unscheduled(),
        "plus_image": whole.without("patches").unscheduled(),
        "plus_schedule": whole.without("patches"),
        "plus_patch": whole,
        "plus_registration": gradvit(steps, group=2, **changes),
    }


@experiment("gradvit.ablation", on=lambda n, batch=2, large=False, device="cpu": client(n, batch, large, device))
@Size("smoke", 1, SHORT.format(3), steps=3, width=96)
@Size("class", 8, SHORT.format(20), steps=20, width=256)
@Size("night", 12, SHORT.format(600), steps=600)
@Size("gpu", 5, "fresh ViT-B/16, batches of 4 of 224 pixels, 2,000 steps", steps=2_000, batch=4, large=True)
def ablation(trial: Trial, steps: int, width: int = 384) -> Values:
    """Table 2: GradViT's terms added one by one, at both scales of the position embedding; the same victim, batch and start in each row."""
    yield from trial.guesses(which=SCORES)
    large = trial.images.shape[-1] > 64
    for name, std in STDS.items():
        model = vit(trial.number, std, trial.device, width=width)
        if large:
            model = trial.network("vit_base_patch16_224", num_classes=1000, position_std=std)
        leak, pictures = trial.leak(model), [trial.images]
        for row, attack in ablation_rows(steps, size=None if large else 64).items():
            result = search(trial, attack, model, leak)
            weight = attack.terms[0].weigh(result.step / steps)
            yield from trial.scores(f"loss_terms_{row}, {name}", result.images, SCORES)
            yield f"grad_loss[loss_terms_{row}, {name}]", result.trace[result.step]["gradients"] / weight
            pictures.append(result.images)
        yield f"picture[photographs_and_rows, {name}]", tiled(pictures)


def by_lbfgs(attack: GradientMatching, steps: int) -> GradientMatching:
    """GradViT's terms under L-BFGS, which needs a smooth distance: that of each tensor squared, relative to the client's, of weight 1."""
    distance, *others = attack.terms
    return lbfgs(steps, (replace(distance, value=objectives.relative_distance, weight=1.0), *others))


@experiment("gradvit.optimisers", on=partial(client, size=2))
@Size("smoke", 1, LBFGS.format(1, 20), steps=1, width=96)
@Size("class", 8, LBFGS.format(3, 60), steps=3, width=256, first=24)
@Size("night", 12, LBFGS.format(15, 300), steps=15, first=1_024)
def optimisers(trial: Trial, steps: int, width: int = 384) -> Values:
    """Table 2's rows by L-BFGS on a fresh ViT; all terms together also on a fresh ResNet, and by Adam at as many evaluations."""
    yield from trial.guesses(which=SCORES)
    victims = {
        "vit": vit(trial.number, 1.0, trial.device, width=width),
        "resnet": trial.network("resnet_cifar", channels=ground.CHANNELS),
    }
    for name, model in victims.items():
        leak, pictures, rows = trial.leak(model), [trial.images], ablation_rows(steps, patch=8)
        for row in ("grad", "plus_image", "plus_schedule", "plus_patch") if name == "vit" else ("plus_patch",):
            found = {"lbfgs": search(trial, by_lbfgs(rows[row], steps), model, leak)}
            if row == "plus_patch":
                found["adam"] = search(trial, ablation_rows(found["lbfgs"].evaluations, patch=8)[row], model, leak)
            for way, result in found.items():
                yield from trial.scores(f"{row}, {way}, {name}", result.images, SCORES)
                pictures.append(result.images)
        yield f"picture[photographs_and_rows_by_lbfgs_then_adam, {name}]", tiled(pictures)


@experiment("gradvit.training_steps", on=partial(client, size=2))
@Size("smoke", 1, LBFGS.format(1, 20), points=[0, 2], steps=1, width=96)
@Size("class", 8, LBFGS.format(3, 60), points=[0, 10, 100], steps=3, width=256, first=24)
@Size("night", 12, LBFGS.format(15, 300), points=[0, 10, 30, 100, 300], steps=15, first=1_024)
def training_steps(trial: Trial, points: list[int], steps: int, width: int = 384) -> Values:
    """After how many steps of training a batch of two stops coming back: one victim, attacked on its way.

    Each step has 64 photographs that no other has; AdamW begins anew behind each attack.
    """
    public, held_out = data.load("cifar10"), data.load("cifar10", "test")
    order = torch.randperm(len(public), generator=torch.Generator().manual_seed(trial.number))
    recipe = training.Recipe(epochs=1, batch_size=64, schedule="constant")
    model, pictures = vit(trial.number, 1.0, trial.device, width=width), [trial.images]
    yield from trial.guesses()
    for before, point in itertools.pairwise([0, *points]):
        if point > before:
            shown = training.subset(public, order[64 * before : 64 * point])
            training.fit(model, shown, recipe, seed=trial.number + point)
        found = search(trial, lbfgs(steps, ground.CURVED), model).images
        yield from trial.scores(f"after_{point}_steps", found)
        yield f"task_acc[after_{point}_steps]", training.evaluate(model, training.subset(held_out, range(1_000)))
        pictures.append(found)
    yield "picture[photographs_by_steps_of_training]", tiled(pictures)


@experiment("gradvit.attacks", on=partial(client, size=2))
@Size("smoke", 1, "small trained networks, 3 steps", steps=3, images=96, epochs=2, width=96)
@Size("class", 8, "small trained networks, batches of 2, 20 steps", steps=20, width=256, images=400, epochs=3)
@Size("night", 12, "small trained networks, batches of 2, 600 steps", steps=600, images=5_000, epochs=10)
def attacks(trial: Trial, steps: int, images: int, epochs: int, width: int = 384) -> Values:
    """Table 1: GradViT beside other attacks, on a small trained ViT (of either scale) and a small trained ResNet. No registration."""
    yield from trial.guesses(which=SCORES)
    noise = torch.rand(trial.images.shape, generator=torch.Generator().manual_seed(trial.number))
    yield from trial.scores("random_noise", noise, SCORES)
    victims: dict[str, Any] = {
        "vit": trained(trial, "vit", images, epochs, embed_dim=width),
        "vit_std_0p02": trained(trial, "vit", images, epochs, embed_dim=width, position_std=0.02),
        "resnet": trained(trial, "resnet", images, epochs),
    }
    for name, model in victims.items():
        resnet = name == "resnet"  # it lends its BatchNorm statistics, a ViT has none; the patch prior is our reading
        methods = {
            "gradvit": gradvit(steps, patch=8 if resnet else None),
            "gradinversion": presets.gradinversion(steps, model if resnet else None, group=1),
            "inverting_gradients": presets.inverting_gradients(steps),
            "annealed": presets.annealed(steps),
        }
        leak, pictures, spaces = trial.leak(model), [trial.images], dict[str, Any]()
        if resnet:  # latent projection has a linear generator, 100 principal components of public photographs
            methods["deep_inversion"] = presets.deep_inversion(steps, model)
            methods["latent_projection"] = replace(presets.annealed(steps), boxed=False)
            linear = search_spaces.components(data.load("cifar10").take(range(300))[0], 100, model.normalise)
            spaces["latent_projection"] = linear.to(next(model.parameters()))
        for method, attack in methods.items():
            pictures.append(search(trial, attack, model, leak, space=spaces.get(method)).images)
            yield from trial.scores(f"{method}, {name}", pictures[-1], SCORES)
        yield f"picture[photographs_and_attacks, {name}]", tiled(pictures)


@experiment("gradvit.patch_size", on=partial(client, size=2))
@Size("smoke", 1, SHORT.format(2), steps=2, width=64)
@Size("class", 8, SHORT.format(20), steps=20)
@Size("night", 12, SHORT.format(600), steps=600)
def patch_size(trial: Trial, steps: int, width: int = 192) -> Values:
    """Section 6.2: the same small ViT with patches of 4 and of 8 pixels. GradViT without image prior, whose steps are the cheaper."""
    yield from trial.guesses(which=SCORES)
    for (name, std), side in itertools.product(STDS.items(), (4, 8)):
        model = vit(trial.number, std, trial.device, width=width, patch_size=side)
        found = search(trial, gradvit(steps).without("statistics"), model).images
        yield from trial.scores(f"patch_{side}, {name}", found, SCORES)


@experiment("gradvit.batches", on=partial(client, size=8))
@Size("smoke", 1, "a small ViT, 2 steps", steps=2, sizes=[1, 2, 4], distractors=64, width=96)
@Size("class", 8, "a small ViT, 20 steps", steps=20, width=256, sizes=[1, 2, 4], distractors=200)
@Size("night", 12, "a small ViT, 600 steps", steps=600, sizes=[1, 2, 4, 8], distractors=2_000)
def batches(eight: Trial, steps: int, sizes: list[int], distractors: int, width: int = 384) -> Values:
    """Section 6.3 and appendix A: one photograph in batches of growing size, and whether the answers identify their originals."""
    trials = {size: replace(eight, images=eight.images[:size], labels=eight.labels[:size]) for size in sizes}
    public, one = data.load("cifar10"), trials[1]
    others = public.pixels[len(public) - distractors :]
    space = search_spaces.components(public.take(range(300))[0], 64)  # refines answers in place of StyleGAN2
    yield from one.guesses()
    pictures = [one.images]
    for std_name, std in STDS.items():
        model = vit(one.number, std, one.device, width=width)
        for size, trial in trials.items():
            found = search(trial, gradvit(steps), model).images
            yield from one.scores(f"first_photograph, batch_{size}, {std_name}", found[:1], "psnr lpips")
            if std == 1:
                pictures.append(found[:1])
                refined = space.images(space.begin(found)).clamp(0, 1)
                for by in ("pixels", "lpips"):
                    yield f"iip[{by}, batch_{size}]", metrics.iip(found, trial.images, others, by=by)
                    yield f"iip[{by}, batch_{size}, refined]", metrics.iip(refined, trial.images, others, by=by)
    yield "picture[one_photograph_by_batch_size]", tiled([torch.cat(pictures)])


@experiment("gradvit.faces", data=("orl", "cifar10"))
@Size("smoke", 1, "a small grey ViT, 2 steps", steps=2, width=64, others=40)
@Size("class", 8, "a small grey ViT of 32 pixels, 20 steps", steps=20, others=40)
@Size("night", 12, "a small grey ViT of 32 pixels, 600 steps", steps=600, others=320)
@Size("gpu", 12, "a fresh face Transformer, 2,000 steps", steps=2_000, others=320, large=True)
def faces(repeat: int, steps: int, others: int, width: int = 192, large: bool = False, device: str = "cpu") -> Values:
    """Table S.1 and Figure S.1: one photograph each of four and of eight people of ORL, the four among the eight."""
    number, side = 7_000 + repeat, 112 if large else 32
    draw = torch.Generator().manual_seed(number)
    people = [int(person) for person in torch.randperm(40, generator=draw)]
    places = [10 * person + int(torch.randint(10, (1,), generator=draw)) for person in people[:8]]
    strangers = [10 * person + k for k in range(10) for person in people[8:]][:others]
    four, eight = (Trial.of(number, "orl", places[:size], side, device) for size in (4, 8))
    away = Trial.of(number, "orl", strangers, side).images  # for the mean face, and among which a face is identified
    shape = dict(width=width, channels=1, num_classes=40)
    attack = gradvit(steps) if large else gradvit(steps).without("statistics")
    model = four.network("face_transformer", in_chans=1) if large else vit(number, 1.0, device, **shape)
    for size, trial in {4: four, 8: eight}.items():
        found = search(trial, attack, model).images
        yield from four.scores(f"faces, batch_{size}", found[:4], "psnr lpips")  # of the same four people
        yield f"iip[faces, batch_{size}]", metrics.iip(found, trial.images, away)
        yield f"picture[faces, batch_{size}]", tiled([trial.images, found])
    yield from four.scores("faces, mean_face", away.mean(0, keepdim=True).expand(4, -1, -1, -1), "psnr lpips")


@experiment("batch_family.ways", on=partial(client, size=4))
@Size("smoke", 1, "a small ViT, 16 pixels, 1 step", steps=1, sizes=[2, 3], side=16, patch=4, width=128, passes=8)
@Size("class", 8, "a fresh small ViT, 2 steps of L-BFGS (some 40 evaluations)", steps=2, width=256, sizes=[2, 3])
@Size("night", 12, "a fresh small ViT, 15 steps of L-BFGS (some 300 evaluations)", steps=15, sizes=[2, 3, 4])
def ways(
    four: Trial, steps: int, sizes: list[int], side: int = 32, patch: int = 8, width: int = 384, passes: int = 0
) -> Values:
    """Searches for a batch, inside its family and among all pixels, at as many gradients of the network as L-BFGS took inside."""
    for size in sizes:
        key, images = f"batch_{size}", ground.shrunk(four.images[:size], side)
        trial = replace(four, images=images, labels=four.labels[:size])
        model = vit(trial.number, 1.0, trial.device, width=width, patch_size=patch, image_size=side)
        leak = trial.leak(model)
        space, (start,), known = family(model, leak, trial.images, [trial.number])
        known["mean_photograph"] = F.interpolate(mean_photograph(), side, mode="bilinear").expand_as(trial.images)
        for name, answer in known.items():
            yield from trial.scores(f"family, {name}, {key}", answer)
        inside = search(trial, lbfgs(steps), model, leak, space=space, start=start)
        newton = GaussNewton(passes or 2 * inside.evaluations)  # an evaluation is two passes, a product with J one
        found = {
            "family": inside,
            "pixels": search(trial, lbfgs(steps), model, leak, start=start),
            "annealed": search(trial, presets.annealed(inside.evaluations), model, leak),
            "gauss_newton, family": search(trial, newton, model, leak, space=space, start=start),
        }
        if size == 2:
            found["gradvit"] = search(trial, gradvit(math.ceil(inside.evaluations / 2)), model, leak)
            found["gauss_newton, pixels"] = search(trial, newton, model, leak)
            found["lbfgs_same_terms, pixels"] = search(trial, lbfgs(steps, ground.CURVED), model, leak)
        for way, result in found.items():
            yield from trial.scores(f"{way}, {key}", result.images)
        yield f"picture[photographs_and_ways, {key}]", tiled([trial.images, *(each.images for each in found.values())])


@experiment("batch_family.harder_victims", on=partial(client, size=2))
@Size("smoke", 1, "small ViTs, 1 step of L-BFGS", steps=1, images=96, epochs=2, width=256, passes=8)
@Size("class", 8, "small ViTs, 2 steps of L-BFGS (some 40 evaluations)", steps=2, width=256, images=400, epochs=3)
@Size("night", 12, "small ViTs, 15 steps of L-BFGS (some 300 evaluations)", steps=15, images=5_000, epochs=10)
def harder_victims(trial: Trial, steps: int, images: int, epochs: int, width: int = 384, passes: int = 0) -> Values:
    """Searches inside the family of a batch of two where they have a harder time: timm's position embedding, and a ViT that has learnt."""
    victims = {
        "std_0p02": vit(trial.number, 0.02, trial.device, width=width),
        "trained": trained(trial, "vit", images, epochs, embed_dim=width),
    }
    cosines = (Term("gradients", 1.0, objectives.cosine_distance),)
    for case, model in victims.items():
        leak = trial.leak(model)
        space, (start,), known = family(model, leak, trial.images, [trial.number])
        known["mean_photograph"] = mean_photograph().expand_as(trial.images)
        for name, answer in known.items():
            yield from trial.scores(f"family, {name}, {case}", answer)
        within: dict[str, Any] = dict(space=space, start=start)
        evaluations = search(trial, lbfgs(steps), model, leak, **within).evaluations
        attacks = {
            "lbfgs": lbfgs(steps),
            "adam": GradientMatching(cosines, 20 * steps, schedule=cosine, boxed=False),
            "lbfgs_same_terms": lbfgs(steps, ground.CURVED),
            "gauss_newton": GaussNewton(passes or 2 * evaluations),
        }
        for way, attack in attacks.items():
            yield from trial.scores(f"family, {way}, {case}", search(trial, attack, model, leak, **within).images)
