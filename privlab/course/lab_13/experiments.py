"""Lab 13: what a client or a designer can change, what attackers who know it have left, and what it costs the task."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privlab import data, metrics, models
from privlab.attacks.gradient_inversion import adaptive, closed_form, label_recovery, presets
from privlab.attacks.membership_inference import signals
from privlab.defences import dp_sgd, perturbation, updates
from privlab.defences.updates import UpdateDefence
from privlab.experiments.protocol import Settings, Size, Values, experiment
from privlab.experiments.trial import Trial, mean_photograph, tiled
from privlab.experiments.victims import private_people, shadow_fleets
from privlab.leak import Leak
from privlab.training import Recipe, batches
from privlab.training.defence import Defence
from privlab.training.shadow_models import Fleet

READ = ("pos_embed", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight")  # by the closed forms
WAYS = ["even", "own", "measured", "leaky", "stem", "attention", "norm", "activation"]
DENSE = ("even", "own", "measured")  # ways to spend that are looked at with several strengths
EMBEDDINGS: dict[str, Settings] = {
    "fixed_random": dict(position="random"),
    "fixed_2d_sinusoid": dict(position="sinusoid_2d"),
    "fixed_rank_4": dict(position="low_rank", position_rank=4),
}
ROWS = {  # what practitioners do anyway
    "bfloat16": updates.sent("bfloat16"),
    "rounded_to_8_bits": updates.sent("low_bits", bits=8),
    "rounded_to_2_bits": updates.sent("low_bits", bits=2),
    "largest_1_percent": updates.sent("sparse", share=0.01),
    "clipped": updates.sent("clipped", norm=1.0),
    "position_withheld": updates.sent("withheld", words=["position"]),
    "stem_withheld": updates.sent("withheld", words=["stem"]),
}
KNOWN = ("gaussian", "spread", "sparse", "low_bits", "clipped")  # who knows of these attacks in another way
SMALL: Settings = dict(model="vit_cifar", changes=dict(embed_dim=224, depth=2, position_std=1.0))
SOME: Settings = dict(
    levels=[0.01, 0.1], strengths=[1.0], rows=["largest_1_percent", "position_withheld"], embeddings=["fixed_rank_4"], **SMALL,
)  # fmt: skip
ALL: Settings = dict(rows=[*ROWS], ways=WAYS, embeddings=[*EMBEDDINGS], **SMALL)
LITTLE: Settings = dict(ways=["even", "own"], embeddings=["fixed_rank_4"], private=False, **SMALL)
QUARTER: Settings = dict(width=0.25, depths=(1, 1, 1, 1))
SWAPS: dict[str, Settings] = {
    "as_it_is": {},
    "three_relus": dict(activations="111", activation="relu"),
    "batchnorm": dict(norm="bn"),
    "resnets_stem": dict(patchify=False, pool=True, stem_activation=True),
}
SWAPS["all_three"] = {name: value for changes in SWAPS.values() for name, value in changes.items()}


def strength(level: float) -> str:
    """A strength, as the ledger writes it."""
    return f"relative_{level:g}".replace(".", "p")


def spent(way: str, level: float, measured: Mapping[str, float] | None = None) -> UpdateDefence:
    """Noise `level` times as long as the update, its energy spent in one of `WAYS`.  measured: see `perturbation.measured`."""
    if way == "own":
        return updates.sent("gaussian", relative=level)
    shares = {"even": {"all": 1.0}, "measured": measured, "leaky": dict.fromkeys(READ, 1 / 3)}.get(way, {way: 1.0})
    return updates.sent("spread", shares=shares, relative=level)


class Client:
    """One photograph of the test split, and a fresh network that its gradient is of.

    repeat: draws both, and all noise.  model, changes: of the network, see `models.build`.  attack, steps: of the search.
    photograph: (1, 3, 32, 32) in [0, 1].  network: fresh.  update: its gradient.
    """

    def __init__(
        self, repeat: int, model: str, changes: Settings, attack: str, steps: int, device: str = "cpu"
    ) -> None:
        self.trial = Trial.of(repeat % 2**31, places=[repeat], device=device)
        self.photograph, self.network = self.trial.images, self.trial.network(model, **changes)
        self.update, self.attack = self.trial.leak(self.network), getattr(presets, attack)(steps)

    def psnr(self, image: Tensor) -> float:
        return metrics.psnr(image.cpu(), self.photograph).item()

    def sent(self, defence: UpdateDefence | None, rounds: int = 1) -> Leak:
        """What the server receives; or the mean of several rounds, each with noise of its own."""
        if defence is None:
            return self.update
        seeds = [self.trial.number + 1_000_003 * n for n in range(rounds)]
        return adaptive.averaged([defence(self.update, self.network, seed) for seed in seeds])

    def algebra(self, leak: Leak, deviations: Mapping[str, float] | None = None) -> Tensor:
        """The better of two closed forms, the client's own photograph being the judge; the guess where neither has what it needs."""
        images = []
        for form in (closed_form.patch_embedding, closed_form.subspace):
            with contextlib.suppress(ValueError):  # what it reads was withheld, or is zero throughout
                images.append(form(self.network, leak, deviations).clamped.cpu())
        return max(images or [mean_photograph()], key=self.psnr)

    def solved(self, defence: UpdateDefence | None, informed: bool = False, rounds: int = 1) -> float:
        """What algebra makes of a defended update, in dB; or of the mean of several, each with noise of its own."""
        leak = self.sent(defence, rounds)
        known = defence.deviations(leak, self.network, rounds) if informed and defence else None
        return self.psnr(self.algebra(leak, known))

    def search(self, defence: UpdateDefence | None, informed: bool = False) -> Tensor:
        """What the search makes of a defended update.

        informed: it knows the defence: noise is weighed, zeros of a sparse update are no numbers, and a clipped one has no length.
        """
        leak, attack = self.sent(defence), self.attack
        if informed and defence:
            attack = adaptive.tempered(attack, leak, defence.deviations(leak, self.network))
            if change := {"sparse": adaptive.arrived, "clipped": adaptive.unclipped}.get(defence.by):
                attack = change(attack)
        return self.trial.search(attack, self.network, leak).images


class Pair:
    """Two victims that are each other's shadow model (as in lab 01), on images and a split of their own.

    repeat: draws images, split, weights and noise.  members: images of a victim.  epochs: of its training.
    """

    def __init__(self, repeat: int, members: int, epochs: int, device: str = "cpu") -> None:
        self.repeat, self.seed, self.device = repeat, repeat % 2**31, device
        photos = data.load("cifar10", "test")
        drawn = torch.randperm(len(photos), generator=torch.Generator().manual_seed(self.seed))[: 4 * members]
        self.pixels, self.classes = batches.subset(photos, drawn)
        mine, unseen, theirs, others = torch.arange(4 * members).split(members)  # the victim's, the shadow model's
        self.keep = torch.zeros(2, 4 * members, dtype=torch.bool)
        self.keep[0, mine], self.keep[1, theirs] = True, True
        self.outside = (unseen, others)
        self.recipe = Recipe(epochs=epochs, batch_size=32, lr=1e-3, warmup_epochs=1, augment="flip")

    def trained(self, model: str, changes: Settings, defences: Sequence[Defence] = (), at: Sequence[int] = ()) -> Fleet:
        """Both victims, trained here and now; from the store if they are kept there."""
        return shadow_fleets.trained(
            model, self.recipe, (self.pixels, self.classes), self.keep, model={**changes, "num_classes": 10},
            normalise=data.NORMALISE["cifar10"], at=at, seed=self.seed, defences=defences, device=self.device,
        )  # fmt: skip

    def membership(self, fleet: Fleet, at: int | None = None) -> tuple[float, float, float]:
        """Task accuracy, AUC of the loss, and accuracy of the other's threshold, in percent: the mean over both victims."""
        seen, rows = [], []
        for m in (0, 1):
            places = torch.cat([self.keep[m].nonzero()[:, 0], self.outside[m]])
            seen.append((signals.loss(fleet.logits(m, at), self.classes)[0][places], self.keep[m][places]))
        for m in (0, 1):
            guess = metrics.roc.accuracy(*seen[m], metrics.roc.best_threshold(*seen[1 - m]))
            rows.append((fleet.right(m, self.outside[m], at), metrics.roc.auc(*seen[m]), guess))
        task, auc, accuracy = 100 * np.mean(rows, axis=0)
        return float(task), float(auc), float(accuracy)


@experiment("defences.one_update")
@Size("smoke", 2, "a small ViT, searches of 3 steps", ways=["even", "leaky"], attack="annealed", steps=3, **SOME)
@Size("class", 8, "a small ViT (1.2 M parameters), L-BFGS of 2 outer steps", first=20,
    ways=WAYS, attack="quasi_newton", steps=2, **SOME)  # fmt: skip
@Size("night", 20, "a small ViT (1.2 M parameters), L-BFGS of 4 outer steps", levels=[0.001, 0.01, 0.1, 1.0], ways=WAYS,
    strengths=[0.1, 1.0], rows=[*ROWS], embeddings=[*EMBEDDINGS], attack="quasi_newton", steps=4, **SMALL)  # fmt: skip
def one_update(
    repeat: int, levels: list[float], strengths: list[float], ways: list[str], rows: list[str], embeddings: list[str],
    device: str = "cpu", **of: Any,
) -> Values:  # fmt: skip
    """The update of one photograph behind every defence, before attackers who know it and attackers who do not.

    even: noise on all numbers alike, over its size.  budget: ways to spend noise, the best informed attack.  matrix: defences by attacks.
    strongest: the best of a row.  embedding: networks whose position embedding is fixed.  of: network and search, see `Client`.
    """
    client = Client(repeat, **of, device=device)
    yield "psnr[guess]", client.psnr(mean_photograph())
    yield "psnr[grey]", client.psnr(torch.full_like(client.photograph, 0.5))
    for level in levels:
        even, key = spent("even", level), f"even, {strength(level)}"
        yield f"psnr[{key}, algebra_informed_16_rounds]", client.solved(even, informed=True, rounds=16)
        for who, informed in (("naive", False), ("informed", True)):
            yield f"psnr[{key}, algebra_{who}]", client.solved(even, informed)
            yield f"psnr[{key}, search_{who}]", client.psnr(client.search(even, informed))
    measured = perturbation.measured(client.network)
    matrix: dict[str, UpdateDefence | None] = {"none": None, **{name: ROWS[name] for name in rows}}
    for way, level in ((way, level) for way in ways for level in strengths if way in DENSE or level == 1):
        noise = spent(way, level, measured)
        searched = client.psnr(client.search(noise, informed=True))
        yield f"psnr[budget, {strength(level)}, {way}]", max(client.solved(noise, informed=True), searched)
        if level == 1:
            yield f"psnr[budget, search, {way}]", searched
            matrix |= {f"{way}_1": noise} if way in ("even", "leaky", "measured", "attention") else {}
    pictures = [client.photograph, mean_photograph()]
    for name, defence in matrix.items():
        informed = defence is not None and defence.by in KNOWN
        pictures.append(client.search(defence, informed))
        row = {
            "search": client.psnr(client.search(defence)),
            "search_informed": client.psnr(pictures[-1]),
            "algebra": client.solved(defence),
            "algebra_informed": client.solved(defence, informed),
        }
        for column, value in row.items():
            yield f"psnr[matrix, {name}, {column}]", value
        yield f"psnr[strongest, {name}]", max(row.values())
        label = label_recovery.bias_minimum(client.network, replace(client.sent(defence), labels=None))
        yield f"label_accuracy[matrix, {name}]", label_recovery.overlap(label, client.trial.labels)
    for name in embeddings:
        fixed = Client(repeat, **of | dict(changes={**of["changes"], **EMBEDDINGS[name]}), device=device)
        row = {"algebra": fixed.solved(None), "search": fixed.psnr(fixed.search(None))}
        for column, value in {**row, "strongest": max(row.values())}.items():
            yield f"psnr[embedding, {name}, {column}]", value
    yield "picture[photograph_guess_matrix]", tiled([pictures])


@experiment("defences.training_cost", on=Pair)
@Size("smoke", 2, "victims of 48 images, 2 epochs",
    rows=["largest_1_percent", "position_withheld"], members=48, epochs=2, stops=[1], **LITTLE)  # fmt: skip
@Size("class", 8, "small ViTs on 200 images, 6 epochs, which have learnt little", first=20,
    rows=["largest_1_percent"], members=200, epochs=6, stops=[1, 2, 3, 4], **LITTLE)  # fmt: skip
@Size("night", 20, "small ViTs on 500 images, 15 epochs",
    members=500, epochs=15, stops=[1, 2, 3, 4, 6, 8, 11], private=True, **ALL)  # fmt: skip
def training_cost(
    pair: Pair, model: str, changes: Settings, stops: list[int], rows: list[str], ways: list[str], embeddings: list[str],
    private: bool,
) -> Values:  # fmt: skip
    """What each defence costs a training whose every step takes the defended gradient, and what it takes from membership inference."""
    undefended = pair.trained(model, changes, at=stops)
    path = [(10.0, 50.0)]  # task accuracy and AUC, from a coin on
    for epoch, name in (*((epoch, f"stopped_{epoch}") for epoch in stops), (None, "none")):
        task, auc, accuracy = pair.membership(undefended, epoch)
        yield f"task_acc[{name}]", task
        yield f"auc[{name}]", auc
        path.append((task, auc))
    yield "attack_acc[none]", accuracy
    measured = perturbation.measured(models.build(model, seed=pair.seed, **changes))
    defences: dict[str, Defence] = {name: ROWS[name] for name in rows}
    defences |= {f"{way}_1": spent(way, 1.0, measured) for way in ways}
    defences |= {"dp_sgd": dp_sgd.DP(epsilon=50.0, delta=1e-3)} if private else {}
    fleets = {name: partial(pair.trained, model, changes, [defence]) for name, defence in defences.items()}
    fleets |= {name: partial(pair.trained, model, {**changes, **EMBEDDINGS[name]}) for name in embeddings}
    for name, train in fleets.items():
        task, auc, accuracy = pair.membership(train())
        yield f"task_acc[{name}]", task
        yield f"auc[{name}]", auc
        yield f"attack_acc[{name}]", accuracy
        yield f"auc_if_stopped[{name}]", private_people.if_stopped(task, path)


@experiment("defences.design_swaps", on=Pair)
@Size("smoke", 2, "a quarter of the width, searches of 2 steps",
    changes=QUARTER, which=["as_it_is", "all_three"], searches=dict(annealed=2), members=32, epochs=2)  # fmt: skip
@Size("class", 8, "a quarter of step 12's width and one block a stage, 200 images, 6 epochs, 40 steps", first=20,
    changes=QUARTER, which=["as_it_is", "three_relus", "all_three"], searches=dict(annealed=40, quasi_newton=1),
    members=200, epochs=6)  # fmt: skip
@Size("night", 20, "a quarter of step 12's width and one block a stage, 1,000 images, 40 epochs, 400 steps",
    changes=QUARTER, which=[*SWAPS], searches=dict(annealed=400, quasi_newton=4), members=1_000, epochs=40)  # fmt: skip
def design_swaps(pair: Pair, changes: Settings, which: list[str], searches: Mapping[str, int]) -> Values:
    """Step 12 of lab 09's morph, designs that leak swapped for older ones: the better of two searches, membership, cost."""
    strip = list[Tensor]()
    for name in which:
        own = {**changes, **SWAPS[name]}
        clients = [Client(pair.repeat, "morph_12", own, *search, pair.device) for search in searches.items()]
        psnr = clients[0].psnr
        if not strip:
            strip.append(clients[0].photograph)
            yield "psnr[swap, mean_photograph]", psnr(mean_photograph())
        strip.append(max((client.search(None) for client in clients), key=psnr))
        yield f"psnr[swap, {name}]", psnr(strip[-1])
        task, auc, _ = pair.membership(pair.trained("morph_12", own))
        yield f"task_acc[swap, {name}]", task
        yield f"auc[swap, {name}]", auc
    yield "picture[photograph_then_swaps]", tiled([strip])
