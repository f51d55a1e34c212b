"""Lab 07, beyond the papers: a batch narrowed down by algebra first, then searched for; and a search that knows curvature."""

import math
from dataclasses import replace
from functools import partial

import torch.nn.functional as F

from privlab.attacks.gradient_inversion import GradientMatching, Term, objectives, presets
from privlab.attacks.gradient_inversion.schedules import cosine
from privlab.experiments import Size, Trial, experiment, tiled
from privlab.experiments.protocol import Values
from privlab.experiments.trial import mean_photograph
from privlab.experiments.victims.batch_family import CURVED, family, gauss_newton, lbfgs, shrunk
from privlab.experiments.victims.batches import client, gradvit, search, trained, vit

ADAM = (Term("gradients", 1.0, objectives.cosine_distance),)


@experiment("batch_family.ways")
@Size("smoke", 1, "a small ViT, 16 x 16 pixels, 1 step of L-BFGS",
    steps=1, sizes=[2, 3], side=16, patch=4, width=128, passes=8)  # fmt: skip
@Size("class", 8, "a fresh small ViT, 2 steps of L-BFGS (some 40 evaluations)", steps=2, width=256, sizes=[2, 3])
@Size("night", 12, "a fresh small ViT, 15 steps of L-BFGS (some 300 evaluations)", steps=15, sizes=[2, 3, 4])
def ways(
    repeat: int, steps: int, sizes: list[int], side: int = 32, patch: int = 8, width: int = 384, passes: int = 0,
    device: str = "cpu",
) -> Values:  # fmt: skip
    """Searches for a batch, inside its family and among all pixels, at as many gradients of the network as L-BFGS took inside.

    A step of Adam and an evaluation of L-BFGS are two passes, a product with the Jacobian is one.  passes: for Gauss-Newton; as many as
    L-BFGS took if not given.  Position embedding of standard deviation 1.
    """
    for size in sizes:
        trial, key = client(repeat, size, device=device), f"batch_{size}"
        trial = replace(trial, images=shrunk(trial.images, side))
        model = vit(trial.number, 1.0, device, width=width, patch_size=patch, image_size=side)
        leak = trial.leak(model)
        space, start, known = family(model, leak, trial.images, trial.number)
        known["mean_photograph"] = F.interpolate(mean_photograph(), side, mode="bilinear").expand_as(trial.images)
        for name, answer in known.items():
            yield from trial.scores(f"family, {name}, {key}", answer)
        inside = search(trial, lbfgs(steps), model, leak, space=space, start=start)
        equal, newton = inside.evaluations, gauss_newton(passes or inside)
        found = {
            "family": inside,
            "pixels": search(trial, lbfgs(steps), model, leak, start=start),
            "annealed": search(trial, presets.annealed(equal), model, leak),
            "gauss_newton, family": search(trial, newton, model, leak, space=space, start=start),
        }
        if size == 2:
            found["gradvit"] = search(trial, gradvit(math.ceil(equal / 2)), model, leak)
            found["gauss_newton, pixels"] = search(trial, newton, model, leak)
            found["lbfgs_same_terms, pixels"] = search(trial, lbfgs(steps, CURVED), model, leak)
        for way, result in found.items():
            yield from trial.scores(f"{way}, {key}", result.images)
        pictures = [trial.images, *(result.images for result in found.values())]
        yield f"picture[photographs_and_ways, {key}]", tiled(pictures)


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
    for case, model in victims.items():
        leak = trial.leak(model)
        space, start, known = family(model, leak, trial.images, trial.number)
        known["mean_photograph"] = mean_photograph().expand_as(trial.images)
        for name, answer in known.items():
            yield from trial.scores(f"family, {name}, {case}", answer)
        first = search(trial, lbfgs(steps), model, leak, space=space, start=start)
        attacks = {
            "lbfgs": lbfgs(steps),
            "adam": GradientMatching(ADAM, 20 * steps, schedule=cosine, boxed=False),
            "lbfgs_same_terms": lbfgs(steps, CURVED),
            "gauss_newton": gauss_newton(passes or first),
        }
        for way, attack in attacks.items():
            found = search(trial, attack, model, leak, space=space, start=start)
            yield from trial.scores(f"family, {way}, {case}", found.images)
