# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03, deeper · In which layer is the attribute lost?
#
# You come from [lab 03](../03_attribute_inference.ipynb). There the probe read the last representation. An attacker may sit at another layer.
#
# After this notebook you can
# - read any layer of a network;
# - say where an attribute is easiest to read, and where it gets lost.
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
from inspect import getsource

from privlab import compute, data, experiments
from privlab.attacks import attribute_inference
from privlab.course.lab_03 import experiments as measured
from privlab.experiments.victims.shadow_fleets import FAMILIES
from privlab.models import representations
from privlab.notebook import plots, text, widgets

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

# %%
how = experiments.find(NAME).size(mine.size).settings
photos = data.attributes.load("cifar10")
game = measured.game(mine.repeats[0] + seed, photos, how["images"], "animal", "class")
names = {"ResNet": "resnet", "Swin": "swin"}
victims = {
    name: game.victim(
        FAMILIES[how["families"]][key], how["recipe"], how["every"], device
    ).model(0)
    for name, key in names.items()
}

# %% [markdown]
# ## Reading along
#
# Hooks read what leaves a layer. These come off, whatever happens:

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
guess = widgets.choose(
    "Where does a linear probe read the kind best, in the ResNet?",
    [FIRST, MIDDLE, LAST],
)
guess

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
label = "depth (1 is the representation)"
plots.evidence_lines(
    kept, mine, series, xlabel=label, ylabel="accuracy of the linear probe"
)

# %%
shown = kept or mine
depths = {x: shown.mean(name) for x, name in series["ResNet"].items()}
top = max(depths, key=depths.get)
stem, first = sorted(depths)[:2]  # the ResNet's stem has a place of its own
guess.against(FIRST if top in (stem, first) else LAST if top == 1.0 else MIDDLE)

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
# Lab 08 asks which layers' *gradients* leak. Alain and Bengio 2017 introduced linear probes to look into networks.
