# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07 · Can a batch be taken apart?
#
# A client rarely sends the gradient of one photograph. It sends the mean over a batch. Do the photographs hide one another in this mean?
# GradViT (Hatamizadeh et al. 2022) was the first attack to recover recognisable batches from Vision Transformers. It adds four assumptions about images to the search.
#
# After this lab you can
# - read the loss of GradViT term by term, and write its schedule as data;
# - set when each term counts, and say what that changes;
# - read an ablation, and say whether a term deserves the credit.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 0.9 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 70 minutes. You need* labs 04 and 05. *New words*: **image prior**, **registration**, **schedule**, **ablation**.

# %%
from dataclasses import replace
from itertools import pairwise

from privlab import compute, experiments, metrics
from privlab.attacks.gradient_inversion import Term, priors, quasi_newton
from privlab.course.lab_07 import schedule_editor
from privlab.experiments.trial import mean_photograph
from privlab.experiments.victims.batches import photographs, prior, vit
from privlab.leak import observe
from privlab.notebook import checks, drawings, plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
quick = profile == "smoke"  # a narrower network and fewer steps, to try the code
images, labels = photographs(2, seed)  # (2, 3, 32, 32) in [0, 1], of two classes
victim = vit(seed, width=64 if quick else 192, device=device)  # fresh random weights
leak = observe(victim, images, labels)  # the mean gradient of both

# %% [markdown]
# ## One gradient, two photographs
#
# The client averages over its $N$ photographs: $g = \frac1N \sum_b \nabla_\theta\, \ell(x_b, y_b)$.

# %%
drawings.show("07.batch")

# %% [markdown]
# So the server makes up $N$ images at once. It computes *their* mean gradient, and changes them until this gradient is the one that was sent. It needs the labels, too.
# [A deeper notebook](deeper/07_labels.ipynb) reads them from the last layer. In this lab the attacker has them.
#
# ### Predict
#
# A search ends with two images whose mean gradient is close to the client's. What do they show?

# %%
BOTH, ONE = "each shows one of the photographs", "one shows a photograph, one nothing"
MIX, NOTHING = "both show a mixture of the two", "neither shows anything"
guess_two = widgets.choose("The two images:", [BOTH, ONE, MIX, NOTHING])
guess_two

# %% [markdown]
# ## The loss of GradViT
#
# GradViT searches as lab 04 does. Its loss has more terms (equation 1 of the paper):
#
# $$\begin{aligned} \mathcal L(x) = \; &\Gamma(t)\, \mathcal L_{\text{gradients}} + \Upsilon(t)\, \mathcal R_{\text{image}} \\ &+ \alpha_1 \mathcal R_{\text{patch}} + \alpha_2 \mathcal R_{\text{reg}} \\ &+ \alpha_3 \mathcal R_{\text{extra}} . \end{aligned}$$

# %%
drawings.show("07.search_loop")

# %% [markdown]
# - **Gradients** (equation 3): for each parameter tensor the norm of the difference. The norms are added.
# - **Image prior** (equation 4): a second network was trained on photographs. Its BatchNorm layers store the mean and the variance of what entered them. Images with
#   other statistics do not look like photographs. [A deeper notebook](deeper/07_image_prior.ipynb) asks how much this term should weigh.

# %% [markdown]
# - **Patch prior** (equation 8): a ViT hardly cares in which order its patches come. So pixels on both sides of a joint between two patches should agree.
# - **Registration** (equations 9 and 10): several searches run at once, from different noise. Each is shifted to where it fits their mean best, and is pulled towards this mean.
# - **Extra priors** (equation 11): the norm of the image, and its total variation.

# %% [markdown]
# ### Exercise 1: the patch prior *(difficulty 2, 15 minutes)*
#
# Write equation 8 as `patch_prior(images, patch)`. The images have the shape (batch, channels, height, width), and are cut into square patches. For each joint between two
# rows of patches, take the norm of the jump of the pixels across it. Do the same for columns, and add all norms.
#
# <details><summary>Hint</summary>The joints are at P, 2P, and so on, below the height and below the width. Only the two rows of pixels that touch are compared.
# There is one norm for each joint, over the whole batch.</details>


# %% tags=["exercise"]
def patch_prior(images, patch): ...


# %% tags=["solution"]
def patch_prior(images, patch):
    down, across = (
        range(patch, images.shape[2], patch),
        range(patch, images.shape[3], patch),
    )
    rows = [images[:, :, k] - images[:, :, k - 1] for k in down]
    columns = [images[..., k] - images[..., k - 1] for k in across]
    return sum(jump.norm() for jump in rows + columns)


# %%
checks.verify("07.joints", patch_prior)

# %% [markdown]
# ## When does a term count?
#
# The weights $\Gamma(t)$ and $\Upsilon(t)$ depend on the step $t$. Such a rule is a **schedule**. GradViT has two (equations 5 and 6): the image prior is off for the first half of the
# run and on for the second half, and the weight of the gradients is halved there.

# %% [markdown]
# Here a schedule is a tuple of *stages*. A stage is a pair: a part of the run, from 0 to 1, and the factor on the weight from there on.
#
# ### Exercise 2: equations 5 and 6 as stages *(difficulty 1, 5 minutes)*
#
# Write the schedules of both terms. The image prior is called `statistics`.
#
# <details><summary>Hint</summary>Give factors, not weights: a term that counts with its full weight has the factor 1. Each term has two stages.</details>

# %% tags=["exercise"]
stages = {"gradients": ..., "statistics": ...}

# %% tags=["solution"]
stages = {"gradients": ((0, 1), (0.5, 0.5)), "statistics": ((0, 0), (0.5, 1))}

# %%
checks.verify("07.stages", stages)

# %% [markdown]
# ## The schedule editor
#
# GradViT takes 120,000 steps of Adam, which is hours on your machine. So the editor has another search: L-BFGS, on the gradient term of lab 04, for eight steps of up to 20 evaluations.

# %% [markdown]
# Four terms can be scheduled:
#
# - `gradients`, the distance to what the client sent;
# - `smoothness`, the mean squared difference of neighbouring pixels, in place of the extra priors;
# - `patches`, the patch prior;
# - `statistics`, the image prior, which makes a step much longer.

# %%
attack = quasi_newton(2 if quick else 8)
gradients = attack.terms[0]
batch_norm = priors.BatchNormStatistics(prior(), size=64, relative=True)
terms = [
    gradients,
    Term("smoothness", 0.3, priors.squared_variation, of="images"),
    Term("patches", 1e-4, priors.PatchJoints(), of="images"),
    Term("statistics", 1e-4, batch_norm, of="images"),
]


def search(stages):  # name of a term -> its stages
    scheduled = tuple(replace(term, stages=stages[term.name]) for term in terms)
    return replace(attack, terms=scheduled).search(victim, leak, seed)


# %% [markdown]
# ### Predict
#
# The gradients count all along. The smoothness counts at one of these times, with the same weight.

# %%
times = {"never": (0, 0), "in the first half": (0, 50)}
times |= {"in the second half": (50, 100), "all along": (0, 100)}
guess_time = widgets.choose("When does smoothness help most?", [*times])
guess_time

# %%
start = {"gradients": (0, 100)} | dict.fromkeys(
    ("smoothness", "patches", "statistics"), (0, 0)
)
baseline = mean_photograph().expand_as(images)  # made without the gradient
editor = schedule_editor.ScheduleEditor(search, images, start, baseline)
psnr = {time: editor.run(smoothness=span) for time, span in times.items()}
helped = max(psnr, key=psnr.get)
editor.run(smoothness=times[helped])  # shown again, not searched again
guess_time.against(helped)

# %% [markdown]
# Now it is your turn. Set when each term counts, and press *Play*. Watch what comes back while a term is on, and when it goes off. (With the keyboard: Tab to an end of a bar, then the arrow keys.) A few ideas:
# give the smoothness a quarter; let the image prior come late, as GradViT does; let the gradients end after half of the run. Can you beat the best line of the list?

# %%
editor

# %%
best = max(editor.tried, key=editor.psnr)
found = editor.tried[best].images.cpu()
ssim = metrics.ssim(found, images)
swapped = metrics.ssim(found, images.flip(0))  # each with the other photograph
known = max(int((each > 0.5).sum()) for each in (ssim, swapped))
mixture = images.mean(0, keepdim=True).expand_as(images)
mixed = MIX if (metrics.ssim(found, mixture) > 0.5).all() else NOTHING
display(guess_two.against({2: BOTH, 1: ONE}.get(known, mixed)))
text(
    "The best schedule so far is *{}*. It recovers the two photographs at SSIM {:.2f} "
    "and {:.2f}, with {:.1f} dB on average. The mean photograph, which is made without "
    "the gradient, has {:.1f} dB.",
    *(editor.named(best), *ssim, editor.psnr(best), editor.floor),
)

# %% [markdown]
# This is one pair of photographs, behind one network with random weights and a large position embedding (lab 06 says why that matters). It shows that a mean of two *can* be taken apart. It does not show how often, nor what a term is worth on average.

# %% [markdown]
# ## The ablation
#
# An **ablation** takes the parts of a method away, or adds them one at a time. The paper's Table 2 begins with gradients, registration and the extra priors. Then it adds the image prior from the first step on,
# then the schedule, then the patch prior. Our rows do the same with GradViT's own loss and Adam. Registration comes last here, as a row of its own.
#
# ### Predict
#
# In the paper all terms together gain a few decibels over the first row, after 120,000 steps on a ViT-B/16. Here the ViT is small. The dots were measured
# before, after 600 steps; your own run stops much sooner.

# %%
guess_whole = widgets.predict(
    "PSNR with image prior, schedule and patch prior, less gradients alone:",
    -5,
    5,
    "dB",
)
guess_whole

# %%
kept = experiments.load("gradvit.ablation")
mine = experiments.run("gradvit.ablation", profile, device=device)
shown = kept or mine
rows = {
    "gradients": "grad",
    "+ image prior": "plus_image",
    "+ schedule": "plus_schedule",
}
rows |= {"+ patch prior": "plus_patch", "+ registration": "plus_registration"}
names = {label: f"psnr[loss_terms_{row}, std_1]" for label, row in rows.items()}
floor = {"mean photograph": "psnr[mean_photograph]"}
printed = {"gradients": "grad + reg", "+ image prior": "+ image"}
printed |= {label: label.removesuffix(" prior") for label in list(rows)[2:4]}
published = plots.published("hatamizadeh2022_table2", printed, metric="psnr")
plots.evidence(kept, mine, names | floor, xlabel="PSNR in dB", published=published)

# %%
whole = shown.mean(f"{names['+ patch prior']} - {names['gradients']}")
display(guess_whole.against(round(whole, 1)))
order = list(names.values())
added = [shown.mean(f"{b} - {a}") for a, b in pairwise(order)]
text(
    "The image prior from the first step on changes the first row by {:+.1f} dB, the "
    "schedule changes that by {:+.1f} dB, the patch prior by {:+.1f} dB and "
    "registration by {:+.1f} dB. The whole without registration ends {:+.1f} dB from "
    "the mean photograph.",
    *added,
    shown.mean(f"{order[3]} - {floor['mean photograph']}"),
)

# %% [markdown]
# The mean photograph is the *baseline*: what anyone can make without the gradient. In the second row the prior counts from the start. Compare it with the editor: when did a prior help there, and when did it hold the search back?
# A picture above the baseline need not show the photograph: it may have little more than the right mean colour.
# [A deeper notebook](deeper/07_image_prior.ipynb) has the same rows with a small position embedding, and with LPIPS.

# %% [markdown]
# ### Exercise 3: find the bug *(difficulty 3, 15 minutes)*
#
# The function below computes equation 10 for a group of searches, without the shifts. Its values are right. Yet a search with this term does exactly what it does without it. Such
# a line stands in a public re-implementation of GradViT. Write `mended`.
#
# <details><summary>Hint</summary>What is the derivative of this term with respect to the pixels of a member?</details>


# %%
def registration(members):
    consensus = members.mean(0)
    apart = members.detach() - consensus.detach()
    return apart.flatten(1).norm(dim=1)  # (group,)


# %% tags=["exercise"]
def mended(members): ...


# %% tags=["solution"]
def mended(members):
    return (members - members.mean(0)).flatten(1).norm(dim=1)


# %%
checks.verify("07.registration", mended)

# %% [markdown]
# ## The terms, or the search?
#
# In the editor two photographs came back. In the ablation the same kind of network was attacked. The terms were different, and so was the search. Which of the two made the difference?

# %% [markdown]
# Here are five ways to attack a batch of two. Each may ask for equally many gradients of the network. *L-BFGS, gradients alone* has no prior at all. *Linear algebra first* does not
# search among all pixels: by lab 05 the gradient of the first attention leaves each patch only a few unknown numbers, and L-BFGS searches these.
#
# ### Predict

# %%
WAYS = {
    "GradViT": "gradvit",
    "annealed (lab 04)": "annealed",
    "L-BFGS, gradients alone": "pixels",
    "L-BFGS, smoothness fades": "lbfgs_same_terms, pixels",
    "linear algebra first": "family",
}
guess_way = widgets.choose("Which way ends furthest above the baseline?", [*WAYS])
guess_way

# %%
kept_ways = experiments.load("batch_family.ways")
mine_ways = experiments.run("batch_family.ways", profile, device=device)
of = kept_ways or mine_ways
ways = {label: f"psnr[{way}, batch_2]" for label, way in WAYS.items()}
ways |= {"mean photograph": "psnr[family, mean_photograph, batch_2]"}
plots.evidence(kept_ways, mine_ways, ways, xlabel="PSNR in dB, batches of two")

# %%
ends = {label: of.mean(ways[label]) for label in WAYS}
alone = "L-BFGS, gradients alone"
by_search = ends[alone] - ends["GradViT"]
by_prior = ends["L-BFGS, smoothness fades"] - ends[alone]
display(guess_way.against(max(ends, key=ends.get)))
text(
    "The terms, or the search? L-BFGS without any prior ends {:+.1f} dB from GradViT, "
    "which has all its priors, and Adam. A prior that fades adds {:+.1f} dB. So {} "
    "makes more of the difference (GradViT's own priors were not tried with L-BFGS). "
    "Linear algebra first ends at {:.1f} dB with two photographs in the batch, and at "
    "{:.1f} dB with three.",
    *(by_search, by_prior, "the search" if by_search > by_prior else "the prior"),
    ends["linear algebra first"],
    of.mean("psnr[family, batch_3]"),
)

# %% [markdown] tags=["printed"]
# The committed searches are about twice as long as the editor's; those of your own run at `class` are shorter. Where algebra stops, and what a search that knows the curvature finds, is in [a deeper notebook](deeper/07_algebra_first.ipynb).
# [Another](deeper/07_other_attacks.ipynb) has the paper's rivals of GradViT, and [a third](deeper/07_identified.ipynb) asks whether larger batches and faces can still be identified.
#
# ### Exercise 4: a prior gets the credit *(difficulty 2, 8 minutes)*
#
# A team adds a prior to gradient matching. On ten batches of two photographs the mean PSNR rises from 11.6 to 12.2 dB. The team writes: "With our prior, gradients
# give whole batches away." Which of these facts, if they were true, would speak against this sentence? Give a set of letters.
#
# - **a** An image that is made without the gradient reaches 12.5 dB on these batches.
# - **b** The search with the prior had 600 steps, and the search without it had 100.
# - **c** On each batch, both searches began with the same noise.
# - **d** The prior alone, without any gradient of the client, reaches 12.2 dB, too.
# - **e** The step length was chosen so that the search with the prior does best on these ten batches. The other search kept it.
# - **f** The search with the prior is ahead on each of the ten batches.
#
# <details><summary>Hint</summary>The sentence makes two claims: that photographs are given away, and that the prior is the reason. Ask of each fact whether it leaves another explanation.</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"a", "b", "d", "e"}

# %%
checks.verify("07.credit", against)

# %% [markdown]
# ## The answer

# %%
text(
    "The mean over a small batch does not hide its photographs: two behind a fresh "
    "small ViT came back at {:.1f} dB with linear algebra first, and at {:.1f} dB in "
    "your editor, where the mean photograph has {:.1f} and {:.1f} dB. All terms of "
    "GradViT but registration, after 600 steps, ended {:+.1f} dB from the mean "
    "photograph, and one term of the editor, the smoothness, changed the result by "
    "{:+.1f} dB in the first half of the run and by {:+.1f} dB in the second.",
    *(
        ends["linear algebra first"],
        editor.psnr(best),
        of.mean(ways["mean photograph"]),
    ),
    *(editor.floor, shown.mean(f"{order[3]} - {floor['mean photograph']}")),
    *(psnr[f"in the {half} half"] - psnr["never"] for half in ("first", "second")),
)

# %% [markdown]
# ## The paper, and here

# %%
widgets.verdicts("07")

# %% [markdown]
# ## What would change our mind
#
# - A long run. The paper takes 120,000 steps on trained ViTs of 224 pixels. A term that works late in such a run cannot show it in ours.
# - Other weights. The paper's image prior is a ResNet-50 of MoCo; ours is EfficientNet-lite0, with a weight of our own. Our registration shifts whole pixels.
# - A trained victim, or a small position embedding. Both make these searches harder.
#
# ## Read on
#
# Hatamizadeh et al. 2022, sections 3 and 6; Yin et al. 2021 for GradInversion, where registration comes from. Lab 08 asks which gradients leak most.
