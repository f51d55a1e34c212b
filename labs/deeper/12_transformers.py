# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 12, deeper · Can a Transformer do without its skip connections?
#
# You come from [lab 12](../12_resistant_architectures.ipynb). Koh et al. (2024) report their largest effect in MaxViT, which mixes convolutions with
# attention. Without the skip connections of one stage it loses almost no accuracy, and the attack loses more than half of its success.
#
# After this notebook you can
# - say why a Transformer needs its skip connections;
# - say which stage can be cut, and what was measured here.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.1 GB |
# | class | 0.3 | 1.1 GB |
#
# (Measured on two CPU cores. At `class` the live part is that of `smoke`; a repeat at `night` takes a few minutes.)

# %% [markdown]
# *About 10 minutes. You need* lab 12. There is no new word.

# %%
from privlab import compute, experiments
from privlab.notebook import plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "resistant_architectures.transformers"
kept = experiments.load(NAME)
live = "smoke" if profile == "class" else profile  # 80 epochs take minutes
mine = experiments.run(NAME, live, device=device)

# %% [markdown]
# ## Why not the last stage?
#
# Attention averages over patches. Without a skip connection, block after block of averaging makes all patches alike (Tang et al. 2021). In the later stages
# nothing would be left to tell people apart. So the paper cuts one *early* stage of MaxViT (section 8). Ours is narrow, and beside it stands a small ViT.
#
# ### Predict

# %%
guess = widgets.predict(
    "Points that the cut takes from the attacker, MaxViT:", low=-20, high=60
)
guess

# %%
rows = {
    "MaxViT": "maxvit",
    "MaxViT, first stage cut": "maxvit_skip_1",
    "ViT": "vit",
    "ViT, first quarter cut": "vit_skip_1",
}
names = {label: f"attacc[orl, {name}]" for label, name in rows.items()}
there = {label: name for label, name in names.items() if name in kept or name in mine}
SKIPS = {"MaxViT": "Full", "MaxViT, first stage cut": "Skip Removed"}
plots.evidence(
    kept,
    mine,
    there,
    published=plots.published("koh2024_table10", SKIPS, metric="attacc"),
    xlabel="attack: faces that the judge knows, %",
)

# %%
guess.against(kept.mean("attacc[orl, maxvit] - attacc[orl, maxvit_skip_1]"))

# %% [markdown]
# Your own dots come from two epochs of training. They show that the code runs, and nothing about the claim.

# %%
text(
    "In MaxViT the cut costs {:.0f} points of task accuracy, and takes {:.0f} from the"
    " attacker. The whole MaxViT, stopped where it is as accurate, gives {:.0f} of 100"
    " faces away, the cut one {:.0f} (means of {} draws). The ViT learns too little of"
    " so few photographs to ask: it is right about {:.0f} of 100.",
    kept.mean("acc[orl, maxvit] - acc[orl, maxvit_skip_1]"),
    kept.mean("attacc[orl, maxvit] - attacc[orl, maxvit_skip_1]"),
    kept.mean("attacc_if_stopped[orl, maxvit_skip_1]"),
    kept.mean("attacc[orl, maxvit_skip_1]"),
    len(kept),
    kept.mean("acc[orl, vit]"),
)

# %% [markdown]
# Give such a network time. In an early trial the cut MaxViT was far behind the whole one after half of its epochs, and would have looked well defended.

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, section 8 and Table 10. Tang et al. 2021 on what skip connections do in Transformers.
