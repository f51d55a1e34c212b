# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11, deeper · Is it the skip connections?
#
# You come from [lab 11](../11_model_inversion.ipynb). Koh et al. (2024) remove skip connections, and fewer faces come back. Is it because of the skip
# connections? Here you compare at equal accuracy, look at the loss of the search, and at a MaxViT.
#
# After this notebook you can
# - compare two architectures at *equal accuracy*, and say why one must;
# - say in which pairs of networks skip connections are the only difference;
# - write a loss whose gradient does not fade.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.1 GB |
# | class | 1.8 | 1.4 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 45 minutes. You need* lab 11. *New words*: **Poincaré distance**.

# %%
from privlab import compute, experiments, models
from privlab.attacks.model_inversion import losses
from privlab.experiments.victims import private_people
from privlab.notebook import checks, plots, text, widgets

import pandas as pd
import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # another model of timm to attack beside ours: "mobilenetv3_small_050"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
kept = experiments.load("model_inversion.skips")
mine = experiments.run("model_inversion.skips", profile, device=device)
stage = experiments.find("model_inversion.skips").size(mine.size).settings["stage"]
here = private_people.People(mine.repeats[0] + seed, **stage, device=device)
SEEN = "the judge names the person searched for, %"

# %% [markdown]
# ## At equal accuracy
#
# A cut that costs accuracy can look like a defence for that reason alone. So Koh et al. compare checkpoints of the same accuracy. The whole network was
# attacked at several epochs. Straight lines between these say what a network *stopped* at some accuracy gives away.
#
# ### Predict

# %%
variants = {"stage 1": "skip_1", "2": "skip_2", "4": "skip_4", "all": "none_left"}
HALF = ["less than half of it", "half of it or more"]
guess_task = widgets.choose(
    "Without any skip connection our ResNet gives less away. How much of the "
    "difference remains, against a whole one that is as accurate?",
    HALF,
)
guess_task

# %%
pairs = {"whole": "attacc[orl, resnet, full]"}
for label, name in variants.items():
    pairs[f"removed: {label}"] = f"attacc[orl, resnet, {name}]"
    pairs[f"whole, as accurate as {label}"] = f"attacc_if_stopped[orl, resnet, {name}]"
chart = plots.evidence(kept, mine, pairs, xlabel=SEEN)
of = {label: kept.mean(name) for label, name in pairs.items()}
left = of["whole, as accurate as all"] - of["removed: all"]
share = left / (of["whole"] - of["removed: all"])
display(chart, guess_task.against(HALF[share >= 0.5]))

# %% [markdown]
# Look at the rows in pairs. What a cut network gives away less than the row below it, it owes to the missing skip connections. The rest it owes to being
# worse at its task. Now all networks: points of attack accuracy lost by each cut, and in brackets points of task accuracy. (An EfficientNet was cut, too, but
# it did not learn its task in as many epochs.)


# %%
def lost_by(net, cut):
    task = kept.mean(f"acc[orl, {net}, full] - acc[orl, {net}, {cut}]")
    attack = kept.mean(f"attacc[orl, {net}, full] - attacc[orl, {net}, {cut}]")
    return f"{attack:.0f} ({task:.0f})"


nets = ["resnet_shallow", "resnet", "resnet_deep", "resnet_wide", "densenet"]
rows = {n: [lost_by(n, cut) for cut in variants.values()] for n in nets}
pd.DataFrame.from_dict(rows, "index", columns=[*variants])

# %% [markdown]
# Where the brackets are large, be careful. A cut network can know so little that the search finds fewer faces in it than the first choice finds in the whole
# network. This happens for every cut of the DenseNet, in the deep ResNet for every cut except that of stage 1, and in the narrow ResNet (18 layers) if all
# stages are cut. The shallow ResNet's last stage has one skip connection, a projection. Lab 11 has the differences at equal accuracy.
#
# ### Exercise 1: which comparison? *(difficulty 2, 6 minutes)*
#
# You want to know what *skip connections* do. In which of these pairs are skip connections the only difference between the two *architectures*? (How well they
# learn may differ: that follows from the cut.) Give their letters, such as `pairs = {"a", "b"}`.
#
# - **a** VGG, and ResNet
# - **b** ResNet, and ResNet with a fine stem
# - **c** ResNet, and ResNet with the last stage cut
# - **d** ResNet, and ResNet with all stages cut
# - **e** VGG, and ResNet with a fine stem
#
# <details><summary>Hint</summary>Write down, for each pair, everything in which the two networks differ: stem, blocks, skip connections.</details>

# %% tags=["exercise", "reading"]
pairs = ...

# %% tags=["solution"]
pairs = {"c", "d"}

# %%
checks.verify("11.pairs", pairs)

# %% [markdown]
# ## Does the loss matter?
#
# The negative log-likelihood of eq. 1 compares probabilities. Once the victim is sure, its probability stays near 1. How long is the gradient with respect to
# the logits, while the target's logit grows from 0 to 12 and the nine others stay at 0 and 1?
#
# ### Predict

# %%
NAMES = {"the log-likelihood's": "cross_entropy", "the Poincaré distance's": "poincare"}
guess_fade = widgets.choose(
    "At a logit of 12, which gradient has almost vanished?", [*NAMES, "neither"]
)
guess_fade

# %%
grown = torch.linspace(0, 12, 49)
logits = torch.zeros(len(grown), 10)
logits[:, 1], logits[:, 0] = 1.0, grown
logits.requires_grad_()
target, lengths = torch.zeros(len(grown), dtype=torch.long), {}
for label, name in NAMES.items():
    value = losses.LOSSES[name](logits, target).sum()
    lengths[label] = grown, torch.autograd.grad(value, logits)[0].norm(dim=1)
alt = "; ".join(f"{n} gradient ends at {of[-1]:.2g}" for n, (_, of) in lengths.items())
x, y = "logit of the target", "norm of the gradient"
chart = plots.lines(lengths, xlabel=x, ylabel=y, log="y", alt=f"{y} by {x}. {alt}.")
weak = [label for label, (_, of) in lengths.items() if of[-1] < 0.01 * of[0]]
display(chart, guess_fade.against(weak or ["neither"]))

# %% [markdown]
# The **Poincaré distance** lives inside a ball of radius 1, and grows without end towards its rim. PPA puts $u$ and $v$ into the ball: $u$ is the logits
# divided by the sum of their absolute values, $v$ the one-hot target, with $10^{-4}$ subtracted and cut off at 0 and 1. The loss is
#
# $$\operatorname{arccosh}\left(1 + 2\,\frac{|u - v|^2}{(1 - |u|^2)(1 - |v|^2)}\right)$$
#
# ### Exercise 2: a loss that does not break *(difficulty 3, 15 minutes)*
#
# Write `poincare(logits, target)` for one row of logits, as a number. Two kinds of logits break the formula: logits that are all 0, and logits that are all
# 0 except for one. Guard against both, so that the result is finite.
#
# <details><summary>Hint</summary>What is divided by what, when all logits are 0? What is $1 - |u|^2$ when only one is not? <code>clamp_min</code> helps in
# both places.</details>


# %% tags=["exercise"]
def poincare(logits, target): ...


# %% tags=["solution"]
def poincare(logits, target):
    u = logits / logits.abs().sum().clamp_min(1e-12)
    v = (torch.eye(len(u))[target] - 1e-4).clamp(0, 1)
    room = (1 - u.square().sum()).clamp_min(1e-6) * (1 - v.square().sum())
    return torch.arccosh(1 + 2 * (u - v).square().sum() / room).item()


# %%
checks.verify("11.poincare", poincare)

# %% [markdown]
# A faded gradient need not stop a search: Adam divides each gradient by its own size.

# %% [markdown]
# ## A Transformer
#
# The paper's MaxViT mixes convolutions with attention. Attention averages over patches: without skip connections, block after block makes all patches alike. So
# the paper cuts one *early* stage (section 8), and this is where it reports a very large effect (Koh et al., Table 10). Ours is narrow, and a small ViT stands
# beside it.
#
# ### Predict

# %%
guess_vit = widgets.predict(
    "Points that the cut takes from the attacker, MaxViT:", -20, 60
)
guess_vit

# %%
vits = experiments.load("resistant_architectures.transformers")
rows = {"MaxViT": "maxvit", "MaxViT, first stage cut": "maxvit_skip_1"}
rows |= {"ViT": "vit", "ViT, first quarter cut": "vit_skip_1"}
SKIPS = {"MaxViT": "Full", "MaxViT, first stage cut": "Skip Removed"}
names = {label: f"attacc[orl, {name}]" for label, name in rows.items()}
printed = plots.published("koh2024_table10", SKIPS, metric="attacc")
chart = plots.evidence(vits, None, names, published=printed, xlabel=SEEN)
told = text(
    "The cut costs {:.0f} points of task accuracy. The whole MaxViT, where it is as "
    "accurate, gives {:.0f} of 100 faces away, the cut one {:.0f}. The ViT is right "
    "about {:.0f} of 100 photographs: too few to ask.",
    vits.mean("acc[orl, maxvit] - acc[orl, maxvit_skip_1]"),
    vits.mean("attacc_if_stopped[orl, maxvit_skip_1]"),
    *(vits.mean(name) for name in ("attacc[orl, maxvit_skip_1]", "acc[orl, vit]")),
)
less = vits.mean("attacc[orl, maxvit] - attacc[orl, maxvit_skip_1]")
display(chart, told, guess_vit.against(less))

# %% [markdown]
# ## What differs from the paper
#
# - **People and prior.** The paper inverts classifiers of 530 actors (FaceScrub) with a StyleGAN trained on FFHQ. Lab 11's parameter `faces` takes them.
# - **Networks.** Ours are narrow. They are drawn with `zero_init_last=False`: timm starts the last BatchNorm of each branch at 0, and a block without its
#   skip connection would then be 0 and never learn.
# - **Released code.** We did not follow the authors' repository: its "full" ResNets lack the skip connections of the last fifth of stage 3.
# - **Contradictions in print.** ResNet-34 without stage 4 has 80.61 in one table of the paper and 71.86 in another. It loses more by Skip-2 than by Skip-4
#   in Table 2, against its caption.
#
# Name a model of timm as `victim` in the parameters. It is trained and attacked like ours.

# %%
if victim:
    side = stage.get("side", 32)
    private_people.NETWORKS[victim] = victim, models.sized(victim, side)
    own = here.inverted(here.network(victim))
    display(text("{}: task {:.0f} %, attack {:.0f} %.", victim, own.acc, own.attacc))
widgets.verdicts("11")

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, sections 3 and 8. Struppek et al. 2022 brought the Poincaré distance into model inversion. Tang et al. 2021
# look at skip connections in Transformers. Lab 12 makes a defence of the cuts.
