# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 02, deeper · What does a likelihood ratio lose in careless code?
#
# You come from [lab 02](../02_likelihood_ratio.ipynb). The attack lives from a few pictures of which the networks are very sure. Careless code loses these first, and no
# exception is raised.
#
# After this notebook you can
# - say why a margin is computed from raw logits;
# - find four mistakes in an attack that runs and prints a number.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 0.7 GB |
# | class | 0.2 | 0.7 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 40 minutes. You need* lab 02.

# %%
from inspect import getsource

from privlab import experiments
from privlab.attacks import membership_inference
from privlab.notebook import checks, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)

# %% [markdown]
# ## The margin
#
# The margin is the logit of the right class less the (soft) maximum of all others. That is the same as the logarithm of $p / (1 - p)$, but it never forms $p$.

# %%
signals = membership_inference.signals
print(getsource(signals.margin), getsource(signals.log_odds), sep="\n\n")

# %% [markdown]
# ### Predict
#
# A network is quite sure: its three logits are 20, 0 and 0, as float32, and the first class is right. The margin is a little above 19. Some code computes $p$ by a softmax, and then
# $\log (p / (1 - p))$.

# %%
CLOSE, SOME_OFF, LOST = "19.3", "19, off by at most 0.5", "no finite number"
guess = widgets.choose("What does it print?", [CLOSE, SOME_OFF, LOST])
guess

# %%
sure = torch.tensor([[20.0, 0.0, 0.0]])
p = sure.softmax(1)[0, 0]
careless = (p / (1 - p)).log().item()
careful = signals.margin(sure, torch.tensor([0])).item()
off = abs(careless - careful)
guess.against(CLOSE if off < 0.01 else SOME_OFF if off <= 0.5 else LOST)

# %%
text(
    "By the probability it is {:.4f}, and from the logits {:.4f}. In float32 the "
    "probability is {:.10f}.",
    careless,
    careful,
    p.item(),
)

# %% [markdown]
# In the tail such a score is infinite for many pictures, and they can no longer be told apart. To cut it off, or to add a small number, makes it finite, and equal for all
# of them.
#
# ### Exercise 1: four bugs *(difficulty 3, 30 minutes)*
#
# Here is an attack as one finds it on the net. It runs, and it prints a number. Four mistakes are in it, each of which has stood in public code. Mend these, and leave the rest.
# `keep` says which model was trained on which image, and comes from disk. `pixels` are normalised already. It returns one score for each image, higher for members.
# Show every model the image as it was given. Models may come in any mode.
#
# <details><summary>Hint</summary>In which mode is a model asked? Is each model asked the same question? What is left of a sure answer in float32? Is the score
# higher for members? The check tells which kind of mistake is left.</details>


# %% tags=["exercise"]
def attack_from_the_net(victim, models, keep, pixels, labels):
    def ask(model):
        with torch.no_grad():
            model.train()
            shift = torch.randint(-1, 2, (1,)).item()  # a random crop, as in training
            p = model(pixels.roll(shift, -1)).softmax(1)[
                torch.arange(len(labels)), labels
            ]
            return (p / (1 - p)).log()

    said = torch.stack([ask(model) for model in models])  # (models, n)
    outside = [said[~keep[:, i], i] for i in range(len(labels))]
    mean = torch.stack([each.mean() for each in outside])
    std = torch.stack([each.std() for each in outside])
    return (mean - ask(victim)) / std


# %% tags=["solution"]
def attack_from_the_net(victim, models, keep, pixels, labels):
    def ask(model):
        with torch.no_grad():
            model.eval()  # BatchNorm and dropout would answer differently in train mode
            logits = model(pixels)  # one question for all
            return membership_inference.signals.margin(logits, labels)

    said = torch.stack([ask(model) for model in models])  # (models, n)
    outside = [said[~keep[:, i], i] for i in range(len(labels))]
    mean = torch.stack([each.mean() for each in outside])
    std = torch.stack([each.std() for each in outside])
    return (ask(victim) - mean) / std  # unusually high for a non-member: a member


# %%
checks.verify("02.four_bugs", attack_from_the_net)

# %% [markdown]
# ## Read on
#
# Carlini et al. 2022, section IV-C, compares what can be read off a model, and introduces the margin.
