# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 12, deeper · Does the judge take sides?
#
# You come from [lab 12](../12_resistant_architectures.ipynb). There a network counts as resistant if the *judge* names few of the faces that come out of
# it. The judge is a network, too, and has an architecture of its own. Does it look at all victims with the same eyes?
#
# After this notebook you can
# - say what is taken for granted where one judge compares two architectures;
# - find out whether a defence hides a face, or only hides it from the judge.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 0.4 | 1.1 GB |
#
# (Measured on two CPU cores. At `class` the live part is that of `smoke`; two networks and four judges, fully trained, take some minutes.)

# %% [markdown]
# *About 15 minutes. You need* lab 12. There is no new word.

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
NAME = "resistant_architectures.judges"
kept = experiments.load(NAME)
live = "smoke" if profile == "class" else profile
mine = experiments.run(NAME, live, device=device)

# %% [markdown] tags=["printed"]
# ## A defence that nobody proposed
#
# Take the narrow ResNet of lab 12, and put GroupNorm in the place of each BatchNorm. It learns more slowly, so train it three times as long. Beside it
# stands the usual network, trained as long. Both are attacked as in lab 12, and judged by the usual judge, a DenseNet. As there, the fair comparison is the
# usual network *stopped* where it is as accurate.

# %%
USUAL = "judge_densenet_batchnorm"
LESS = "attacc_if_stopped[orl, groupnorm, {0}] - attacc[orl, groupnorm, {0}]"
pair = {
    "BatchNorm, stopped as accurate": f"attacc_if_stopped[orl, groupnorm, {USUAL}]",
    "GroupNorm": f"attacc[orl, groupnorm, {USUAL}]",
}
plots.evidence(kept, mine, pair, xlabel="the usual judge sees the right person, %")

# %%
text(
    "Before the usual judge GroupNorm gives {:.0f} ± {:.0f} points less away (mean ±"
    " standard deviation of {} draws of people). The networks are right about {:.0f}"
    " and {:.0f} of 100 new photographs, with BatchNorm and with GroupNorm.",
    kept.mean(LESS.format(USUAL)),
    kept.spread(LESS.format(USUAL)),
    len(kept),
    kept.mean("acc[orl, batchnorm]"),
    kept.mean("acc[orl, groupnorm]"),
)

# %% [markdown]
# No defence of lab 12 comes near that. Has the search failed, then? Ask the attacked network itself how likely it takes the target to be.

# %%
sure = {
    "BatchNorm": "likelihood[orl, batchnorm]",
    "GroupNorm": "likelihood[orl, groupnorm]",
}
plots.evidence(kept, mine, sure, xlabel="the victim's probability for its target")

# %% [markdown]
# ## Four judges
#
# The judge has BatchNorm as well, as nearly every judge in the literature has. So let four judges look at the *same* pictures: a DenseNet and a shallow
# ResNet, each with either norm. All four have learned the private photographs, from weights of their own.
#
# ### Predict
#
# Where is GroupNorm's advantage smallest?

# %%
judges = {
    f"{body} with {norm}": f"judge_{body.lower()}_{norm.lower()}"
    for body in ("DenseNet", "ResNet")
    for norm in ("BatchNorm", "GroupNorm")
}
guess = widgets.choose(
    "Smallest, or within ten points of it: before a judge that is a", [*judges]
)
guess

# %%
less = {f"a {label}": LESS.format(name) for label, name in judges.items()}
plots.evidence(kept, mine, less, xlabel="points that GroupNorm gives less away, before")

# %%
means = {label: kept.mean(LESS.format(name)) for label, name in judges.items()}
least = min(means.values())
guess.against([label for label, mean in means.items() if mean < least + 10])

# %%
text(
    "GroupNorm gives less away by {}. Each of the judges is right about {:.0f} or more"
    " of 100 photographs that it has not seen.",
    ", ".join(f"{mean:.0f} points before a {label}" for label, mean in means.items()),
    min(kept.mean(f"acc[orl, {name}]") for name in judges.values()),
)

# %% [markdown]
# The networks, the searches and the pictures are the same in all four rows. What differs is who looks. A search finds what *its* network takes for the
# person, and a network with GroupNorm looks for other things in a face than one with BatchNorm does. The same picture is named more often by a judge with the norm of the network that it was made for.
#
# So attack accuracy compares networks of one kind. Before you call an architecture resistant, ask judges of several kinds, one of them of the victim's own.
# And ask people: neither judge is one.

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, section 14, on how reconstructions are judged. [Lab 11](../11_model_inversion.ipynb) asks why the victim itself is no judge.
