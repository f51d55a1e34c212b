# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 12 · Stronger inversions, and architectures that resist them
#
# Now you stand on the other side. You have to ship a network that knows your staff, and want it to give away as little as it can.
#
# Koh et al. 2024 make three defences of their cuts: **RoLSS** removes the skip connections of the last stage, **SSF** weakens them, **TTS** removes them after the first epochs. They hold them against defences that change the *training*: **BiDO** and **MID** add a term to the loss, **DP-SGD** adds noise to each step. And they attack with more than PPA: **KEDMI** and **PLG-MI** train a generator on what the victim itself says, and **LOMMA** repairs their search.
#
# After it you can
# - say what each of seven defences changes in a training, and train with it;
# - read a trade-off: what a defence takes from the attacker, and what it costs the task;
# - run five attacks, which are five settings of one search;
# - ask people which of two pictures shows the person, and say what few answers can show.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.6 GB |
# | class | 4 | 1.6 GB |
# | night | 400 | 2 GB |
# | gpu | 60 | 8 GB |
# | paper | 4000 | 12 GB |
#
# (On two CPU cores. At `class` one draw of people is measured live, beside the committed ones; from `night` on all that is registered, and it resumes. The last rows are estimates.)

# %% [markdown]
# *You need* lab 11. *Words that are new here*: **trade-off**, **Pareto front**, **HSIC**, **information bottleneck**, **differential privacy**, **distillation**.
#
# Before each result you predict it. The people are those of the ORL set again, who were photographed for science: show what you reconstruct to nobody who would take it for a photograph.

# %%
from inspect import getsource

import numpy as np
import pandas as pd
import torch
from IPython.display import display

from privlab import compute, data, experiments, ledger, training
from privlab.attacks import model_inversion
from privlab.defences import architecture, dp_sgd, regularisers
from privlab.experiments import private_people, resistant_architectures
from privlab.metrics import tradeoff
from privlab.notebook import checks, plots, user_study, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
faces = ""  # "facescrub" or "celeba_people", once data_scripts/prepare.py has made yours ready; FFHQ beside it

# %%
device = compute.device(device)
kept = experiments.load("resistant_architectures.defences")
kept

# %% [markdown]
# ## Seven ways to defend
#
# | | what it changes | from |
# |---|---|---|
# | RoLSS | no skips in the last stage | Koh et al. 2024, 5.1 |
# | RoLSS+ | nor in a tenth of the stage before (the last, here; the paper does not say which) | 10.4 |
# | SSF | the last stage's skips times k = .2 | 5.2 |
# | TTS | full for the first epochs, then as RoLSS | 5.3 |
# | BiDO | features that depend little on the image and much on the label | Peng et al. 2022 |
# | MID | a narrow, noisy channel before the head, and a price on what passes | Wang et al. 2021 |
# | DP-SGD | each image's gradient cut, noise on each step | Abadi et al. 2016 |
#
# The first four change the network's *form*, two add a *penalty* to the loss, the last has a way of its own to take a *step*.

# %%
print(getsource(architecture.Cut.shape))
print(getsource(regularisers.BiDO.listen).split("measure = MEASURES[self.measure]\n\n")[1].split("        def hook")[0])

# %% [markdown]
# The first is all there is to four defences, the second BiDO's penalty: for the features $z$ of each stage, how much they depend on the images $x$, less how much they depend on the labels. Dependence is **HSIC**, 0 where images that are alike have features that are not; COCO is another measure of it. MID takes the **information bottleneck** by its word: the head sees a noisy draw of the features, and the loss counts how many nats (bits, to base $e$) of the image are in it.

# %% [markdown]
# **Differential privacy** promises more than the others: that no one photograph changes what the training does by more than a factor, $e^\varepsilon$. It has to bound what any *one* image does to the weights. A BatchNorm mixes the images of a batch, so there is no such bound, and the trainer refuses:

# %%
stage = (
    experiments.find("resistant_architectures.defences")
    .size("smoke" if profile == "smoke" else "class")
    .settings["stage"]
)
here = private_people.People(seed, **{**stage, **({"faces": faces} if faces else {})}, device=device)
print(f"{here.faces}: {here.split}")
body = "tiny" if profile == "smoke" else "resnet"
try:
    here.network(body, defences=(dp_sgd.dp(epsilon=50.0, delta=1e-3),))
except ValueError as refused:
    print(refused)

# %% [markdown]
# So DP gets a network with GroupNorm, which norms each image by itself, and is compared with the same network undefended. Its $\varepsilon$ here is 50, hardly a promise, and already expensive: 140 photographs are few to hide one among.

# %%
print(getsource(resistant_architectures.kinds).split('"""')[2])

# %% [markdown]
# ### Predict
#
# For each point of accuracy that it costs, RoLSS takes 5.7 to 9.9 points from the attacker in the paper, BiDO 2.9 to 7.8 (Table 5). What will RoLSS take here, for each point?

# %%
guess = widgets.predict("points of attack accuracy for a point of task accuracy, RoLSS:", low=-5, high=30)
guess

# %% [markdown]
# The attack is lab 11's: PPA, with eigenfaces of the public people, and a judge that it never saw. Every draw of people has its own networks, and is one repeat.

# %%
mine = experiments.run("resistant_architectures.defences", profile, device=device)
most = kept if len(kept) else mine
KINDS = [name.split(", ")[2][:-1] for name in most.table if name.startswith("acc[orl, resnet,")]
points = {
    kind: np.stack([most[f"acc[orl, resnet, {kind}]"], most[f"attacc[orl, resnet, {kind}]"]], 1) for kind in KINDS
}
plots.evidence(kept, mine, {kind: f"attacc[orl, resnet, {kind}]" for kind in KINDS} | {"first choice": "attacc[orl, resnet, first_choice]", "random face": "attacc[orl, random_face]"}, xlabel="people that the judge recognises, percent")  # fmt: skip

# %%
rows = {}
for kind, of in points.items():
    task, attack = (points["none"] - of).T
    if len(of) > 1 and kind != "none":
        rows[kind] = {
            "task lost": task.mean(),
            "attacker lost": attack.mean(),
            "Delta, with its interval": str(tradeoff.ratio(task, attack)),
        }
lost = (points["none"] - points["rolss"]).mean(0)
guess.against(round(float(lost[1] / lost[0]), 1) if lost[0] else float("nan"))
pd.DataFrame(rows).T

# %% [markdown]
# **Delta** is what the attacker loses for each point that the task loses. Where a defence costs the task so little that a few draws cannot tell it from nothing, Delta has no size: something is divided by almost 0. The paper prints no interval for its ratios, and that is just where its best values stand: TTS on ResNet-34 takes 9.1 points for .29, a ratio of 31.

# %% [markdown]
# So look at the **trade-off** as a plane. To the right is better for you, down is worse for the attacker. Whoever has nobody to the right *and* below is on the **Pareto front**. Point at a mark to see what the attacker got there.


# %%
undefended, defended = (resistant_architectures.attacked(here, body, resistant_architectures.kinds(here.recipe.epochs, 2)[kind])[0] for kind in ("none", "rolss"))  # fmt: skip


def gallery(name, one, n=6):
    """Six people of a draw, and what was reconstructed of them."""
    places = one.result.places(min(n, here.people))
    seen = one.top1[places]
    title = f"reconstructed, {name}"
    alt = f"{len(places)} people, and what was reconstructed behind {name}; the judge recognises {int(seen.sum())} of them."
    words = ["recognised" if yes else "not recognised" for yes in seen]
    return plots.images(
        {"private": here.private(n), title: one.result.images[places]}, alt=alt, captions={title: words}
    )


drawn = {kind: points[kind] for kind in sorted(KINDS, key=lambda kind: "stopped" in kind)[:14]}
plots.tradeoff_chart(
    drawn, {"none": gallery("none", undefended), "rolss": gallery("RoLSS", defended)},
    alt="Task accuracy against attack accuracy, means: " + "; ".join(f"{name} {p[:, 0].mean():.0f} and {p[:, 1].mean():.0f}" for name, p in drawn.items()),
)  # fmt: skip

# %% [markdown]
# ## The cheapest defence: stop earlier
#
# *Stopped at n* in the chart is the undefended network after n epochs: worse at its task, and it gives less away. A defence has to beat the full network *stopped where it is as good as the defended one*.

# %% [markdown]
# ### Predict
#
# By how much does SSF?

# %%
guess_stop = widgets.predict(
    "points that SSF gives away less than a network stopped at its accuracy:", low=-30, high=30
)
guess_stop

# %%
print(getsource(private_people.if_stopped).split('"""')[2])
ahead = {
    kind: most[f"attacc_if_stopped[orl, resnet, {kind}]"] - most[f"attacc[orl, resnet, {kind}]"]
    for kind in KINDS
    if kind != "none" and "stopped" not in kind
}
guess_stop.against(round(float(ahead["ssf" if "ssf" in ahead else "rolss"].mean()), 1))
plots.dots(
    ahead, xlabel="points given away less than by a network stopped at equal accuracy, one dot a draw",
    alt="How far each defence beats stopping earlier, means: " + ", ".join(f"{name} {of.mean():.1f}" for name, of in ahead.items()),
)  # fmt: skip

# %% [markdown]
# `make bench` took eight draws, with six checkpoints each:
#
# | | task lost | attacker lost | given away less than a network stopped at equal accuracy |
# |---|---|---|---|
# | RoLSS | 9 ± 3 | 7 ± 14 | 2 ± 16 |
# | RoLSS+ | 9 ± 6 | 6 ± 14 | 1 ± 15 |
# | SSF | 4 ± 6 | 1 ± 14 | -2 ± 16 |
# | TTS | 5 ± 4 | -2 ± 8 | -5 ± 8 |
# | BiDO (HSIC) | 6 ± 8 | 8 ± 10 | 5 ± 11 |
# | BiDO (COCO) | 12 ± 8 | 6 ± 9 | 1 ± 8 |
# | MID | 32 ± 5 | 18 ± 7 | 3 ± 13 |
# | GroupNorm for BatchNorm | 32 ± 10 | 38 ± 9 | **25 ± 9** |
# | the same, three times as many epochs | 1 ± 5 | 24 ± 16 | **23 ± 16** |

# %% [markdown]
# None of the defences beats the clock, in networks and with a prior of this size. A change that nobody sold as a defence does: GroupNorm in place of BatchNorm. With it the network learns slowly. But trained three times as long it is as good as the undefended one, and gives 24 ± 16 points less away (the undefended network was not trained as long; at `night` it is). A search of four times as many steps does not bring them back (16 ± 6% of three draws, 38 ± 10 with the usual steps). Why, we have not measured.
#
# A DenseNet loses nearly all it knows to RoLSS, 67 points of 89, and SSF with the paper's k = .01 *is* RoLSS there: a hundredth of our few channels is none.

# %% [markdown]
# ## How much of a skip?
#
# SSF has a dial: its factor k. At 1 it is the full network, at 0 it is RoLSS; the paper turns it in its Figure 9, and finds that both accuracies rise with k.

# %% [markdown]
# ### Predict
#
# Does the attack's accuracy rise with k here?

# %%
guess_k = widgets.predict("rank correlation between k and attack accuracy, within a draw:", low=-1.0, high=1.0)
guess_k

# %%
kept_k = experiments.load("resistant_architectures.skip_factor")
mine_k = experiments.run("resistant_architectures.skip_factor", profile, device=device)
most_k = kept_k if len(kept_k) else mine_k
dial = {
    float(name[:-1].split("k_")[1].replace("p", ".")): name
    for name in most_k.table
    if name.startswith("acc[orl, resnet, k_")
}
guess_k.against(round(most_k.mean("rank_correlation[orl, resnet, k, attacc]"), 2))
plots.evidence_lines(
    kept_k, mine_k, {"task": dial, "attack": {k: f"att{name}" for k, name in dial.items()}},
    xlabel="k, the factor of the last stage's skips", ylabel="accuracy (%)",
)  # fmt: skip

# %% [markdown]
# Turn it yourself, on the draw of people above. (A new value is trained first.)


# %%
def turned(k):
    cut = () if k == 1 else (architecture.rolss(),) if k == 0 else (architecture.ssf(k),)
    return gallery(f"k={k:g}", resistant_architectures.attacked(here, body, dict(defences=cut))[0])


widgets.explore(turned, k=(0.0, 0.1, 0.2, 0.5, 1.0), start={"k": 0.2})

# %% [markdown]
# ## Where the skips cannot go: MaxViT
#
# A Transformer needs its skips more than a CNN: without those of its later stages all patches end up alike (Tang et al. 2021; section 8). So in MaxViT, which mixes convolutions with two kinds of attention, the paper cuts one early stage, and reports a large effect at a small cost: 56 points from the attacker for less than 2 of accuracy (Table 10). Ours is a narrow one, and beside it stands a small ViT. (They are measured at `night`; live at `smoke`'s two epochs.)

# %%
kept_mixed = experiments.load("resistant_architectures.transformers")
mine_mixed = experiments.run(
    "resistant_architectures.transformers", "smoke" if profile == "class" else profile, device=device
)
rows = {
    f"{name}, {words}": f"attacc[orl, {name.lower()}{key}]"
    for name in ("MaxViT", "ViT")
    for words, key in (("whole", ""), ("first stage cut", "_skip_1"))
}
plots.evidence(kept_mixed, mine_mixed, {label: name for label, name in rows.items() if name in {**kept_mixed.table, **mine_mixed.table}}, xlabel="people that the judge recognises, percent", published={"MaxViT, whole": 80.78, "MaxViT, first stage cut": 25.17})  # fmt: skip

# %% [markdown]
# Three draws of an earlier look cost the task 1.7 ± 1.7 points, as in the paper, and the attacker 0.8 ± 9.5 of 55: nothing of 56. (MaxViT was given 80 epochs. After 40 the cut network was 15 points worse than the full one, and would have looked well defended.)

# %% [markdown]
# ## Stronger attacks
#
# PPA's generator knows nothing of the victim. But the attacker has the victim while he trains it:
#
# - **GMI** (Zhang et al. 2020) came first: a GAN on public images, and its discriminator's word that a picture looks real.
# - **KEDMI** (Chen et al. 2021) asks the victim what it takes each public image for, and the discriminator has to know it too. It searches for a *distribution* of latents.
# - **PLG-MI** (Yuan et al. 2023) hands each public image to the class that it most looks like, and trains a generator that is told the class.
# - **LOMMA** (Nguyen et al. 2023) repairs KEDMI's search: the target's logit instead of the cross-entropy, and students beside the victim that were taught to answer as it does, by **distillation**.

# %% [markdown]
# Here all five are one class with other fields. What differs:

# %%
short = dict(candidates=4, kept=4, lr=0.1, steps=40)
presets = {
    "GMI": model_inversion.gmi(**short),
    "KEDMI": model_inversion.kedmi(**short),
    "LOMMA": model_inversion.lomma(model_inversion.kedmi(**short)),
    "PLG-MI": model_inversion.plg_mi(**short),
    "PPA": model_inversion.ppa(**{**short, "candidates": 8}, pool=500, views=10),
}
fields = pd.DataFrame({name: preset.settings() for name, preset in presets.items()}).fillna("")
fields[fields.astype(str).nunique(axis=1) > 1]

# %% [markdown]
# The stage is lab 11's, at 16 pixels, which a generator learns in seconds: a network that tells the digits 0 to 4 apart, and public images of 5 to 9. One victim is whole, the other has RoLSS.
#
# Now KEDMI's generator, in front of you. Each row is the same eight latents, one epoch later. (Interrupt it when you like: running the cell again goes on.)

# %%
numbers = private_people.numbers(
    each=64 if profile == "smoke" else 200, public=600 if profile == "smoke" else 1_500, side=16, seed=seed
)
gan = model_inversion.GANRecipe(2 if profile == "smoke" else 6, seed, channels=12, batch_size=32, lr=2e-3)
latents = model_inversion.generators.normal(8, 64, seed, torch.zeros(1, device=device))
target = private_people.trained(numbers, data.NORMALISE["mnist"], seed, device, "resnet18", private_people.NARROW, numbers.keep(), training.RECIPES["digits"]).model(0).to(device)  # fmt: skip
grown, screen = {}, display(display_id=True)


def grow(done, adversary):
    grown[f"epoch {done}"] = adversary.synthesise(latents).cpu()
    screen.update(plots.images(grown, alt=f"Eight pictures of KEDMI's generator after {', '.join(grown)}: noise turns into strokes."))  # fmt: skip


watched = model_inversion.gans.kedmi(numbers.draws[0].public, target, gan, watch=grow, device=device, progress=False)
if not grown:
    grow(gan.epochs, watched)

# %% [markdown]
# ### Predict
#
# Which of the five reads best? And does RoLSS lower what it gets, as in the paper's Figure 4 for KEDMI, LOMMA and PLG-MI, on a face network of 152 layers?

# %%
guess_best = widgets.predict("attack accuracy of the best of the five, full network:", low=0.0, high=1.0)
guess_best

# %%
kept_digits = experiments.load("resistant_architectures.stronger_attacks")
mine_digits = experiments.run("resistant_architectures.stronger_attacks", profile, device=device)
most_digits = kept_digits if len(kept_digits) else mine_digits
keys = {
    "GMI": "gmi",
    "KEDMI": "kedmi",
    "LOMMA": "lomma",
    "PLG-MI": "plg_mi",
    "PPA": "ppa",
    "PPA's first choice": "first_choice",
}
guess_best.against(round(max(most_digits.mean(f"attacc[mnist, {key}, none]") for key in keys.values()) / 100, 2))
rows = {
    f"{name}, {words}": f"attacc[mnist, {key}, {victim}]"
    for name, key in keys.items()
    for words, victim in (("whole", "none"), ("RoLSS", "rolss"))
}
plots.evidence(kept_digits, mine_digits, rows, xlabel="digits that are read right, percent")

# %% [markdown]
# `make bench` has larger generators, 32 pixels, and faces beside the digits (three other draws, 40 pictures each; attack accuracy of the full network, and points lost by RoLSS):
#
# | | digits, full | lost by RoLSS | faces, full | lost by RoLSS |
# |---|---|---|---|---|
# | GMI | 52 ± 8 | -3 ± 8 | 48 ± 12 | -3 ± 18 |
# | KEDMI | 61 ± 8 | -6 ± 14 | 41 ± 3 | 3 ± 6 |
# | LOMMA on KEDMI | 72 ± 7 | -14 ± 3 | 29 ± 6 | -2 ± 6 |
# | PLG-MI | 99 ± 1 | 8 ± 6 | 67 ± 13 | -1 ± 14 |
# | PPA, a DCGAN | 70 ± 15 | 6 ± 10 | 71 ± 6 | 3 ± 6 |

# %% [markdown]
# On digits the order of the years comes out, GMI, KEDMI, LOMMA, PLG-MI. Where the public images are few (200 faces) a generator that is taught by the victim is no better than one that is not. Against RoLSS only PLG-MI on digits loses what three draws can just tell from nothing; LOMMA gains. The paper's own case, faces behind 152 layers, takes a GPU (size `paper`), and has not been run.

# %% [markdown]
# ## Ask people
#
# All numbers so far are a network's opinion. The paper also asked people (section 11): here is the person, here are two reconstructions, one from each network, and 60 seconds; which is closer? 69.5% chose the one from the full network, 30.5% the other (Table 10, MaxViT).

# %% [markdown]
# Play it. The pairs are yours: *none* against *RoLSS*, of your draw, sides at random. Answers stay in `runs/study`, one small file a game, without a name. For a whole class, hand out one study file (`of.save`) and collect the answers in one folder.

# %%
photos, owners = here.split.photographs(0)
pairs = [
    user_study.Pair(
        photos[owners == k][0],
        *(one.result.images[one.result.targets == k][0] for one in (undefended, defended)),
        person=f"person {k}",
    )
    for k in range(min(here.people, 12))
]
asking = user_study.Study(pairs, names=("none", "RoLSS"))
user_study.play(asking)

# %%
try:
    display(user_study.summary("runs/study", asking))
except (FileNotFoundError, ValueError) as nobody:
    print(nobody)

# %% [markdown]
# People choose the *closer* of two; both may be of nobody. And twelve answers show little: somebody who guesses gets 3 to 9 of 12 in nineteen games of twenty. The summary's interval says so, and takes into account that the answers of one player resemble one another, and those about one pair too.
# %% [markdown]
# ## Exercise 1: one rival
#
# PLG-MI searches with another loss than the cross-entropy, one that does not fade as the model grows sure (Yuan et al. 2023): the target's logit with a minus, plus the largest logit of the *other* classes. Write `margin(logits, target)` for one row of logits, (classes,), as a number.
#
# <details><summary>Hint</summary>The target must not compete with itself. Strike it out by its place, in a copy, before you look for the largest.</details>


# %% tags=["exercise"]
def margin(logits, target): ...


# %% tags=["solution"]
def margin(logits, target):
    others = logits.clone()
    others[target] = -torch.inf
    return (others.max() - logits[target]).item()


# %%
checks.verify("12.margin", margin)

# %% [markdown]
# ## Exercise 2: what the features hold
#
# MID lets the network draw its features: $z \sim N(\mu, \sigma^2)$, each number on its own, and makes it pay for what they tell of the image: $\mathrm{KL}\left(N(\mu, \sigma^2)\,\|\,N(0, 1)\right)$, in nats, summed over the numbers of $z$.

# %% [markdown]
# Write `kl(mu, sigma)` for one image: both are (width,), sigma is a standard deviation. Return a number.
#
# <details><summary>Hint</summary>For one number of $z$ it is the mean of $\log p(z) - \log q(z)$ over $z \sim p$. The two densities differ in a square each and in $\log\sigma$, and the mean of $z^2$ is $\mu^2 + \sigma^2$. At $\mu = 0$ and $\sigma = 1$ it has to be 0.</details>


# %% tags=["exercise"]
def kl(mu, sigma): ...


# %% tags=["solution"]
def kl(mu, sigma):
    return ((mu**2 + sigma**2 - 1) / 2 - sigma.log()).sum().item()


# %%
checks.verify("12.kl", kl)

# %% [markdown]
# ## Exercise 3: what a defence costs
#
# Write `delta(undefended, defended)`. Each is a pair, (task accuracy, attack accuracy), in points. Return the points of attack accuracy that the defence takes away for each point of task accuracy that it costs (Koh et al. 2024, Table 5), and `float("nan")` where it costs exactly 0.
#
# <details><summary>Hint</summary>Two losses, both as before less after. What does the ratio say where the task <i>gains</i> accuracy? Leave it its sign.</details>


# %% tags=["exercise"]
def delta(undefended, defended): ...


# %% tags=["solution"]
def delta(undefended, defended):
    task, attack = (before - after for before, after in zip(undefended, defended, strict=True))
    return attack / task if task else float("nan")


# %%
checks.verify("12.delta", delta)

# %% [markdown]
# ## Exercise 4: which to look at
#
# One defence *beats* another if it is at least as good in both numbers and better in one: more task accuracy, less attack accuracy. Write `front(points)`: a dictionary from names to pairs (task accuracy, attack accuracy). Return the set of the names that no other beats. Of equals all stay.
#
# <details><summary>Hint</summary>Write "beats" as a function of two pairs first. For at most a dozen defences it costs nothing to compare each with all.</details>


# %% tags=["exercise"]
def front(points): ...


# %% tags=["solution"]
def front(points):
    def beats(one, other):
        return one[0] >= other[0] and one[1] <= other[1] and one != other

    return {name for name, mine in points.items() if not any(beats(theirs, mine) for theirs in points.values())}


# %%
checks.verify("12.front", front)

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("12")

# %% [markdown]
# ## What we did differently, and why
#
# - **People and networks.** ORL's 40 people, 32 pixels, narrow ResNets and eigenfaces by default, where the paper has 530 actors, ResNet-34 to 152 and a StyleGAN. The size `paper` has the paper's, for those who have the faces and the generator.
# - **Weights of the penalties.** BiDO's (2, 20) and MID's 0.05 were chosen at a first look at one draw: the published weights (0.05 and 0.5) did nothing here that could be seen, and larger ones destroyed the task. A fair comparison would search all weights alike; the paper does not say how its rivals were tuned.
# - **DP.** A network with GroupNorm, compared with the same undefended. Opacus cuts and counts; the gradients of single images are taken with `torch.func`, because timm's in-place additions break its hooks.
# - **TTS.** One schedule of the learning rate goes through both stages; the paper does not say.
# - **The attacks' own settings.** KEDMI fits one Gaussian a candidate, not a class. PLG-MI changes its pictures by one crop. LOMMA takes the usual features from the generator's pictures, not from the public images. Searches take 60 steps, the published ones 600 to 2,400. Their networks are trained for seconds.

# %% [markdown]
# ## Summary
#
# - A ratio of two small differences is not a measurement.
# - The cheapest defence is to stop training earlier. Here no defence could be told from a network stopped at the same accuracy (eight draws); a change of the normalisation could.
# - The stronger the attacker's prior, the more comes out: what you measured with one attack is a lower bound.

# %% [markdown]
# ## Where to read on
#
# Koh et al. 2024, sections 5, 10 and 11. Peng et al. 2022 (BiDO), Wang et al. 2021 (MID), Abadi et al. 2016 (DP-SGD); Nguyen et al. 2023 (LOMMA) on why the losses of older attacks fell short. Lab 13 turns to gradients again, and to where noise is best spent.
