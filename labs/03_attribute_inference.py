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
# - say what of a leak was learnt, and what was there before any training; compare two architectures at equal width and at equal overfitting;
# - see how a probe seems to work through class imbalance, or through the same people on both sides;
# - put a price on a first defence.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.7 | 1.4 GB |
# | class | 3 | 1.5 GB |

# %% [markdown]
# *You need* lab 01, or to know what a classifier and overfitting are. *Words that are new here*: **representation**, **probe**, **attribute**, **auxiliary set**, **macro-F1**, **majority guess**, **bottleneck**.

# %%
from inspect import getsource

import torch
from IPython.display import display

from privlab import compute, data, experiments, ledger, models
from privlab.attacks import attribute_inference
from privlab.experiments import attribute_inference as measured
from privlab.experiments.shadow_fleets import FAMILIES
from privlab.notebook import checks, plots, widgets
from privlab.notebook.plots import distributions

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # beside the two networks, another model of timm: "mobilenetv3_small_050"
faces = ""  # "utkface", "fairface" or "celeba", once data_scripts/prepare.py has made yours ready

# %%
device = compute.device(device)
names = {"ResNet": "resnet", "Swin": "swin"}

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
how = experiments.find("attribute_inference.architectures").size("smoke" if profile == "smoke" else "class").settings
game = measured.game(100 + seed, data.attributes.load(source), how["images"], task, hidden)
known = game.photos
print(known)
print(
    f"the task is {task}, {len(known.values[task])} answers; the attribute is {hidden}, {len(known.values[hidden])} values"
)

# %% [markdown]
# The photographs are cut into four parts that share none: the victim's training and test images, and two of the attacker's, one to fit the probe on and one to judge it.

# %%
print({name: len(places) for name, places in game.parts._asdict().items()})

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
# Two small networks with about the same number of parameters, trained until they know their images, and read from disk after that. These two, on this draw of photographs, are yours to play with. Further down the same is measured on other draws.

# %%
families = {name: FAMILIES[how["families"]][key] for name, key in names.items()} | (
    {victim: (victim, {})} if victim else {}
)
victims = {
    name: measured.victim(each, known, task, game.parts.victim_train, how["recipe"], game.seed, how["every"], device)
    for name, each in families.items()
}
for name, fleet in victims.items():
    train, test = (fleet.right(0, places) for places in game.parts[:2])
    size = sum(p.numel() for p in fleet.model(0).parameters()) / 1e6
    print(f"{name}: {size:.2f} M parameters, {train:.3f} of its training images right, {test:.3f} of its test images")

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
print(getsource(measured.Game.probed))
for name, fleet in victims.items():
    print(f"{name}: {game.probed(fleet.features(0))}")

# %% [markdown]
# **Macro-F1** is the mean of the F1 of each value of the attribute: a probe that never says the rare value has an F1 of 0 there, however good its accuracy. The **majority guess** in the brackets looks at nothing: it always says the commonest value.

# %% [markdown]
# A probe has more to beat than that. Who sees the victim's *answer*, "animal", already knows that it is none of four. And some of what the probe reads may come through *any* network. So we also probe the confidences alone, the same architecture before any training,
# and the pixels.

# %%
mine = experiments.run("attribute_inference.architectures", profile, device=device)
kept = experiments.load("attribute_inference.architectures")
print(kept, mine, sep="\n")

# %%
kinds = {
    "probe": "probe", "linear probe": "linear_probe", "probe at equal width": "equal_width", "untrained network": "untrained_network",
    "on the victim's training images": "on_the_victims_training_images", "the answer alone": "the_answer_alone",
}  # fmt: skip
rows = {
    f"{a}: {label}": f"attack_acc[cifar10, {key}, {kind}]" for a, key in names.items() for label, kind in kinds.items()
}
rows |= {
    "pixels, 8 x 8: linear probe": "attack_acc[cifar10, pixels]",
    "majority guess": "attack_acc[cifar10, majority]",
}
plots.evidence(kept, mine, rows, xlabel="attack accuracy (which of the ten)")

# %%
guess.against(round(mine.mean(rows["Swin: probe"]) - mine.mean(rows["ResNet: probe"]), 4))

# %% [markdown]
# Look at the untrained networks. *Untrained* the Swin is ahead already: it lets through what is in the pixels, from the first day on. So a lead of the trained Swin does not show that it *learns* more of what nobody asked. What training teaches is the probe's accuracy less that on the untrained network:


# %%
def added(of, name, what="attack_acc"):
    """What training adds to what a probe reads, in each repeat."""
    return of[f"{what}[cifar10, {name}, probe]"] - of[f"{what}[cifar10, {name}, untrained_network]"]


taught = {a: added(kept if len(kept) else mine, key) for a, key in names.items()}
words = ", ".join(f"{a} {values.mean():.3f}" for a, values in taught.items())
plots.dots(
    taught,
    xlabel="what training adds to the attack accuracy",
    alt=f"What training adds to the probe's accuracy: {words}.",
)

# %% [markdown]
# Compare the probe on the images that the *victim* was trained on, too: there some of lab 01 comes in.

# %% [markdown]
# ## Over the epochs
#
# Figure 3 of the paper follows 100 epochs. Whose, the victim's (its part a shows task accuracy) or the probe's (the text speaks of the attack's training)? Here are both.


# %%
def along(whose):
    """For a chart: architecture -> {epoch: name of what is measured there}."""
    names_of = {a: {e: f"attack_acc[cifar10, {key}, probe, {whose}_epoch_{e}]" for e in range(101)} for a, key in names.items()}  # fmt: skip
    return {a: {e: n for e, n in of.items() if n in mine.table} for a, of in names_of.items()}


for whose, words in (
    ("probe", "epoch of the probe's training"),
    ("victim", "epoch of the victim's training, 0 is untrained"),
):
    display(plots.evidence_lines(kept, mine, along(whose), xlabel=words, ylabel="attack accuracy"))

# %%
share = "share_of_epochs_ahead[cifar10, {}, swin_less_resnet{}]"
rows = {f"{whose}'s epochs{words}": share.format(whose, key) for whose in ("probe", "victim") for words, key in (("", ""), (", beyond untrained", ", beyond_untrained"))}  # fmt: skip
plots.evidence(kept, mine, rows, xlabel="share of the epochs at which the Swin gives more away")

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
rows = {f"{a}: {words}": name.format(key) for a, key in names.items() for words, name in (("at equal level", "attack_acc_at_matched_gap[cifar10, {}]"), ("untrained", "attack_acc[cifar10, {}, untrained_network]"))}  # fmt: skip
display(plots.evidence(kept, mine, rows, xlabel="attack accuracy, averaged over the levels that both went through"))
guess_matched.against(round(mine.mean(rows["Swin: at equal level"]) - mine.mean(rows["ResNet: at equal level"]), 4))

# %% [markdown]
# In lab 01 most of the attack followed the level. What is read here are photographs that the victim never saw, so nothing obliges the lines to meet. Mind the untrained networks again: all curves begin there, at level 0.

# %% [markdown]
# ## How deep?
#
# The attacker may sit at another layer. Where does the attribute stand clearest, and where does it get lost?

# %%
stages = {
    a: [n for n in range(1, 9) if f"attack_acc[cifar10, {key}, linear, stage_{n}]" in mine.table]
    for a, key in names.items()
}
series = {a: {round(n / (len(stages[a]) + 1), 2): f"attack_acc[cifar10, {key}, linear, stage_{n}]" for n in stages[a]} | {1.0: f"attack_acc[cifar10, {key}, linear_probe]"} for a, key in names.items()}  # fmt: skip
plots.evidence_lines(
    kept, mine, series, xlabel="depth (1 is the representation)", ylabel="accuracy of the linear probe"
)

# %% [markdown]
# Now look at it. Each dot is a photograph that neither victim nor probe was trained on, placed by the two directions in which the features vary most: above coloured by the task, below by the attribute. Choose a layer and a probe. Do the ten fall apart where the two do?

# %%
places = ("early", "middle", "late", "the representation")


def look(architecture, layer, probe):
    model = victims[architecture].model(0).to(device)
    layers = models.representations.stages(model)
    chosen = layers[round(places.index(layer) / 3 * (len(layers) - 1))]
    features = models.representations.kept(model, known.pixels, layers)[chosen]
    score, rows = game.probed(features, probe), game.parts.shadow_test[:400]
    dots = distributions.flat(features[rows])
    pictures = [
        plots.cloud(
            {value: dots[known[told][rows] == n] for n, value in enumerate(known.values[told])},
            alt=f"{architecture}, {chosen}: photographs on the plane of two principal components, coloured by {told}.",
        )
        for told in (task, hidden)
    ]
    return widgets.Sentence(f"{chosen}, {features.shape[1]} features, {probe} probe: {score}"), *pictures


widgets.explore(
    look, start={"layer": places[-1]}, architecture=tuple(names), layer=places, probe=attribute_inference.KINDS
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
print(getsource(measured.glasses_probe))
faces_mine = experiments.run("attribute_inference.glasses", profile, device=device)
faces_kept = experiments.load("attribute_inference.glasses")
people = {"the same people": "same_people", "other people": "other_people"}
views = names | {"ResNet, untrained": "resnet_untrained", "Swin, untrained": "swin_untrained", "pixels": "pixels"}
rows = {f"{a}: {words}": f"attack_acc[orl, {key}, {met}]" for a, key in views.items() for words, met in people.items()}
plots.evidence(faces_kept, faces_mine, rows, xlabel="accuracy (the majority guess has about 0.7)")

# %%
guess_faces.against(round(faces_mine.mean("attack_acc[orl, swin, same_people]"), 3))

# %% [markdown]
# For people whom it has met, a probe need not see any glasses. It finds out *who* it is, which the representation was trained to say, and who it is mostly says whether there are glasses. For others that way is closed. Which number to print depends on what you claim: that the representation *shows*
# glasses, or that it helps somebody who already knows these people.

# %% [markdown]
# Hold both against the majority guess as well. *Skill* is the share of the majority guess's mistakes that the probe avoids. (With 20 people to
# learn from, and 32 x 32 pixels. More people might well teach a probe what glasses look like.)

# %%
rows = {f"{a}: {words}": f"skill[orl, {key}, {met}]" for a, key in names.items() for words, met in people.items()}
plots.evidence(faces_kept, faces_mine, rows, xlabel="skill (0 is the majority guess)")

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
rows = {f"{a}: {words}": f"attack_acc[cifar10, {key}, {kind}]" for a, key in names.items() for words, kind in (("open", "probe"), ("one number", "bottleneck_1"), ("the answer alone", "the_answer_alone"))}  # fmt: skip
cost = {f"{a}: {words}": f"task_acc[cifar10, {key}{kind}]" for a, key in names.items() for words, kind in (("open", ""), ("one number", ", bottleneck_1"))}  # fmt: skip
display(
    plots.evidence(kept, mine, rows, xlabel="attack accuracy"),
    plots.evidence(kept, mine, cost, xlabel="accuracy at the task"),
)

# %%
guess_narrow.against(mine.mean("attack_acc[cifar10, swin, bottleneck_1]"))

# %% [markdown]
# Compare with "the answer alone": no defence of the representation can go below that without changing the answers.
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
# Zhang et al. probe ResNet-50 and 101, Swin-T and S (Table 4), and follow the first pair over 100 epochs (Figure 3) and overfitting levels (Figure 4b). Here task and attribute are others, and the networks small: the verdicts are about the direction, and, since the untrained Swin is ahead already, about what training adds.

# %%
ledger.show("03")

# %% [markdown]
# ## What we did differently, and why
#
# - **Another attribute.** CelebA has no race. By default we read the kind of thing behind *animal or vehicle*, and glasses behind *who*; `faces` takes UTKFace, FairFace or CelebA.
# - **More to beat.** The paper prints accuracy and macro-F1. We print beside them the majority guess, the answer alone, the untrained network and the pixels.
# - **Equal width.** The comparison is made once more with as many principal components of each representation.
# - **Recipe.** AdamW instead of SGD at 0.01, until the victims know more than 0.99 of their training images, as the paper's do. At the task the small Swin is somewhat behind, so the two are not compared at equal use.
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
