# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 00 · Start here: a photograph from a gradient
#
# Federated learning makes a promise: *your images stay on your device; only gradients leave it*. You play the server that
# receives one gradient, and get the photograph back in less than a second, by solving a linear system.
#
# After it you can
# - name who attacks whom in this book, what each attacker sees, and what it is after;
# - run a client's step, look at what leaves the client, and say which part of it gives the image away;
# - read a PSNR, and say when two pictures are "the same";
# - find the number that we measured for a claim, and the verdict on it.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.5 GB |
# | class | 0.7 | 1.7 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *You need* Python, and what a gradient is. *Words that are new here*: **profile**, **client**, **server**, **leak**, **PSNR**, **token**, **position embedding**, **repeat**, **ledger**.

# %%
import torch

from privlab import compute, data, experiments, ledger, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import observe
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # in place of the profile's model, another plain ViT of timm: "vit_tiny_patch16_224"

# %%
device = compute.device(device)
model_name = victim or ("vit_small_patch32_224" if profile == "smoke" else "vit_small_patch16_224")

# %% [markdown]
# ## Who attacks whom
#
# Four kinds of people may learn something about the images that a model was trained on. This book lets you be each of them, and then lets you close the door.
#
# | attack | the attacker sees | and wants to know | labs |
# |---|---|---|---|
# | membership inference | the trained model's answers | was *this* image in the training set? | 01, 02, 10 |
# | attribute inference | the features that the model computes | what does it know that it was never asked to learn? | 03 |
# | gradient inversion | the gradient of one training step | the training images themselves | 00, 04-10, 13 |
# | model inversion | the trained model, weights and all | what does a person of this class look like? | 11, 12 |
#
# In every one we ask: does the *architecture* change the answer: a *CNN*, made of convolutions, or a *Transformer*, whose *patches*, small squares of the image, look at each other; with or without this or that block?

# %% [markdown]
# **Use it responsibly.** All data here are public, and the attacks are published. You learn them to measure what a model gives away before somebody else does,
# and to choose a defence that holds. Do not run them on models or data of people who have not agreed to it.

# %% [markdown]
# ## Your machine
#
# Each lab runs in several sizes. The **profile** `smoke` proves that every line works, `class` measures once more, in minutes, what the book has measured eight times or more,
# and `night`, `gpu` and `paper` measure larger networks, up to the papers' own.

# %%
total, available = compute.machine.memory()
print(f"{compute.machine.cores()} cores, {available:.1f} of {total:.1f} GB memory free, torch {torch.__version__}")
print("profile:", profile, "· device:", device, "· model:", model_name)

# %% [markdown]
# ## One photograph, one gradient
#
# Here is the **client**: it holds one photograph. It runs one training step on a Vision Transformer and sends the *gradient*, which
# says how the loss moves with each parameter, to the **server**. That message is the **leak**; the photograph itself never moves.

# %%
photos = data.load("imagenet_samples")
photo, label = photos.one(3, size=224)  # (1, 3, 224, 224) in [0, 1]
vit = models.build(model_name, num_classes=1000, seed=seed).to(device)
leak = observe(vit, photo, label)
leak

# %% [markdown]
# The leak is addressed by parameter name. Its parts, counted in numbers:

# %%
for part, names in models.parts.group(vit).items():
    print(
        f"{part:>10}: {sum(leak.grads[n].numel() for n in names):>12,} numbers in {len(names)} gradients, such as {names[0]}"
    )

# %% [markdown]
# ### Before you go on: predict
#
# The photograph has 150,528 numbers. The literature searches for it: GradViT, one of our four papers, takes 120,000 optimisation steps and
# reaches a **PSNR** of 15.5 *dB* on eight at once. (PSNR, in decibel, measures likeness: 20 dB is recognisable, 30 dB looks clean, 50 dB is
# indistinguishable.)
#
# How far does a single *linear solve* get on one image?

# %%
guess = widgets.predict("PSNR of the linear solve:", low=0, high=150, unit="dB")
guess

# %% [markdown]
# ## The attack
#
# A Vision Transformer cuts the image into patches, turns each patch $x_i$ into a vector, its **token**, by one matrix $W$, and *adds* a learned vector
# $e_i$, the **position embedding**, that says where the patch sits: $z_i = W x_i + b + e_i$.

# %% [markdown]
# Because $e_i$ is added, the loss feels a nudge of $e_i$ exactly as one of $W x_i$. So the gradient of $e_i$, which the client
# sends, is the gradient at $W x_i$ too. Call it $g_i$. The chain rule for $W$ then reads
#
# $$\frac{\partial \ell}{\partial W} = \sum_i g_i x_i^\top = G^\top X .$$
#
# The left side is in the leak, and $G$ too. The unknown $X$ is the photograph: one linear system.

# %%
recovered = closed_form.patch_embedding(vit, leak)
score = metrics.psnr(recovered.images, photo)
guess.against(score.item())

# %%
plots.side_by_side(
    photo,
    recovered.images,
    titles=["on the client, sent by nobody", f"recovered by the server, {score.item():.0f} dB"],
    alt=f"Two photographs: the client's, and the one that the server solved for, {score.item():.0f} dB from it.",
)

# %% [markdown]
# Nothing was searched, and the label was not needed. And the weights were *fresh*, that is, new and random: the leak is not something that the model
# *learned*, it is how the model is *built*.

# %% [markdown]
# ## Try other photographs, and worse messages
#
# Clients often send shorter floats to save bandwidth. `bfloat16` keeps 16 of 32 bits, and only 8 of them for the significant digits. Does that protect?


# %%
def look(photograph, precision):
    image, true_class = photos.one(photograph, size=224)
    received = observe(vit, image, true_class, names=["pos_embed", "patch_embed.proj.weight"]).rounded(
        getattr(torch, precision)
    )
    answer = closed_form.patch_embedding(vit, received).images
    decibels = metrics.psnr(answer, image).item()
    return plots.side_by_side(
        image, answer, titles=[photos.classes[int(true_class)], f"from {precision}: {decibels:.0f} dB"],
        alt=f"A photograph of class {photos.classes[int(true_class)]} and its recovery from {precision} gradients, {decibels:.0f} dB.",
    )  # fmt: skip


# %%
widgets.explore(look, photograph=range(20), precision=("float32", "float16", "bfloat16"))

# %% [markdown]
# ## Measure it properly
#
# One photograph proves that a thing is possible, not that it is usual. So an *experiment* does it again and again, each time with another photograph and with fresh weights, and
# keeps every **repeat**, good or bad. Here they are, each a dot, with one more that was just measured on your machine; and beside them the mean of other photographs, a guess that looks at no gradient.

# %%
kept = experiments.load("start_here.closed_form")
mine = experiments.run("start_here.closed_form", profile, device=device)
rows = {"float32": "psnr[closed_form, one_image]", "bfloat16": "psnr[closed_form, one_image, bfloat16]"}
plots.evidence(kept, mine, rows | {"mean photograph": "psnr[mean_photograph]"}, xlabel="PSNR in dB")

# %% [markdown]
# A lab never writes down a verdict, only what it measured; the **ledger** judges the claim afterwards.

# %% [markdown]
# ## Exercise 1: what does the server know?
#
# An honest-but-curious server follows the protocol and keeps what it receives. Which of these does it know?
#
# `"architecture"`, `"weights"`, `"gradients"`, `"images"`, `"loss"`, `"batch size"`, `"preprocessing"`, `"random seed of the client"`
#
# (The solution cell below overwrites your answer: skip it to have your own checked.)
#
# <details><summary>Hint</summary>Who sent the model to the client? And what does a server need to average the messages of
# clients that hold different numbers of images?</details>

# %% tags=["exercise"]
known_to_the_server = ...

# %% tags=["solution"]
known_to_the_server = {"architecture", "weights", "gradients", "batch size", "preprocessing"}

# %%
checks.verify("00.threat", known_to_the_server)

# %% [markdown]
# ## Exercise 2: the decibel
#
# PSNR, the peak signal-to-noise ratio, is $-10 \log_{10}$ of the mean squared error, for pixels between 0 and 1. Write it.
#
# <details><summary>Hint</summary>An error of 0.1 at every pixel must give exactly 20 dB.</details>


# %% tags=["exercise"]
def my_psnr(images, truth): ...


# %% tags=["solution"]
def my_psnr(images, truth):
    return -10 * (images - truth).square().mean().log10()


# %%
checks.verify("00.psnr", my_psnr)

# %% [markdown]
# ## Exercise 3: how little is enough?
#
# Which gradients did the attack *need*? Give the smallest set of parameter names.
#
# <details><summary>Hint</summary>Look at the equation: which two gradients stand in it? Then look for their names in
# <code>sorted(leak.grads)</code>.</details>

# %% tags=["exercise"]
enough = ...

# %% tags=["solution"]
enough = {"pos_embed", "patch_embed.proj.weight"}

# %%
checks.verify("00.enough", enough)

# %% [markdown]
# ## The paper, and here
#
# The APRIL paper claims that a client's gradients are enough to rebuild its image, and proves it for an architecture of its own; what you ran
# works on a stock Vision Transformer and is not in the papers (lab 05 derives both).

# %%
ledger.show("00")

# %% [markdown]
# ## What we did differently, and why
#
# - The claim has no number in the paper; the bar of 30 dB, a picture that looks clean, is ours.
# - The model is a `vit_base_patch16_224` in what is measured at `class`, and a smaller one where you watch, so that both fit in 2 GB. Weights are fresh: no
#   pretrained ViT can be had from package registries. The attack does not use the weights' values.
# - One image a message. Lab 05 shows what a batch does to a linear system, and labs 06 and 07 how attackers deal with batches.

# %% [markdown]
# ## Summary
#
# - For a ViT and one image the gradient *is* the data, rewritten.
# - Two gradients out of all gave the image away. Knowing which is the first step to a defence.
# - Shorter floats blur the image; they do not hide it.

# %% [markdown]
# ## Where to read on
#
# Lab 05 proves why this works, finds out where it stops, and breaks the defence that the paper recommends. Lab 04 takes models that have no
# such shortcut, and searches. Lu et al. 2022, sections 3.1 to 3.3, is the paper behind both.
