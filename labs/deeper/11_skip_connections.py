# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11, deeper · Do skip connections help the attacker?
#
# You come from [lab 11](../11_model_inversion.ipynb). There you saw one chart of ResNets with and without their skip connections. Koh et al. (2024) claim
# that these connections help the attacker, those of the last stage most. Here you cut them yourself, and look at each step of the argument.
#
# After this notebook you can
# - compare two architectures at *equal accuracy*, and say why one must;
# - follow a gradient back through a residual block (equation 2);
# - say what our evidence decides about the claim, and what it leaves open.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.1 GB |
# | class | 1.8 | 1.4 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 35 minutes. You need* lab 11. There is no new word.

# %%
from privlab import compute, experiments, models
from privlab.attacks.model_inversion import gradient_flow, losses
from privlab.experiments.victims import private_people
from privlab.notebook import drawings, plots, text, widgets

import pandas as pd
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
body = "tiny" if profile == "smoke" else "resnet"

# %% [markdown]
# ## Cut a stage, and attack again
#
# The network is a small ResNet: four stages of blocks, each block $z_{i+1} = z_i + g_i(z_i)$. Without its skip connection a block is
# $z_{i+1} = g_i(z_i)$. The paper calls a network without those of stage 4 *Skip-4*. It leaves stage 3 out, which has the most blocks. Each cut network is
# trained anew. Everything else stays.

# %%
drawings.show("11.all_skips_cut")

# %% [markdown] tags=["printed"]
# ### Predict
#
# In the paper the last stage matters most (Table 2): its ResNets lose 10 to 24 points of attack accuracy. (*Clearly* is here: by more than three standard errors.)

# %%
CUTS = ["stage 1", "stage 2", "stage 4", "none of them clearly"]
guess_cut = widgets.choose("Which cut costs the attacker most here?", CUTS)
guess_cut

# %%
variants = {
    "full": "full",
    "without stage 1's": "skip_1",
    "without stage 2's": "skip_2",
    "without stage 4's": "skip_4",
    "without any": "none_left",
}


def rows(metric):
    return {label: f"{metric}[orl, resnet, {name}]" for label, name in variants.items()}


plots.evidence(kept, mine, rows("attacc"), xlabel="the judge sees the right person, %")

# %%
full = "attacc[orl, resnet, full]"
lost = {k: f"{full} - attacc[orl, resnet, skip_{k}]" for k in (1, 2, 4)}


def standard_error(name):
    return kept.spread(name) / max(len(kept), 1) ** 0.5


error = {k: standard_error(name) for k, name in lost.items()}
most = max(lost, key=lambda k: kept.mean(lost[k]))
clear = kept.mean(lost[most]) > 3 * error[most]
guess_cut.against(f"stage {most}" if clear else CUTS[-1])

# %%
text(
    "The attacker loses {:.0f} ± {:.0f} points by the cut of stage 1, {:.0f} ± {:.0f}"
    " by that of stage 2, and {:.0f} ± {:.0f} by that of stage 4 (mean and its"
    " standard error; a minus means that the attacker gains).",
    *(number for k in lost for number in (kept.mean(lost[k]), error[k])),
)

# %% [markdown]
# Choose the stages yourself. A new combination is trained first, which takes some seconds. Cut networks differ from draw to draw as much as from each
# other, so trust the dots above more than this gallery.


# %%
def cut_and_attack(**boxes):
    cut = tuple((int(name[-1]), 0) for name, ticked in boxes.items() if ticked)
    one = here.inverted(here.network(body, dict(skips=cut)))
    places = one.result.places(min(6, here.people))
    known = ["recognised" if yes else "not recognised" for yes in one.top1[places]]
    title = f"cut: {', '.join(str(stage) for stage, _ in cut) or 'none'}"
    return plots.images(
        {"private": here.private(6), title: one.result.images[places]},
        alt=f"Six people, and what was found of them; {title}. {', '.join(known)}.",
        captions={title: known},
    )


widgets.explore(
    cut_and_attack,
    start={"stage_4": True},
    **{f"stage_{k}": (False, True) for k in (1, 2, 4)},
)

# %% [markdown]
# ## Sure of the wrong face?
#
# Why would a cut help? Not because the search fails, says the paper (Figure 2). Without the skip connections, too, the search finds latents of which the
# victim is nearly sure. They only show the wrong person more often. So look at the victim's probability for its target.

# %%
plots.evidence(
    kept, mine, rows("likelihood"), xlabel="the victim's probability for its target"
)

# %% [markdown]
# In the paper the probabilities of both networks are close to 1. Compare the rows *full* and *without stage 4's*: is it so here?

# %% [markdown]
# ## At equal accuracy
#
# A network that is worse at its task knows less, and is usually harder to invert. Then a cut that costs accuracy looks like a defence for that reason
# alone. So the paper compares checkpoints *of the same accuracy* (Figure 3). Here the full network was attacked at several epochs of its training. Straight
# lines between these say what a network *stopped* at some accuracy gives away.

# %%
plots.evidence(kept, mine, rows("acc"), xlabel="task accuracy, %")

# %%
pairs = {}
for label, name in [*variants.items()][1:]:
    pairs[label] = f"attacc[orl, resnet, {name}]"
    pairs[f"full, stopped as good as {label}"] = (
        f"attacc_if_stopped[orl, resnet, {name}]"
    )
plots.evidence(kept, mine, pairs, xlabel="the judge sees the right person, %")

# %% [markdown] tags=["printed"]
# Look at the rows in pairs. What a cut network gives away less than the row below it, it owes to the missing skip connections. The rest it owes to being
# worse at its task. In the paper 10 to 15 points are left for ResNets (Figure 3), which are much deeper than ours.

# %% [markdown]
# ## The gradient on its way back
#
# The paper's reason is equation 2. At a block the gradient splits. One part returns through the skip connection as it is, the other through the branch:
#
# $$\frac{\partial L}{\partial z_i} = \frac{\partial L}{\partial z_{i+1}} + \frac{\partial L}{\partial z_{i+1}} \frac{\partial g_i}{\partial z_i}$$
#
# How large are the parts, at the pictures with which the attack begins?

# %%
whole = here.network(body)
begin = here.inverted(whole).result
parts = gradient_flow.split(whole.model(0), begin.first, begin.targets, losses.poincare)
pd.DataFrame([vars(row) for row in parts]).set_index("block").round(4)

# %% [markdown]
# The last column is the error of the equation. Now the length of the gradient that arrives at the image.

# %%
lengths = {
    k: name.replace("]", ", input]") for k, name in rows("gradient_norm").items()
}
plots.evidence(
    kept,
    mine,
    lengths,
    xlabel="norm of the gradient at the image",
    log=True,
)

# %% [markdown]
# A shorter gradient alone does not stop this attack: Adam divides a gradient by its own size, so the steps stay as long. Only a worse *direction* can.

# %% [markdown]
# ## Where do skip connections matter?
#
# One network is little. At `night` we also cut a shallower, a deeper and a wider ResNet, and a DenseNet. The table shows them: points of attack accuracy
# lost, and in brackets points of task accuracy lost. (An EfficientNet was cut too, but trained as long as the others it did not learn its task.)


# %%
def lost_by(network, name):
    task, attack = (
        f"{m}[orl, {network}, full] - {m}[orl, {network}, {name}]"
        for m in ("acc", "attacc")
    )
    return f"{kept.mean(attack):.0f} ({kept.mean(task):.0f})" if attack in kept else ""


networks = sorted({n.split(", ")[1] for n in kept.table if "skip_4" in n})
cuts = {label: name for label, name in variants.items() if name != "full"}


def table(cell):
    return pd.DataFrame(
        {label: {n: cell(n, name) for n in networks} for label, name in cuts.items()}
    )


table(lost_by)

# %% [markdown]
# Read the brackets first. A cut that takes as much from the task as from the attacker is no defence. So here is the rest: how many points each cut network
# gives *less* away than the whole one, stopped where it is as accurate, with the standard error.


# %%
def beyond(network, name):
    keys = f"[orl, {network}, {name}]"
    less = f"attacc_if_stopped{keys} - attacc{keys}"
    return (
        f"{kept.mean(less):+.0f} ± {standard_error(less):.0f}" if less in kept else ""
    )


table(beyond)

# %% [markdown]
# In the deep ResNet and the DenseNet, which learn least without skip connections, every number is above zero. In two of the others only the last column clearly
# is, and in the shallow ResNet none; its last stage has one skip, a projection and no identity, so that column asks something else of it. Where the brackets are large, be careful: a cut network can know so little that the search finds less in it than a mere choice of
# faces finds in the whole one. This is so for every cut of the DenseNet, in the deep ResNet for all but that of stage 1, and in lab 11's ResNet without any. The last stage is not special here, where it sees one pixel in three of the ResNets. The ledger's tests are at
# the end.

# %% [markdown]
# ## What differs from the paper
#
# - **People and prior.** The paper inverts classifiers of 530 actors (FaceScrub) with a StyleGAN trained on FFHQ. Neither is in a package registry. The
#   parameter `faces` of lab 11 takes them where you have them.
# - **Networks.** Ours are narrow up to `night`, and the paper's own at `paper`. They are drawn with `zero_init_last=False`: timm starts the last BatchNorm
#   of each branch at 0, and a block without its skip connection would then be 0 and never learn.
# - **Step length.** PPA's 0.005 belongs to StyleGAN's latents. Ours are standard normal, and take 0.1.
# - **Released code.** We did not follow the authors' repository: its "full" ResNets lack the skip connections of the last fifth of stage 3.
# - **Contradictions in print.** ResNet-34 without stage 4 has 80.61 in one table of the paper and 71.86 in another. DenseNet-121 in full has 88.11 and
#   78.09. Both are in our tables. ResNet-34 loses more by Skip-2 than by Skip-4 in Table 2, against its caption.

# %% [markdown]
# ## A network of your own
#
# Name a model of timm as `victim` in the parameters. It is trained and attacked like ours.

# %%
if victim:
    private_people.NETWORKS[victim] = (
        victim,
        models.sized(victim, stage.get("side", 32)),
    )
    own = here.inverted(here.network(victim))
    display(text("{}: task {:.0f} %, attack {:.0f} %.", victim, own.acc, own.attacc))
widgets.verdicts("11")

# %% [markdown]
# ## Read on
#
# Koh et al. 2024, sections 3 and 4. [Is it enough to fold the skip connections away?](11_repvgg.ipynb) Lab 12 makes a defence of the cuts.
