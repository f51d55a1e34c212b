"""Lab 07: GradViT, a batch of images from one gradient. What its terms do, beside other attacks, and on which victims."""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from privlab import data, metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import label_recovery, objectives, search_spaces
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.batches import (
    CHANNELS,
    STDS,
    blind_scores,
    fresh_number,
    gradvit,
    guesses,
    photographs,
    scores,
    search,
    trained,
    vit,
)
from privlab.leak import observe

RULES = ("row_minimum", "bias_minimum", "bias_counts")
SETS = ("cifar10",)
SHORT = "a small ViT, batches of 2, {} steps"


# -- labels and patches: gradients alone, no search ------------------------------------------------------------------------------


@experiment(
    "gradvit.labels",
    protocol=2,  # 1 added shares up one by one, so that ten times right was not quite 1
    data=SETS,
    smoke=Size(1, "small networks", settings=dict(batches=3, width=128, images=96, epochs=2)),
    class_=Size(
        8,
        "small networks, trained on 400 photographs",
        settings=dict(batches=10, width=256, images=400, epochs=3),
        first=16,
    ),
    night=Size(
        12,
        "small networks, trained on 5,000 photographs",
        settings=dict(batches=40, images=5_000, epochs=10),
        first=1_012,
    ),
)
def labels(repeat: int, batches: int, images: int, epochs: int, width: int = 384, device: str = "cpu") -> Values:
    """Share of the labels of four images that each rule reads off the last layer: fresh and trained victims, labels distinct or drawn."""
    number = fresh_number(repeat)
    victims: dict[str, nn.Module] = {
        "vit, fresh": vit(number, 1.0, device, width=width),
        "vit, trained": trained("vit", number, images, epochs, width=width, device=device),
        "resnet, fresh": models.build("resnet_cifar", seed=number, channels=CHANNELS).to(device),
        "resnet, trained": trained("resnet", number, images, epochs, device=device),
    }
    photos = data.load("cifar10", "test")
    seeds = [1_000 * number + k for k in range(batches)]
    drawn = {
        "distinct": [photographs(4, seed) for seed in seeds],
        "repeated": [photos.sample(4, seed) for seed in seeds],
    }
    for who, model in victims.items():
        for kind, some in drawn.items():
            for rule, share in _read_off(model, some).items():
                yield f"label_accuracy[{rule}, {who}, {kind}]", share
    small = _read_off(vit(number, 0.02, device, width=width), drawn["distinct"])
    yield "label_accuracy[row_minimum, vit, fresh, distinct, std_0p02]", small["row_minimum"]


def _read_off(model: nn.Module, batches: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Rule -> share of the labels that it finds, over all batches."""
    head = [f"{label_recovery.classifier(model, batches[0][0].shape[1:])}.{leaf}" for leaf in ("weight", "bias")]
    shares: dict[str, list[float]] = {rule: [] for rule in RULES}
    for images, classes in batches:
        leak = replace(observe(model, images, classes, names=head), labels=None)
        for rule, found in shares.items():
            found.append(label_recovery.overlap(label_recovery.RULES[rule](model, leak).cpu(), classes))
    return {rule: statistics.mean(found) for rule, found in shares.items()}


@experiment(
    "gradvit.exchanged_patches",
    data=SETS,
    smoke=Size(1, "a fresh small ViT", settings=dict(width=128)),
    class_=Size(16, "a fresh small ViT"),
)
def exchanged_patches(repeat: int, width: int = 384, device: str = "cpu") -> Values:
    """Eq. 3 of the true batch with two neighbouring patches exchanged, as a share of that of noise."""
    number = fresh_number(repeat)
    images, classes = photographs(2, number)
    noise = torch.rand(images.shape, generator=torch.Generator().manual_seed(number))
    for name, std in STDS.items():
        model = vit(number, std, device, width=width)
        leak, other, far = (observe(model, x, classes) for x in (images, exchanged(images), noise))
        gap, whole = (objectives.layer_norms(images, each.grads, leak).item() for each in (other, far))
        yield f"grad_loss_ratio[exchanged_over_noise, {name}]", gap / whole


def exchanged(images: Tensor, patch: int = 8) -> Tensor:
    """The second and third patch of the first row change places."""
    other = images.clone()
    other[..., :patch, patch : 2 * patch] = images[..., :patch, 2 * patch : 3 * patch]
    other[..., :patch, 2 * patch : 3 * patch] = images[..., :patch, patch : 2 * patch]
    return other


# -- Tables 1, 2 and 3 -------------------------------------------------------------------------------------------------------------


def ablation_rows(steps: int, **changes: Any) -> dict[str, gradient_inversion.GradientMatching]:
    """Table 2's rows. Registration is in none of the four, since two seeds blur each other early in a run; it is a fifth, on top."""
    whole = gradvit(steps, **changes)
    return {
        "grad": whole.without("patches", "statistics").unscheduled(),
        "plus_image": whole.without("patches").unscheduled(),
        "plus_schedule": whole.without("patches"),
        "plus_patch": whole,
        "plus_registration": gradvit(steps, group=2, **changes),
    }


@experiment(
    "gradvit.ablation",
    data=SETS,
    smoke=Size(1, SHORT.format(3), settings=dict(steps=3, width=96)),
    class_=Size(8, SHORT.format(20), settings=dict(steps=20, width=256)),
    night=Size(12, SHORT.format(600), settings=dict(steps=600)),
    gpu=Size(
        5, "fresh ViT-B/16, batches of 4 of 224 pixels, 2,000 steps", settings=dict(steps=2_000, batch=4, large=True)
    ),
)
def ablation(
    repeat: int, steps: int, batch: int = 2, width: int = 384, large: bool = False, device: str = "cpu"
) -> Values:
    """Table 2: GradViT's terms added one by one, at both scales of the position embedding; the same victim, batch and start in each row."""
    number = fresh_number(repeat)
    images, classes = photographs(batch, number, large)
    yield from blind_scores(images)
    for name, std in STDS.items():
        if large:
            model = models.build("vit_base_patch16_224", num_classes=1000, seed=number, position_std=std).to(device)
        else:
            model = vit(number, std, device, width=width)
        leak, pictures = observe(model, images, classes), [images]
        for row, attack in ablation_rows(steps, **(dict(size=None) if large else {})).items():
            result = search(attack, model, leak, number)
            weight = attack.terms[0].weigh(result.step / steps)
            yield from scores(f"loss_terms_{row}, {name}", result.images, images)
            yield f"grad_loss[loss_terms_{row}, {name}]", result.trace[result.step]["gradients"] / weight
            pictures.append(result.images)
        yield f"picture[photographs_and_rows, {name}]", tiled(pictures)


@cache
def generator(normalise: Any) -> search_spaces.Affine:
    """A linear generator: the first 100 principal components of public photographs, in the preprocessing of a model."""
    space = search_spaces.components(data.load("cifar10").take(range(300))[0], 100, normalise)
    return space.to(torch.zeros(()))


@experiment(
    "gradvit.attacks",
    data=SETS,
    smoke=Size(1, "small trained networks, 3 steps", settings=dict(steps=3, images=96, epochs=2, width=96)),
    class_=Size(
        8,
        "small trained networks, batches of 2, 20 steps",
        settings=dict(steps=20, width=256, images=400, epochs=3),
    ),
    night=Size(
        12, "small trained networks, batches of 2, 600 steps", settings=dict(steps=600, images=5_000, epochs=10)
    ),
)
def attacks(
    repeat: int, steps: int, images: int, epochs: int, batch: int = 2, width: int = 384, device: str = "cpu"
) -> Values:
    """Table 1: GradViT beside other attacks, on a small trained ViT (of either scale) and a small trained ResNet. No registration."""
    number = fresh_number(repeat)
    truth, classes = photographs(batch, number)
    noise = torch.rand(truth.shape, generator=torch.Generator().manual_seed(number))
    yield from blind_scores(truth)
    yield from scores("random_noise", noise, truth)
    victims = {
        "vit": trained("vit", number, images, epochs, 1.0, width, device=device),
        "vit_std_0p02": trained("vit", number, images, epochs, 0.02, width, device=device),
        "resnet": trained("resnet", number, images, epochs, device=device),
    }
    for name, model in victims.items():
        leak, pictures = observe(model, truth, classes), [truth]
        for method, (attack, space) in _rivals(name, model, steps, device).items():
            found = search(attack, model, leak, number, space).images
            yield from scores(f"{method}, {name}", found, truth)
            pictures.append(found)
        yield f"picture[photographs_and_attacks, {name}]", tiled(pictures)


def _rivals(name: str, model: nn.Module, steps: int, device: str) -> dict[str, tuple[Any, Any]]:
    """Method -> (attack, space). A ResNet lends its own BatchNorm statistics; a ViT has none, so that term is left out."""
    patch = (
        None if name.startswith("vit") else 8
    )  # the paper does not say whether a ResNet has the patch prior; here it has
    own = None if name.startswith("vit") else model
    methods: dict[str, tuple[Any, Any]] = {
        "gradvit": (gradvit(steps, patch=patch), None),
        "gradinversion": (gradient_inversion.gradinversion(steps, own, group=1), None),
        "inverting_gradients": (gradient_inversion.inverting_gradients(steps), None),
        "annealed": (gradient_inversion.annealed(steps), None),
    }
    if own is not None:
        space = generator(model.normalise).to(torch.zeros((), device=device))
        methods["deep_inversion"] = gradient_inversion.deep_inversion(steps, own), None
        methods["latent_projection"] = replace(gradient_inversion.annealed(steps), boxed=False), space
    return methods


@experiment(
    "gradvit.patch_size",
    data=SETS,
    smoke=Size(1, SHORT.format(2), settings=dict(steps=2, width=64)),
    class_=Size(8, SHORT.format(20), settings=dict(steps=20)),
    night=Size(12, SHORT.format(600), settings=dict(steps=600)),
)
def patch_size(repeat: int, steps: int, width: int = 192, device: str = "cpu") -> Values:
    """Section 6.2: the same small ViT with patches of 4 and of 8 pixels. GradViT without image prior, whose steps are the cheaper."""
    number = fresh_number(repeat)
    images, classes = photographs(2, number)
    yield from blind_scores(images)
    attack = gradvit(steps).without("statistics")
    for name, std in STDS.items():
        for side in (4, 8):
            model = vit(number, std, device, width=width, patch_size=side)
            result = search(attack, model, observe(model, images, classes), number)
            yield from scores(f"patch_{side}, {name}", result.images, images)


@experiment(
    "gradvit.batches",
    data=SETS,
    smoke=Size(1, "a small ViT, 2 steps", settings=dict(steps=2, sizes=[1, 2, 4], distractors=64, width=96)),
    class_=Size(8, "a small ViT, 20 steps", settings=dict(steps=20, width=256, sizes=[1, 2, 4], distractors=200)),
    night=Size(12, "a small ViT, 600 steps", settings=dict(steps=600, sizes=[1, 2, 4, 8], distractors=2_000)),
)
def batches(
    repeat: int,
    steps: int,
    sizes: list[int],
    distractors: int,
    width: int = 384,
    components: int = 64,
    device: str = "cpu",
) -> Values:
    """Section 6.3 and appendix A: one photograph in batches of growing size, and whether the answers identify their originals.

    refined: the answers' nearest images among principal components of public photographs, in place of StyleGAN2.
    """
    number = fresh_number(repeat)
    public = data.load("cifar10")
    others = public.pixels[len(public) - distractors :]
    space = search_spaces.components(public.take(range(300))[0], components)
    for name, value in guesses(photographs(1, number)[0]).items():
        yield f"psnr[{name}]", metrics.psnr(value, photographs(1, number)[0]).item()
    pictures: list[Tensor] = [photographs(1, number)[0]]
    for std_name, std in STDS.items():
        model = vit(number, std, device, width=width)
        for size in sizes:
            images, classes = photographs(size, number)
            found = search(gradvit(steps), model, observe(model, images, classes), number).images
            pictures += [found[:1]] if std == 1 else []
            for metric in ("psnr", "lpips"):
                value = getattr(metrics, metric)(found[:1], images[:1]).item()
                yield f"{metric}[first_photograph, batch_{size}, {std_name}]", value
            if std == 1:
                refined = space.images(space.begin(found)).clamp(0, 1)
                for by in ("pixels", "lpips"):
                    yield f"iip[{by}, batch_{size}]", metrics.iip(found, images, others, by=by)
                    yield f"iip[{by}, batch_{size}, refined]", metrics.iip(refined, images, others, by=by)
    yield "picture[one_photograph_by_batch_size]", tiled([torch.cat(pictures)])


@experiment(
    "gradvit.faces",
    data=("orl", "cifar10"),
    smoke=Size(1, "a small grey ViT, 2 steps", settings=dict(steps=2, width=64, others=40)),
    class_=Size(8, "a small grey ViT of 32 pixels, 20 steps", settings=dict(steps=20, others=40)),
    night=Size(12, "a small grey ViT of 32 pixels, 600 steps", settings=dict(steps=600, others=320)),
    gpu=Size(12, "a fresh face Transformer, 2,000 steps", settings=dict(steps=2_000, others=320, large=True)),
    paper=Size(12, "a fresh face Transformer", settings=dict(steps=120_000, others=320, large=True)),
)
def faces(repeat: int, steps: int, others: int, width: int = 192, large: bool = False, device: str = "cpu") -> Values:
    """Table S.1 and Figure S.1: one photograph each of four and of eight people of ORL, the four among the eight.

    iip: by features, among the batch and photographs of other people. The mean face is that of the other people.
    """
    number, side = fresh_number(repeat), 112 if large else 32
    orl = data.load("orl")
    rng = torch.Generator().manual_seed(number)
    people = torch.randperm(40, generator=rng)
    places = [10 * int(person) + int(torch.randint(10, (1,), generator=rng)) for person in people[:8]]
    strangers = [10 * int(person) + k for k in range(10) for person in people[8:]][:others]
    away, _ = _faces(orl, strangers, side)
    eight, classes = _faces(orl, places, side)
    if large:
        model: nn.Module = models.build("face_transformer", seed=number, in_chans=1).to(device)
    else:
        model = vit(number, 1.0, device, width=width, channels=1, num_classes=40)
    attack = gradvit(steps) if large else gradvit(steps).without("statistics")
    for size in (4, 8):
        images = eight[:size]
        found = search(attack, model, observe(model, images, classes[:size]), number).images
        for metric in ("psnr", "lpips"):  # of the same four people
            yield f"{metric}[faces, batch_{size}]", getattr(metrics, metric)(found, images)[:4].mean().item()
        yield f"iip[faces, batch_{size}]", metrics.iip(found, images, away)
        yield f"picture[faces, batch_{size}]", tiled([images, found])
    mean = away.mean(0, keepdim=True).expand(4, -1, -1, -1)
    for metric in ("psnr", "lpips"):
        yield f"{metric}[faces, mean_face]", getattr(metrics, metric)(mean, eight[:4]).mean().item()


def _faces(orl: data.Images, places: list[int], side: int) -> tuple[Tensor, Tensor]:
    some = [orl.one(place, size=side) for place in places]
    images, classes = zip(*some, strict=True)
    return torch.cat(images), torch.cat(classes)
