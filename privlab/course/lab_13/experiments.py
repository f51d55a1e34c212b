"""Lab 13: what a client or a designer can change, what attackers who know it have left, and what it costs the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from privlab import models
from privlab.defences import dp_sgd, noise_budget
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
