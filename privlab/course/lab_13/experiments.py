"""Lab 13: what a client or a designer can change, what attackers who know it have left, and what it costs the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from privlab import metrics, models, training
from privlab.attacks.membership_inference import signals
from privlab.defences import dp_sgd, noise_budget, perturbation
from privlab.defences.updates import UpdateDefence
from privlab.experiments.pictures import tiled
from privlab.experiments.protocol import Size, Values, experiment
from privlab.experiments.victims.defended_client import (
    DENSE,
    EMBEDDINGS,
    KNOWN,
    ROWS,
    WAYS,
    Client,
    Pair,
    guess,
    size,
    spent,
)
from privlab.experiments.victims.private_people import if_stopped
from privlab.leak import observe
from privlab.training.defence import Defence
from privlab.training.shadow_models import Fleet

SMALL: dict[str, Any] = dict(model="vit_cifar", changes=dict(embed_dim=224, depth=2, position_std=1.0))
VIT_S: dict[str, Any] = dict(
    model="vit_small_patch16_224", changes=dict(img_size=32, patch_size=4, num_classes=10, position_std=1.0)
)
VIT_B: dict[str, Any] = {**VIT_S, "model": "vit_base_patch16_224"}
PRIVATE = dp_sgd.dp(epsilon=50.0, delta=1e-3)


_FULL: dict[str, Any] = dict(
    attack="quasi_newton", levels=[0.001, 0.01, 0.1, 1.0], strengths=[0.1, 1.0], ways=WAYS, rows=[*ROWS], embeddings=[*EMBEDDINGS]
)  # fmt: skip
_SOME: dict[str, Any] = {
    **_FULL,
    "levels": [0.01, 0.1],
    "strengths": [1.0],
    "rows": ["largest_1_percent", "position_withheld"],
    "embeddings": ["fixed_rank_4"],
}


@experiment("defences.one_update", data=("cifar10",),
    smoke=Size(
        2, "a small ViT, searches of 3 steps",
        settings=dict(SMALL, **{**_SOME, "attack": "annealed", "ways": ["even", "leaky"], "levels": [0.01, 0.1]}, steps=3),
    ),
    class_=Size(8, "a small ViT (1.2 M parameters), L-BFGS of 2 outer steps", first=20, settings=dict(SMALL, **_SOME, steps=2)),
    night=Size(20, "a small ViT (1.2 M parameters), L-BFGS of 4 outer steps", settings=dict(SMALL, **_FULL, steps=4)),
    gpu=Size(12, "a ViT-S of 4 x 4 patches", settings=dict(VIT_S, **_FULL, steps=10)),
    paper=Size(12, "a ViT-B of 4 x 4 patches", settings=dict(VIT_B, **_FULL, steps=20)),
)  # fmt: skip
def one_update(
    repeat: int,
    model: str,
    changes: Mapping[str, Any],
    attack: str,
    steps: int,
    levels: Sequence[float],
    strengths: Sequence[float],
    ways: Sequence[str],
    rows: Sequence[str],
    embeddings: Sequence[str],
    device: str = "cpu",
) -> Values:
    """The update of one photograph behind every defence, before attackers who know it and attackers who do not.

    even: noise on all numbers alike, over its size.  budget: ways to spend noise, the best informed attack.  matrix: defences by attacks.
    strongest: the best of a row.  embedding: networks whose position embedding is fixed.
    """
    client = Client(repeat, model, changes, attack, steps, device)
    yield "psnr[guess]", client.psnr(guess())
    yield "psnr[grey]", client.psnr(torch.full_like(guess(), 0.5))
    for level in levels:
        even = spent("even", level)
        for who, informed, rounds in (("naive", False, 1), ("informed", True, 1), ("informed_16_rounds", True, 16)):
            yield f"psnr[even, {size(level)}, algebra_{who}]", client.solved(even, informed, rounds)
        for who, informed in (("naive", False), ("informed", True)):
            yield f"psnr[even, {size(level)}, search_{who}]", client.psnr(client.search(even, informed))
    measured = noise_budget.measured(client.network)
    spending = {
        (way, level): spent(way, level, measured) for way in ways for level in strengths if way in DENSE or level == 1
    }
    for (way, level), defence in spending.items():
        image = client.search(defence, informed=True)
        yield f"psnr[budget, {size(level)}, {way}]", max(client.solved(defence, informed=True), client.psnr(image))
        if level == 1:
            yield f"psnr[budget, search, {way}]", client.psnr(image)
    whole = [f"{way}_1" for way in ways if way in ("even", "leaky", "measured", "attention")]
    matrix: dict[str, UpdateDefence | None] = {"none": None, **{name: ROWS[name] for name in rows}}
    matrix |= {name: spending[name.removesuffix("_1"), 1.0] for name in whole}
    pictures = [client.photograph, guess()]
    for name, sent in matrix.items():
        informed = sent is not None and sent.by in KNOWN
        images = [client.search(sent), client.search(sent, informed)]
        row = dict(zip(("search", "search_informed"), map(client.psnr, images), strict=True))
        row |= {"algebra": client.solved(sent), "algebra_informed": client.solved(sent, informed)}
        for column, value in row.items():
            yield f"psnr[matrix, {name}, {column}]", value
        yield f"psnr[strongest, {name}]", max(row.values())
        yield f"label_accuracy[matrix, {name}]", client.label_left(sent)
        pictures.append(images[1])
    for name in embeddings:
        fixed = {**changes, **EMBEDDINGS[name]}
        network = models.build(model, seed=client.seed, **fixed).to(device)
        leak = observe(network, client.photograph, client.label)
        row = {
            "algebra": client.psnr(client.algebra(leak, network=network)),
            "search": client.psnr(client.search(None, **EMBEDDINGS[name])),
        }
        for column, value in (*row.items(), ("strongest", max(row.values()))):
            yield f"psnr[embedding, {name}, {column}]", value
    yield "picture[photograph_guess_matrix]", tiled([pictures])


_ALL: dict[str, Any] = dict(rows=[*ROWS], ways=WAYS, embeddings=[*EMBEDDINGS], private=True)
_FEW: dict[str, Any] = dict(
    rows=["largest_1_percent", "position_withheld"], ways=["even", "own", "measured", "leaky"], embeddings=["fixed_rank_4"], private=False
)  # fmt: skip


@experiment("defences.training_cost", data=("cifar10",),
    smoke=Size(
        2, "victims of 48 images, 2 epochs",
        settings=dict(SMALL, **{**_FEW, "ways": ["even", "own"]}, members=48, epochs=2, stops=[1]),
    ),
    class_=Size(
        8, "small ViTs on 200 images, 6 epochs, which have learnt little", first=20,
        settings=dict(SMALL, **{**_FEW, "rows": ["largest_1_percent"], "ways": ["even", "own"]}, members=200, epochs=6, stops=[1, 2, 3, 4]),
    ),
    night=Size(
        20, "small ViTs on 500 images, 15 epochs",
        settings=dict(SMALL, **_ALL, members=500, epochs=15, stops=[1, 2, 3, 4, 6, 8, 11]),
    ),
    gpu=Size(8, "ViT-S on 2,000 images, 20 epochs", settings=dict(VIT_S, **_ALL, members=2_000, epochs=20, stops=[3, 6, 10, 15])),
    paper=Size(8, "ViT-B on 2,500 images, 60 epochs", settings=dict(VIT_B, **_ALL, members=2_500, epochs=60, stops=[5, 10, 20, 40])),
)  # fmt: skip
def training_cost(
    repeat: int,
    model: str,
    changes: Mapping[str, Any],
    members: int,
    epochs: int,
    stops: Sequence[int],
    rows: Sequence[str],
    ways: Sequence[str],
    embeddings: Sequence[str],
    private: bool,
    device: str = "cpu",
) -> Values:
    """What each defence costs a training whose every step takes the defended gradient, and what it takes from membership inference."""
    pair = Pair(repeat, members, epochs, device)
    undefended = pair.trained(model, changes, at=stops)
    measured = noise_budget.measured(models.build(model, seed=pair.seed, **changes))
    kinds: dict[str, tuple[Mapping[str, Any], tuple[Defence, ...]]] = {"none": (changes, ())}
    kinds |= {name: (changes, (ROWS[name],)) for name in rows}
    kinds |= {f"{way}_1": (changes, (spent(way, 1.0, measured),)) for way in ways}
    kinds |= {name: ({**changes, **EMBEDDINGS[name]}, ()) for name in embeddings}
    kinds |= {"dp_sgd": (changes, (PRIVATE,))} if private else {}
    early = [pair.membership(undefended, epoch) for epoch in stops]
    path = [(10.0, 50.0), *((task, auc) for task, auc, _ in (*early, pair.membership(undefended)))]  # from a coin on
    for epoch, (task, auc, _) in zip(stops, early, strict=True):
        yield f"task_acc[stopped_{epoch}]", task
        yield f"auc[stopped_{epoch}]", auc
    for name, (own, defences) in kinds.items():
        task, auc, accuracy = pair.membership(undefended if name == "none" else pair.trained(model, own, defences))
        yield f"task_acc[{name}]", task
        yield f"auc[{name}]", auc
        yield f"attack_acc[{name}]", accuracy
        if name != "none":
            yield f"auc_if_stopped[{name}]", if_stopped(task, path)


FRESH = {"swin": "swin_cifar", "resnet": "resnet_cifar"}
PAPERS = {"swin": "swin_tiny_cifar", "resnet": "resnet50_cifar"}


@experiment(
    "defences.noise_by_family",
    data=("cifar10",),
    smoke=Size(2, "small networks, 2 steps", settings=dict(networks=FRESH, noises=[0.0, 1.0], steps=2)),
    class_=Size(
        8, "small networks, 25 steps", first=20, settings=dict(networks=FRESH, noises=[0.0, 0.3, 1.0], steps=25)
    ),
    night=Size(
        20, "small networks, 400 steps", settings=dict(networks=FRESH, noises=[0.0, 0.1, 0.3, 1.0, 3.0], steps=400)
    ),
    gpu=Size(
        8,
        "Swin-T and ResNet-50, 1,000 steps",
        settings=dict(networks=PAPERS, noises=[0.0, 0.1, 0.3, 1.0, 3.0], steps=1_000),
    ),
)
def noise_by_family(
    repeat: int, networks: Mapping[str, str], noises: Sequence[float], steps: int, device: str = "cpu"
) -> Values:
    """The same search behind noise on the update of a Transformer and of a CNN; and the least of these noises that holds it below 15 dB.

    relative_noise_to_15db: ten times the largest where none does.
    """
    clients = {name: Client(repeat, model, {}, "annealed", steps, device) for name, model in networks.items()}
    yield "psnr[noise, mean_photograph]", next(iter(clients.values())).psnr(guess())
    for name, client in clients.items():
        reached = {level: client.psnr(client.search(spent("own", level) if level else None)) for level in noises}
        for level, value in reached.items():
            yield f"psnr[noise, {name}, {size(level)}]", value
        enough = [level for level, value in reached.items() if value < 15]
        yield f"relative_noise_to_15db[{name}]", min(enough, default=10 * max(noises))


RELEASED: dict[str, tuple[str, dict[str, Any]]] = {
    "vit": ("vit_cifar", SMALL["changes"]),
    "resnet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
    "swin_t": ("swin_tiny_cifar", {}),
    "resnet_50": ("resnet50_cifar", {}),
}


_NOISES = [0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
_THREE: dict[str, Any] = dict(networks={"resnet": "resnet", "swin": "swin", "vit": "vit"}, noises=_NOISES)


@experiment("defences.noise_on_weights", data=("cifar10",),
    smoke=Size(
        2, "victims of 48 images, 2 epochs",
        settings=dict(networks=dict(resnet="resnet", swin="swin"), noises=[0.0, 0.4], members=48, epochs=2),
    ),
    class_=Size(
        8, "small networks on 200 images, 10 epochs", first=20,
        settings=dict(networks=dict(resnet="resnet", swin="swin"), noises=_NOISES, members=200, epochs=10),
    ),
    night=Size(20, "small networks on 1,000 images, 40 epochs", settings=dict(_THREE, members=1_000, epochs=40)),
    gpu=Size(
        8, "Swin-T and ResNet-50 on 2,000 images",
        settings=dict(networks=dict(resnet="resnet_50", swin="swin_t"), noises=_NOISES, members=2_000, epochs=20),
    ),
)  # fmt: skip
def noise_on_weights(
    repeat: int, networks: Mapping[str, str], noises: Sequence[float], members: int, epochs: int, device: str = "cpu"
) -> Values:
    """Networks that are published with noise on their weights: what it takes from membership inference, and what it costs.

    weight_noise_to_halve_auc: at which half of the advantage over a coin is gone, on straight lines; the largest noise where it never is,
    or where there was no advantage.
    """
    pair = Pair(repeat, members, epochs, device)
    for name, network in networks.items():
        fleet = pair.trained(*RELEASED[network])
        curve = np.mean(
            [[_published(pair, fleet, m, noise) for noise in noises] for m in (0, 1)], axis=0
        )  # (noises, task and AUC)
        for noise, (task, auc) in zip(noises, curve, strict=True):
            yield f"task_acc[weight_noise, {name}, {size(noise)}]", task
            yield f"auc[weight_noise, {name}, {size(noise)}]", auc
        advantage = curve[:, 1] - 50
        below = np.flatnonzero(advantage <= advantage[0] / 2)
        half = noises[-1]
        if len(below) and advantage[0] > 0:
            i = below[0]
            half = float(np.interp(advantage[0] / 2, advantage[[i, i - 1]], np.array(noises)[[i, i - 1]]))
        yield f"weight_noise_to_halve_auc[{name}]", half
        yield f"task_acc[weight_noise_at_half, {name}]", float(np.interp(half, noises, curve[:, 0]))


def _published(pair: Pair, fleet: Fleet, m: int, noise: float) -> list[float]:
    """Task accuracy and AUC of membership, in percent, of victim m with noise on its weights."""
    noisy = perturbation.parameters(fleet.model(m), noise, seed=pair.seed + m).to(pair.device)
    places = torch.cat([pair.keep[m].nonzero()[:, 0], pair.outside[m]])
    logits, labels, inside = (
        training.logits(noisy, pair.pixels[places]).cpu(),
        pair.classes[places],
        pair.keep[m][places],
    )
    right = (logits.argmax(1) == labels)[~inside].double().mean().item()
    return [100 * right, 100 * metrics.roc.auc(signals.loss(logits, labels), inside)]


QUARTER: dict[str, Any] = dict(width=0.25, depths=(1, 1, 1, 1))
SWAPS: dict[str, dict[str, Any]] = {
    "as_it_is": {},
    "three_relus": dict(activations="111", activation="relu"),
    "batchnorm": dict(norm="bn"),
    "resnets_stem": dict(patchify=False, pool=True, stem_activation=True),
}
SWAPS["all_three"] = {name: value for changes in SWAPS.values() for name, value in changes.items()}


@experiment("defences.design_swaps", data=("cifar10",),
    smoke=Size(
        2, "a quarter of the width, searches of 2 steps",
        settings=dict(changes=QUARTER, which=["as_it_is", "all_three"], searches=dict(annealed=2), members=32, epochs=2),
    ),
    class_=Size(
        8, "a quarter of step 12's width and one block a stage, 200 images, 6 epochs, 40 steps", first=20,
        settings=dict(
            changes=QUARTER, which=["as_it_is", "three_relus", "all_three"], searches=dict(annealed=40, quasi_newton=1), members=200,
            epochs=6,
        ),
    ),
    night=Size(
        20, "a quarter of step 12's width and one block a stage, 1,000 images, 40 epochs, 400 steps",
        settings=dict(changes=QUARTER, which=[*SWAPS], searches=dict(annealed=400, quasi_newton=4), members=1_000, epochs=40),
    ),
    gpu=Size(
        8, "step 12 of the morph at its own width",
        settings=dict(changes={}, which=[*SWAPS], searches=dict(annealed=1_000, quasi_newton=10), members=2_000, epochs=20),
    ),
)  # fmt: skip
def design_swaps(
    repeat: int,
    changes: Mapping[str, Any],
    which: Sequence[str],
    searches: Mapping[str, int],
    members: int,
    epochs: int,
    device: str = "cpu",
) -> Values:
    """Step 12 of lab 09's morph, designs that leak swapped for older ones: the better of two searches, membership, cost."""
    pair, strip = Pair(repeat, members, epochs, device), []
    for name in which:
        own = {**changes, **SWAPS[name]}
        clients = [Client(repeat, "morph_12", own, attack, steps, device) for attack, steps in searches.items()]
        if name == "as_it_is":
            strip.append(clients[0].photograph)
            yield "psnr[swap, mean_photograph]", clients[0].psnr(guess())
        images = [client.search(None) for client in clients]
        strip.append(max(images, key=clients[0].psnr))
        yield f"psnr[swap, {name}]", clients[0].psnr(strip[-1])
        task, auc, _ = pair.membership(pair.trained("morph_12", own))
        yield f"task_acc[swap, {name}]", task
        yield f"auc[swap, {name}]", auc
    yield "picture[photograph_then_swaps]", tiled([strip])
