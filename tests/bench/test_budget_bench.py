"""One budget of noise, spent in several ways: what is left to the strongest attacker who knows it, and what each costs.

Run by `make bench`. Writes rows and runs to runs/bench/bench_budget.json. Searches and victims are kept in the store, so an interrupted
bench goes on. No verdict is asserted here. BENCH_DRAWS makes it shorter.
"""

import json
import os
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch

from privlab import data, metrics, models, training
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import closed_form
from privlab.attacks.membership_inference import signals
from privlab.compute.atomic import write_atomic
from privlab.compute.machine import Machine
from privlab.defences import noise_budget, updates
from privlab.leak import observe
from privlab.metrics import roc
from privlab.training import batches, shadow_models

pytestmark = pytest.mark.bench

DRAWS = int(os.environ.get("BENCH_DRAWS", 8))  # victims, an even number: each pair is each other's shadow model
FIRST = 10  # lab 13 shows draws 0 to 2, and nothing here was chosen on these
OUT = Path("runs/bench/bench_budget.json")
SHAPE = dict(embed_dim=224, depth=2, position_std=1.0)  # lab 13's victim at laptop, and its training
RECIPE = training.Recipe(epochs=8, batch_size=32, lr=1e-3, warmup_epochs=1, augment="flip")
MEMBERS, STEPS, STOPS, COST = 400, 4, (2, 3, 4, 6), 3.0
READ = ("pos_embed", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight")
STRENGTHS = {
    "even": (0.1, 0.3, 1.0),
    "own": (0.3, 1.0, 3.0),
    "measured": (0.1, 0.3, 1.0),
    "leaky": (1.0,),
    "stem": (1.0,),
    "attention": (1.0,),
    "norm": (1.0,),
    "activation": (1.0,),
}
HIDING = ("fixed, rank 4", 0.0)  # no noise at all, but another design
LOW_RANK = dict(position="low_rank", position_rank=4)


def defence(way, level):
    shares = {"even": {"all": 1.0}, "leaky": dict.fromkeys(READ, 1 / 3), "measured": noise_budget.measured(victim(0))}
    if way == "own":
        return updates.sent("gaussian", relative=level)
    return updates.sent("spread", shares=shares.get(way, {way: 1.0}), relative=level)


def victim(k, **changes):
    return models.build("vit_cifar", seed=FIRST + k, **SHAPE, **changes)


def found(sent, photos, **changes):
    """dB of the strongest of three informed attacks on each draw's own message: two closed forms and a search."""
    cases = [
        gradient_inversion.Case(
            "vit_cifar", (FIRST + k,), "quasi_newton", dict(steps=STEPS), {**SHAPE, **changes}, victim=FIRST + k, seed=FIRST + k,
            split="test", sent=sent.settings() if sent else {}, informed=bool(sent),
        )
        for k in range(DRAWS)
    ]  # fmt: skip
    best = []
    for k, result in enumerate(gradient_inversion.run_cases(cases, jobs=1, progress=False)):
        model, (photo, label) = victim(k, **changes), photos.one(FIRST + k)
        leak = observe(model, photo, label)
        leak = sent(leak, model, FIRST + k) if sent else leak
        known = sent.deviations(leak, model) if sent else None
        forms = [closed_form.subspace] if changes else [closed_form.patch_embedding, closed_form.subspace]
        solved = [form(model, leak, known).clamped for form in forms]  # a fixed embedding sends no gradient of its own
        best.append(max(metrics.psnr(image, photo).item() for image in (result.images, *solved)))
    return np.array(best)


def told(fleet, parts, m, at=None):
    """Task accuracy and AUC of the loss of model m."""
    outside = parts[m // 2].victim_test if m % 2 == 0 else parts[m // 2].shadow_test
    places = torch.cat([fleet.keep[m].nonzero()[:, 0], outside])
    scores = signals.loss(fleet.logits(m, at), fleet.labels)[0]
    return fleet.right(m, outside, at), roc.auc(scores[places], fleet.keep[m][places])


def spread(values):
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else "not measured"


def row(what, values, note, ends=None):
    low, high = ends if ends is not None else (values.min(), values.max())
    numbers = dict(median=float(np.median(values)), low=float(low), high=float(high), n=DRAWS)
    return dict(what=what, **numbers, unit="dB above the guess", promise=None, holds=None, note=note)


def at_cost(costs, values, cost):
    """The value where the cost is reached, on straight lines between sizes of noise; nan where it is not among them."""
    above = np.flatnonzero(costs >= cost)
    if len(above) == 0 or above[0] == 0:
        return np.nan
    i = above[0]
    return float(np.interp(cost, costs[i - 1 : i + 1], values[i - 1 : i + 1]))


def test_ways_to_spend():
    photos = data.load("cifar10", "test")
    pixels, classes = batches.subset(photos, range(4 * MEMBERS))
    parts = [data.four_way(classes, seed=FIRST + k) for k in range(DRAWS // 2)]
    keep = torch.zeros(DRAWS, len(classes), dtype=torch.bool)
    for k, part in enumerate(parts):
        keep[2 * k, part.victim_train], keep[2 * k + 1, part.shadow_train] = True, True
    kinds = {("none", 0.0): None, HIDING: None} | {
        (way, s): defence(way, s) for way, several in STRENGTHS.items() for s in several
    }
    fleets = {
        kind: shadow_models.make(
            "vit_cifar", RECIPE, (pixels, classes), keep, normalise=photos.normalise, seed=FIRST, defences=(sent,) if sent else (),
            model={**SHAPE, "num_classes": 10, **(LOW_RANK if kind == HIDING else {})}, at=STOPS if kind == ("none", 0.0) else (),
        )
        for kind, sent in kinds.items()
    }  # fmt: skip
    shadow_models.train_all(list(fleets.values()), jobs=1)
    guess = torch.nn.functional.interpolate(photos.pixels[5_000:6_000].float().mean(0, keepdim=True) / 255, size=32)
    guessed = np.array([metrics.psnr(guess, photos.one(FIRST + k)[0]).item() for k in range(DRAWS)])

    path = {n: 100 * np.array([told(fleets["none", 0.0], parts, m, n) for m in range(DRAWS)]) for n in (*STOPS, None)}
    runs = []
    for (way, strength), fleet in fleets.items():
        above = found(kinds[way, strength], photos, **(LOW_RANK if (way, strength) == HIDING else {})) - guessed
        for m in range(DRAWS):
            acc, auc = (100 * value for value in told(fleet, parts, m))
            x, y = np.array(sorted(of[m].tolist() for of in path.values())).T
            ahead = float(np.interp(acc, x, y, left=np.nan) - auc)
            cost = path[None][m, 0] - acc
            told_of = dict(acc=acc, auc=auc, cost=cost, above_guess=above[m], less_than_if_stopped=ahead)
            runs.append(dict(way=way, strength=strength, draw=FIRST + m, **told_of))
            print(runs[-1], flush=True)

    def column(kind, name):
        return np.array([run[name] for run in runs if (run["way"], run["strength"]) == kind])

    rows = []
    for kind in fleets:
        above, cost, auc, ahead = (
            column(kind, name) for name in ("above_guess", "cost", "auc", "less_than_if_stopped")
        )
        note = f"costs {spread(cost)} points of {path[None][:, 0].mean():.1f}; AUC {spread(auc)}"
        if kind[0] != "none":
            note += f", {spread(ahead[np.isfinite(ahead)])} less than if stopped at its accuracy (n={np.isfinite(ahead).sum()})"
        rows.append(row(f"{kind[0]}, noise {kind[1]:g}" if kind[1] else kind[0], above, note))
    draw = np.random.default_rng(0)
    for way in ("even", "own", "measured"):
        kinds_of = [(way, strength) for strength in STRENGTHS[way]]
        costs, above = (np.array([column(kind, name) for kind in kinds_of]) for name in ("cost", "above_guess"))
        again = [np.arange(DRAWS), *draw.integers(0, DRAWS, (2_000, DRAWS))]  # the draws as they are, then drawn again
        each = [at_cost(np.maximum.accumulate(costs[:, s].mean(1)), above[:, s].mean(1), COST) for s in again]
        note = (
            "the range is a 95% interval, draws drawn again; no number where no two sizes of noise have it between them"
        )
        ends = np.nanquantile(each[1:], [0.025, 0.975]) if np.isfinite(each).any() else (np.nan, np.nan)
        rows.append(row(f"{way}, where it costs {COST:g} points", np.array([each[0]]), note, ends))
    plain = [
        [{k: None if isinstance(v, float) and np.isnan(v) else v for k, v in r.items()} for r in rs]
        for rs in (rows, runs)
    ]
    result = dict(rows=plain[0], runs=plain[1], date=date.today().isoformat(), machine=asdict(Machine.here("cpu")))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(OUT, json.dumps(result, indent=1).encode())
