"""One small trainer for every victim and shadow model: recipes as data, checkpoints that resume bit for bit.

Every epoch draws from generators seeded by (seed, epoch) alone. So a checkpoint at the end of an epoch needs no generator's state,
what is measured between two epochs cannot change the next one, and an interrupted training that goes on ends as the uninterrupted
one does: to the bit on a CPU with the same number of threads, and up to rounding on a GPU, where the backward passes of attention and
of pooling may add in another order each time.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from torch import Tensor, nn

from privlab import data, models
from privlab.compute import Run
from privlab.compute.store import digest, environment, joined, key, parted
from privlab.models.forward import RightGradients, evaluating, preprocessing
from privlab.training import batches, defence
from privlab.training.batches import Labelled, subset
from privlab.training.defence import Defence, Penalty
from privlab.training.recipes import Recipe, learning_rate, settled, steps

__all__ = ["evaluate", "fit", "logits", "subset", "victim"]

SAMPLE = 200  # images that tell a victim's accuracy
FORMAT = 1  # raise it when the same recipe begins to give other weights: stored victims are then trained anew


def fit(
    model: nn.Module, images: Labelled, recipe: Recipe, *, seed: int, defences: Sequence[Defence] = (),
    run: Run | None = None, watch: Callable[[int], object] | None = None,
) -> list[float]:  # fmt: skip
    """Train a model in place on these images, all of them and no others, and leave it in eval mode.

    Returns the objective of each epoch: the mean of the loss that was minimised, over batches as they were mixed, smoothed and augmented.
    images: a set, or a pair of pixels (n, channels, height, width), bytes or floats in [0, 1], and labels (n,), see `subset`.
    recipe: one of RECIPES, say.  seed: decides the order, the augmentation and the dropout; not the model's first weights.
    defences: of `privlab.defences`, such as (architecture.rolss(), regularisers.BiDO(0.1, 2)); the model has their form afterwards. When
        its form changes on the way, the optimiser keeps what it knows of the parameters that are left.
    run: where to keep a checkpoint each epoch, under a config of all that the training depends on. Call again with a fresh model and the
        same arguments to go on after an interruption; a complete run is loaded and nothing is trained.
    watch: called with the number of epochs done after each of them, before the epoch is kept. It may draw and measure as it likes.
    Each epoch sees each image once; a last batch of one image joins the batch before it, since BatchNorm cannot take it. The caller's
    random states stay as they are.
    Raises ValueError for labels that the model has no class for, a batch larger than the set, defences that do not fit the training or
    each other; FloatingPointError when the loss or a weight is no longer a number.
    """
    train, device = batches.pair(images), next(model.parameters()).device
    recipe, n, classes = settled(recipe, device, defences), len(train[1]), logits(model, train[0][:1]).shape[1]
    if recipe.batch_size > n:
        raise ValueError(f"batch_size={recipe.batch_size} is more than the {n} images; give {n} or less")
    if (low := int(train[1].min())) < 0 or int(train[1].max()) >= classes:
        raise ValueError(f"labels go from {low} to {train[1].max()}; this model knows the classes 0 to {classes - 1}")
    defence.check(defences, model, recipe, n)
    objective, states = _kept(run) if run else ([], {})
    begun = len(objective)
    # the form first: what a run holds was written behind its last epoch
    defence.shaped(model, defences, max(0, begun - 1), seed)
    if recipe.precision == "bf16":
        model.to(memory_format=torch.channels_last)
    optimiser, mix = _optimiser(recipe, model), None
    if recipe.mixup or recipe.cutmix:
        mix = Mixup(recipe.mixup, recipe.cutmix, label_smoothing=recipe.label_smoothing, num_classes=classes)
    if states:
        model.load_state_dict(states["model"])
        remember(optimiser, states.get("optimiser", {}))
    train = train[0].to(device), train[1].to(device)
    with _own_generators(device):
        try:
            for epoch in range(begun, recipe.epochs):
                if defence.shaped(model, defences, epoch, seed):
                    follow(optimiser, model)
                objective.append(_epoch(model, train, recipe, optimiser, mix, epoch, seed, defences))
                if not math.isfinite(objective[-1]) or not all(p.isfinite().all() for p in model.parameters()):
                    what = f"the loss is {objective[-1]}, or a weight is not finite, in epoch {epoch + 1} of {recipe.epochs}"
                    raise FloatingPointError(f"{what}: training diverged; try lr={recipe.lr / 10:g}, or clip_norm=1.0")
                if watch:
                    watch(epoch + 1)
                if run and epoch + 1 < recipe.epochs:
                    past = {"objective": torch.tensor(objective, dtype=torch.float64)}
                    state = {"model": model.state_dict(), "optimiser": memory(optimiser), "history": past}
                    run.save("checkpoint", joined(state))  # in one file, since files are whole one by one
        finally:
            model.eval()
    if run and not run.complete:
        run.save("weights", model.state_dict())
        run.note("history", {"objective": objective})
        if spent := {name: what for each in defences for name, what in each.record(recipe, n).items()}:
            run.note("defences", spent)
        run.save("checkpoint", {})  # no longer needed, and three times the size of the weights
        run.finish()
    return objective


def victim(
    name: str, recipe: Recipe, *, images: Tensor, test: int, seed: int = 0, model: Mapping[str, Any] = {},
    device: str | torch.device = "cpu",
) -> tuple[nn.Module, float]:  # fmt: skip
    """A model of the zoo trained on CIFAR-10, in eval mode, and its test accuracy: trained once, kept in the store, and then reused.

    name, model: what `zoo.build` takes, and the changes, such as dict(embed_dim=24).  seed: of the first weights and of `fit`.
    images: the members, as places in the train split.  recipe: see `fit`.
    test: the accuracy is that on `SAMPLE`, drawn by the seed, of so many first images of the test split.
    The key holds all that the result depends on: the recipe, the seed, the pixels and labels themselves, the structure of the
    model, versions of torch and timm, the kind of device. It leaves out the number of threads, which moves the last bits.
    """
    recipe, source = settled(recipe, device), data.load("cifar10")
    changes = {"num_classes": len(source.classes), **model}
    built = models.build(name, seed=seed, **changes).to(device)
    built.normalise = source.normalise
    members, held_out = subset(source, images), subset(data.load("cifar10", "test"), range(test))
    shapes = {n: tuple(t.shape) for n, t in built.state_dict().items()}
    # sets stand by their contents, not by what they are called
    sets = {part: [len(some[1]), digest(*some)] for part, some in (("images", members), ("test", held_out))}
    settings = {
        "model": {"name": name, **changes, "structure": key({"": f"{built}{shapes}{built.normalise}"})},
        "training": {"format": FORMAT, "recipe": recipe.settings(), "seed": seed, "sample": SAMPLE, **sets},
    }
    fit(built, members, recipe, seed=seed, run=Run("victim", {**settings, **environment(FORMAT, device)}))
    drawn = torch.randperm(test, generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    return built, evaluate(built, subset(held_out, drawn))


@torch.no_grad()
def logits(model: nn.Module, images: Labelled | Tensor, batch_size: int = 500) -> Tensor:
    """What the model says of each image, (n, classes), on the model's device: in eval mode and without gradients; its mode is kept.

    images: a set, a pair as in `fit`, or pixels alone.
    """
    like, normalise = next(model.parameters()), preprocessing(model)
    parts = (batches.unit(x.to(like.device), like.dtype) for x in batches.pixels(images).split(batch_size))
    with evaluating(model):
        return torch.cat([model(normalise(x)) for x in parts])


def evaluate(model: nn.Module, images: Labelled) -> float:
    """The share of these images that a model gets right, 0 to 1, in eval mode; its mode is kept."""
    pixels, labels = batches.pair(images)
    return (logits(model, pixels).argmax(1).cpu() == labels.cpu()).double().mean().item()


# -- an epoch ----------------------------------------------------------------------------------------------------------


def _epoch(
    model: nn.Module, train: tuple[Tensor, Tensor], recipe: Recipe, optimiser: torch.optim.Optimizer, mix: Mixup | None,
    epoch: int, seed: int, defences: Sequence[Defence],
) -> float:  # fmt: skip
    """One pass over the images; returns the mean of the loss that it minimised."""
    pixels, labels = train
    n, dtype, generator = len(labels), next(model.parameters()).dtype, _seed(pixels.device, seed, epoch)
    private = next((each for each in defences if each.own_steps), None)
    order = private.order(recipe, n, generator) if private else batches.order(n, recipe, generator)
    first, count, losses = epoch * steps(recipe, n), sum(map(len, order)), []
    disturbances = [change for each in defences if (change := each.disturb(model))]
    model.train()
    with defence.listening(model, defences) as penalty:
        for step, rows in enumerate(order, start=first):
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(recipe, step, n)
            rows = rows.to(pixels.device)
            x = batches.augmented(pixels[rows], recipe.augment, generator) if len(rows) else pixels[rows]
            x = batches.unit(x, dtype)  # (batch, channels, height, width)
            optimiser.zero_grad()
            if private:
                loss = private.gradients(model, preprocessing(model)(x), labels[rows], recipe, n)
            else:
                with RightGradients():
                    loss = _loss(model, x, labels[rows], recipe, mix, penalty)
                loss.backward()
            for disturb in disturbances:
                disturb()
            if recipe.clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
            optimiser.step()
            losses.append(loss.detach() * (len(rows) / max(1, count)))
    return torch.stack(losses).cpu().double().sum().item()


def _loss(
    model: nn.Module, x: Tensor, labels: Tensor, recipe: Recipe, mix: Mixup | None, penalty: Penalty | None
) -> Tensor:
    """What a step minimises on a batch (batch, channels, height, width) in [0, 1]."""
    if mix is not None:
        x, labels = batches.mixed(mix, x, labels)  # labels: (batch, classes)
    x = preprocessing(model)(x)
    if recipe.precision == "full":
        answers = model(x)  # (batch, classes)
    else:
        with torch.autocast(x.device.type, torch.bfloat16):
            answers = model(x.contiguous(memory_format=torch.channels_last)).to(x.dtype)
    if mix is not None:
        return SoftTargetCrossEntropy()(answers, labels)
    loss = F.cross_entropy(answers, labels, label_smoothing=recipe.label_smoothing)
    return loss if penalty is None else loss + penalty(x, labels)


def _seed(device: torch.device, seed: int, epoch: int) -> torch.Generator:
    """Seed the global generators, which dropout (torch) and mixup (NumPy) draw from, and return one for order and augmentation."""
    words = np.random.SeedSequence([seed, epoch]).generate_state(3, np.uint64)
    np.random.seed(words[:1].view(np.uint32))
    batches.seed_dropout(device, int(words[1]))
    return torch.Generator().manual_seed(int(words[2]))


@contextlib.contextmanager
def _own_generators(device: torch.device) -> Iterator[None]:
    """Leave the caller's random states as they were, and let cuDNN repeat itself meanwhile."""
    numpy_state, cudnn = np.random.get_state(), torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        cudnn.deterministic, cudnn.benchmark = True, False
        try:
            yield
        finally:
            cudnn.deterministic, cudnn.benchmark = before
            np.random.set_state(numpy_state)


# -- optimisers and runs -----------------------------------------------------------------------------------------------


def _optimiser(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    """The recipe's, over all parameters of the model that learn."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=recipe.lr, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    adam = torch.optim.Adam if recipe.optimiser == "adam" else torch.optim.AdamW
    return adam(parameters, lr=recipe.lr, betas=recipe.betas, weight_decay=recipe.weight_decay)


def memory(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser remembers of its steps so far, as tensors in one dict; `remember` gives it back."""
    state = optimiser.state_dict()["state"]  # of SGD without momentum it holds None
    return joined({str(i): {k: v for k, v in of.items() if isinstance(v, Tensor)} for i, of in state.items()})


def remember(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give an optimiser of the same parameters what `memory` took down."""
    state = {int(i): of for i, of in parted(tensors).items()}
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def follow(optimiser: torch.optim.Optimizer, model: nn.Module) -> None:
    """Go on with the parameters that a model of another form has; what is known of those that were there stays, new ones begin anew."""
    (group,) = optimiser.param_groups
    group["params"] = [p for p in model.parameters() if p.requires_grad]
    for gone in optimiser.state.keys() - {*group["params"]}:
        del optimiser.state[gone]


def _kept(run: Run) -> tuple[list[float], dict[str, dict[str, Tensor]]]:
    """What a run holds of its training so far: the objective of each epoch, and the states of model and optimiser."""
    if "history" in run.names():
        return run.read("history")["objective"], {"model": run.load("weights")}
    parts = parted(run.load("checkpoint")) if "checkpoint" in run.names() else {}
    return parts["history"]["objective"].tolist() if parts else [], parts
