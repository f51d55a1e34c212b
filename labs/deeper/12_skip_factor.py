# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 12, deeper · How much of a skip connection?
#
# You come from [lab 12](../12_resistant_architectures.ipynb). SSF has a dial, its factor $k$: the last stage's skip connections are multiplied by it. At 1
# it is the full network, at 0 it is RoLSS. Is there a best place in between?
#
# After this notebook you can
# - read a dial's effect from repeats that were measured in pairs;
# - say what a rank correlation within a draw can show.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.1 GB |
# | class | 0.8 | 1.1 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 15 minutes. You need* lab 12. There is no new word.

# %%
from privlab import compute, experiments
from privlab.defences import architecture
from privlab.experiments.victims import private_people
from privlab.notebook import drawings, plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "resistant_architectures.skip_factor"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
drawings.show("12.skips_by_k")

# %% [markdown]
# ## Predict
#
# The paper turns the dial in its Figure 9. There, both the accuracy at the task and the success of the attack rise with $k$.

# %%
guess = widgets.predict(
    "Rank correlation between k and attack accuracy, here:", low=-1.0, high=1.0
)
guess

# %% [markdown]
# ## The dial


# %%
def dial(metric):
    """k -> the name of its value."""
    start = f"{metric}[orl, resnet, k_"
    names = [name for name in {**mine.table, **kept.table} if name.startswith(start)]
    return {float(n[len(start) : -1].replace("p", ".")): n for n in sorted(names)}


plots.evidence_lines(
    kept,
    mine,
    {"task": dial("acc"), "attack": dial("attacc")},
    xlabel="k, the factor of the last stage's skip connections",
    ylabel="accuracy, %",
)

# %%
guess.against(round(kept.mean("rank_correlation[orl, resnet, k, attacc]"), 2))

# %% [markdown]
# A rank correlation of 1 means that attack accuracy rises with every step of the dial, in one draw of people. The mean over draws says whether it tends to.

# %%
text(
    "Within a draw, k goes along with the task's accuracy by a rank correlation of"
    " {:.2f} ± {:.2f}, and with the attack's by {:.2f} ± {:.2f} (mean ± standard"
    " deviation of {} draws).",
    *(
        of(f"rank_correlation[orl, resnet, k, {what}]")
        for what in ("acc", "attacc")
        for of in (kept.mean, kept.spread)
    ),
    len(kept),
)

# %% [markdown]
# ## Turn it yourself
#
# These are the networks of your own draw. A new value is trained first, which takes some seconds.

# %%
stage = experiments.find(NAME).size(mine.size).settings["stage"]
here = private_people.People(mine.repeats[0] + seed, **stage, device=device)
body = "tiny" if profile == "smoke" else "resnet"


def turned(k):
    cut = (
        () if k == 1 else (architecture.rolss(),) if k == 0 else (architecture.ssf(k),)
    )
    (one,) = here.attacked(body, defences=cut)
    places = one.result.places(min(6, here.people))
    known = ["known" if yes else "unknown" for yes in one.top1[places]]
    return plots.images(
        {"private": here.private(6), f"k = {k:g}": one.result.images[places]},
        alt=f"Six people, and what was found with k = {k:g}: {', '.join(known)}.",
        captions={f"k = {k:g}": known},
    )


widgets.explore(turned, k=(0.0, 0.1, 0.2, 0.5, 1.0), start={"k": 0.2})

# %% [markdown]
# In a DenseNet the features are joined, not added, and SSF keeps the first $k$ of them. The paper takes $k = 0.01$. A hundredth of our few channels is none,
# so SSF *is* RoLSS there.

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, sections 5.2 and 10.1, and Figure 9.
