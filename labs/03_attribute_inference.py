# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 03 · Attribute inference: what a representation knows that nobody asked it
#
# A model is trained to say one thing of a photograph: animal or vehicle, man or woman. On the way it turns the photograph into some hundred numbers. Apps send these to servers, and shops store them, because "they
# are only features". What else can be read off them?
#
# You train victims on a harmless question, read the numbers that enter their last layer, and teach a small network to tell from them what nobody asked (Zhang et al. 2024, section 3.1.2; Song and Shmatikov 2020 call it *overlearning*).
#
# After it you can
# - carry out an attribute inference attack, and read a layer of any model without leaving a trace in it;
# - say what a probe has to beat before its accuracy means anything: the commonest value, the answer itself, a network that learned nothing;
# - compare two architectures at equal width of their representations, and at equal overfitting;
# - see how a probe seems to work through class imbalance, or through the same people on both sides;
# - put a price on a first defence.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.9 | 1.6 GB |
# | class | 10 | 2.7 GB |
# | gpu | 10 | 8 GB |
# | paper | 300 | 12 GB |
#
# (Measured on two CPU cores, a second process included; the last two rows are estimates.)

# %% [markdown]
# *You need* lab 01, or to know what a classifier and overfitting are. *Words that are new here*: **representation**, **probe**, **attribute**, **auxiliary set**, **macro-F1**, **majority guess**, **bottleneck**.

# %%
import itertools
import statistics
import time
from functools import cache
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from privlab import data, ledger, models, training
from privlab.attacks import attribute_inference
from privlab.metrics import roc
from privlab.notebook import checks, plots, widgets
from privlab.notebook.plots import distributions

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"
victim = ""  # beside the profile's networks, another model of timm: "mobilenetv3_small_050"
faces = ""  # "utkface", "fairface" or "celeba", once data_scripts/prepare.py has made yours ready
part_minutes = 6  # at gpu: how long the trainings of one part may take

# %%
page = ledger.Page("03", profile=profile, seed=seed, device=device)
small = {
    "ResNet": ("resnet_cifar", dict(channels=(16, 32, 64, 64), stem="imagenet")),
    "Swin": ("swin_cifar", dict(embed_dim=32, depths=(1, 1, 1), window_size=4)),
}
full = {"ResNet": ("resnet50_cifar", {}), "Swin": ("swin_tiny_cifar", {})}
larger = {"ResNet-101": ("resnet101_cifar", {}), "Swin-S": ("swin_small_cifar", {})}
# families, images, victims of each, recipe, epochs between two looks, epochs of the probe
family, size, repeats, recipe, every, probe_epochs = {
    "smoke": (small, 1_600, 2, "attribute_smoke", 2, 10),
    "class": (small, 6_000, 5, "attribute_laptop", 2, 40),
    "gpu": (full, 20_000, 2, "zhang2024_attribute", 25, 100),
    "paper": (full | larger, 20_000, 5, "zhang2024_attribute", 10, 100),
}[profile]
if victim:  # recorded under its own name: no claim is about it
    family = family | {victim: (victim, models.sized(victim, 32))}
key = {name: ledger.key(name) for name in family}
recipe = training.RECIPES[recipe]
deadline = time.monotonic() + 60 * part_minutes if profile == "gpu" else None

# %% [markdown]
# ## The game
#
# The victim is trained on a *task*. The numbers that enter its last layer are the **representation** of a photograph. The attacker is after another fact about the photograph, the **attribute**.

# %% [markdown]
# He has photographs of the same kind with their attribute, and the victim's representation of them: his **auxiliary set**. On it he fits a **probe**, a small network from representation to attribute. Then somebody's representation comes along, and he asks the
# probe. He never sees the photograph.

# %% [markdown]
# In the paper the photographs are CelebA's, the task is gender and the attribute race (section 4.1). That cannot be quite so: none of CelebA's 40 attributes is race, and at its gender task networks like these usually get more than .95, not the .65 of Table 4.
# To probe race take UTKFace or FairFace: if you have accepted their terms and have the files, `python data_scripts/prepare.py attributes utkface --from FOLDER` makes them ready, and `faces = "utkface"` above takes them.

# %% [markdown]
# By default we take what everybody can have. **CIFAR-10**: the task is *animal or vehicle*, the attribute *which of the ten*. Nobody is hurt by a frog that is recognised. Further down, **real faces**: the task is *who*, the attribute *glasses or not*.

# %%
TASKS = {"cifar10": ("animal", "class"), "utkface": ("gender", "race"), "fairface": ("gender", "race"), "celeba": ("Male", "Young")}  # fmt: skip
source = faces or "cifar10"
task, hidden = TASKS[source]
known = data.attributes.load(source).few(size, seed)
print(known)
print(
    f"the task is {task}, {len(known.values[task])} answers; the attribute is {hidden}, {len(known.values[hidden])} values"
)

# %% [markdown]
# As in lab 01 the photographs are cut into four parts that share none: the victim's training and test images, and two of the attacker's, one to fit the probe on and one to judge it.

# %%
parts = [data.four_way(known[hidden], seed=seed + k) for k in range(repeats)]
keep = torch.zeros(repeats, len(known), dtype=torch.bool)  # which victim is trained on which image
for k, part in enumerate(parts):
    keep[k, part.victim_train] = True
print({name: len(places) for name, places in parts[0]._asdict().items()})

# %% [markdown]
# ### Before you go on: predict
#
# The victims learn two answers; the probe has to tell ten kinds apart. Who knows nothing is right once in ten. What share does the probe get right from the Swin's representation, *less* the share from the ResNet's?

# %%
guess = widgets.predict("attack accuracy, Swin less ResNet:", low=-0.3, high=0.3)
guess

# %% [markdown]
# ## The victims
#
# Two small networks with about the same number of parameters. Each is trained several times, on another split and from other weights, and read from disk after that.


# %%
def trained(zoo_name, changes, rows=keep, about=known, told=task, at=(), how=recipe):
    """A fleet of victims of one architecture; what enters their last layer is kept for every image."""
    changes = {**changes, **models.sized(zoo_name, about.pixels.shape[-1]), "num_classes": len(about.values[told])}
    made = training.shadow_models.make(
        zoo_name, how, (about.pixels, about[told]), rows, model=changes, normalise=about.normalise,
        at=at, layers=(models.representations.LAST,), seed=seed, device=page.device,
    )  # fmt: skip
    made.train(budget=deadline and max(deadline - time.monotonic(), 0))
    if not all(run.complete for run in made.runs):
        raise TimeoutError(f"this part's time is over; run the lab again, and it goes on from here: {made}")
    return made


# %%
print(recipe)
looks = range(every, recipe.epochs, every)
victims = {name: trained(*made, at=looks) for name, made in family.items()}
for name, fleet in victims.items():
    print(f"{name}: {sum(p.numel() for p in fleet.model(0).parameters()) / 1e6:.2f} M parameters")


# %%
@cache
def accuracies(name, k, at=None):
    """Victim k's accuracy at its task, on its training and on its test images."""
    return tuple(victims[name].right(k, places, at) for places in parts[k][:2])


learnt = {name: np.array([accuracies(name, k) for k in range(repeats)]) for name in family}  # (victims, train and test)
about = dict(mode="eval", victim=f"trained {recipe.epochs} epochs", note=f"{source}: {task}, {hidden}")
for name, (train, test) in ((name, of.T) for name, of in learnt.items()):
    page.record("task_acc", [source, key[name]], test, **about)
    print(f"{name}: {train.mean():.3f} of its training images right, {test.mean():.3f} of its test images")
page.record("task_acc_difference", [source, "swin_less_resnet"], learnt["Swin"][:, 1] - learnt["ResNet"][:, 1], **about)

# %% [markdown]
# ## Reading along
#
# PyTorch lets you listen at any layer, with a *hook*. A hook that is forgotten goes on listening, and holds on to all that it hears, so ours come off whatever happens:

# %%
print(getsource(models.representations.listening))
x = known.pixels[:3]
for name in ("ResNet", "Swin"):
    read = models.representations.read(victims[name].model(0), x, models.representations.stages(victims[name].model(0)))
    print(name, {layer: tuple(features.shape) for layer, features in read.items()})

# %% [markdown]
# The deeper layers of a map or a row of tokens are averaged over their places, so a feature is a channel. `last` is the representation. It is *wider* for the ResNet than for the Swin: remember that.

# %% [markdown]
# ## The probe
#
# The paper's is a "two-layer MLP", which we read as two layers of weights. Beside it stands a *linear* probe, which can only weigh features. Features are standardised first:

# %%
print(getsource(attribute_inference.probe).split('"""')[0], "...", sep="\n")
features, part = victims["Swin"].features(0), parts[0]
fitted = attribute_inference.probe(features[part.shadow_train], known[hidden][part.shadow_train], seed=seed)
print(fitted)
print(fitted.score(features[part.shadow_test], known[hidden][part.shadow_test]))

# %% [markdown]
# **Macro-F1** is the mean of the F1 of each value of the attribute: a probe that never says the rare value has an F1 of 0 there, however good its accuracy. The **majority guess** in the brackets looks at nothing: it always says the commonest value.

# %% [markdown]
# A probe has more to beat than that. Who sees the victim's *answer*, "animal", already knows that it is none of four. And some of what the probe reads may come through *any* network. So we also probe the confidences alone, the same architecture untrained,
# and the pixels.


# %%
def judged(features, k, kind="mlp", width=None, at="shadow_test"):
    """Fit a probe on the auxiliary images of split k, and judge it on others."""
    part, labels = parts[k], known[hidden]
    fitted = attribute_inference.probe(features[part.shadow_train], labels[part.shadow_train], kind, width, seed)
    places = getattr(part, at)
    return fitted.score(features[places], labels[places])


@cache
def untrained(name, k):
    """What the images become inside the same architecture with fresh weights."""
    zoo_name, changes = family[name]
    changes = {**changes, **models.sized(zoo_name, known.pixels.shape[-1])}
    fresh = models.build(zoo_name, len(known.values[task]), seed=seed + k, **changes).to(page.device)
    fresh.normalise = known.normalise
    return models.representations.read(fresh, known.pixels)[models.representations.LAST]


# %%
narrow = min(fleet.features(0).shape[1] for fleet in victims.values()) // 2
confidences = {(name, k): victims[name].logits(k)[0].softmax(1) for name in family for k in range(repeats)}
pixels = torch.nn.functional.avg_pool2d(known.pixels.float() / 255, known.pixels.shape[-1] // 8).flatten(1)
attacks = {
    "probe": lambda name, k: judged(victims[name].features(k), k),
    "linear probe": lambda name, k: judged(victims[name].features(k), k, "linear"),
    f"probe, {narrow} components": lambda name, k: judged(victims[name].features(k), k, width=narrow),
    "on the victim's training images": lambda name, k: judged(victims[name].features(k), k, at="victim_train"),
    "untrained network": lambda name, k: judged(untrained(name, k), k),
    "the answer alone": lambda name, k: judged(confidences[name, k], k),
}

# %%
found = {
    (name, kind): [attack(name, k) for k in range(repeats)]
    for name in family for kind, attack in attacks.items()
}  # fmt: skip
seen = [judged(pixels, k, "linear") for k in range(repeats)]


def table(found):
    """Mean and 95% interval over the victims, for each case the accuracy, the macro-F1, and what is left of the majority guess's mistakes."""
    columns = {"accuracy": "accuracy", "macro-F1": "macro_f1", "skill": "skill"}
    means = {
        case: {
            title: roc.over_targets([getattr(s, what) for s in scores], seed=seed) for title, what in columns.items()
        }
        for case, scores in found.items()
    }
    return pd.DataFrame(means).T.map(lambda m: f"{m.mean:.3f} ({m.low:.3f} to {m.high:.3f})")


print(
    f"majority guess {seen[0].majority:.3f}; a linear probe of the pixels, 8 x 8: {statistics.mean(s.accuracy for s in seen):.3f}"
)
table(found)

# %%
plots.dots(
    {f"{name}: {kind}": [s.accuracy for s in scores] for (name, kind), scores in found.items()},
    xlabel=f"attack accuracy ({hidden}; the majority guess has {seen[0].majority:.2f})",
    alt="Attack accuracy, one dot a victim: "
    + ", ".join(
        f"{name}, {kind} {statistics.mean(s.accuracy for s in scores):.3f}" for (name, kind), scores in found.items()
    ),
)

# %%
lead = [a.accuracy - b.accuracy for a, b in zip(found["Swin", "probe"], found["ResNet", "probe"], strict=True)]
guess.against(round(statistics.mean(lead), 4))

# %% [markdown]
# At `laptop` (five victims each) the Swin gives away 2.6 ± .8 points more than the ResNet, 3.7 ± 1.5 at equal width: the direction that the paper prints. But *untrained* the Swin is 9.5 ± .9 points ahead already. Its training adds .7 ± 1.4 points, the ResNet's 7.7 ± .9.

# %% [markdown]
# So the Swin does not learn more of what nobody asked;
# it lets through what is in the pixels, from the first day on (a linear probe of 8 x 8 pixels has .32). And both probes are better on the images that the *victim* was trained on, the ResNet's by 4.1 points: there some of lab 01 comes in.

# %%
word = {kind: kind.split(",")[0].replace(" ", "_").replace("'", "") for kind in attacks}
word[f"probe, {narrow} components"] = "equal_width"
for (name, kind), scores in found.items():
    page.record("attack_acc", [source, key[name], word[kind]], [s.accuracy for s in scores], **about)
    page.record("macro_f1", [source, key[name], word[kind]], [s.macro_f1 for s in scores], **about)


# %%
def gap(one, other, what="accuracy"):
    """Victim by victim: the same split, two cases."""
    return [getattr(a, what) - getattr(b, what) for a, b in zip(found[one], found[other], strict=True)]


for one, other in (("Swin", "ResNet"), ("Swin-S", "ResNet-101")):
    for kind in attacks if one in family else ():
        ends = [source, f"{key[one]}_less_{key[other]}", word[kind]]
        page.record("attack_acc_difference", ends, gap((one, kind), (other, kind)), **about)
        page.record("macro_f1_difference", ends, gap((one, kind), (other, kind), "macro_f1"), **about)
for name, less in itertools.product(family, ("untrained network", "the answer alone")):
    values = gap((name, "probe"), (name, less))
    page.record("attack_acc_difference", [source, key[name], f"probe_less_{word[less]}"], values, **about)
    print(f"{name}: the probe less {less}: {roc.over_targets(values, seed=seed)}")

# %% [markdown]
# ## Over the epochs
#
# Figure 3 of the paper follows 100 epochs. Whose, the victim's (its part a shows task accuracy) or the probe's (the text speaks of the attack's training)? Here are both.

# %%
epochs = victims["Swin"].at
of_probe = {name: np.zeros((repeats, probe_epochs)) for name in family}
for name, k in itertools.product(family, range(repeats)):
    features, part, labels = victims[name].features(k), parts[k], known[hidden]
    auxiliary, attacked = ((features[places], labels[places]) for places in (part.shadow_train, part.shadow_test))
    of_probe[name][k] = attribute_inference.over_epochs(auxiliary, attacked, probe_epochs, seed)
of_victim = {
    name: np.array([[judged(victims[name].features(k, at=at), k).accuracy for at in epochs] for k in range(repeats)])
    for name in family
}  # fmt: skip

# %%
for what, x, curves in (("probe", range(1, probe_epochs + 1), of_probe), ("victim", epochs, of_victim)):
    display(plots.lines(
        {name: (list(x), y.mean(0), y.std(0, ddof=1)) for name, y in curves.items()},
        xlabel=f"epoch of the {what}'s training", ylabel="attack accuracy",
        alt=f"Attack accuracy by epoch of the {what} (band: one standard deviation over victims): "
        + "; ".join(f"{name} from {y[:, 0].mean():.3f} to {y[:, -1].mean():.3f}" for name, y in curves.items()),
    ))  # fmt: skip
    ahead = (curves["Swin"] > curves["ResNet"]).mean(1)
    page.record("share_of_epochs_ahead", [source, what, "swin_less_resnet"], ahead, **about)
    print(f"share of the {what}'s epochs at which the Swin gives more away: {roc.over_targets(ahead, seed=seed)}")

# %% [markdown]
# ## At the same overfitting
#
# Figure 4b holds attack accuracy against the victims' overfitting level, which explained most of the leak in lab 01. Does it here? The victims pass through their levels as they train.

# %% [markdown]
# ### Before you look: predict
#
# How far apart do the two lie?

# %%
guess_matched = widgets.predict("attack accuracy, Swin less ResNet, at the same overfitting:", low=-0.3, high=0.3)
guess_matched

# %%
levels = {
    name: np.array([[accuracies(name, k, at)[0] - accuracies(name, k, at)[1] for at in epochs] for k in range(repeats)])
    for name in family
}  # (victims, epochs)
plots.lines(
    {name: (levels[name].mean(0)[o], of_victim[name].mean(0)[o]) for name in family for o in [levels[name].mean(0).argsort()]},
    xlabel="overfitting level of the victim (train less test accuracy)", ylabel="attack accuracy",
    alt="Attack accuracy against overfitting level, a point for each epoch looked at: "
    + "; ".join(f"{name} at {levels[name].mean(0).max():.2f} has {of_victim[name].mean(0)[levels[name].mean(0).argmax()]:.3f}" for name in family),
)  # fmt: skip


# %%
def at_equal_level(one, other, k):
    """How much more `one` gives away than `other`, averaged over the overfitting levels that both went through."""
    curves = [(levels[name][k][o], of_victim[name][k][o]) for name in (one, other) for o in [levels[name][k].argsort()]]
    low, high = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    grid = np.linspace(low, high, 50)
    return float((np.interp(grid, *curves[0]) - np.interp(grid, *curves[1])).mean()) if low < high else None


matched = [value for k in range(repeats) if (value := at_equal_level("Swin", "ResNet", k)) is not None]
if matched:
    page.record("attack_acc_at_matched_gap", [source, "swin_less_resnet"], matched, **about)
    display(guess_matched.against(round(statistics.mean(matched), 4)))
for name in family:
    rise = of_victim[name][:, -1] - of_victim[name][:, 0]
    page.record("attack_acc_difference", [source, key[name], "last_look_less_first"], rise, **about)
    print(f"{name}: last look less first: {roc.over_targets(rise, seed=seed)}")

# %% [markdown]
# In lab 01 one line served all architectures. Not here: what is read are photographs that the victim never saw. At `laptop` the lines lie 6.2 ± 1.2 points apart at equal level, the Swin above, as in the paper's figure. The ResNet's rises as it learns (.21 to .26), the Swin's hardly (.27 to .29).

# %% [markdown]
# ## How deep?
#
# The attacker may sit at another layer. Where does the attribute stand clearest, and where does it get lost?

# %%
depths = {}  # name -> (layers, accuracies of (victims, layers))
for name, fleet in victims.items():
    layers = models.representations.stages(fleet.model(0))
    of_layers = np.zeros((repeats, len(layers)))
    for k in range(repeats):
        read = models.representations.kept(fleet.model(k).to(page.device), known.pixels, layers)
        of_layers[k] = [judged(read[layer], k, "linear").accuracy for layer in layers]
    depths[name] = layers, of_layers

# %%
plots.lines(
    {name: (np.linspace(0, 1, len(layers)), y.mean(0), y.std(0, ddof=1)) for name, (layers, y) in depths.items()},
    xlabel="depth: 0 the first stage, 1 the representation", ylabel="accuracy of the linear probe",
    alt="Accuracy of the linear probe by depth: "
    + "; ".join(f"{name} " + ", ".join(f"{layer} {v:.3f}" for layer, v in zip(layers, y.mean(0), strict=True)) for name, (layers, y) in depths.items()),
)  # fmt: skip

# %%
for name, (layers, y) in depths.items():
    for n, layer in enumerate(layers):
        page.record("attack_acc", [source, key[name], "linear", layer.replace(".", "_")], y[:, n], **about)
    middle = (len(layers) - 1) // 2
    page.record("attack_acc_difference", [source, key[name], "middle_less_last"], y[:, middle] - y[:, -1], **about)
    print(f"{name}: {layers[middle]} less the representation: {roc.over_targets(y[:, middle] - y[:, -1], seed=seed)}")

# %% [markdown]
# In the ResNet the attribute stands clearest behind the first *stages*, runs of blocks at one resolution (.38 at `laptop`), and each later one loses some, down to .25. In the Swin it rises with depth, from .27 to .31, and only the last step takes a little away.

# %% [markdown]
# Now look at it. Each dot is a photograph that neither victim nor probe was trained on, placed by the two directions in which the features vary most: above coloured by the task, below by the attribute. Choose a layer and a probe. Do the ten fall apart where the two do?

# %%
places = ("early", "middle", "late", "the representation")


def look(architecture, layer, probe):
    layers = depths[architecture][0]
    chosen = layers[round(places.index(layer) / 3 * (len(layers) - 1))]
    features = models.representations.kept(victims[architecture].model(0).to(page.device), known.pixels, layers)[chosen]
    score, rows = judged(features, 0, probe), parts[0].shadow_test[:400]
    dots = distributions.flat(features[rows])
    pictures = [
        plots.cloud(
            {value: dots[known[told][rows] == n] for n, value in enumerate(known.values[told])},
            alt=f"{architecture}, {chosen}: 400 photographs on the plane of two principal components, coloured by {told}.",
        )
        for told in (task, hidden)
    ]
    return widgets.Sentence(f"{chosen}, {features.shape[1]} features, {probe} probe: {score}"), *pictures


widgets.explore(
    look, start={"layer": places[-1]}, architecture=tuple(small), layer=places, probe=attribute_inference.KINDS
)

# %% [markdown]
# ## Real faces: who, and glasses
#
# The ORL faces: 40 people, ten photographs each. The victim learns *who*. The attribute is *glasses*, which we wrote down ourselves. Eight people always wear them, seven now and then, 25 never: 119 photographs of 400.

# %%
orl = data.attributes.load("orl", size=32)
wearers = [k for k in range(40) if 0 < orl["glasses"][10 * k : 10 * k + 10].sum() < 10][:4]
plots.images(
    {f"s{k + 1}": orl.pixels[10 * k : 10 * k + 6].float() / 255 for k in wearers},
    captions={f"s{k + 1}": ["glasses" if g else "" for g in orl["glasses"][10 * k : 10 * k + 6]] for k in wearers},
    alt="Four people of the ORL set, six photographs each, some with glasses and some without.",
)

# %% [markdown]
# ### Predict
#
# The victim sees five photographs of each person. The probe is fitted on others of them and judged on yet others: once of the *same people*, once of people *whom the probe has never met*. The majority guess, "no glasses", is right in 70 of 100. What will the probe have for people whom it has met?

# %%
guess_faces = widgets.predict("accuracy for the same people:", low=0.5, high=1.0)
guess_faces


# %%
def five_of_each(k):
    """Five photographs of each person, drawn by k: a row of the keep matrix."""
    drawn = torch.rand(40, 10, generator=torch.Generator().manual_seed(seed + k)).argsort(1) < 5
    return drawn.flatten()


face_keep = torch.stack([five_of_each(k) for k in range(repeats)])
face_recipe = training.RECIPES["faces_smoke" if profile == "smoke" else "faces"]
# ORL stays small at every profile: there are 400 photographs of it and no more
of_faces = {name: trained(zoo_name, {**changes, "in_chans": 1}, face_keep, orl, "person", how=face_recipe) for name, (zoo_name, changes) in small.items()}  # fmt: skip


# %%
def glasses_probe(features, k, same_people):
    """Fit on half of what the victim did not see, judge on the other half: cut by photograph, or by person."""
    unseen = (~face_keep[k]).nonzero()[:, 0]  # five of each person, person by person
    shuffle = torch.Generator().manual_seed(seed + k)
    if same_people:
        mine = torch.randperm(200, generator=shuffle) < 100
    else:
        mine = (torch.randperm(40, generator=shuffle) < 20).repeat_interleave(5)
    worn = orl["glasses"][unseen]
    fitted = attribute_inference.probe(features[unseen][mine], worn[mine], "linear", seed=seed)
    return fitted.score(features[unseen][~mine], worn[~mine])


# %%
faces_found = {}
eyes = torch.nn.functional.avg_pool2d(orl.pixels.float() / 255, 2).flatten(1)
for name, fleet in of_faces.items():
    right = [fleet.right(k, ~face_keep[k]) for k in range(repeats)]
    page.record("task_acc", ["orl", key[name]], right, mode="eval", victim=f"trained {face_recipe.epochs} epochs")
    for same in (True, False):
        people = "the same people" if same else "other people"
        faces_found[name, people] = [glasses_probe(fleet.features(k), k, same) for k in range(repeats)]
        faces_found["pixels", people] = [glasses_probe(eyes, k, same) for k in range(repeats)]
    print(f"{name} knows {statistics.mean(right):.3f} of the photographs that it has not seen")
table(faces_found)

# %%
on_faces = dict(mode="eval", victim=f"trained {face_recipe.epochs} epochs", note="orl: person, glasses; linear probe")
for (name, people), scores in faces_found.items():
    ends = ["orl", key.get(name, name), people.replace("the ", "").replace(" ", "_")]
    page.record("attack_acc", ends, [s.accuracy for s in scores], **on_faces)
    page.record("skill", ends, [s.skill for s in scores], **on_faces)
    page.record("macro_f1_above_majority", ends, [s.macro_f1 - s.majority_f1 for s in scores], **on_faces)
for name in of_faces:
    pair = [[s.accuracy for s in faces_found[name, people]] for people in ("the same people", "other people")]
    page.record("attack_acc_difference", ["orl", key[name], "same_less_other"], np.subtract(*pair), **on_faces)
guess_faces.against(round(statistics.mean(s.accuracy for s in faces_found["Swin", "the same people"]), 3))

# %% [markdown]
# For people whom it has met, a probe need not see any glasses. It finds out *who* it is, which the representation was trained to say, and who it is mostly says whether there are glasses. For others that way is closed. Which number to print depends on what you claim: that the representation *shows*
# glasses, or that it helps somebody who already knows these people.

# %% [markdown]
# Hold both against the majority guess as well. At `laptop` the probes have .83 and .84 for people whom they have met, 15 and 25 points more than for others. There nothing is left of it: *skill*, the share of the majority guess's mistakes that the probe avoids, is .13 ± .18 for the ResNet and -.15 ± .12 for the Swin. (With 20 people to
# learn from, and 32 x 32 pixels. More people might well teach a probe what glasses look like.)

# %% [markdown]
# ## A first defence, and its price
#
# Give the attacker less to read. A **bottleneck** puts a narrow layer before the last one: only a few numbers leave the phone. *Animal or vehicle* needs one.

# %% [markdown]
# ### Predict
#
# How many kinds can be told from one number?

# %%
guess_narrow = widgets.predict("attack accuracy through one number, Swin:", low=0.1, high=0.5)
guess_narrow

# %%
widths = (1,) if profile == "smoke" else (1, 4)
few = min(repeats, 2)
guarded = {
    (name, width): trained(zoo_name, {**changes, "bottleneck": width}, keep[:few])
    for (name, (zoo_name, changes)), width in itertools.product(family.items(), widths)
    if name == "Swin" or profile != "smoke"
}  # fmt: skip


# %%
price = {}
for (name, width), fleet in guarded.items():
    scores = [judged(fleet.features(k), k) for k in range(few)]
    lost = [accuracies(name, k)[1] - fleet.right(k, parts[k].victim_test) for k in range(few)]
    saved = [found[name, "probe"][k].accuracy - scores[k].accuracy for k in range(few)]
    page.record("attack_acc", [source, key[name], f"bottleneck_{width}"], [s.accuracy for s in scores], **about)
    page.record("attack_acc_difference", [source, key[name], f"open_less_bottleneck_{width}"], saved, **about)
    page.record("task_acc_difference", [source, key[name], f"open_less_bottleneck_{width}"], lost, **about)
    price[f"{name}, {width} wide"] = {"attack accuracy": statistics.mean(s.accuracy for s in scores), "taken from the attacker": statistics.mean(saved), "lost at the task": statistics.mean(lost)}  # fmt: skip
pd.DataFrame(price).T.round(3)

# %%
guess_narrow.against(price["Swin, 1 wide"]["attack accuracy"])

# %% [markdown]
# At `laptop` one number is nearly free: the task loses between -.1 and .7 points, and the probe falls to .18 and .19. Compare with "the answer alone" above: no defence of the representation can go below that without changing the answers.
#
# A bottleneck cannot choose. It takes away what the task does not need, and an attribute that *goes along* with the task stays. Lab 13 has defences that name what they
# want to hide.

# %% [markdown]
# ## Exercise 1: an F1 for everybody
#
# Write `macro_f1(said, truth, values)`: for each value 0 to `values - 1` of the attribute the F1, $2\,\mathrm{TP} / (2\,\mathrm{TP} + \mathrm{FP} + \mathrm{FN})$, and the mean of them. `said` and `truth` are tensors of whole numbers. A value that is never said and never true has F1 0.
#
# <details><summary>Hint</summary>For one value: TP counts where both have it, FP where only <code>said</code> has it, FN where only <code>truth</code>. Mind the division where all three are 0.</details>


# %% tags=["exercise"]
def macro_f1(said, truth, values): ...


# %% tags=["solution"]
def macro_f1(said, truth, values):
    scores = []
    for value in range(values):
        hits = ((said == value) & (truth == value)).sum().item()
        either = (said == value).sum().item() + (truth == value).sum().item()  # 2 TP + FP + FN
        scores.append(2 * hits / either if either else 0.0)
    return sum(scores) / values


# %%
checks.verify("03.macro_f1", macro_f1)

# %% [markdown]
# ## Exercise 2: a probe that "works"
#
# A probe for glasses is right in 72 of 100 photographs. Somebody writes: "glasses can be read with 72% accuracy". But 70 of 100 wear none.
#
# Write `skill(said, truth, auxiliary)`: the share of the majority guess's mistakes that the probe avoids, $(a - m) / (1 - m)$. The majority guess always says the commonest value *of the auxiliary set*, `auxiliary`; $a$ and $m$ are the accuracies of the two on `truth`.
#
# <details><summary>Hint</summary><code>torch.mode</code> or <code>bincount().argmax()</code> finds the commonest value. Whose commonest value may the attacker know?</details>


# %% tags=["exercise"]
def skill(said, truth, auxiliary): ...


# %% tags=["solution"]
def skill(said, truth, auxiliary):
    guess = auxiliary.bincount().argmax()
    right, majority = ((x == truth).double().mean().item() for x in (said, guess))
    return (right - majority) / (1 - majority)


# %%
checks.verify("03.skill", skill)

# %% [markdown]
# With 72 and 70 the skill is .07. The sentence is true, and says nothing about glasses.

# %% [markdown]
# ## Exercise 3: leave no trace
#
# Public code often registers a hook for each batch and never takes it off; nothing is ever freed. Write `entering(model, layer, x)`: what enters the module called `layer` when the model sees `x`, without a graph. Afterwards the model is as it was.
#
# <details><summary>Hint</summary><code>model.get_submodule(layer).register_forward_pre_hook(f)</code> calls <code>f(module, inputs)</code>, <code>inputs</code> being a tuple, and returns a handle with <code>remove()</code>. What if the pass fails? And was the model in train mode?</details>


# %% tags=["exercise"]
def entering(model, layer, x): ...


# %% tags=["solution"]
def entering(model, layer, x):
    heard = []
    handle = model.get_submodule(layer).register_forward_pre_hook(lambda module, inputs: heard.append(inputs[0]))
    try:
        with torch.no_grad():
            model(x)
    finally:
        handle.remove()
    return heard[0]


# %%
checks.verify("03.entering", entering)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. probe ResNet-50 and 101, Swin-T and S (Table 4), and follow the first pair over 100 epochs (Figure 3) and overfitting levels (Figure 4b). Here task and attribute are others, and the networks small at `smoke` and `laptop`: the verdicts are about the direction.

# %%
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **Another attribute.** CelebA has no race. By default we read the kind of thing behind *animal or vehicle*, and glasses behind *who*; `faces` takes UTKFace, FairFace or CelebA.
# - **More to beat.** The paper prints accuracy and macro-F1. We print beside them the majority guess, the answer alone, the untrained network and the pixels.
# - **Equal width.** The comparison is made once more with as many principal components of each representation.
# - **Recipe.** `gpu` and `paper` train with the paper's (Table 1: SGD at .01, batches of 256, 100 epochs; how the rate falls is not given, so it stays). At `laptop` we take AdamW and eight epochs: the ResNet then knows 98% of its training images and the Swin 87%, where the paper trains to 99%. At the task the Swin is 3 points behind, so the two are not compared at equal use.
# - **The defence** is a bottleneck: it needs no attribute labels. What an adversarial head (a probe that the victim is trained to fool) hides from itself, a fresh probe often finds (Elazar and Goldberg 2018).

# %% [markdown]
# ## Summary
#
# - A representation knows more than it was asked for; some labelled photographs and a small network read it.
# - An accuracy means something beside the majority guess, the answer alone and an untrained network, and for people whom the probe has not met.
# - Compare architectures at equal width, and with fresh weights beside.
# - Fewer numbers tell less. Nothing that answers the task tells less than its answer.

# %% [markdown]
# ## Where to read on
#
# Lab 13 puts defences side by side. Song and Shmatikov 2020 show overlearning and how censoring fails, Elazar and Goldberg 2018 why an adversarial head is not enough, Hewitt and Liang 2019 what a probe's accuracy has to be held against; Zhang et al. 2024, section 4.3, is the paper behind the question.
