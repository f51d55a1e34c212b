# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 00 · What does a gradient carry?
#
# Federated learning trains one model with the data of many people, and makes a promise: *your photographs stay on your device, and only gradients
# leave it*. Does a gradient hide a photograph? You play the client, with a photograph or a drawing of your own. Then you play the server that receives the gradient.
#
# After this lab you can
# - name the four attacks of this book, what each attacker sees, and what they want to know;
# - run a client's training step, and say which part of the gradient gives the image away;
# - read a PSNR, a chart of repeats, and the verdict on a claim.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.6 GB |
# | class | 0.5 | 1.6 GB |
#
# (Measured on two CPU cores. It is the time that the computer needs; yours is below.)

# %% [markdown]
# *About 45 minutes. You need* Python, gradients and matrix products. *New words*: **profile**, **client**, **server**, **leak**, **PSNR**, **token**, **position embedding**,
# **repeat**, **ledger**.

# %%
from privlab import compute, data, experiments, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.course.lab_00 import pad
from privlab.leak import observe
from privlab.notebook import checks, drawings, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # another plain ViT of timm in place of ours: "vit_base_patch32_224"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
ours = "vit_small_patch32_224" if profile == "smoke" else "vit_small_patch16_224"
total, free = compute.machine.memory()
print(f"{compute.machine.cores()} cores, {free:.1f} of {total:.1f} GB memory free")
print(f"profile {profile}, device {device}, model {victim or ours}")

# %% [markdown]
# Each lab runs in several sizes, its **profiles**. The last line above names the one whose numbers you see. `smoke` is the smallest, to try the code. `class` shows you the effect, in a minute or two. `night`, `gpu` and `paper` are
# for larger networks, up to those of the papers.

# %% [markdown]
# ## Who attacks whom
#
# | attack | the attacker sees | and wants to know | labs |
# |---|---|---|---|
# | membership inference | the answers of a trained model | was *this* image in the training set? | 01, 02, 10 |
# | attribute inference | the features that a model computes | what does it know that nobody asked? | 03 |
# | gradient inversion | the gradient of one training step | the training images themselves | 00, 04-10, 13 |
# | model inversion | a trained model and its weights | what does a person of this class look like? | 11, 12 |
#
# Each time we ask whether the *architecture* changes the answer: a *CNN*, made of convolutions, or a *Transformer*, whose *patches* (small squares
# of the image) look at each other.
#
# **Use it responsibly.** All data here are public, and the attacks are published. You learn them to measure what a model gives away, and to
# choose a defence. Do not run them on models or data of people who have not agreed to it.

# %% [markdown]
# ## One photograph, one gradient

# %%
drawings.show("00.client_and_server")

# %% [markdown]
# The **client** holds one photograph. It runs one training step of a Vision Transformer, and sends the *gradient* of the loss $\ell$ to the **server**,
# one number for each parameter. The loss says how wrong the model is about the photograph. What the server receives is the **leak**. The photograph is not sent.

# %%
photos = data.load("imagenet_samples")
photo, label = photos.one(3, size=224)  # (1, 3, 224, 224) in [0, 1], and its class
vit = models.build(victim or ours, num_classes=1000, seed=seed).to(device)
leak = observe(vit, photo, label)
for part, names in models.parts.group(vit).items():
    count = sum(leak.grads[name].numel() for name in names)
    print(f"{part:>10}: {count:>10,} numbers, such as {names[-1]}")

# %% [markdown]
# The model has *fresh* weights: they are random, and it has learned nothing yet.

# %% [markdown]
# ### Exercise 1: what does the server know? *(difficulty 1, 5 minutes)*
#
# In each round, the server hands the model to all clients, with a *recipe* for one step: how to prepare a photograph, and which loss function to
# take. Each client answers with its gradient. The server averages the answers, and weighs each by how many images stand behind it.
#
# This server follows the protocol, and later computes with everything that it received. Which of these does it know *before* it computes anything? Give a set.
#
# `"architecture"`, `"weights"`, `"gradients"`, `"images"`, `"value of the loss"`, `"batch size"`, `"preprocessing"`, `"random seed of the client"`
#
# <details><summary>Hint</summary>Who sent the model to the client? And what does a server need, to average the gradients of
# clients that hold different numbers of images?</details>

# %% tags=["exercise", "reading"]
known_to_the_server = ...

# %% tags=["solution"]
known_to_the_server = {
    "architecture",
    "weights",
    "gradients",
    "batch size",
    "preprocessing",
}

# %%
checks.verify("00.threat", known_to_the_server)

# %% [markdown] tags=["printed"]
# ### Exercise 2: how near is near? *(difficulty 1, 5 minutes)*
#
# **PSNR**, the peak signal-to-noise ratio, says in decibels (*dB*) how near two images are. For pixels between 0 and 1 it is $-10 \log_{10}$ of the mean
# squared error. At about 20 dB one recognises the image, 30 dB looks clean, and at 50 dB nobody sees a difference. Write this function for two tensors.
#
# <details><summary>Hint</summary>An error of 0.1 at every pixel must give exactly 20 dB.</details>


# %% tags=["exercise"]
def my_psnr(images, truth): ...


# %% tags=["solution"]
def my_psnr(images, truth):
    return -10 * (images - truth).square().mean().log10()


# %%
checks.verify("00.psnr", my_psnr)

# %% [markdown] tags=["printed"]
# ### Predict
#
# The photograph has 150,528 numbers. Most attacks search for them. GradViT, one of our four papers, takes 120,000 steps of an optimiser, and reaches
# 15.5 dB on eight photographs at once. How near does the solution of a single *linear system* come to one photograph?
#
# The notebook keeps your guess in the file `guesses.json` beside it, and the book keeps it in your browser. It goes nowhere else.

# %%
guess = widgets.predict("PSNR of what the server computes:", low=0, high=150, unit="dB")
guess

# %% [markdown]
# ## The attack
#
# The server has the model and the leak. It computes this image from them:

# %%
recovered = closed_form.patch_embedding(vit, leak)
score = metrics.psnr(recovered.images, photo).item()
plots.side_by_side(
    photo,
    recovered.images,
    titles=["on the client", f"computed by the server, {score:.0f} dB"],
    alt=f"The client's photograph, and the server's result: {score:.0f} dB",
)

# %% [markdown]
# The server did not search, and did not need the label. It solved a linear system (the *closed form* in the code), and the only error is the rounding of numbers. It did not need
# trained weights either: this leak is not something that the model *learned*. It comes from how the model is *built*.

# %%
guess.against(score)

# %%
drawings.show("00.vit")

# %% [markdown]
# How does the server do this? A Vision Transformer cuts the image into patches. It multiplies each patch $x_i$ by one matrix $W$, and adds a bias $b$. Then it *adds* a
# vector $e_i$ that says where the patch stands, the **position embedding**. The result is the **token** of the patch: $z_i = W x_i + b + e_i$.

# %% [markdown]
# Because $e_i$ is added, a small change of $e_i$ changes the loss exactly as the same change of $W x_i$ does. So the gradient of $e_i$ is the
# gradient of $W x_i$ too. Call it $g_i$. The client sends it, because $e_i$ is a parameter, as $W$ is. The chain rule for $W$ then reads
#
# $$\frac{\partial \ell}{\partial W} = \sum_i g_i x_i^\top = G^\top X ,$$
#
# where the rows of $G$ are the $g_i$, and the rows of $X$ are the patches. The left side is in the leak, and so is $G$. The only unknown is $X$, the photograph.
# This is a linear system, and each column of $X$ is solved for alone. A column holds one number from every patch, so it has as many unknowns as there are patches. It has one equation for each number of a token.
# (In the list of parts above, $W$ and the $e_i$ belong to the *stem*: everything before the first block.)

# %% [markdown]
# ### Exercise 3: how little is enough? *(difficulty 1, 5 minutes)*
#
# Which gradients did the attack *need*? Give the smallest set of parameter names; `sorted(leak.grads)` lists all.
#
# <details><summary>Hint</summary>Which two gradients stand in the equation? The list of parts above has the bias that belongs to
# one of them.</details>

# %% tags=["exercise", "reading"]
enough = ...

# %% tags=["solution"]
enough = {"pos_embed", "patch_embed.proj.weight"}

# %%
checks.verify("00.enough", enough)

# %% [markdown]
# ## Send something of your own
#
# In the notebook, draw on the sheet with the mouse. Or type into its text, where each letter is the colour of one cell, such as `r` for red. Or choose a photograph. Your image goes to the
# machine that runs the notebook, and nowhere else. Then press *Send*: the client computes a gradient from your image, and the server gets only that.


# %%
def send(image):
    gradient = observe(vit, image, label)  # the client
    computed = closed_form.patch_embedding(vit, gradient)  # the server
    near = metrics.psnr(computed.images, image).item()
    return plots.side_by_side(
        image,
        computed.images,
        titles=["yours", f"what the server has, {near:.0f} dB"],
        alt=f"Your image, and what the server computed: {near:.0f} dB",
    )


pad.Pad(send)

# %% [markdown]
# ## Does a shorter number hide it?
#
# Clients often send shorter numbers to save bandwidth. `bfloat16` has 16 bits in place of 32, and 8 significant bits in place of 24. What does the server
# get from such a gradient? The next section measures it for a larger model than yours: 196 patches, and tokens of 768 numbers. Your bet is on its mean
# PSNR over several photographs.
#
# After your bet, look at photographs from your own model; its PSNR can differ from the larger model's. The pictures open on `bfloat16`; press another format to compare. `float16` has 11 significant bits.

# %%
rounded = widgets.choose(
    "From a gradient in bfloat16 the server computes",
    [
        "nothing that one recognises (below 20 dB)",
        "a picture that one recognises (20 to 50 dB)",
        "the same picture (above 50 dB)",
    ],
)
rounded


# %%
def look(photograph, precision):
    image, true_class = photos.one(photograph, size=224)
    exact = observe(vit, image, true_class)
    sent = exact.rounded(getattr(torch, precision))
    computed = closed_form.patch_embedding(vit, sent).images
    near = metrics.psnr(computed, image).item()
    titles = [photos.classes[int(true_class)], f"from {precision}: {near:.0f} dB"]
    alt = f"A photograph, {titles[0]}, and what the server computed {titles[1]}."
    return plots.side_by_side(image, computed, titles=titles, alt=alt)


formats = ("float32", "float16", "bfloat16")
opens = {"precision": "bfloat16"}
widgets.explore(look, opens, photograph=range(20), precision=formats)

# %% [markdown]
# ## Is that luck?
#
# One photograph shows that something is possible, not that it is usual. So an *experiment* runs the attack several times, each time with another photograph and fresh weights. It keeps every **repeat**, good or bad.

# %% [markdown]
# Each dot below is a repeat with the larger model. The dots are *committed*: measured before, and kept
# with this book, so that all readers judge by the same numbers. The cross below them is their mean and standard deviation (std). This mean decides your
# bet. The black triangle is one repeat of this run, with a small model that fits into 2 GB of memory. The *baseline* is the mean of other photographs, which needs no gradient.

# %%
kept = experiments.load("start_here.closed_form")
mine = experiments.run("start_here.closed_form", "smoke", device=device)
rows = {"float32": "psnr[closed_form, one_image]"}
rows |= {"bfloat16": "psnr[closed_form, one_image, bfloat16]"}
rows |= {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %% [markdown]
# The triangle is not an outlier: it comes from another model.
#
# | model | patches (unknowns) | numbers in a token (equations) | equations for each unknown, about |
# |---|---|---|---|
# | of the triangle; at `smoke` also yours | 49 | 384 | 8 |
# | of the dots | 196 | 768 | 4 |
# | yours above `smoke` | 196 | 384 | 2 |
#
# The more equations there are for an unknown, the less harm rounding does. So the server's image is best for the first model, and worst for the last one.

# %%
shown = kept or mine  # the committed evidence, where there is some
short = shown.mean(rows["bfloat16"])
rounded.against(rounded.options[int(short > 20) + int(short > 50)])

# %% [markdown]
# ### Exercise 4: read the leaflet *(difficulty 2, 8 minutes)*
#
# A hospital plans to train a Vision Transformer together with others, and hands this leaflet to its patients. Which sentences
# did this lab show to be false? Give a set of letters.
#
# - "A": Your photograph is not sent to anybody.
# - "B": What is sent has been computed with millions of parameters, so nobody can compute your photograph from it.
# - "C": At the beginning the model knows nothing, so it cannot give anything away.
# - "D": We send shorter numbers (bfloat16), so your photograph can no longer be recognised.
# - "E": Whether your photograph can be computed depends on how the model is built.
#
# <details><summary>Hint</summary>Were the weights of your model trained? Which sentences say what is sent, and which say what can be
# computed from it?</details>

# %% tags=["exercise", "reading"]
false = ...

# %% tags=["solution"]
false = {"B", "C", "D"}

# %%
checks.verify("00.leaflet", false)

# %% [markdown]
# ## The answer

# %%
text(
    "For a Vision Transformer and one image, the gradient carries the image itself: "
    "two of its parts make a linear system, and its solution reaches {:.0f} dB on "
    "average. From a gradient in bfloat16 it still reaches {:.0f} dB, where the mean "
    "of other photographs has {:.0f} dB.",
    shown.mean(rows["float32"]),
    short,
    shown.mean(rows["mean photograph"]),
)

# %% [markdown] tags=["printed"]
# ## The paper, and here
#
# The paper that introduces the attack APRIL (Lu et al. 2022) claims that a client's gradients are enough to compute its image, and proves it for an architecture of its own. It gives no number;
# the threshold of 30 dB is ours. You computed the image from a standard Vision Transformer, by a system that is not in the paper (lab 05 derives both). So the verdict below is on the
# claim, and not on the paper's formula. A lab measures, and gives no verdict. The
# **ledger** judges each claim by the committed evidence, and shows its verdict.

# %%
widgets.verdicts("00")

# %% [markdown]
# ## What would change our mind
#
# We would change our mind if this system returned no image from the gradient of a standard Vision Transformer. You can look for one: set `victim` at the top to another
# plain ViT of timm, and run the lab again. `vit_tiny_patch16_224` does not count: with 192 numbers in a token for 196 patches it has fewer equations than unknowns. A warning says that
# a part of the picture is missing, but the rest still shows the photograph; lab 05 explains it. (Our weights are fresh, because the package registries from which this book installs have no trained ones. The attack does not use their values.)

# %% [markdown]
# ## Read on
#
# Lab 05 proves why this works, finds where it ends, and asks which forms of the paper's defence hold. Lab 04 takes models that have no such
# system, and searches. Lab 07 attacks batches of images. Lu et al. 2022, sections 3.1 to 3.3, is the paper on APRIL.
