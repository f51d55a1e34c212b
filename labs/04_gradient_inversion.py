# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 04 · Gradient inversion: a search for the picture behind a gradient
#
# A ResNet has no position embedding to solve for, and neither has a
# Swin. There the server has to *search*: it makes up an image, computes the gradient that this image would have sent, and moves the image until
# the two gradients look alike. You run this search on four architectures, and see two of them keep their image to themselves.
#
# After it you can
# - read an attack as a sum of terms, and say what each of its parts is for;
# - run it on a ResNet, a Swin, a ViT and a ConvNeXt, and say by four metrics which of them leaks;
# - name three things beside the architecture that decide the outcome: the scale of the position embedding, the state of the victim, and the
#   mode of its BatchNorm;
# - say what a failed attack proves, and what it does not.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 1.0 | 1.6 GB |
# | class | 14 | 2.3 GB |
# | gpu | 10 | 8 GB |
# | paper | 10 | 12 GB |
#
# (Measured on two CPU cores; the last two rows are estimates, for one part. At `gpu` and `paper` every search is kept: the lab stops when a part's time is
# over, and run again it goes on from there.)

# %% [markdown]
# *You need* lab 00, and what an optimiser does. *Words that are new here*: **gradient matching**, **total variation**, **box**,
# **restart**, **BatchNorm**, **Jacobian**, **Gauss-Newton**, **damping**, **conjugate gradients**.

# %%
import itertools
import statistics
import time
from dataclasses import replace
from functools import partial
from inspect import getsource

import pandas as pd
import torch
from torch import nn

from privlab import data, ledger, metrics, models, training
from privlab.attacks import gradient_inversion
from privlab.leak import observe
from privlab.notebook import checks, flipbook, player, plots, widgets

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"
victim = ""  # beside the profile's networks, another model of timm: "mobilenetv3_small_050"
part_minutes = 9  # at gpu and paper: how long one part may take

# %%
page = ledger.Page("04", profile=profile, seed=seed, device=device)
small = {"ResNet": "resnet_cifar", "Swin": "swin_cifar", "ViT": "vit_cifar", "ConvNeXt": "convnext_cifar"}
full = {
    "ResNet": "resnet50_cifar", "Swin": "swin_tiny_cifar", "ConvNeXt": "convnext_tiny_cifar", "ViT": "vit_cifar",
    "ResNet-101": "resnet101_cifar", "Swin-S": "swin_small_cifar",
}  # fmt: skip
# victims, images, seeds, the attack; then for the side experiments: repeats, steps, training images, epochs
family, images, seeds, attack, side_repeats, side_steps, train_images, epochs = {
    "smoke": (small, 1, 2, gradient_inversion.annealed(32), 1, 32, 128, 2),
    "class": (small, 4, 2, gradient_inversion.annealed(200), 4, 200, 800, 3),
    "gpu": (full, 4, 1, gradient_inversion.inverting_gradients(3_000), 4, 300, 10_000, 15),
    "paper": (full, 20, 1, gradient_inversion.inverting_gradients(3_000), 4, 600, 50_000, 50),
}[profile]
smaller = {"ResNet": dict(channels=(16, 32, 64, 128)), "ViT": dict(depth=2)} if profile == "smoke" else {}
if victim:  # recorded under its own name: no claim is about it
    family, smaller = family | {victim: victim}, smaller | {victim: models.sized(victim, 32)}
fresh = dict(mode="eval", victim="fresh")

# %% [markdown]
# ## The attack in one equation
#
# The client holds image $x$ with label $y$ and sends $g^\star = \nabla_\theta\, \ell(f_\theta(x), y)$. The server knows the model $f_\theta$, so it can compute
# the gradient of *any* image. **Gradient matching** looks for the image whose gradient points the same way:
#
# $$\hat x = \arg\min_{x \in [0,1]} \; \underbrace{1 - \cos\big(\nabla_\theta\, \ell(f_\theta(x), y),\; g^\star\big)}_{\text{how different are the gradients}} \; + \; \alpha \underbrace{\mathrm{TV}(x)}_{\text{how rough is the image}}$$

# %% [markdown]
# **Total variation** (TV) is the mean difference between neighbouring pixels, the attacker's only assumption about what a photograph is.
# Here are the two terms, as the package has them:

# %%
print(
    getsource(gradient_inversion.objectives.cosine_distance),
    getsource(gradient_inversion.priors.total_variation),
    sep="\n\n",
)

# %% [markdown]
# To step downhill, the server needs the slope of a *distance between gradients*: a derivative of a derivative. So every operation in the model
# must be differentiable twice. PyTorch's fused *attention*, the layer in which tokens look at each other, is not; `privlab` has it computed step by step.
#
# An attack is a tuple of such terms and a handful of numbers. Print one, and you read the method section of its paper:

# %%
for preset in (
    gradient_inversion.dlg(),
    gradient_inversion.idlg(),
    gradient_inversion.inverting_gradients(),
    gradient_inversion.annealed(),
):
    print(preset, end="\n\n")

# %% [markdown]
# - **DLG** (Zhu et al. 2019) compares gradients by squared distance, and searches for the label along with the image.
# - **iDLG** (Zhao et al. 2020) reads the label from the last layer first.
# - **Inverting Gradients** (Geiping et al. 2020) is the equation above. Zhang et al. use it for their Table 5: 3,000 steps.
#   Its steps go along the *sign* of the slope (exercise 2), and pixels that leave [0, 1] are put back to the edge: the **box**.
# - **annealed** is ours, for few steps: the same two terms, but smoothness starts strong and fades. It attacks every victim at `smoke` and `laptop`;
#   `gpu` and `paper` use the paper's own.

# %% [markdown]
# DLG's optimiser, *L-BFGS*, guesses the curvature from the slopes it has seen, and takes long steps by it; from some starts it flies off. So one starts
# again from other noise, each time a **restart**, and keeps what has the lowest loss: the attacker can see its own loss, never the error.

# %% [markdown]
# ## The victims
#
# All are timm's own classes, at `smoke` and `laptop` in small sizes, with fresh weights and in `eval` mode; both will be
# varied below.

# %%
photos = data.load("cifar10_samples")


def untrained(name, number=0, train_mode=False, **more):
    """A fresh victim of this family; `number` is that of its weights."""
    built = models.build(family[name], num_classes=10, seed=seed + number, **smaller.get(name, {}), **more)
    return built.train(train_mode).to(page.device)


for name in family:
    built = untrained(name)
    print(f"{name:>10}: {sum(p.numel() for p in built.parameters()) / 1e6:5.1f} M parameters, {type(built).__module__}")

# %% [markdown]
# ### Before you go on: predict
#
# The same attack looks for the same photograph behind each of them, with the same number of steps. **SSIM** compares the structure of
# two pictures: 0 is nothing in common, 1 the same. By how much does the Swin leak more than the ResNet, or less?

# %%
guess = widgets.predict("SSIM of the Swin less that of the ResNet:", low=-1, high=1)
guess

# %% [markdown]
# ## Watch one search
#
# Left the search, right the photograph that only you see. Press *Play*, *Pause* when something happens, and *Step* through it.

# %%
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
swin = untrained("Swin")
leak = observe(swin, photo, label)
player.watch(lambda: attack.search(swin, leak, seed=seed), truth=photo)

# %% [markdown]
# ## The same search on all of them
#
# One search is one call. At `gpu` and `paper` it is kept in the run store as it goes, so that a lab of hours runs in parts of minutes.


# %%
def invert(build, image, number, attack=attack, source=photos, size=None, **about):
    """One search for one photograph in the gradient of the victim that `build` makes; `about` says which victim that is."""
    about |= dict(set=source.name, image=image, size=size, number=number)
    store = gradient_inversion.kept_run(attack, seed, page.device, **about) if profile in ("gpu", "paper") else None

    def search(**keep):
        model = build().to(page.device)
        leak = observe(model, *source.one(image, size=size))
        return attack.run(model, leak, seed=seed + number, snapshots=12, progress=False, **keep)

    return gradient_inversion.search_once(store, deadline, search)


# %%
deadline = time.monotonic() + 60 * part_minutes
found = {}  # (family, image, number) -> result
for image, number in itertools.product(range(images), range(seeds)):
    for name in family:
        about = dict(victim=family[name], changes=smaller.get(name, {}))
        found[name, image, number] = invert(partial(untrained, name, number), image, number, **about)
        print(f"{name}, photograph {image}, weights {number}: {found[name, image, number]}")


# %%
def psnr_of(results):
    """One PSNR for each search of {(image, number): result}."""
    return torch.cat([metrics.psnr(r.images, photos.one(image)[0]) for (image, _), r in results.items()])


def of(name):
    """The searches of one family: (image, number) -> result."""
    return {(image, number): r for (n, image, number), r in found.items() if n == name}


# %% [markdown]
# What each of them had on its way, for the first photograph (Zhang et al., Figure 5b):

# %%
first = {name: found[name, 0, 0] for name in family}
steps = [snapshot.step for snapshot in first["Swin"].snapshots]


def caption(name, k):
    shown = first[name].snapshots[k].images
    return f"{metrics.psnr(shown, photo).item():.0f} dB, SSIM {metrics.ssim(shown, photo).item():.2f}"


plots.images(
    {name: torch.cat([s.images for s in result.snapshots[::3]]) for name, result in first.items()},
    captions={name: [caption(name, k) for k in range(0, len(steps), 3)] for name in first},
    alt="A row of reconstructions for each architecture, from noise on the left to the end of the search on the right: "
    + "; ".join(f"{name} ends at {caption(name, -1)}" for name in first),
)

# %% [markdown]
# The same as a flipbook, which works without Python, and as a control.

# %%
flipbook.show(
    [
        plots.side_by_side(
            *(result.snapshots[k].images for result in first.values()),
            titles=[f"{name}\n{caption(name, k)}" for name in first],
            alt=f"After {step} steps: " + "; ".join(f"{name} {caption(name, k)}" for name in first),
        )
        for k, step in enumerate(steps)
    ],
    captions=[f"step {step}" for step in steps],
    label="optimisation step",
)


# %%
def look(architecture, step):
    k = steps.index(step)
    said = f"{architecture}, step {step}: {caption(architecture, k)}"
    return plots.side_by_side(
        photo,
        first[architecture].snapshots[k].images,
        titles=["the photograph", said],
        alt=f"The photograph, and what the search has of it: {said}.",
    )


widgets.explore(look, start={"step": steps[-1]}, architecture=tuple(first), step=tuple(steps))

# %%
swin_ssim, resnet_ssim = (metrics.ssim(first[name].images, photo).item() for name in ("Swin", "ResNet"))
guess.against(swin_ssim - resnet_ssim)

# %% [markdown]
# ## Measure it properly
#
# Each architecture is attacked several times, on other photographs and, at `smoke` and `laptop`, with other weights, and scored four ways: PSNR and MSE count pixels, SSIM compares structure, *LPIPS* asks a trained network how different the two look.


# %%
def scores(results):
    """All four metrics for {(image, number): result}, each a tensor of one value a search."""
    images = torch.cat([r.images for r in results.values()])
    truth = torch.cat([photos.one(image)[0] for image, _ in results])
    normalised = photos.normalise(images) - photos.normalise(truth)
    return {
        "psnr": metrics.psnr(images, truth), "ssim": metrics.ssim(images, truth), "lpips": metrics.lpips(images, truth),
        "mse": normalised.square().mean((1, 2, 3)),  # of normalised images, as the paper must have it
    }  # fmt: skip


measured = {name: scores(of(name)) for name in family}
for name, values in measured.items():
    print(f"{name:>10}:", ", ".join(f"{metric} {metrics.summary(each)}" for metric, each in values.items()))

# %%
printed = pd.concat([ledger.papers.table("zhang2024_table5"), ledger.papers.table("zhang2024_table7")]).query(
    "metric == 'psnr'"
)
printed = printed.drop_duplicates("model").set_index("model")["mean"].astype(float)
networks = {
    "ResNet": "ResNet-50",
    "Swin": "Swin-T",
    "ConvNeXt": "ConvNeXt-T",
    "ResNet-101": "ResNet-101",
    "Swin-S": "Swin-S",
}
plots.dots(
    {name: values["psnr"] for name, values in measured.items()},
    xlabel="PSNR in dB (higher is a better attack)",
    published={name: printed[model] for name, model in networks.items() if name in measured},
    alt="PSNR of every search, a row for each architecture, with the paper's numbers for its full-size models as diamonds: "
    + ", ".join(f"{name} {values['psnr'].mean().item():.1f} dB" for name, values in measured.items()),
)

# %% [markdown]
# Trust your eyes before any single number. PSNR counts every wrong pixel alike, so a grey smear can score as
# high as a recognisable but noisy picture (at `smoke`, with its few steps, you see just that). SSIM tells them apart.

# %%
key = {name: ledger.key(name) for name in family}
scale_of = {name: 0.02 if name == "ViT" else None for name in family}  # of the position embedding
for name, values in measured.items():
    about = dict(note=f"{family[name]}, {attack.steps} steps", position_std=scale_of[name], **fresh)
    for metric, each in values.items():
        page.record(metric, ["cifar10", key[name]], each, unit="normalised" if metric == "mse" else None, **about)

# %% [markdown]
# All families were attacked on the same photographs from the same starts. How much better is the one than the
# other *on the same photograph*?

# %%
for one, other in (("Swin", "ResNet"), ("ConvNeXt", "ResNet"), ("Swin", "ConvNeXt"), ("Swin-S", "ResNet-101")):
    if one in family:
        gap = psnr_of(of(one)) - psnr_of(of(other))  # both in the order of photographs and weights
        page.record("psnr_difference", ["cifar10", f"{key[one]}_less_{key[other]}"], gap, **fresh)

# %% [markdown]
# The paper's Figure 5b has the Swins recognisable after 500 of 3,000 steps. So we keep what each search had after
# a sixth of its steps.

# %%
for name in family:
    early = psnr_of({at: r.snapshots[2] for at, r in of(name).items()})
    page.record("psnr", ["cifar10", key[name], "a_sixth"], early, **fresh, position_std=scale_of[name])

# %%
average = {
    name: [psnr_of({at: r.snapshots[k] for at, r in of(name).items()}).mean().item() for k in range(len(steps))]
    for name in family
}
plots.lines(
    {name: (steps, dB) for name, dB in average.items()},
    xlabel="optimisation step",
    ylabel="PSNR in dB, mean over the searches",
    xthresholds={"a sixth": attack.steps / 6},
    alt="PSNR against the step of the search: "
    + ", ".join(f"{n} ends at {dB[-1]:.1f} dB" for n, dB in average.items()),
)

# %% [markdown]
# ## What else decides? First, the scale of the position embedding
#
# The ViT did poorly above. Is a ViT a private architecture, then? timm draws its position embedding with a standard deviation of .02; other
# public ViTs for small images, on which the APRIL paper builds, draw it with 1. Nothing else about the two differs.

# %% [markdown]
# Predict: does a fifty times larger *random number, added to every patch*, make the attack easier or harder?

# %%
guess_scale = widgets.predict("standard deviation 1 minus .02:", low=-15, high=15, unit="dB")
guess_scale

# %%
side = gradient_inversion.annealed(side_steps)
pairs = [(k % images, k % seeds) for k in range(side_repeats)]  # (photograph, number of the victim)


def repeats(name, train_mode=False, **more):
    """The side attack on each pair, always in their order; a search that was done above already is not done again."""
    results = {}
    for image, number in pairs:
        if repr(side) == repr(attack) and not more and not train_mode:
            results[image, number] = found[name, image, number]
            continue
        about = dict(victim=family[name], changes=smaller.get(name, {}) | more, train_mode=train_mode)
        build = partial(untrained, name, number, train_mode, **more)
        results[image, number] = invert(build, image, number, side, **about)
    return results


# %%
of_scale = {std: repeats("ViT", **({} if std == 0.02 else {"position_std": std})) for std in (0.02, 1.0)}
scale = {std: psnr_of(results) for std, results in of_scale.items()}
for std, dB in scale.items():
    page.record(
        "psnr", ["vit", f"std_{std:g}".replace(".", "p")], dB, **fresh, position_std=std, note=f"{side_steps} steps"
    )
guess_scale.against((scale[1.0].mean() - scale[0.02].mean()).item())

# %% [markdown]
# With a small embedding it makes next to no difference to the gradient *where* a patch stands, so a search finds what the patches have in common
# long before it finds their places; lab 06 measures that. The closed form of lab 00 does not care. So a failed *search* is not proof of privacy, and a paper's ViT figure means little without this number beside it.

# %% [markdown]
# ## Second, what the victim has learned
#
# All victims so far were fresh. A client of a running federation has a trained one. We train a ResNet and a Swin for a few epochs (they are
# kept in the run store), and attack them as before.

# %%
recipe = replace(training.RECIPES["smoke"], epochs=epochs)
trained = {}
for name in ("ResNet", "Swin"):
    trained[name], history = training.victim(
        family[name], recipe, images=train_images, test=200, sample=200, seed=seed, model=smaller.get(name),
        device=page.device, progress=False,
    )  # fmt: skip
    print(f"{name}: test accuracy {history.test_accuracy[-1]:.2f} after {epochs} epochs")

# %%
state = f"trained {epochs} epochs on {train_images} images"
of_training = dict(recipe=repr(recipe), images=train_images, trainer=training.trainer.FORMAT)
for name in trained:
    about = dict(victim=family[name], changes=smaller.get(name, {}), **of_training)
    results = {pair: invert(partial(trained.get, name), *pair, side, **about) for pair in pairs}
    here, before = psnr_of(results), psnr_of(repeats(name))
    print(f"{name}: fresh {metrics.summary(before)} dB, trained {metrics.summary(here)} dB")
    page.record("psnr", [key[name], "trained"], here, mode="eval", victim=state, note=f"{side_steps} steps")
    note = "photographs on one trained victim, against fresh ones"
    page.record(
        "psnr_difference", [key[name], "fresh_less_trained"], before - here, mode="eval", victim=state, note=note
    )

# %% [markdown]
# ## Third, the mode of BatchNorm
#
# **BatchNorm** subtracts a mean and divides by a standard deviation: in `train` mode those of the batch in front of it, in `eval` mode
# running averages. On a fresh network these are 0 and 1, so in `eval` mode it does next to nothing. Real clients train in `train` mode. The
# papers seldom say which they attacked.

# %% [markdown]
# A second hidden choice: a block of a ResNet adds what its layers make, the *residual branch*, to what came in. timm multiplies the end of each branch of a fresh ResNet by zero
# (`zero_init_last`), so that no gradient reaches what lies inside. Is the ResNet's resistance due to either?

# %%
for name, built in {
    "small": untrained("ResNet"),
    "ResNet-50": models.build("resnet50_cifar", seed=seed),
}.items():
    sizes = {n: p.numel() for n, p in built.named_parameters()}
    message = observe(built, photo, label).grads
    silent = sum(sizes[n] for n, gradient_of in message.items() if not gradient_of.any())
    print(f"{name}: {silent / sum(sizes.values()):.0%} of the numbers in its message are zero")

# %%
variants = {
    "eval": dict(), "train": dict(train_mode=True), "plain_init": dict(zero_init_last=False),
}  # fmt: skip
resnet = {name: psnr_of(repeats("ResNet", **how)) for name, how in variants.items()}
for name, dB in resnet.items():
    mode = "train" if name == "train" else "eval"
    print(f"{name:>10}: {metrics.summary(dB)} dB")
    page.record("psnr", ["resnet", f"variant_{name}"], dB, mode=mode, victim="fresh", note=f"{side_steps} steps")
about = dict(mode="train", victim="fresh", note="eval mode less train mode")
page.record("psnr_difference", ["resnet", "eval_less_train"], resnet["eval"] - resnet["train"], **about)
page.record(
    "psnr_difference", ["resnet", "swin_less_plain_init"], psnr_of(repeats("Swin")) - resnet["plain_init"], **fresh
)

# %% [markdown]
# ## Reading the label off
#
# All searches above were *given* the label. The server can read it off the last layer, without any search. Row $i$ of
# that layer's weight gradient is $(p_i - [i = y])\, f$, with $f$ the features and $p_i$ the model's probability of class $i$: only the true
# class's row points against all the others. The papers' rules differ in how they look for it.


# %%
def right(name, number):
    """Rule -> the share of photographs whose label it reads off a fresh victim's gradient."""
    model = untrained(name, number)
    head = [f"{gradient_inversion.label_recovery.classifier(model)}.{leaf}" for leaf in ("weight", "bias")]
    hits = {rule: [] for rule in gradient_inversion.label_recovery.RULES}
    for image in range(10 if profile == "smoke" else 20):
        message = observe(model, *photos.one(image), names=head)
        for rule, read in gradient_inversion.label_recovery.RULES.items():
            hits[rule].append(read(model, replace(message, labels=None)).item() == message.labels.item())
    return {rule: statistics.mean(hit) for rule, hit in hits.items()}


# %%
for name in ("ResNet", "Swin", "ViT"):
    shares = [right(name, number) for number in range(4)]
    print(
        f"{name:>7}:",
        ", ".join(
            f"{rule} {statistics.mean(s[rule] for s in shares):.0%}" for rule in gradient_inversion.label_recovery.RULES
        ),
    )
    for rule in gradient_inversion.label_recovery.RULES:
        share = [s[rule] for s in shares]
        page.record("label_accuracy", [rule, key[name]], share, **fresh, position_std=scale_of[name])

# %% [markdown]
# iDLG's rule, the smallest *sum* of a row, needs features that sum to more than zero. Behind a ReLU they do. A fresh Swin or
# ViT ends in a *LayerNorm*, which takes their mean out: they sum to zero but for rounding, and rounding is what the rule reads. `privlab.attacks.gradient_inversion.label_recovery` derives each rule and its reach.

# %% [markdown]
# ## The first attack, on its own ground
#
# DLG attacked a small network with sigmoids, image *and* label at once. Here it is. Then we put two other
# *activations*, bends between layers, in place of the sigmoids: GELU, as smooth as a sigmoid, and ReLU. (The paper drew weights from -.5 to .5. At
# that scale all but the sigmoid send gradients thirty times as long, and L-BFGS flies off whatever the activation; so we draw from -.1 to .1.)


# %%
def lenet(activation, number):
    """The network of Zhu et al. 2019, on 32 x 32 images: three convolutions, one linear layer."""
    layers = []
    for channels, stride in ((3, 2), (12, 2), (12, 1)):
        layers += [nn.Conv2d(channels, 12, 5, stride=stride, padding=2), activation()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(768, 10))
    draw = torch.Generator().manual_seed(seed + number)
    for parameter in model.parameters():
        parameter.data.uniform_(-0.1, 0.1, generator=draw)
    model.normalise = photos.normalise
    return model.eval().to(page.device)


# %%
dlg, tries = (gradient_inversion.dlg(8), 1) if profile == "smoke" else (gradient_inversion.dlg(30), 3)
for activation in (nn.Sigmoid, nn.GELU, nn.ReLU):
    results, name = {}, activation.__name__
    for number in range(tries):
        image, true_label = photos.one(number)
        network = lenet(activation, number)
        message = replace(observe(network, image, true_label), labels=None)
        results[number, number] = dlg.run(network, message, seed=seed + number, restarts=2, progress=False)
    right_labels = sum(r.labels.item() == photos.labels[i].item() for (i, _), r in results.items())
    print(f"{name:>7}: {metrics.summary(psnr_of(results))} dB, {right_labels} of {tries} labels right")
    page.record("psnr", ["dlg", name.lower()], psnr_of(results), **fresh, note=f"LeNet, {dlg.steps} steps of L-BFGS")

# %% [markdown]
# What is it about a ReLU? A layer's gradient is what arrives from behind it times
# what enters it. What enters moves with the image. What arrives has passed through the ReLUs as a pattern of open and closed gates, and
# that pattern does not change until some gate flips, where it jumps: half of the hint is missing. So is the ResNet private, or is only
# this search half blind? Lab 09 finds out.

# %% [markdown]
# ## Was it the optimiser?
#
# *Adam*, the optimiser of all searches above but DLG's, sees the slope of one number, the distance. But the server has more. It sees thousands of differences $r$ between the message it
# wants and the one it has, and it can ask how each of them moves with the image: the **Jacobian**, $J = \partial r / \partial x$. **Gauss-Newton** takes the step $s$ that would bring all of them to zero at once, were the message a linear function of the image:
#
# $$(J^\top J + \lambda D)\, s = -J^\top r$$

# %% [markdown]
# The **damping** $\lambda$ keeps the step short where that is a bad guess. $J$ has millions of rows, so nobody writes it down. One can multiply by it: $J^\top u$ is a backward pass, $J v$ is one more (exercise 6), and the method of **conjugate
# gradients** solves the system with nothing but such products.
#
# None of the four papers, and no public tool that we know, attacks this way. To be fair to Adam we count *passes*: each gradient of the network, each $J v$ and each $J^\top u$ is one; a step of Adam takes two.

# %%
newton_passes = 24 if profile == "smoke" else 2 * side_steps  # as many as the search above took; fewer at smoke
newton = gradient_inversion.GaussNewton(steps=newton_passes, passes=newton_passes)
print(newton)

# %% [markdown]
# Its distance is relative, tensor by tensor, and its assumption about photographs is like total variation, squared; it fades as the gradients are met.

# %% [markdown]
# ### Before you go on: predict
#
# For as many passes, which of the two gets further with the ResNet?

# %%
guess_newton = widgets.predict(
    "ResNet: PSNR of Gauss-Newton less that of Adam, for as many passes:", low=-10, high=20, unit="dB"
)
guess_newton

# %%
rivals = {name: {} for name in family if name in small} | {"ViT, std 1": dict(position_std=1.0)}
if profile == "smoke":
    rivals = {name: {} for name in ("ResNet", "Swin")}
few = pairs[:4] if len(pairs) > 1 else [(0, 0), (0, 1)]


def newton_case(name, image, number):
    """Gauss-Newton on a victim that the search above has attacked, as a task of its own."""
    model = name.split(",")[0]
    changes = dict(num_classes=10) | smaller.get(model, {}) | rivals[name]
    settings = dict(steps=newton_passes, passes=newton_passes)
    return gradient_inversion.Case(
        family[model], (image,), "gauss_newton", settings, changes, seed + number, seed + number, photos.name, "train"
    )


# %%
left = max(1.0, deadline - time.monotonic()) if profile in ("gpu", "paper") else None
tasks = [newton_case(name, *pair) for name in rivals for pair in few]
shots = tuple(range(newton_passes + 1))
answers = iter(
    gradient_inversion.run_cases(
        tasks,
        "Gauss-Newton",
        device=page.device,
        snapshots=shots,
        budget=left,
        jobs=1 if profile == "smoke" else None,
        progress=False,
    )
)
curved = {name: {pair: next(answers) for pair in few} for name in rivals}


# %%
def by_adam(name, image, number):
    """The same photograph, weights and start by the side attack, if it was not done above."""
    model, known = name.split(",")[0], of_scale[1.0] if rivals[name] else of(name.split(",")[0])
    if (image, number) in known and repr(side) == repr(attack):
        return known[image, number]
    about = dict(victim=family[model], changes=smaller.get(model, {}) | rivals[name], train_mode=False)
    return invert(partial(untrained, model, number, **rivals[name]), image, number, side, **about)


plain = {name: {pair: by_adam(name, *pair) for pair in few} for name in rivals}

# %%
rows = {}
for name in rivals:
    one, other = psnr_of(curved[name]), psnr_of(plain[name])
    key_of = name.lower().replace(", ", "_").replace(" ", "_")
    about = dict(position_std=1.0 if "std" in name else scale_of[name], note=f"{newton_passes} passes", **fresh)
    page.record("psnr", ["gauss_newton", key_of], one, **about)
    page.record("psnr_difference", ["gauss_newton_less_adam", key_of], one - other, **about)
    rest = [(r.score / len(list(untrained(name.split(",")[0]).parameters()))) ** 0.5 for r in curved[name].values()]
    page.record("relative_residual", ["gauss_newton", key_of], rest, **about)
    rows[name] = {
        "Adam": metrics.summary(other),
        "Gauss-Newton": metrics.summary(one),
        "left of the message": f"{statistics.mean(rest):.1e}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# The last column is what is left of the differences, as a share of the client's gradient: 1 is no idea, 0 every number met. How each got there, on the first photograph:

# %%
image, number = few[0]
ways = {name: curved[name][few[0]].snapshots for name in rivals}
plots.lines(
    {name: ([s.evaluations for s in shots], [metrics.psnr(s.images, photos.one(image)[0]).item() for s in shots]) for name, shots in ways.items()},
    xlabel="passes", ylabel="PSNR in dB, Gauss-Newton",
    alt="PSNR against passes of Gauss-Newton: " + ", ".join(f"{name} ends at {metrics.psnr(shots[-1].images, photos.one(image)[0]).item():.1f} dB" for name, shots in ways.items()),
)  # fmt: skip

# %%
guess_newton.against((psnr_of(curved["ResNet"]) - psnr_of(plain["ResNet"])).mean().item())

# %% [markdown]
# At `laptop` (four photographs, 400 passes) Gauss-Newton leaves a sixth of the ResNet's message unmet and ends where Adam does, or a little below (-.7 ± 1.0 dB). Of the Swin's and the ConvNeXt's it leaves a quarter and a fifth of a percent; on these the photographs disagree (4.0 ± 4.7 and 2.4 ± 7.3 dB over Adam).
#
# The ViT with the large position embedding comes
# back at 40 ± 8 dB, 17 ± 7 above Adam; the one with the small embedding does not, though its message is met to two percent (12 ± 2 dB). Lab 09 and the book's chapter on this search have more.

# %% [markdown]
# ## ImageNet
#
# Figure 5c of the paper repeats it on ImageNet photographs (here 224 x 224). On a CPU one such search takes hours, so it runs at `gpu` and `paper`.

# %%
large = {
    "resnet": "resnet50", "swin": "swin_tiny_patch4_window7_224",
    "resnet_101": "resnet101", "swin_s": "swin_small_patch4_window7_224",
}  # fmt: skip
on_imagenet = {name: [] for name in large}
for image in range({"gpu": 2, "paper": 20}.get(profile, 0)):
    source = data.load("imagenet_samples")
    for name, model in large.items():
        stock = partial(models.build, model, num_classes=1000, seed=seed + image)
        result = invert(stock, image, image, source=source, size=224, victim=model)
        on_imagenet[name].append(metrics.psnr(result.images, source.one(image, size=224)[0]).item())

# %%
for one, other in (("swin", "resnet"), ("swin_s", "resnet_101")):
    if on_imagenet[one]:
        gap = torch.tensor(on_imagenet[one]) - torch.tensor(on_imagenet[other])
        page.record("psnr_difference", ["imagenet", f"{one}_less_{other}"], gap, **fresh, note=f"{attack.steps} steps")

# %% [markdown]
# ## Exercise 1: why a cosine?
#
# DLG compares two gradients by their squared distance, Inverting Gradients by their cosine. Write the second: `distance(mine, theirs)`. Each is a dict, parameter name -> tensor, and all tensors of a dict together count as
# *one* long vector:
#
# $$d = 1 - \frac{\sum_n \langle a_n, b_n\rangle}{\sqrt{\sum_n |a_n|^2}\,\sqrt{\sum_n |b_n|^2}} .$$
#
# <details><summary>Hint</summary>Three sums over all layers, then one division. The two dicts have the same names, not always in the same order.</details>


# %% tags=["exercise"]
def distance(mine, theirs): ...


# %% tags=["solution"]
def distance(mine, theirs):
    a = torch.cat([mine[name].flatten() for name in theirs])
    b = torch.cat([theirs[name].flatten() for name in theirs])
    return 1 - a @ b / (a.norm() * b.norm())


# %%
checks.verify("04.cosine", distance)

# %% [markdown]
# (The attack's own sums up layer by layer: gluing all gradients together in every step costs a tenth of the time, or more.)
#
# Make a message longer, and see what either distance makes of it:

# %%
ours, client = torch.rand(2, 1000, generator=torch.Generator().manual_seed(seed))  # two messages of 1,000 numbers each
for times in (0.001, 1, 1000):
    sent = times * client
    squared, angle = (ours - sent).square().sum(), 1 - torch.cosine_similarity(ours, sent, dim=0)
    print(f"{times:>6} times as long: squared distance {squared:.3g}, one minus cosine {angle:.3f}")

# %% [markdown]
# The last layer's gradient for one image is $(p - y)\,f^\top$: features $f$ of the image, times how wrong the model was. Every other gradient
# has passed through that same $p - y$ on its way back. So the *length* of a gradient mostly says how wrong the model was, and its *direction*
# holds the image.

# %% [markdown]
# The length also depends on the victim: in the small Swin we measured 41 with fresh weights, .04 once it had learnt
# 64 images by heart (medians over six of these); in the fresh small ResNet 1.5. The squared distance goes with its square. The weight
# of the smoothness is a price in units of the distance: tuned for one of these victims, it is a million times too high
# or too low for the other. With a cosine it means much the same for both.

# %% [markdown]
# ## Exercise 2: why the sign?
#
# Inverting Gradients hands Adam not the slope of a pixel but its *sign*. Why, if Adam divides by the size of the slopes anyway?

# %% [markdown]
# Write `adam_lengths(slopes, signed)`: the length $|\text{step}| / \text{lr}$ of each of Adam's steps for *one* pixel whose slopes are given as a
# list,
#
# $$m \leftarrow .9\,m + .1\,g, \qquad v \leftarrow .999\,v + .001\,g^2, \qquad
# \frac{|\text{step}|}{\text{lr}} = \frac{|m| / (1 - .9^t)}{\sqrt{v / (1 - .999^t)} + 10^{-8}} ,$$
#
# with $t = 1, 2, \dots$ and $m = v = 0$ before the first step. $g$ is the slope, or its sign if `signed`.
#
# <details><summary>Hint</summary>One loop, <code>for t, g in enumerate(slopes, start=1)</code>. The first step must have length 1, whatever
# the first slope is, as long as it is well above $10^{-8}$.</details>


# %% tags=["exercise"]
def adam_lengths(slopes, signed): ...


# %% tags=["solution"]
def adam_lengths(slopes, signed):
    m, v, lengths = 0.0, 0.0, []
    for t, g in enumerate(slopes, start=1):
        if signed:
            g = (g > 0) - (g < 0)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        lengths.append(abs(m) / (1 - 0.9**t) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8))
    return lengths


# %%
checks.verify("04.sign", adam_lengths)

# %% [markdown]
# Now let PyTorch's own Adam walk, along slopes that shrink, that turn round, and tiny ones.


# %%
def walk(slopes, signed):
    pixel, lengths = torch.zeros(1, dtype=torch.float64, requires_grad=True), []
    adam = torch.optim.Adam([pixel], lr=1.0)
    for slope in torch.tensor(slopes, dtype=torch.float64):
        before, pixel.grad = pixel.item(), (slope.sign() if signed else slope)[None]
        adam.step()
        lengths.append(abs(pixel.item() - before))
    return "  ".join(f"{length:.2f}" for length in lengths)


# %%
journeys = {
    "shrinking": [10.0**-t for t in range(8)],
    "turning": [1.0, -1.0] * 4,
    "tiny": [1e-8] * 8,
}
for name, slopes in journeys.items():
    print(f"{name:>9}, plain:  {walk(slopes, signed=False)}")
    print(f"{name:>9}, signed: {walk(slopes, signed=True)}")

# %% [markdown]
# The first step has length 1 either way, and Adam has a $v$ for every pixel: it is not about the first step, nor about pixels with
# small slopes beside others with large ones. It is about *time*.
#
# - **Slopes shrink as the loss falls.** $v$ forgets a thousandth a step, so the large squares of the beginning stay in it, and plain Adam
#   creeps. In the small Swin the median slope of a pixel fell from 5e-4 to 3e-6 within sixty steps (cosine distance, one image): slopes that
#   fall like that leave steps of .07. Signed, a pixel goes on at 1 as long as its direction is consistent.
# - **Slopes can be as small as eps.** In the fresh small ResNet they were 3e-8 at the start and 4e-9 after sixty steps. Then the $10^{-8}$
#   under the fraction, put there against a division by 0, brakes even the first step.
# - **What it costs.** A signed step gets shorter near the goal only where signs alternate. So the step length must be made
#   to fall from outside: a tenth at 3/8, 5/8 and 7/8 of the run.

# %% [markdown]
# ## Exercise 3: what does a BatchNorm hide?
#
# A BatchNorm in *train* mode takes mean and variance of each channel, over the batch and all pixels, out of what passes through it. So it
# cannot tell some maps apart.

# %% [markdown]
# Write `twin(x)`: given a map $x$ (batch, channels, height, width), return another, different from $x$ by more
# than a little, of which a fresh `torch.nn.BatchNorm2d` in train mode makes the same (up to .001).
#
# <details><summary>Hint</summary>A channel becomes $(x - \text{mean}) / \sqrt{\text{variance} + \varepsilon}$. What could you do to $x$ that
# the mean takes along, and the variance too?</details>


# %% tags=["exercise"]
def twin(x): ...


# %% tags=["solution"]
def twin(x):
    return 3 * x + 7  # any positive factor that is not tiny, and any shift, for each channel


# %%
checks.verify("04.batchnorm", twin)

# %% [markdown]
# Now the same two maps, through the same norm, in both modes:

# %%
maps = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
for mode in ("train", "eval"):
    norm = torch.nn.BatchNorm2d(3).train(mode == "train")
    out, other = norm(maps).detach(), norm(3 * maps + 7).detach()
    print(f"{mode:>5} mode: x and 3 x + 7 come out at most {(out - other).abs().max():.5f} apart")

# %% [markdown]
# ## Exercise 4: and in eval mode?
#
# In *eval* mode the norm takes its **running** mean and variance instead, which it gathered in training. By
# what factor, to seven digits, does a fresh `BatchNorm2d` in eval mode multiply its input?
#
# <details><summary>Hint</summary>Look at <code>running_mean</code>, <code>running_var</code>, <code>weight</code>, <code>bias</code> and
# <code>eps</code> of <code>torch.nn.BatchNorm2d(1)</code>.</details>

# %% tags=["exercise"]
factor_in_eval_mode = ...

# %% tags=["solution"]
factor_in_eval_mode = 1 / (1 + 1e-5) ** 0.5

# %%
checks.verify("04.eval_scale", factor_in_eval_mode)

# %% [markdown]
# So a fresh BatchNorm in eval mode is the identity, but for five millionths. Whoever
# attacks a *fresh* CNN in *eval* mode, as many do because train mode fails on some networks at batch size 1, attacks a CNN *without a norm*.
# (Where its `weight` starts at 1, that is. timm starts the last norm of each residual branch at 0: that one lets nothing through, in either
# mode.)

# %% [markdown]
# A LayerNorm has no modes; it is there always. Put the two side by side and call the difference "the architecture", and part of it is
# a matter of mode. That is why each figure of this book names it.

# %% [markdown]
# ## Exercise 5: whose label?
#
# For one image the gradient of the last layer's weight has the rows $G_i = c_i f$: the same features $f$ in each, times
# $c_i = p_i - [i \text{ is the label}]$. iDLG reads the label off the *sums* of the rows, which works behind a ReLU. A Transformer ends in a LayerNorm, and
# its features have either sign.

# %% [markdown]
# Write `label_of(rows)`: given the gradient (classes, features), three classes or more and features of *any*
# sign, return the label.
#
# <details><summary>Hint</summary>Which $c_i$ is negative? Then what is the sign of $\langle G_i, G_j\rangle = c_i c_j |f|^2$? There is a
# second way: the $c_i$ sum to 0.</details>


# %% tags=["exercise"]
def label_of(rows): ...


# %% tags=["solution"]
def label_of(rows):
    away = (rows @ rows.T) < 0  # (classes, classes): which rows point away from each other
    return int(away.sum(1).argmax())  # the label's from all others, each other row from the label's alone


# %%
checks.verify("04.label", label_of)

# %% [markdown]
# This is APRIL's rule. A shorter one: since the $c_i$ sum to 0, the label's row is as long as all the others together, so
# `rows.norm(dim=1).argmax()` finds it as well. Neither asks anything of the features. With two classes the rows are each other's opposite,
# and both fall silent; the bias still tells.

# %% [markdown]
# ## Exercise 6: the Jacobian, times a vector
#
# You have `r`, the differences, as a function of `x`: a tensor with a graph behind it. PyTorch gives you $J^\top u$ for any $u$: `torch.autograd.grad(r, x, u)`. Now write `push(r, x, v)`: $J v$, the change of each difference as the image
# moves along $v$, *without* building $J$ and without finite differences.
#
# <details><summary>Hint</summary>$J^\top u$ is linear in $u$. So make a $u$ that requires a gradient (any values will do), compute $J^\top u$ with <code>create_graph=True</code>, and ask how
# $\langle J^\top u, v \rangle$ changes with $u$.</details>


# %% tags=["exercise"]
def push(r, x, v): ...


# %% tags=["solution"]
def push(r, x, v):
    u = torch.zeros_like(r, requires_grad=True)
    pulled = torch.autograd.grad(r, x, u, create_graph=True)[0]  # J^T u, like x
    return torch.autograd.grad(pulled, u, v)[0]  # J v, like r


# %%
checks.verify("04.push", push)

# %% [markdown]
# `privlab.attacks.gradient_inversion.curvature` is little more. `torch.func.jvp` does the same; on a CPU it takes several times as long here, since it computes $r$ anew for each $v$.

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. attack ResNet-50, ResNet-101, Swin-T, Swin-S (Table 5, Figure 5) and ConvNeXt-T (Table 7) on CIFAR-10. With small members of the same families the verdict is about direction and margin. The last rows are ours.

# %%
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and steps.** At `smoke` and `laptop` the victims are small and the attack is `annealed`, because 3,000 steps on a ResNet-50 take a CPU an hour.
#   `gpu` and `paper` run the paper's models with the paper's settings.
# - **What Table 1 does not say.** It names the cost, Adam, the rate, the steps and the weight of the total variation. The sign, the fall of the rate
#   and the box are Inverting Gradients' own.
# - **Fresh weights, eval mode.** The paper states neither. The ledger notes both beside every number.
# - **MSE of normalised images.** The paper's values exceed 1, which no pair of images in [0, 1] can; they fit normalised ones.
# - **Stochastic depth is off.** timm's Swin would drop blocks at random in `train` mode, and nobody can match a gradient of unknown blocks.
# - **The photographs** are the first of twenty CIFAR-10 samples; the paper does not say which it used.

# %% [markdown]
# ## Summary
#
# - A search is a distance between gradients, an assumption about images, and an optimiser.
# - Under one and the same attack, Swin and ConvNeXt give their image away and the ResNet does not.
# - For a ViT it hangs on the scale of the position embedding. With a ResNet, `train` mode costs the attack some dB more, and its first weights
#   hardly any; a little training costs a few dB, with a Swin more.
# - The label needs no search: of one image it can be read off the last layer, by a rule that fits the network.
# - "The attack failed" is no proof of privacy: a search that knows the curvature got much further on the ViT with the large position embedding, for as many passes; on Swin and ConvNeXt the photographs disagree.

# %% [markdown]
# ## Where to read on
#
# Lab 05 has the closed forms that need no search, lab 07 the attack of GradViT on batches, lab 08 asks which gradients leak, lab 09 which step from
# ResNet to ConvNeXt opens the door. Geiping et al. 2020 is the paper behind the attack; Zhang et al. 2024, sections 3.1.3 and 4.4, behind the question.
