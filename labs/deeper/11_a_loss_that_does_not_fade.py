# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11, deeper · Why not the cross-entropy?
#
# You come from [lab 11](../11_model_inversion.ipynb). There the search lowered a distance in *Poincaré* space. Every classifier is trained with the
# cross-entropy. Why does the attack not simply use it, too?
#
# After this notebook you can
# - say why the gradient of the cross-entropy fades during the search;
# - write the Poincaré loss so that it never breaks;
# - compare four losses in the same attack, and say what one draw can show.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.1 GB |
# | class | 1.5 | 1.1 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 35 minutes. You need* lab 11. *New words*: **Poincaré distance**.

# %%
from dataclasses import replace

from privlab import compute, experiments
from privlab.attacks.model_inversion import losses
from privlab.experiments.victims import private_people
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)

# %% [markdown]
# ## What the search feels
#
# The search follows the gradient of a loss. Take a victim of ten classes whose logit for the target grows from 0 to 12, while the others stay at 0 and 1.
# How long is the gradient with respect to the logits?
#
# ### Predict

# %%
FADES = "that of the cross-entropy"
guess = widgets.choose(
    "At a target logit of 12, which gradient has almost vanished?",
    [FADES, "that of the Poincaré loss", "both", "neither"],
)
guess

# %%
grown = torch.linspace(0, 12, 49)
logits = torch.zeros(len(grown), 10)
logits[:, 1] = 1.0
logits[:, 0] = grown
logits.requires_grad_()
target = torch.zeros(len(grown), dtype=torch.long)
lengths = {}
for name in ("cross_entropy", "poincare", "max_margin", "logit"):
    value = losses.LOSSES[name](logits, target).sum()
    lengths[name] = torch.autograd.grad(value, logits)[0].norm(dim=1)

# %%
plots.lines(
    {name: (grown, of) for name, of in lengths.items()},
    xlabel="logit of the target",
    ylabel="norm of the gradient",
    log="y",
    alt="The norm of the gradient of four losses against the logit of the target, on a "
    "log axis: " + "; ".join(f"{n} ends at {of[-1]:.2g}" for n, of in lengths.items()),
)

# %%
weak = [name for name, of in lengths.items() if of[-1] < 0.01 * of[0]]
guess.against(FADES if weak == ["cross_entropy"] else "neither")

# %% [markdown]
# The cross-entropy compares probabilities. Once the victim is sure, its probability stays near 1, and nothing pulls any more. But being sure of a person is
# not the same as showing the person. The search should go on.

# %% [markdown]
# ## A ball with a far rim
#
# The **Poincaré distance** lives inside a ball of radius 1. Towards the rim, distances grow without end. PPA (Struppek et al. 2022) puts $u$ and $v$ into
# the ball. The first, $u$, is the logits divided by the sum of their absolute values. The second, $v$, is the one-hot target, with $10^{-4}$ subtracted and cut off at 0
# and 1. The loss is
#
# $$\operatorname{arccosh}\left(1 + 2\,\frac{|u - v|^2}{(1 - |u|^2)(1 - |v|^2)}\right)$$

# %% [markdown]
# ### Exercise 1: a loss that does not break *(difficulty 3, 15 minutes)*
#
# Write `poincare(logits, target)` for one row of logits, as a number. Two kinds of logits break the formula: logits that are all 0, and logits that are all
# 0 except for one. Guard against both, so that the result is finite.
#
# <details><summary>Hint</summary>What is divided by what, when all logits are 0? What is $1 - |u|^2$ when only one is not? <code>clamp_min</code> helps in
# both places.</details>


# %% tags=["exercise"]
def poincare(logits, target): ...


# %% tags=["solution"]
def poincare(logits, target):
    u = logits / logits.abs().sum().clamp_min(1e-12)
    v = torch.zeros_like(u)
    v[target] = 1
    v = (v - 1e-4).clamp(0, 1)
    room = (1 - u.square().sum()).clamp_min(1e-6) * (1 - v.square().sum())
    return torch.arccosh(1 + 2 * (u - v).square().sum() / room).item()


# %%
checks.verify("11.poincare", poincare)

# %% [markdown]
# ## Four losses, one attack
#
# Now the attack of lab 11, on a ResNet, with each loss in turn. The *margin* loss is PLG-MI's: the largest logit of the others minus the target's. The
# *logit* loss is LOMMA's, without its regularisation. Everything else stays the same, the random numbers included.
#
# ### Predict

# %%
names = {
    "cross-entropy": "cross_entropy",
    "Poincaré": "poincare",
    "margin": "max_margin",
    "logit": "logit",
}
guess_best = widgets.choose("Which loss brings back most faces?", [*names])
guess_best

# %%
size = experiments.find("model_inversion.skips").size(
    "smoke" if profile == "smoke" else "class"
)
stage = size.settings["stage"]
repeats = 1 if profile == "smoke" else 3
scores = {name: [] for name in names}
sure = {name: [] for name in names}
for repeat in range(repeats):
    here = private_people.People(seed + repeat, **stage, device=device)
    victim = here.network("tiny" if profile == "smoke" else "resnet").model(0)
    for name, loss in names.items():
        attack = replace(here.attack, loss=loss)
        one = attack.run(victim, here.prior, range(here.people), seed).best(here.shown)
        score = here.judge.score(one.images, one.targets)
        scores[name].append(100 * score.accuracy)
        sure[name].append(100 * one.likelihood.mean().item())

# %%
plots.dots(
    scores,
    xlabel="the judge sees the right person, %; one dot a draw of people",
    alt="Attack accuracy with four losses, a dot for each draw of people: "
    + "; ".join(f"{n} {sum(s) / len(s):.0f} on average" for n, s in scores.items()),
)

# %%
mean = {name: sum(values) / len(values) for name, values in scores.items()}
best = max(mean.values())
guess_best.against([name for name, value in mean.items() if value == best])

# %% [markdown]
# `against` takes the highest mean of the draws above, whatever the distance to the next. These are live runs on your machine. No evidence is committed for
# them, so nothing is decided here. Look at how far the draws lie apart before you rank the losses.

# %%
text(
    "With the cross-entropy the victim is {:.0f} % sure of its target at the end,"
    " with the Poincaré loss {:.0f} %. The draws of one loss differ by up to {:.0f}"
    " points.",
    sum(sure["cross-entropy"]) / repeats,
    sum(sure["Poincaré"]) / repeats,
    max(max(values) - min(values) for values in scores.values()),
)

# %% [markdown]
# A faded gradient need not stop a search. Adam divides each gradient by its own size, so a short gradient still makes a full step. What can stop the search
# is a gradient that is lost in rounding, or an optimiser without this division.

# %% [markdown]
# ## Read on
#
# Struppek et al. 2022 introduced this loss for model inversion. Nguyen et al. 2023 argue for the logit with a regularisation (LOMMA), Yuan et al. 2023 for
# the margin (PLG-MI). A deeper notebook of lab 12 has their attacks.
