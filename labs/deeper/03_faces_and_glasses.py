# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03, deeper · Does a probe see glasses, or does it know the person?
#
# You come from [lab 03](../03_attribute_inference.ipynb). There the photographs showed animals and vehicles. Here a network learns *who* somebody is,
# and a probe looks for glasses.
#
# After this notebook you can
# - say what it changes whether a probe is judged on the same people or on others;
# - choose between accuracy, macro-F1 and skill when one value is rare.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.2 GB |
# | class | 0.7 | 1.3 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 03. *New words*: **macro-F1**.

# %%
from privlab import compute, data, experiments
from privlab.notebook import checks, plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "attribute_inference.glasses"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)

# %% [markdown]
# ## Who, and glasses
#
# The ORL faces show 40 people, ten photographs each. The victim learns *who*. The attribute is *glasses*, which we wrote down ourselves after looking at
# all 400 photographs. Eight people always wear them, seven now and then, and 25 never.

# %%
orl = data.attributes.load("orl", size=32)
worn = orl["glasses"].reshape(40, 10)
sometimes = [k for k in range(40) if 0 < worn[k].sum() < 10][:4]
rows = {f"s{k + 1}": orl.pixels[10 * k : 10 * k + 6] / 255 for k in sometimes}
captions = {
    f"s{k + 1}": ["glasses" if g else "" for g in worn[k, :6]] for k in sometimes
}
says = "Four people of the ORL set, six photographs each, some with glasses."
plots.images(rows, alt=says, captions=captions)

# %% [markdown] tags=["printed"]
# ## The same people, and others
#
# The victim sees five photographs of each person. The probe is fitted on some of the others, and judged on the rest. There are two ways to cut. *By
# photograph*: the probe is judged on other photographs of the same people. *By person*: it is judged on people whom it has never met. Always answering "no"
# is right for about 70 of 100 photographs.
#
# ### Predict

# %%
met = widgets.predict("Accuracy for the same people, Swin:", 0.5, 1.0)
met

# %%
others = widgets.choose(
    "And for other people?",
    ["as good", "worse, but better than the majority guess", "no better than it"],
)
others

# %%
people = {"the same people": "same_people", "other people": "other_people"}
views = {"ResNet": "resnet", "Swin": "swin"}
views |= {f"{a}, untrained": f"{key}_untrained" for a, key in views.items()}
views |= {"pixels": "pixels"}
accuracy = {
    f"{a}: {words}": f"attack_acc[orl, {key}, {who}]"
    for a, key in views.items()
    for words, who in people.items()
}
plots.evidence(kept, mine, accuracy, xlabel="accuracy (the majority guess: about 0.7)")

# %%
skill = {
    f"{a}: {words}": f"skill[orl, {key}, {who}]"
    for a, key in views.items()
    for words, who in people.items()
}
plots.evidence(kept, mine, skill, xlabel="skill (0 is the majority guess)")

# %%
shown = kept or mine
same, other = (shown.mean(skill[f"Swin: {words}"]) for words in people)
good, worse, none = others.options
display(met.against(round(shown.mean(accuracy["Swin: the same people"]), 3)))
others.against(good if other > same - 0.05 else worse if other > 0.05 else none)

# %%
text(
    "Skill is the share of the majority guess's mistakes that the probe avoids. For "
    "the same people it is {:.2f} behind the Swin, and for other people {:.2f}. Behind "
    "the untrained Swin it is {:.2f} and {:.2f}.",
    same,
    other,
    *(shown.mean(skill[f"Swin, untrained: {words}"]) for words in people),
)

# %% [markdown]
# For people whom it has met, a probe need not see any glasses. It can find out *who* it is, and who it is mostly says whether there are glasses. No training is needed for that: look at the
# row of the pixels. For other people this way is closed. Which number to print depends on the claim: that the representation *shows* glasses, or that it helps
# somebody who already knows these people.

# %% [markdown]
# There are 20 people to learn from, and 32 x 32 pixels. More people might teach a probe what glasses look like.

# %% [markdown] tags=["printed"]
# ## When one value is rare
#
# A probe that never says the rare value can still have a high accuracy. **Macro-F1** is the mean of the F1 scores of all values, and counts each
# value alike. The F1 of a value that is never said is 0.

# %% [markdown] tags=["printed"]
# ### Exercise 1: an F1 for everybody *(difficulty 2, 15 minutes)*
#
# Write `macro_f1(said, truth, values)`: for each value 0 to `values - 1` of the attribute the F1,
# $2\,\mathrm{TP} / (2\,\mathrm{TP} + \mathrm{FP} + \mathrm{FN})$, and the mean of them. `said` and `truth` are tensors of whole numbers. A value
# that is never said and never true has an F1 of 0.
#
# <details><summary>Hint</summary>For one value: TP counts where both have it, FP where only <code>said</code> has it, FN where only <code>truth</code>. Mind
# the division where all three are 0.</details>


# %% tags=["exercise"]
def macro_f1(said, truth, values): ...


# %% tags=["solution"]
def macro_f1(said, truth, values):
    scores = []
    for value in range(values):
        hits = ((said == value) & (truth == value)).sum().item()
        either = (said == value).sum().item() + (truth == value).sum().item()
        scores.append(2 * hits / either if either else 0.0)  # either is 2 TP + FP + FN
    return sum(scores) / values


# %%
checks.verify("03.macro_f1", macro_f1)

# %%
above = {
    f"{a}: {words}": f"macro_f1_above_majority[orl, {key}, {who}]"
    for a, key in views.items()
    for words, who in people.items()
}
plots.evidence(kept, mine, above, xlabel="macro-F1 less that of the majority guess")

# %% [markdown]
# Compare this chart with that of skill. The majority guess never says "glasses", so its macro-F1 is low, and a probe that says it now and then is above. Being above it
# is no proof that a probe sees anything.

# %% [markdown]
# ## Read on
#
# Lab 11 gets faces out of a classifier. Hewitt and Liang 2019 give a probe random labels to memorise, and compare.
