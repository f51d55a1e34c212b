# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03, deeper · When, and in which layer, does a network lose the attribute?
#
# You come from [lab 03](../03_attribute_inference.ipynb). There the probe read the last representation of fully trained victims. Here you probe the victims
# along their training, compare them at the same overfitting, and read their other layers.
#
# After this notebook you can
# - follow an attribute through a training;
# - compare two architectures at the same overfitting level, and beside the same networks untrained;
# - compare probes of attributes that are not equally easy to guess;
# - read any layer of a network, and say where an attribute is easiest to read.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores. After lab 03 the networks are read from disk.)

# %% [markdown]
# *About 40 minutes. You need* lab 03.

# %%
from inspect import getsource

from privlab import compute, data, experiments
from privlab.attacks import attribute_inference
from privlab.course.lab_03 import experiments as measured
from privlab.experiments.victims.shadow_fleets import FAMILIES
from privlab.models import representations
from privlab.notebook import checks, plots, text, widgets

from IPython.display import display
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
shown = kept or mine
marks = experiments.load("attribute_inference.mark")
names = {"ResNet": "resnet", "Swin": "swin"}

# %% [markdown]
# ## Over the epochs
#
# Zhang et al., Figure 3 follows 100 epochs. Are these the victim's epochs (its part a shows the accuracy at the task), or those of the probe (the text
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
share = shown.mean(SHARE.format("probe", ", beyond_untrained"))
display(ahead.against(round(share, 2)))
plots.evidence(kept, mine, rows, xlabel=label)

# %% [markdown]
# ## At the same overfitting
#
# Lab 01 asked whether membership follows the victim's overfitting level, the training accuracy less the test accuracy. Zhang et al., Figure 4, part b, asks whether
# attribute inference does. The victims pass through their levels as they train.
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

# %% [markdown] tags=["printed"]
# ## Two attributes, two guesses
#
# A guess at the kind is right for one photograph of ten, and a guess at the mark of lab 03 for half of them. So their accuracies cannot be compared. The *skill* of a probe can.
#
# ### Exercise 1: better than guessing *(difficulty 1, 10 minutes)*
#
# A probe for glasses is right for 72 of 100 photographs. But 70 of 100 people wear none. Write `skill(said, truth, auxiliary)`: the share of the
# majority guess's mistakes that the probe avoids, $(r - m) / (1 - m)$. The majority guess always says the most common value *of the auxiliary set*,
# `auxiliary`. Here $r$ is the probe's accuracy on `truth`, and $m$ the guess's.
#
# <details><summary>Hint</summary><code>torch.mode</code> or <code>bincount().argmax()</code> finds the most common value. Whose most common value may the
# attacker know?</details>


# %% tags=["exercise"]
def skill(said, truth, auxiliary): ...


# %% tags=["solution"]
def skill(said, truth, auxiliary):
    guess = auxiliary.bincount().argmax()
    right, majority = ((x == truth).double().mean().item() for x in (said, guess))
    return (right - majority) / (1 - majority)


# %%
checks.verify("03.skill", skill)

# %%
told = {"the kind": (shown, "cifar10"), "the mark": (marks, "mark")}
for what, (of, key) in told.items():
    guess = of.mean(f"attack_acc[{key}, majority]")
    right = [of.mean(f"attack_acc[{key}, {name}, probe]") for name in names.values()]
    skills = [(each - guess) / (1 - guess) for each in right]
    display(text("Skill at {}: ResNet {:.2f}, Swin {:.2f}.", what, *skills))

# %% [markdown]
# ## Layer by layer
#
# An attacker may sit at another layer than the last. Hooks read what leaves a layer. These come off, whatever happens:

# %%
how = experiments.find(NAME).size(mine.size).settings
photos = data.attributes.load("cifar10")
game = measured.game(mine.repeats[0] + seed, photos, how["images"], "animal", "class")
victims = {
    name: game.victim(
        FAMILIES[how["families"]][key], how["recipe"], how["every"], device
    ).model(0)
    for name, key in names.items()
}

# %%
print(getsource(representations.listening))

# %%
layers = {name: representations.stages(model) for name, model in victims.items()}
read = {
    name: representations.read(model, game.photos.pixels, layers[name])
    for name, model in victims.items()
}
for name in names:
    print(name, {layer: read[name][layer].shape[1] for layer in layers[name]})

# %% [markdown]
# Maps and rows of tokens are averaged over their places, so that a feature is a channel. `last` is the representation of the lab.
#
# ### Predict

# %%
FIRST, MIDDLE = "behind the stem or the first stage", "in the middle"
LAST = "at the end"
where = widgets.choose(
    "Where does a linear probe read the kind best, in the ResNet?",
    [FIRST, MIDDLE, LAST],
)
where

# %%
STAGE = "attack_acc[cifar10, {}, linear, stage_{}]"
count = {  # the last stage of a ResNet is its representation
    a: sum(STAGE.format(key, n) in mine for n in range(1, 9)) - (a == "ResNet")
    for a, key in names.items()
}
series = {
    a: {
        **{n / (count[a] + 1): STAGE.format(key, n) for n in range(1, count[a] + 1)},
        1.0: f"attack_acc[cifar10, {key}, linear_probe]",
    }
    for a, key in names.items()
}
depth = "depth (1 is the representation)"
plots.evidence_lines(
    kept, mine, series, xlabel=depth, ylabel="accuracy of the linear probe"
)

# %%
depths = {x: shown.mean(name) for x, name in series["ResNet"].items()}
top = max(depths, key=depths.get)
stem, first = sorted(depths)[:2]  # the ResNet's stem has a place of its own
where.against(FIRST if top in (stem, first) else LAST if top == 1.0 else MIDDLE)

# %%
text(
    "In the ResNet the accuracy is {:.3f} behind the stem, {:.3f} behind the first "
    "stage, and {:.3f} at the end. In the Swin it is {:.3f} behind the first stage and "
    "{:.3f} at the end.",
    *(depths[x] for x in (stem, first, 1.0)),
    *(shown.mean(n) for n in (STAGE.format("swin", 1), series["Swin"][1.0])),
)

# %% [markdown]
# ## Look at it
#
# Each dot is a photograph that neither victim nor probe was trained on. It is placed by the two directions in which the features vary most. The upper chart is
# coloured by the task, the lower by the attribute. Choose a layer and a probe. Where do the two answers fall apart, and where the ten kinds?

# %%
places = ("early", "middle", "late", "the representation")
rows = game.parts.shadow_test[:400]
plane = make_pipeline(StandardScaler(), PCA(2))


def cloud(dots, name, what):
    values, column = game.photos.values[name], game.photos[name][rows]
    groups = {value: dots[column == n] for n, value in enumerate(values)}
    alt = f"{what}: dots coloured by {name}."
    return plots.scatter(groups, xlabel="", ylabel="", alt=alt)


# %%
def look(architecture, layer, probe):
    at = round(places.index(layer) / 3 * (len(layers[architecture]) - 1))
    features = read[architecture][layers[architecture][at]]
    score = game.probed(features, probe)
    dots = plane.fit_transform(features[rows])
    what = f"{architecture}, {layers[architecture][at]}"
    line = f"{what}, {features.shape[1]} features, {probe} probe: {score}"
    return (
        widgets.Sentence(line),
        cloud(dots, "animal", what),
        cloud(dots, "class", what),
    )


widgets.explore(
    look,
    start={"layer": places[-1], "probe": "linear"},
    architecture=tuple(names),
    layer=places,
    probe=attribute_inference.KINDS,
)

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 4.3. The deeper notebook of lab 01 asks of membership what this one asks of attributes. Lab 08 asks which layers' *gradients* leak.
# Alain and Bengio 2017 introduced linear probes to look into networks.
