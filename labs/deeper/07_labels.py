# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07, deeper · Which labels are in the batch?
#
# You come from [lab 07](../07_gradvit.ipynb), where the attacker has the labels of the batch. How do they get them?
#
# After this notebook you can
# - read the labels of a whole batch from the last layer, repeats included;
# - say when the rule of GradViT fails, and why.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.1 GB |
# | class | 1 | 1.3 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 07.

# %%
from privlab import compute, experiments
from privlab.experiments.victims.batches import STDS, photographs, vit
from privlab.notebook import checks, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
kept = experiments.load("gradvit.labels")
mine = experiments.run("gradvit.labels", profile, device=device)
shown = kept or mine

# %% [markdown]
# ## Three rules
#
# Row $i$ of the gradient of the last layer's weight is $\frac1N \sum_b (p_{bi} - [y_b = i])\, f_b^\top$. Here $f_b$ are the features of image $b$, and $p_{bi}$ is its probability of class $i$.
#
# - `row_minimum` is GradViT's rule (equation 2). It takes the $N$ rows that hold the most negative numbers, so it assumes $N$ *different* labels.
# - `bias_minimum` does the same with the gradient of the bias.
# - `bias_counts` (after Wainakh et al. 2022) names the class with the smallest number of the bias, takes the part of one image, $1/N$, away from it, and looks again. So it can name a class twice.

# %% [markdown]
# ### Predict
#
# Four images, with labels drawn at random, so some labels repeat. The victim is a trained ViT. (A guess of four *different* labels finds a bit more than a third.)

# %%
guess = widgets.predict("Which share of the labels does row_minimum find?", 0, 1)
guess

# %%
cases = [("vit, fresh", "distinct"), ("vit, trained", "distinct")]
cases += [("vit, trained", "repeated"), ("resnet, trained", "distinct")]
cases += [("resnet, trained", "repeated")]
rules = ("row_minimum", "bias_minimum", "bias_counts")
shares = {
    f"{who}, {kind}: {rule}": f"label_accuracy[{rule}, {who}, {kind}]"
    for who, kind in cases
    for rule in rules
}
plots.evidence(kept, mine, shares, xlabel="share of four labels found")

# %%
guess.against(shown.mean("label_accuracy[row_minimum, vit, trained, repeated]"))

# %%
text(
    "Behind a fresh ViT, with different labels, row_minimum finds {:.0%} of the labels "
    "and bias_minimum {:.0%}. With a small position embedding row_minimum finds "
    "{:.0%}. No rule is best everywhere: behind a trained ResNet, with different "
    "labels, row_minimum finds {:.0%} and bias_minimum {:.0%}.",
    shown.mean("label_accuracy[row_minimum, vit, fresh, distinct]"),
    shown.mean("label_accuracy[bias_minimum, vit, fresh, distinct]"),
    shown.mean("label_accuracy[row_minimum, vit, fresh, distinct, std_0p02]"),
    shown.mean("label_accuracy[row_minimum, resnet, trained, distinct]"),
    shown.mean("label_accuracy[bias_minimum, resnet, trained, distinct]"),
)

# %% [markdown]
# ## Why the rows can mislead
#
# Ask how much the features of two images differ, with a large position embedding and with a small one (timm's).

# %%
images, _ = photographs(2, seed)
for std in STDS.values():
    model = vit(seed, std, width=128 if profile == "smoke" else 384)
    with torch.no_grad():
        tokens = model.forward_features(model.normalise(images))
        features = model.forward_head(tokens, pre_logits=True)  # (2, width)
    cosine = torch.cosine_similarity(*features, dim=0)
    print(f"std {std:g}: cosine between the features of two images {cosine:.2f}")

# %% [markdown]
# With a large embedding the class token depends mostly on positions. All images then have nearly the same features, and these have both signs. A row is about $\sum_b (p_{bi} - [y_b = i])$ times *one*
# vector. A class that is absent has $+p$ times the lowest number of this vector, which can be further down than the row of a class that is present. The bias does not depend on the features.

# %% [markdown]
# ### Exercise 1: labels that repeat *(difficulty 2, 10 minutes)*
#
# Write `labels_of(gradient, batch)`. The gradient is that of the last layer's bias, one number a class. Return the list of the labels, repeats included.
#
# <details><summary>Hint</summary>Each image pulls the number of its class down by 1/batch. Name the class with the smallest number, undo one pull, look again.</details>


# %% tags=["exercise"]
def labels_of(gradient, batch): ...


# %% tags=["solution"]
def labels_of(gradient, batch):
    left, found = gradient.clone(), []
    for _ in range(batch):
        found.append(int(left.argmin()))
        left[found[-1]] += 1 / batch
    return found


# %%
checks.verify("07.counts", labels_of)

# %% [markdown]
# ## Read on
#
# Hatamizadeh et al. 2022, section 3.1; Yin et al. 2021; Wainakh et al. 2022.
