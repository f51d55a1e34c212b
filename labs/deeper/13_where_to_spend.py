# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 13, deeper · Where is a budget of noise best spent?
#
# You come from [lab 13](../13_defences.ipynb). Zhang et al. propose to spend the noise on the layers that leak, and to get by with less of it. Does that hold against an
# attacker who knows where the noise is? They also advise to swap designs that leak for older ones. Does that?
#
# After this notebook you can
# - divide a budget of noise among the parts of a network;
# - measure what each part tells of the image, and spend by it;
# - say why noise on "the leaky layers" alone fails;
# - compare a design before and after a swap: gradient inversion, membership, and accuracy.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.3 GB |
# | class | 3 | 1.5 GB |
#
# (Estimated, for two CPU cores. After lab 13 the searches are read from disk.)

# %% [markdown]
# *About 35 minutes. You need* lab 13, from lab 08 that a gradient has parts, and lab 09.

# %%
from inspect import getsource

from privlab import compute, experiments, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import adaptive
from privlab.course.lab_13 import experiments as defended_client
from privlab.defences import perturbation, updates
from privlab.notebook import checks, plots, text, widgets

import pandas as pd
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "defences.one_update"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
how = experiments.find(NAME).size(mine.size).settings
victim = [how[name] for name in ("model", "changes", "attack", "steps")]
client = defended_client.Client(mine.repeats[0] + seed, *victim, device)

# %% [markdown]
# ## One object, three uses
#
# A defence of a gradient is one object here. It makes what the server receives. It goes into a training, where each step takes the defended gradient. And it tells
# what an informed attacker knows: the standard deviation of the noise in each tensor.

# %%
noisy = updates.sent("spread", shares={"all": 1.0}, relative=0.01)
known = noisy.deviations(client.update, client.network)
print(noisy, noisy(client.update, client.network), sep="\n")
print("deviations:", {name: known[name] for name in [*known][:2]})
print("other ways:", ", ".join(updates.WAYS))

# %% [markdown]
# `relative=0.01` is the budget: the noise has a hundredth of the gradient's length. `shares` says which part of its *energy*, its squared length, goes where.
#
# ### Exercise 1: what a number gets *(difficulty 2, 10 minutes)*
#
# Write `deviation(share, relative, norm, numbers)`: the gradient is `norm` long, the noise `relative` times that; a group of `numbers` numbers gets `share` of
# the noise's *energy*, all numbers alike. Return the standard deviation of the noise in each of them.
#
# <details><summary>Hint</summary>The energy of independent noise in n numbers is about n times its variance. Energies add up; lengths do not.</details>


# %% tags=["exercise"]
def deviation(share, relative, norm, numbers): ...


# %% tags=["solution"]
def deviation(share, relative, norm, numbers):
    return relative * norm * (share / numbers) ** 0.5


# %%
checks.verify("13.deviation", deviation)

# %% [markdown]
# ## Eight ways
#
# - **even**: on all numbers alike;
# - **own**: each tensor in proportion to its own energy;
# - **stem**, **attention**, **norm**, **activation**: all of it on one part;
# - **leaky**: a third each on the three tensors that the closed forms read;
# - **measured**: where the measured leak is largest.

# %% [markdown]
# What a tensor tells of the image is its *sensitivity*: the squared size $a$ of the change of its gradient as the image changes. We measure it on a grey image
# along random directions. An attacker who weighs by the noise learns $\sum a_i/\sigma_i^2$ in all. Under one budget $\sum n_i\sigma_i^2$, with $n_i$ numbers
# each, this is least where tensor $i$ gets energy in proportion to $\sqrt{a_i n_i}$.

# %%
print(getsource(perturbation.measured).split('"""')[2])

# %%
numbers = {name: p.numel() for name, p in client.network.named_parameters()}
measured = perturbation.measured(client.network)
by_part = {
    part: {
        "share of the numbers": sum(numbers[n] for n in names) / sum(numbers.values()),
        "measured": sum(measured[n] for n in names),
    }
    for part, names in models.parts.group(client.network).items()
}
pd.DataFrame(by_part).T.round(3)

# %% [markdown]
# ## Try it
#
# Give each part a weight. The budget is divided in proportion. You see what algebra recovers, and a very short search. Both know your shares.


# %%
slow, fast = gradient_inversion.quasi_newton(1), gradient_inversion.annealed(2)
short = fast if profile == "smoke" else slow


def look(noise, rounds, **weights):
    total = sum(weights.values())
    if not total:
        return widgets.Sentence("Nothing is spent. Give some part a weight.")
    shares = {part: weight / total for part, weight in weights.items() if weight}
    defence = updates.sent("spread", shares=shares, relative=noise)
    draws = (seed + n for n in range(rounds))
    sent = [defence(client.update, client.network, draw) for draw in draws]
    leak = adaptive.averaged(sent)
    noise_in = defence.deviations(leak, client.network, rounds)
    search = adaptive.tempered(short, leak, noise_in)
    result = search.run(client.network, leak, seed=seed, snapshots=0, progress=False)
    found = {"algebra": client.algebra(leak, noise_in), "search": result.images.cpu()}
    titles = [f"{name}: {client.psnr(image):.0f} dB" for name, image in found.items()]
    alt = f"Recovered behind noise of {noise}, spent as {shares}: {'; '.join(titles)}."
    images = (client.photograph, *found.values())
    return plots.side_by_side(*images, titles=["photograph", *titles], alt=alt)


sliders = {part: (0, 1, 2, 4) for part in models.parts.group(client.network)}
start = {"noise": 0.01, "mlp": 1}
controls = {"noise": (0.001, 0.01, 0.1, 1.0), "rounds": (1, 16), **sliders}
widgets.explore(look, start, **controls)

# %% [markdown]
# ## All of it on the stem
#
# One closed form reads the patch embedding and the position embedding, both in the *stem*. In lab 13 the noise was on attention. Now spend noise of the length of the whole gradient
# on the stem alone.
#
# ### Predict

# %%
guess = widgets.predict("What does the best informed attacker reach?", 0, 160, "dB")
guess

# %%
SEARCH, BEST = "psnr[budget, search, {}]", "psnr[budget, relative_1, {}]"
shown = kept or mine
ways = [way for way in defended_client.WAYS if SEARCH.format(way) in shown]
stem = defended_client.spent("stem", 1.0)
display(guess.against(round(client.solved(stem, informed=True), 1)))
rows = {way: SEARCH.format(way) for way in ways}
rows |= {"no noise": "psnr[matrix, none, search]", "baseline": "psnr[guess]"}
plots.evidence(kept, mine, rows, xlabel="PSNR of the informed search in dB")

# %%
rows = {way: BEST.format(way) for way in ways} | {"baseline": "psnr[guess]"}
plots.evidence(kept, mine, rows, xlabel="PSNR of the best informed attack in dB")

# %%
one = [way for way in ("stem", "attention", "norm", "activation") if way in ways]
text(
    "With all noise on one part ({}) the best attack reaches at least {:.0f} dB, since "
    "it reads another part. Spread evenly, the same noise leaves {:.1f} dB above the "
    "baseline; spent by the measured sensitivity, {:.1f} dB.",
    ", ".join(one) or "none measured",
    min((shown.mean(BEST.format(way)) for way in one), default=float("nan")),
    *(
        shown.mean(f"{BEST.format(way)} - psnr[guess]") if way in ways else float("nan")
        for way in ("even", "measured")
    ),
)

# %% [markdown]
# So the proposal has two answers. Against *algebra*, spend the noise on the tensors that algebra reads. Against a *search*, noise in one part is no noise at all:
# an attacker who knows of it leaves out what is noisy and reads the rest, and the rest is a copy (lab 08).

# %% [markdown]
# ## Back to older designs
#
# The other advice costs no noise (Zhang et al., Figure 11). Lab 13 has a table of what each swap changes. Here is your own run beside it (at `class` it has three
# ReLUs a block, and all three swaps). A search that is best for one design is bad for another (lab 10), so the better of two searches counts.

# %%
kept_swaps = experiments.load("defences.design_swaps")
mine_swaps = experiments.run("defences.design_swaps", profile, device=device)
swaps = kept_swaps or mine_swaps
names = [
    n[11:-1] for n in swaps.table if n.startswith("psnr[swap, ") and "mean" not in n
]
rows = {name.replace("_", " "): f"psnr[swap, {name}]" for name in names}
rows |= {"baseline": "psnr[swap, mean_photograph]"}
plots.evidence(kept_swaps, mine_swaps, rows, xlabel="PSNR in dB")

# %% [markdown]
# A low PSNR after a swap is only good news if the search sees something before it. Compare with the *baseline*, the mean of public photographs.
#
# At `night` the swaps do not pull together. A ResNet's stem weakens both attacks, and the task gains. Three ReLUs stop the search, and membership inference
# gains a little.
#
# BatchNorm *helps* the search. A fresh network in eval mode has no use for it, so nothing stands in LayerNorm's place. That this is the reason is a conjecture.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 7.2, announces noise by layer as future work; section 7.1 has the swaps. Lab 08 measures what each part tells, and lab 10 has the designs
# one by one.
