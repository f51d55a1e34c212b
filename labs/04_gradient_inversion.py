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
# | class | 3 | 1.6 GB |
#
# (Measured on two CPU cores. `night` and `gpu` run the paper's own networks, for hours; stopped, and run again, they go on from there.)

# %% [markdown]
# *You need* lab 00, and what an optimiser does. *Words that are new here*: **gradient matching**, **total variation**, **box**,
# **restart**, **BatchNorm**.

# %%
from inspect import getsource

import pandas as pd
import torch

from privlab import compute, data, experiments, ledger, metrics, models
from privlab.attacks import gradient_inversion
from privlab.leak import observe
from privlab.notebook import checks, flipbook, player, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # beside the four networks, another model of timm: "mobilenetv3_small_050"

# %%
device = compute.device(device)
family = {"ResNet": "resnet_cifar", "Swin": "swin_cifar", "ViT": "vit_cifar", "ConvNeXt": "convnext_cifar"}
attack = gradient_inversion.annealed(32 if profile == "smoke" else 120)
smaller = {"ResNet": dict(channels=(16, 32, 64, 128)), "ViT": dict(depth=2)} if profile == "smoke" else {}
if victim:
    family, smaller = family | {victim: victim}, smaller | {victim: models.sized(victim, 32)}

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
# - **annealed** is ours, for few steps: the same two terms, but smoothness starts strong and fades. It attacks every victim at `smoke` and `class`;
#   `night` and `gpu` use the paper's own.

# %% [markdown]
# DLG's optimiser, *L-BFGS*, guesses the curvature from the slopes it has seen, and takes long steps by it; from some starts it flies off. So one starts
# again from other noise, each time a **restart**, and keeps what has the lowest loss: the attacker can see its own loss, never the error.

# %% [markdown]
# ## The victims
#
# All are timm's own classes, here in small sizes, with fresh weights and in `eval` mode; both will be
# varied below.

# %%
photos = data.load("cifar10_samples")


def untrained(name):
    return models.build(family[name], num_classes=10, seed=seed, **smaller.get(name, {})).to(device)


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
# One search is one call.

# %%
found = {}  # name -> what the search found, with pictures of its way
for name in family:
    attacked = untrained(name)
    found[name] = attack.run(attacked, observe(attacked, photo, label), seed=seed, snapshots=12, progress=False)
    print(f"{name}: {found[name]}")

# %% [markdown]
# What each of them had on its way (Zhang et al., Figure 5b):

# %%
steps = [snapshot.step for snapshot in found["Swin"].snapshots]


def caption(name, k):
    shown = found[name].snapshots[k].images
    return f"{metrics.psnr(shown, photo).item():.0f} dB, SSIM {metrics.ssim(shown, photo).item():.2f}"


plots.images(
    {name: torch.cat([s.images for s in result.snapshots[::3]]) for name, result in found.items()},
    captions={name: [caption(name, k) for k in range(0, len(steps), 3)] for name in found},
    alt="A row of reconstructions for each architecture, from noise on the left to the end of the search on the right: "
    + "; ".join(f"{name} ends at {caption(name, -1)}" for name in found),
)

# %% [markdown]
# The same as a flipbook, which works without Python, and as a control.

# %%
flipbook.show(
    [
        plots.side_by_side(
            *(result.snapshots[k].images for result in found.values()),
            titles=[f"{name}\n{caption(name, k)}" for name in found],
            alt=f"After {step} steps: " + "; ".join(f"{name} {caption(name, k)}" for name in found),
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
        found[architecture].snapshots[k].images,
        titles=["the photograph", said],
        alt=f"The photograph, and what the search has of it: {said}.",
    )


widgets.explore(look, start={"step": steps[-1]}, architecture=tuple(found), step=tuple(steps))

# %%
swin_ssim, resnet_ssim = (metrics.ssim(found[name].images, photo).item() for name in ("Swin", "ResNet"))
guess.against(swin_ssim - resnet_ssim)

# %% [markdown]
# ## Measure it properly
#
# Each architecture is attacked several times, each time on another photograph and with other weights, and scored four ways: PSNR and MSE count pixels, SSIM compares structure, *LPIPS* asks a trained network how different the two look.
# A guess that looks at no gradient, the mean of 50,000 other photographs, is scored beside them: an attack that does not beat it has found nothing.

# %%
kept = experiments.load("gradient_inversion.architectures")
mine = experiments.run("gradient_inversion.architectures", profile, device=device)
kept

# %%
networks = {"ResNet": "ResNet-50", "Swin": "Swin-T", "ConvNeXt": "ConvNeXt-T"}
printed = pd.concat(ledger.papers.table(f"zhang2024_table{n}").query("metric == 'psnr'") for n in (5, 7))
printed = printed.drop_duplicates("model").set_index("model")["mean"]
names = {name: f"cifar10, {name.lower()}" for name in ("ResNet", "Swin", "ConvNeXt", "ViT")}
names |= {"mean photograph": "cifar10, mean_photograph"}
rows = {label: f"psnr[{keys}]" for label, keys in names.items() if f"psnr[{keys}]" in mine.table}
published = {name: printed[model] for name, model in networks.items()}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB (higher is a better attack)", published=published)

# %% [markdown]
# Trust your eyes before any single number. PSNR counts every wrong pixel alike, so a grey smear can score as
# high as a recognisable but noisy picture. SSIM tells them apart.

# %%
plots.evidence(kept, mine, {label: name.replace("psnr", "ssim") for label, name in rows.items()}, xlabel="SSIM")

# %% [markdown]
# The paper's Figure 5b has the Swins recognisable after 500 of 3,000 steps. Here is the way of your own searches.

# %%
ways = {name: [metrics.psnr(s.images, photo).item() for s in result.snapshots] for name, result in found.items()}
plots.lines(
    {name: (steps, dB) for name, dB in ways.items()},
    xlabel="optimisation step",
    ylabel="PSNR in dB",
    xthresholds={"a sixth": attack.steps / 6},
    alt="PSNR against the step: " + ", ".join(f"{name} ends at {dB[-1]:.1f} dB" for name, dB in ways.items()),
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
kept = experiments.load("gradient_inversion.position_scale")
mine = experiments.run("gradient_inversion.position_scale", profile, device=device)
scales = {"standard deviation 0.02": "psnr[vit, std_0p02]", "standard deviation 1": "psnr[vit, std_1]"}
plots.evidence(kept, mine, scales | {"mean photograph": "psnr[vit, mean_photograph]"}, xlabel="PSNR in dB")

# %%
guess_scale.against(mine.mean("psnr[vit, std_1]") - mine.mean("psnr[vit, std_0p02]"))

# %% [markdown]
# With a small embedding it makes next to no difference to the gradient *where* a patch stands, so a search finds what the patches have in common
# long before it finds their places; lab 06 measures that. The closed form of lab 00 does not care. So a failed *search* is not proof of privacy, and a paper's ViT figure means little without this number beside it.

# %% [markdown]
# ## Second, what the victim has learned
#
# All victims so far were fresh. A client of a running federation has a trained one. We train a ResNet and a Swin for a few epochs,
# and attack them as before.

# %%
kept = experiments.load("gradient_inversion.trained_victims")
mine = experiments.run("gradient_inversion.trained_victims", profile, device=device)
states = {
    f"{name}, {state}": f"psnr[{name.lower()}, {state}]"
    for name in ("ResNet", "Swin")
    for state in ("fresh", "trained")
}
plots.evidence(kept, mine, states | {"mean photograph": "psnr[trained_victims, mean_photograph]"}, xlabel="PSNR in dB")

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
kept = experiments.load("gradient_inversion.first_weights_and_mode")
mine = experiments.run("gradient_inversion.first_weights_and_mode", profile, device=device)
variants = {"eval mode": "eval", "train mode": "train", "no zero_init_last": "plain_init"}
rows = {f"ResNet, {label}": f"psnr[resnet, variant_{key}]" for label, key in variants.items()}
rows |= {"Swin, eval mode": "psnr[swin, variant_eval]", "mean photograph": "psnr[resnet, mean_photograph]"}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %% [markdown]
# ## Reading the label off
#
# All searches above were *given* the label. The server can read it off the last layer, without any search. Row $i$ of
# that layer's weight gradient is $(p_i - [i = y])\, f$, with $f$ the features and $p_i$ the model's probability of class $i$: only the true
# class's row points against all the others. The papers' rules differ in how they look for it.


# %%
kept = experiments.load("gradient_inversion.labels")
mine = experiments.run("gradient_inversion.labels", profile, device=device)
shown = kept if len(kept) else mine
rules = gradient_inversion.label_recovery.RULES
pd.DataFrame(
    {
        name: {rule: shown.mean(f"label_accuracy[{rule}, {name.lower()}]") for rule in rules}
        for name in ("ResNet", "Swin", "ViT")
    }
).round(2)

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
kept = experiments.load("gradient_inversion.dlg")
mine = experiments.run("gradient_inversion.dlg", profile, device=device)
rows = {name: f"psnr[dlg, {name.lower()}]" for name in ("Sigmoid", "GELU", "ReLU")}
plots.evidence(kept, mine, rows | {"mean photograph": "psnr[dlg, mean_photograph]"}, xlabel="PSNR in dB")

# %% [markdown]
# What is it about a ReLU? A layer's gradient is what arrives from behind it times
# what enters it. What enters moves with the image. What arrives has passed through the ReLUs as a pattern of open and closed gates, and
# that pattern does not change until some gate flips, where it jumps: half of the hint is missing. So is the ResNet private, or is only
# this search half blind? Lab 09 finds out.

# %% [markdown]
# ## Was it the optimiser?
#
# *Adam*, the optimiser of all searches above but DLG's, sees the slope of one number, the distance. The server can compute more than that. A deeper
# notebook gives it a stronger optimiser, [Gauss-Newton](deeper/04_gauss_newton.ipynb), and asks which networks it opens. You do not need it for what follows.

# %% [markdown]
# ## Larger networks, and ImageNet
#
# Table 5 has a larger pair as well, ResNet-101 and Swin-S, and Figure 5c repeats all of it on ImageNet photographs (here 224 x 224). On a CPU one such search takes
# an hour or hours, so they are measured at `night` and `gpu`; below that the same lines run small networks for a few steps, which decides nothing.

# %%
for name in ("larger_networks", "imagenet"):
    experiments.run(f"gradient_inversion.{name}", profile, device=device)
    print(experiments.load(f"gradient_inversion.{name}"))

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
# ## The paper, and here
#
# Zhang et al. attack ResNet-50, ResNet-101, Swin-T, Swin-S (Table 5, Figure 5) and ConvNeXt-T (Table 7) on CIFAR-10. The last rows are ours.

# %%
ledger.show("04")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size and steps.** At `class` the victims are small and the attack is `annealed`, because 3,000 steps on a ResNet-50 take a CPU an hour.
#   `night` and `gpu` run the paper's models with the paper's settings.
# - **What Table 1 does not say.** It names the cost, Adam, the rate, the steps and the weight of the total variation. The sign, the fall of the rate
#   and the box are Inverting Gradients' own.
# - **Fresh weights, eval mode.** The paper states neither. The ledger notes both beside every number.
# - **MSE of normalised images.** The paper's values exceed 1, which no pair of images in [0, 1] can; they fit normalised ones.
# - **Stochastic depth is off.** timm's Swin would drop blocks at random in `train` mode, and nobody can match a gradient of unknown blocks.
# - **The photographs** are the first of CIFAR-10's test split, one a repeat; the paper does not say which it used.

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
