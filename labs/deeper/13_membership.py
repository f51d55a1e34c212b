# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 13, deeper · Does a defence of gradients hide who was in the training set?
#
# You come from [lab 13](../13_defences.ipynb). There the attacker saw a gradient. Here they have the trained model, and ask who was in its training set.
#
# After this notebook you can
# - put a defence into a training, and attack the result;
# - compare a defence with a network that was simply stopped earlier;
# - say what DP-SGD promises, and at which cost.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores. After lab 13 the networks are read from disk.)

# %% [markdown]
# *About 20 minutes. You need* labs 01 and 13.

# %%
from inspect import getsource

from privlab import compute, experiments, models
from privlab.course.lab_13 import experiments as defended_client
from privlab.defences import dp_sgd
from privlab.notebook import plots, text, widgets

import numpy as np
import pandas as pd
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "defences.training_cost"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
shown = kept or mine

# %% [markdown]
# ## Trained behind a defence
#
# Every step of the training takes the gradient that a server would have received. Then a threshold on the loss tells members from non-members, as in lab 01. The
# victims come in pairs, and each is the shadow model of the other.

# %%
print(getsource(defended_client.Pair.membership).split('"""')[2])

# %% [markdown]
# ### Predict

# %%
LESS, ALIKE, MORE = "fewer members", "as many, within 1 point of AUC", "more members"
guess = widgets.choose(
    "Noise in proportion to each tensor, as long as the gradient, gives away",
    [LESS, ALIKE, MORE],
)
guess

# %%
kinds = [name[9:-1] for name in shown.table if name.startswith("task_acc[")]
after = {
    kind: np.stack([shown[f"task_acc[{kind}]"], shown[f"auc[{kind}]"]], 1)
    for kind in kinds
}  # (repeats, 2), in percent
change = shown.mean("auc[own_1] - auc[none]")
display(guess.against(LESS if change < -1 else MORE if change > 1 else ALIKE))
called = {
    kind.replace("_", " "): of for kind, of in {"none": after["none"], **after}.items()
}
spoken = "; ".join(
    f"{name} {of[:, 0].mean():.0f} and {of[:, 1].mean():.0f}"
    for name, of in called.items()
)
plots.scatter(
    called,
    front=True,
    xlabel="task accuracy (%)",
    ylabel="AUC of membership (%; 50 is random guessing)",
    alt=f"Task accuracy against membership AUC, means: {spoken}.",
)

# %% [markdown]
# To the left the accuracy falls, and below the attacker loses. *stopped 2* is the undefended network after two epochs. What would a network give away that was
# *stopped* where it is as accurate as a defended one?


# %%
def cell(values):
    return (
        f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
        if len(values) > 1
        else f"{np.mean(values):.1f}"
    )


defended = [kind for kind in kinds if f"auc_if_stopped[{kind}]" in shown]
rows = {
    kind.replace("_", " "): {
        "accuracy lost": cell(after["none"][:, 0] - after[kind][:, 0]),
        "AUC taken": cell(after["none"][:, 1] - after[kind][:, 1]),
        "AUC less than if stopped": cell(
            shown[f"auc_if_stopped[{kind}] - auc[{kind}]"]
        ),
    }
    for kind in defended
}
pd.DataFrame(rows).T

# %%
text(
    "Noise in proportion takes {:.1f} points of AUC from the attacker. Compared with a "
    "network that was stopped at the same accuracy it is {:.1f} points.",
    -change,
    shown.mean("auc_if_stopped[own_1] - auc[own_1]"),
)

# %% [markdown]
# ## A defence with a proof
#
# **DP-SGD** (Abadi et al. 2016) cuts each image's gradient to length 1 and adds noise, so that no single image changes the outcome by much. A parameter, *epsilon*,
# says how much: the smaller, the stronger the promise. Its noise is counted in lengths of *one image's* gradient.

# %%
settings = experiments.find(NAME).size(mine.size).settings
pair = defended_client.Pair(mine.repeats[0], settings["members"], settings["epochs"])
network = models.build(settings["model"], seed=seed, **settings["changes"])
count = sum(p.numel() for p in network.parameters())
private = dp_sgd.DP(epsilon=50.0, delta=1e-3)
multiplier = private.noise(pair.recipe, settings["members"])
print(f"epsilon 50: a deviation of {multiplier:.2f} on each of {count:,} numbers,")
print(f"{multiplier * count**0.5:,.0f} times the length of one image's cut gradient")

# %% [markdown]
# Even a weak promise, with so few images, asks for noise that is far longer than a gradient. The promise gets cheaper with more images. DP-SGD is trained from the
# size `night` on; of this experiment no such repeat is committed yet.
#
# ## Read on
#
# Abadi et al. 2016; Zhang et al. 2024, section 7.2. Lab 02's likelihood ratio asks about each picture by itself, and needs several models for
# each row of the table.
