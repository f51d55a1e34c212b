# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 10, deeper · Is a kink a defence?
#
# You come from [lab 10](../10_micro_designs.ipynb). A ReLU has a kink, and a search that uses second derivatives, *Gauss-Newton*, may stop at kinks. Is the kink a defence? And what do BatchNorm's training mode and noise do against the two searches?
#
# After this notebook you can
# - replace ReLU by a smooth function that is as close to it as you like;
# - compare a defence under two searches.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.6 | 1.1 GB |
# | class | 1.5 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 10. [A deeper notebook of lab 09](09_second_order.ipynb) compares the two searches on seven of the steps. There is no new word.

# %%
from privlab import experiments
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
torch.set_num_threads(1)  # networks as small as these are no faster with two
WAYS = (("Adam", "adam"), ("Gauss-Newton", "gauss_newton"))
BASELINE = {"mean photograph": "psnr[cifar10, mean_photograph]"}  # without a gradient

# %% [markdown]
# ## A smooth ReLU
#
# Softplus, $\log(1 + e^{\beta x}) / \beta$, is smooth for any $\beta$. The sharper it is, the less it differs from ReLU. We put it in the place of ReLU in step 8, and change nothing else.

# %% [markdown]
# ### Exercise 1: how sharp? *(difficulty 2, 10 minutes)*
#
# Softplus of sharpness $\beta$ lies above ReLU everywhere. Where is it furthest away? Write `sharpness(gap)`: the $\beta$ at which the two are never more than `gap` apart.
#
# <details><summary>Hint</summary>Look at 0.</details>


# %% tags=["exercise"]
def sharpness(gap): ...


# %% tags=["solution"]
def sharpness(gap):
    return torch.tensor(2.0).log().item() / gap


# %%
checks.verify("10.sharpness", sharpness)

# %% [markdown]
# ### Predict

# %%
soft = widgets.predict(
    "Gauss-Newton: PSNR with softplus of sharpness 1 minus that with ReLU:",
    -10,
    20,
    "dB",
)
soft

# %%
sharp = widgets.choose(
    "A very sharp softplus has every derivative. Gauss-Newton does with it",
    ["as with the soft one", "as with ReLU", "worse than with either"],
)
sharp

# %%
kept = experiments.load("micro_designs.sharpness")
mine = experiments.run("micro_designs.sharpness", profile, device=device)
shown = kept or mine
kinds = [n.split(", ")[-1][:-1] for n in mine.table if n.startswith("psnr[adam")]
rows = {
    f"{way}, {kind.replace('_', ' ')}": f"psnr[{key}, step_8, {kind}]"
    for way, key in WAYS
    for kind in kinds
} | BASELINE
plots.evidence(kept, mine, rows, xlabel="PSNR in dB, step 8, by sharpness of softplus")

# %%
newton = {k: shown.mean(f"psnr[gauss_newton, step_8, {k}]") for k in kinds}
soft.against(newton["softplus_1"] - newton["relu"])

# %%
near_relu = abs(newton["softplus_1000"] - newton["relu"])
near_soft = abs(newton["softplus_1000"] - newton["softplus_1"])
worse = newton["softplus_1000"] < min(newton["relu"], newton["softplus_1"]) - 1
sharp.against(sharp.options[2 if worse else near_relu < near_soft])

# %%
text(
    "With Gauss-Newton the PSNR is {:.1f} dB with ReLU, {:.1f} dB with softplus of "
    "sharpness 1, and {:.1f} dB with sharpness 1,000; the mean photograph has {:.1f} "
    "dB. A sharp softplus has every derivative, but they hold in a tiny neighbourhood "
    "only. None of these searches sees much.",
    *(newton[k] for k in ("relu", "softplus_1", "softplus_1000")),
    shown.mean(*BASELINE.values()),
)

# %% [markdown]
# ## What might a client do?
#
# A client may train with BatchNorm in training mode, or add noise to what it sends. The photographs have 64 x 64 pixels here, since training mode fails on a single smaller image.

# %%
guard = widgets.choose(
    "Which takes more from Adam at step 9?", ["training mode", "noise of a tenth"]
)
guard

# %%
kept_guards = experiments.load("micro_designs.guards")
mine_guards = experiments.run("micro_designs.guards", profile, device=device)
guards = {"evaluation mode": "bn_eval", "training mode": "bn_train"}
noisy = {"noise of a tenth": "noise_0p1"}
rows = {
    f"step {step}, {name}, {way}": f"psnr[{key}, step_{step}, {one}]"
    for step, there in ((8, guards), (9, guards | noisy))
    for name, one in there.items()
    for way, key in WAYS
} | BASELINE
plots.evidence(kept_guards, mine_guards, rows, xlabel="PSNR in dB, 64 x 64 pixels")

# %%
shown = kept_guards or mine_guards
left = {n: shown.mean(rows[f"step 9, {n}, Adam"]) for n in guard.options}
guard.against(min(left, key=left.get))

# %% [markdown]
# At step 9 neither search is clearly ahead of the mean photograph without any guard. So this chart cannot say what a guard takes from a search that works. Training mode
# leaves both of them *behind* it.

# %% [markdown]
# Section 7 of Zhang et al. 2024 turns the question round: if a design leaks, leave it out. Its Figure 11 shows accuracy on the task hardly changing while the attacks get weaker. What is gained against *this* search
# may not hold against another. A deeper notebook of lab 13 makes such swaps, and asks what they cost.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 7 and Figure 11; the book's chapter on second-order searches.
