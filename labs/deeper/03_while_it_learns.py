# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03, deeper · Does training teach the attribute, or forget it?
#
# You come from [lab 03](../03_attribute_inference.ipynb). There the victims were fully trained. Here you probe them along the way, and compare them at the
# same overfitting.
#
# After this notebook you can
# - follow an attribute through a training;
# - compare two architectures at the same overfitting level, and beside the same networks untrained.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores. After lab 03 the networks are read from disk.)

# %% [markdown]
# *About 15 minutes. You need* lab 03.

# %%
from privlab import compute, experiments
from privlab.notebook import plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
NAME = "attribute_inference.architectures"
kept = experiments.load(NAME)
mine = experiments.run(NAME, profile, device=device)
names = {"ResNet": "resnet", "Swin": "swin"}

# %% [markdown]
# ## Over the epochs
#
# Figure 3 of Zhang et al. follows 100 epochs. Are these the victim's epochs (its part a shows the accuracy at the task), or those of the probe (the text
# speaks of the attack's training)? Here are both.


# %%
def along(whose):  # architecture -> {epoch: name of what is measured there}
    key = "attack_acc[cifar10, {}, probe, {}_epoch_{}]"
    named = {
        a: {e: key.format(k, whose, e) for e in range(101)} for a, k in names.items()
    }
    return {
        a: {e: n for e, n in of.items() if n in mine or n in kept}
        for a, of in named.items()
    }


axes = {"victim": "epoch of the victim's training (0 is untrained)"}
axes |= {"probe": "epoch of the probe's training"}
for whose, label in axes.items():
    chart = plots.evidence_lines(
        kept, mine, along(whose), xlabel=label, ylabel="accuracy of the probe"
    )
    display(chart)

# %% [markdown]
# The paper says that the Swin is ahead at nearly every epoch. Below is the share of the epochs at which that is so: as it is, and after what the
# *untrained* networks give is taken off both.
#
# ### Predict

# %%
ahead = widgets.predict(
    "Over the probe's epochs, beyond the untrained networks, the Swin is ahead at:",
    0,
    1,
)
ahead

# %%
SHARE = "share_of_epochs_ahead[cifar10, {}, swin_less_resnet{}]"
rows = {
    f"{whose}'s epochs{words}": SHARE.format(whose, key)
    for whose in ("probe", "victim")
    for words, key in (("", ""), (", beyond untrained", ", beyond_untrained"))
}
label = "share of the epochs at which the Swin gives more away"
shown = kept or mine
share = shown.mean(SHARE.format("probe", ", beyond_untrained"))
display(ahead.against(round(share, 2)))
plots.evidence(kept, mine, rows, xlabel=label)

# %% [markdown]
# ## At the same overfitting
#
# Lab 01 asked whether membership follows the victim's overfitting level, the training accuracy less the test accuracy. Figure 4b asks whether attribute inference
# does. The victims pass through their levels as they train.
#
# ### Predict

# %%
apart = widgets.predict("Swin less ResNet, at the same overfitting:", -0.3, 0.3)
apart

# %%
matched = {a: f"attack_acc_at_matched_gap[cifar10, {k}]" for a, k in names.items()}
fresh = {
    f"{a}, untrained": f"attack_acc[cifar10, {k}, untrained_network]"
    for a, k in names.items()
}
label = "accuracy of the probe, averaged over the levels that both went through"
plots.evidence(kept, mine, matched | fresh, xlabel=label)

# %%
gap = shown.mean(f"{matched['Swin']} - {matched['ResNet']}")
before = shown.mean(f"{fresh['Swin, untrained']} - {fresh['ResNet, untrained']}")
display(apart.against(round(gap, 4)))
text(
    "At the same overfitting a probe reads {:+.3f} more from the Swin than from the "
    "ResNet. Before any training it was {:+.3f} already.",
    gap,
    before,
)

# %% [markdown]
# The probe is judged on photographs that the victim never saw. So nothing obliges the lines to meet at the same overfitting. All curves begin at the untrained networks,
# at level 0.

# %% [markdown]
# ## On the victim's own images
#
# The victim may know its training images better than others. Does a probe read more from them?

# %%
KEY = "attack_acc[cifar10, {}, {}]"
sets = {
    "other images": "probe",
    "its training images": "on_the_victims_training_images",
}
sets |= {"other images, equal width": "equal_width"}
rows = {
    f"{a}: {words}": KEY.format(k, n)
    for a, k in names.items()
    for words, n in sets.items()
}
plots.evidence(kept, mine, rows, xlabel="accuracy of the probe")

# %% [markdown]
# The last row of each compares at equal width: as many principal components of both representations. A wider one gives a probe more to work with.
#
# ## Read on
#
# Zhang et al. 2024, section 4.3. Lab 01 and its deeper notebook on the same overfitting ask this of membership.
