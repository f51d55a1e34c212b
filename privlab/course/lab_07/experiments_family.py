"""Lab 07, beyond the papers: a batch narrowed down by algebra first, then searched for; and a search that knows curvature."""

from __future__ import annotations

import math
from dataclasses import replace

from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import GradientMatching, Term, objectives
from privlab.attacks.gradient_inversion.search import cosine
from privlab.experiments import reconstruction
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.batch_family import CURVED, family, gauss_newton, lbfgs, shrunk
from privlab.experiments.victims.batches import fresh_number, gradvit, photographs, search, trained, vit
from privlab.leak import observe

ADAM = (Term("gradients", 1.0, objectives.cosine_distance),)


@experiment(
    "batch_family.ways",
    data=("cifar10",),
    smoke=Size(
        1,
        "a small ViT, 16 x 16 pixels, 1 step of L-BFGS",
        settings=dict(steps=1, sizes=[2, 3], side=16, patch=4, width=128, passes=8),
    ),
    class_=Size(
        8, "a fresh small ViT, 2 steps of L-BFGS (some 40 evaluations)", settings=dict(steps=2, width=256, sizes=[2, 3])
    ),
    night=Size(
        12, "a fresh small ViT, 15 steps of L-BFGS (some 300 evaluations)", settings=dict(steps=15, sizes=[2, 3, 4])
    ),
)
def ways(
    repeat: int,
    steps: int,
    sizes: list[int],
    side: int = 32,
    patch: int = 8,
    width: int = 384,
    passes: int = 0,
    device: str = "cpu",
) -> Values:
    """Searches for a batch, inside its family and among all pixels, at as many gradients of the network as L-BFGS took inside.

    A step of Adam and an evaluation of L-BFGS are two passes, a product with the Jacobian is one.  passes: for Gauss-Newton; as many as
    L-BFGS took if not given.  Position embedding of standard deviation 1.
    """
    number = fresh_number(repeat)
    for size in sizes:
        images, classes = photographs(size, number)
        truth, key = shrunk(images, side), f"batch_{size}"
        model = vit(number, 1.0, device, width=width, patch_size=patch, image_size=side)
        leak = observe(model, truth, classes)
        space, start, known = family(model, leak, truth, number)
        for name, answer in known.items():
            yield f"psnr[family, {name}, {key}]", reconstruction.psnr(answer, truth)
        inside = search(lbfgs(steps), model, leak, number, space, start)
        equal, newton = inside.evaluations, gauss_newton(passes or inside)
        found = {
            "family": inside,
            "pixels": search(lbfgs(steps), model, leak, number, None, start),
            "annealed": search(gradient_inversion.annealed(equal), model, leak, number),
            "gauss_newton, family": search(newton, model, leak, number, space, start),
        }
        if size == 2:
            found["gradvit"] = search(gradvit(math.ceil(equal / 2)), model, leak, number)
            found["gauss_newton, pixels"] = search(newton, model, leak, number)
            found["lbfgs_same_terms, pixels"] = search(lbfgs(steps, CURVED), model, leak, number)
        for way, result in found.items():
            yield f"psnr[{way}, {key}]", reconstruction.psnr(result.images, truth)
        yield f"picture[photographs_and_ways, {key}]", tiled([truth, *(result.images for result in found.values())])


@experiment(
    "batch_family.harder_victims",
    data=("cifar10",),
    smoke=Size(
        1,
        "small ViTs, 1 step of L-BFGS",
        settings=dict(steps=1, images=96, epochs=2, width=256, passes=8),
    ),
    class_=Size(
        8,
        "small ViTs, 2 steps of L-BFGS (some 40 evaluations)",
        settings=dict(steps=2, width=256, images=400, epochs=3),
    ),
    night=Size(
        12, "small ViTs, 15 steps of L-BFGS (some 300 evaluations)", settings=dict(steps=15, images=5_000, epochs=10)
    ),
)
def harder_victims(
    repeat: int, steps: int, images: int, epochs: int, width: int = 384, passes: int = 0, device: str = "cpu"
) -> Values:
    """Searches inside the family of a batch of two where they have a harder time: timm's position embedding, and a ViT that has learnt."""
    number = fresh_number(repeat)
    truth, classes = photographs(2, number)
    victims = {
        "std_0p02": vit(number, 0.02, device, width=width),
        "trained": trained("vit", number, images, epochs, width=width, device=device),
    }
    for case, model in victims.items():
        leak = observe(model, truth, classes)
        space, start, known = family(model, leak, truth, number)
        for name, answer in known.items():
            yield f"psnr[family, {name}, {case}]", reconstruction.psnr(answer, truth)
        found = {"lbfgs": search(lbfgs(steps), model, leak, number, space, start)}
        attacks = {
            "adam": replace(GradientMatching(ADAM, 20 * steps, schedule=cosine), boxed=False),
            "lbfgs_same_terms": lbfgs(steps, CURVED),
            "gauss_newton": gauss_newton(passes or found["lbfgs"]),
        }
        for way, attack in attacks.items():
            found[way] = search(attack, model, leak, number, space, start)
        for way, result in found.items():
            yield f"psnr[family, {way}, {case}]", reconstruction.psnr(result.images, truth)
