# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11 · Can a face come out of a classifier?
#
# A company trains a network to tell its staff apart, and builds it into a door. Somebody copies the network. They have no photograph of the staff.
# Can they still find out what these people look like? And do the network's *skip connections* help them, as Koh et al. (2024) say?
#
# After this lab you can
# - search for a face, with a classifier and a generator (eq. 1);
# - follow its gradient through a residual block (eq. 2), and remove a skip connection;
# - say which network may judge the result, and compare two networks fairly.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 3.1 | 1.3 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 75 minutes. You need* lab 01, or to know what a classifier and its logits are. *New words*: **model inversion**, **generator**, **latent**,
# **eigenfaces**, **skip connection**, **reparameterisation**, **evaluation model**.
#
# The faces come from the ORL set: 40 people who were photographed for research around 1993. Fredrikson et al. (2015) showed the first attack of this kind
# on them. Nobody asked these people about such attacks. Never show a reconstruction to somebody who may take it for a photograph.

# %%
from privlab import compute, experiments, models
from privlab.attacks.model_inversion import gradient_flow, losses
from privlab.course.lab_11 import line_up
from privlab.experiments.victims import private_people
from privlab.notebook import checks, drawings, plots, text, widgets

import pandas as pd
import torch
import torch.nn.functional as F
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
faces = ""  # "facescrub" or "celeba_people", prepared with data_scripts/prepare.py

# %%
profile = experiments.profile(profile)
device = compute.device(device)
kept = experiments.load("model_inversion.skips")  # what was measured and committed
mine = experiments.run("model_inversion.skips", profile, device=device)

# %% [markdown]
# ## Private people, public people
#
# *Your machine trains the lab's networks now, and attacks them. Read on meanwhile.*
#
# **Model inversion** asks a trained model what its training data look like. Here the model is a classifier $T$, the *victim*. It tells 20 *private* people
# apart (8 at `smoke`). The attacker has a copy of it, with all its weights. They also have photographs of other people, the *public* ones, but of
# no private person.
#
# Many pictures make the victim sure that it sees person 0. Most of them look like no face. So the attacker searches among the pictures $G(w)$ of a
# **generator**, which turns a few numbers, the **latent** $w$, into a picture. The paper takes a StyleGAN that was trained on public faces.
# Ours is made of **eigenfaces** (Turk and Pentland 1991):
#
# $$G(w) = \bar x + \sum_{i=1}^{100} w_i \, \sigma_i \, e_i$$
#
# Here $\bar x$ is the mean of the public photographs. The $e_i$ are the 100 directions in which these photographs differ most, and $\sigma_i$ is the
# standard deviation along $e_i$.

# %%
size = experiments.find("model_inversion.skips").size(mine.size)
stage = {**size.settings["stage"], **({"faces": faces} if faces else {})}
here = private_people.People(mine.repeats[0] + seed, **stage, device=device)
private, public = here.private(here.people), here.split.public[:6].float() / 255
prior = here.prior
w = torch.randn(6, prior.width, generator=torch.Generator().manual_seed(seed))
staff = f"private, of the set {here.faces}"
plots.images(
    {staff: private[:6], "public": public, "random latents": prior.synthesise(w)},
    alt="Photographs of six private people, six public photographs, and six faces "
    "from random latents: blurred, and of nobody.",
    captions={staff: [f"person {k}" for k in range(len(private[:6]))]},
)

# %% [markdown]
# ## A search by hand
#
# The attacker wants the latent whose picture the victim takes for person $y$ (Koh et al., eq. 1):
#
# $$w^* = \arg\min_w L(w; y, T), \qquad \text{commonly } L(w; y, T) = -\log P_T(y \mid G(w))$$
#
# The victim is a ResNet. **Be the attacker.** A slider sets one of the first six $w_i$. Make $L$ as small as you can for person 0.

# %%
body = "tiny" if mine.size == "smoke" else "resnet"
target = here.network(body).model(0)


def turn(**eigenfaces):
    w = torch.zeros(1, prior.width)
    w[0, : len(eigenfaces)] = torch.tensor([*eigenfaces.values()]).float()
    face = prior.synthesise(w)
    sure = target(here.normalise(face)).softmax(1)[0]
    first = [f"person {k}: {sure[k]:.0%}" for k in sure.topk(3).indices.tolist()]
    wanted = f"person 0: {sure[0]:.1%}, L = {-sure[0].log():.2f}"
    return plots.images(
        {"your face": face},
        smooth=True,
        alt=f"A face with weights {[*eigenfaces.values()]}. The victim: {wanted}.",
        captions={"your face": [f"{wanted}. First three: {', '.join(first)}"]},
    )


names = [f"eigenface_{k}" for k in range(1, 7)]
turns = dict.fromkeys(names, (-3, -1.5, 0, 1.5, 3))
widgets.explore(turn, start=dict.fromkeys(names, 0), **turns)

# %% [markdown]
# Is your face like the photograph of person 0, at the top? An attacker has no such photograph to compare with.
#
# ### A search by gradient
#
# A computer turns all 100 numbers at once. The attack is PPA (Struppek et al. 2022), which Koh et al. use. It has four parts.
#
# 1. **First choice.** Show the victim the pictures of 500 random latents. Keep the two best for each person.
# 2. **Search.** Follow the gradient of $L$, back through $T$ *and* $G$, into $w$ (Koh et al., Figure 1). Each of 50 *steps* sees a random crop, and changes $w$ a little.
#    The learning rate falls.
# 3. **Loss.** PPA's $L$ is the *Poincaré distance*. Its gradient does not fade when the victim is nearly sure ([deeper](deeper/11_skip_connections.ipynb)).
# 4. **Last choice.** Show the victim ten *views* of each picture, cuts of slightly different size and place. The mean probability ranks the pictures. The
#    best are kept, and all of these count: two for each person at `class`, four (from 1,000 latents) in our committed numbers.
#
# The next cell runs parts 2 and 3 for persons 0 to 5, without crops and at one learning rate. It leaves part 1 out, so that you can see faces appear: all
# six searches begin at the mean of the public photographs.

# %%
people = torch.arange(min(6, here.people))
w = torch.zeros(len(people), prior.width, requires_grad=True)
optimiser, frames, sure = torch.optim.Adam([w], lr=0.1, betas=(0.1, 0.1)), [], []
for _ in range(51 if profile != "smoke" else 11):
    face = prior.synthesise(w)
    logits = target(here.normalise(face))
    (w.grad,) = torch.autograd.grad(losses.poincare(logits, people).sum(), w)
    frames.append(face.detach())
    sure.append(100 * logits.detach().softmax(1)[people, people])
    optimiser.step()
drawings.show("11.generator_inversion")

# %% [markdown]
# ### Predict
#
# Now we ask a second network, the *judge*. It learned from photographs of the same people, and had no part in the search. It may name any private person.
# (The film opens at its end: move the slider.)

# %%
guess_named = widgets.predict("Of the last six, the judge names:", 0, 6, whole=True)
guess_named

# %%
shown = [k for k in (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50) if k < len(frames)]
named = {k: int(here.judge.score(frames[k], people).top1.sum()) for k in shown}


def film(steps):
    line = f"The victim is {sure[steps].mean():.0f}% sure on average, at worst "
    line += f"{sure[steps].min():.0f}%; the judge names {named[steps]} faces rightly."
    pictures = plots.images({"": frames[steps]}, f"After {steps} steps.", smooth=True)
    return pictures, widgets.Sentence(line)


display(
    widgets.explore(film, start={"steps": shown[-1]}, steps=shown),
    guess_named.against(named[shown[-1]]),
)

# %% [markdown]
# ## The gradient on its way back
#
# Each step needs $\partial L / \partial w$, so the gradient has to travel back through the whole victim. A residual block computes
# $z_{i+1} = z_i + g_i(z_i)$: the branch $g_i$ is a few convolutions, and the summand $z_i$ is a **skip connection**, which leads past them. On the way back the
# gradient splits at each block (Koh et al., eq. 2):
#
# $$\frac{\partial L}{\partial z_i} = \frac{\partial L}{\partial z_{i+1}} + \frac{\partial L}{\partial z_{i+1}} \frac{\partial g_i}{\partial z_i}$$
#
# The first part comes through the skip connection. That helps training, and the paper's hypothesis is that it helps the attacker, too.
#
# ### Predict

# %%
SKIP, BRANCH = "the part through the skip connection", "the part through the branch"
guess_part = widgets.choose("Larger norm in most blocks, step 0:", [SKIP, BRANCH])
display(drawings.show("11.first_skip_cut"), guess_part)


# %%
def flow(model, faces):
    """A row for each block: the norms of eq. 2, and the error of the equation."""
    rows = gradient_flow.split(model, faces, people, losses.poincare)
    table = pd.DataFrame([vars(row) for row in rows]).set_index("block").round(3)
    return table.assign(error=[f"{row.error:.0e}" for row in rows])


def at_step(step):
    return flow(target, frames[step])


longer = at_step(0)["skip"] > at_step(0)["branch"]
display(widgets.explore(at_step, step=shown))
guess_part.against(SKIP if longer.mean() > 0.5 else BRANCH)

# %% [markdown]
# *Arriving* is the norm of $\partial L / \partial z_{i+1}$, *total* that of $\partial L / \partial z_i$, which a second pass measures. As $z_{i+1}$ is taken
# before the ReLU, *arriving* differs from the next block's *total*. *Error* is the norm of skip + branch − total, divided by *total*: only rounding is left.
# A *stage* is a group of blocks at one resolution, and `layer4.0` is the first block of stage 4. Where the number of channels changes, the skip connection is a
# small convolution, a *projection*, and the gradient passes through it.
#
# ## Without the skip connections
#
# To test the hypothesis, the paper removes the skip connections of one stage, $z_{i+1} = g_i(z_i)$, trains the network anew with the same settings, and
# attacks it (section 3.2).
#
# ### Exercise 1: remove a skip connection *(difficulty 2, 10 minutes)*
#
# Write `remove(block)`: take the skip connection out of a block of timm's ResNet, and return the block. The middle of its `forward(x)` is:
#
# ```python
# shortcut = x
# x = ...  # the branch: convolutions and BatchNorm of x
# if self.downsample is not None:
#     shortcut = self.downsample(shortcut)  # the projection
# x += shortcut
# x = self.act2(x)  # a ReLU, which stays
# ```
#
# <details><summary>Hint</summary><code>downsample</code> may be any module, also in a block that has none yet. What must your module return, so that
# the sum is the branch alone? A block may halve the picture, so mind the shape.</details>


# %% tags=["exercise"]
def remove(block): ...


# %% tags=["solution"]
def remove(block):
    class Nothing(torch.nn.Module):
        def forward(self, z):
            return z.new_zeros(1)  # to a sum of any shape it adds nothing

    block.downsample = Nothing()
    return block


# %%
removed = checks.verify("11.remove", remove)
theirs, yours = (here.network(body).model(0) for _ in range(2))
models.skip_connections.cut(theirs, stage=4)
if removed.passed:
    yours.layer4 = torch.nn.Sequential(*map(remove, yours.layer4))
one, other = (network(here.normalise(private)) for network in (yours, theirs))
told = "Stage 4 cut by `remove`, and by this book: the logits differ by at most {:.1g}."
display(removed, *[text(told, (one - other).abs().max())] * removed.passed)

# %% [markdown]
# ### Predict
#
# The paper calls a network without the skip connections of stage N *Skip-N removed*. It leaves out stage 3, where the networks lost too much accuracy. And it
# attacks VGGs, which have no skip connections at all. Our VGG has as many channels as our ResNet, and the same training.

# %%
CUTS = ["stage 1", "stage 2", "stage 4", "none of them clearly"]
guess_cut = widgets.choose("Which cut costs the attacker most here?", CUTS)
MORE, ALIKE, LESS = "more than a VGG", "as much, within 5 points", "less than a VGG"
guess_vgg = widgets.choose("The whole ResNet gives away:", [MORE, ALIKE, LESS])
display(guess_cut, guess_vgg)

# %% [markdown]
# Choose the stages yourself. A new combination is trained first, which takes some seconds. The table is eq. 2 at the first step. This is one draw of
# people; the next chart has more.


# %%
def cut_and_attack(**boxes):
    cut = tuple((int(name[-1]), 0) for name, ticked in boxes.items() if ticked)
    fleet = here.network(body, dict(skips=cut) if cut else {})
    one = here.inverted(fleet)
    places = one.result.places(len(people))
    known = ["judge: yes" if yes else "judge: no" for yes in one.top1[places]]
    title = f"removed: {', '.join(str(stage) for stage, _ in cut) or 'none'}"
    line = f"Task accuracy {one.acc:.0f}%, attack accuracy {one.attacc:.0f}%. "
    line += f"The victim gives the faces a mean probability of {one.likelihood:.2f}."
    pictures = plots.images(
        {"private": private[:6], title: one.result.images[places]},
        alt=f"Six people, and what was found of them; {title}. {', '.join(known)}.",
        captions={title: known},
    )
    return pictures, widgets.Sentence(line), flow(fleet.model(0), frames[0])


boxes = {f"stage_{k}": (False, True) for k in (1, 2, 3, 4)}
widgets.explore(cut_and_attack, start={"stage_4": True}, **boxes)

# %% [markdown]
# The *attack accuracy* is the share of the found faces that the judge names as the person searched for. The chart repeats a part of the main table
# (Koh et al., Table 2), and adds a VGG (Koh et al., Table 11). One dot is a repeat: its own draw of people, with newly trained networks.
#
# - *First choice*: what the whole network gives away before the search.
# - *Fine stem*: a ResNet's first layers, its *stem*, halve the picture twice. A VGG's do not, and neither do those of our ResNet with a fine stem.
# - *A stranger*: the judge gets a photograph of somebody else, and names the person searched for by chance. That is the *baseline*.

# %%
NAMED = "the judge names the person searched for, %"
NAMES = {"ResNet": "resnet, full"}
NAMES |= {f"skip-{k} removed": f"resnet, skip_{k}" for k in (1, 2, 4)}
NAMES |= {"all removed": "resnet, none_left", "first choice": "resnet, first_choice"}
NAMES |= {"ResNet, fine stem": "resnet_fine, full", "VGG": "vgg, full"}
NAMES["a stranger"] = "random_face"
attacked = {label: f"attacc[orl, {name}]" for label, name in NAMES.items()}
SKIPS = {f"skip-{k} removed": f"Skip-{k} Removed" for k in (1, 2, 4)}
IN = {"architecture": "ResNet-101", "metric": "attacc"}
printed = plots.published("koh2024_table2", SKIPS | {"ResNet": "Full"}, **IN)
printed |= plots.published("koh2024_table11", {"VGG": "VGG-16"}, metric="attacc")
plots.evidence(kept, mine, attacked, published=printed, xlabel=NAMED)

# %%
whole = "attacc[orl, resnet, full]"
lost = [f"{whole} - attacc[orl, resnet, skip_{k}]" for k in (1, 2, 4)]
points = [(kept.mean(name), kept.spread(name) / len(kept) ** 0.5) for name in lost]
told = text(
    "By the cuts of stages 1, 2 and 4 the attacker loses {}, {} and {} points (mean and"
    " its standard error; *clearly* means more than three of these). The victim's mean "
    "probability is {:.2f}; after the cuts of stages 1 and 4, {:.2f} and {:.2f}.",
    *(f"{mean:.0f} ± {error:.0f}" for mean, error in points),
    *(kept.mean(f"likelihood[orl, resnet, {k}]") for k in ("full", "skip_1", "skip_4")),
)
most, error = max(points)
clear = CUTS[points.index((most, error)) if most > 3 * error else 3]
gap = kept.mean(f"{whole} - attacc[orl, vgg, full]")
vgg = MORE if gap > 5 else LESS if gap < -5 else ALIKE
display(told, guess_cut.against(clear), guess_vgg.against(vgg))

# %% [markdown]
# Why would a cut help the defender? The paper says that the search does not fail (Koh et al., Figure 2): it still finds latents of which the victim is
# nearly sure, but more of them are *false positives*, which show somebody else. Do our probabilities agree with that, at the cut that costs most?

# %% [markdown] tags=["printed"]
# ### At equal accuracy
#
# A network that is worse at its task gives less away. So the paper compares networks of equal accuracy (Koh et al., Figure 3). There, a cut of the last stage takes about
# 10 to 15 points from the attacker in ResNets, and 30 to 35 in DenseNets. We attacked the whole network at several epochs, drew straight lines between these
# points, and read off what it gives away where it is as accurate as the cut network. The table has the difference: above 0, the cut network gives less away.

# %%
fresh = experiments.load("model_inversion.depth_and_resolution")
nets = {"10 layers": "resnet_shallow", "18 layers": "resnet"}
nets |= {"34 layers": "resnet_deep", "18 wide layers": "resnet_wide"}
nets |= {"DenseNet": "densenet", "10 layers, 4x4": "resnet_fine_shallow"}
nets |= {"18 layers, 4x4": "resnet_fine", "34 layers, 4x4": "resnet_fine_deep"}
nets |= {"DenseNet, new draws": "densenet"}
cuts = {"stage 1": "skip_1", "2": "skip_2", "4 (RoLSS)": "skip_4", "all": "none_left"}
WAIT = "being measured"


def saved(label, cut):
    of = fresh if "4x4" in label or "new" in label else kept
    name = "attacc_if_stopped[{0}] - attacc[{0}]".format(f"orl, {nets[label]}, {cut}")
    return f"{of.mean(name):+.1f} ± {of.spread(name):.1f}" if name in of else WAIT


gains = {label: [saved(label, cut) for cut in cuts.values()] for label in nets}
pd.DataFrame.from_dict(gains, "index", columns=[*cuts]).rename_axis("mean ± sd")

# %% [markdown]
# *RoLSS* is the paper's name for removing the last stage's skip connections, as a defence (lab 12). At 32 pixels the last stage of the networks with 18, 34
# and 18 wide layers sees a *single pixel*, where a 3x3 convolution is a 1x1. With 10 layers its only skip connection is a projection. In the rows with 4x4 it
# sees four by four pixels. These rows and the last are on new draws of people. A DenseNet joins earlier features to later ones; cut in its last stage,
# it knows a quarter of its people. ± is the standard deviation; a quarter of it is the standard error.
#
# ### Removed after training?
#
# RepVGG trains blocks of three branches, a 3x3 convolution, a 1x1 convolution and a skip connection, each with a BatchNorm (Koh et al., eq. 4):
#
# $$f_i(z_i) = \sum_{k \in \{3, 1\}} BN(z_i * W^{(k)}, \mu^{(k)}, \sigma^{(k)}, \gamma^{(k)}, \beta^{(k)}) +
# BN(z_i, \mu^{(0)}, \sigma^{(0)}, \gamma^{(0)}, \beta^{(0)})$$
#
# Before it is shipped, the block becomes one plain convolution, $\hat f_i(z_i) = z_i * \hat W + \hat b$ (Koh et al., eq. 5). This is called
# **reparameterisation**. The skip connection is gone. Is the leak gone, too?
#
# ### Exercise 2: fold a branch *(difficulty 2, 10 minutes)*
#
# In each branch the convolution and its BatchNorm become one convolution (Koh et al., eq. 6):
#
# $$\hat W^{(k)} = \frac{\gamma^{(k)}}{\sigma^{(k)}} W^{(k)}, \qquad \hat b^{(k)} = \beta^{(k)} - \frac{\mu^{(k)} \gamma^{(k)}}{\sigma^{(k)}}$$
#
# Write `fold(weight, mean, var, gamma, beta, eps)`: the convolution's weight (out, in, k, k), and the BatchNorm's running mean, running variance, weight, bias
# and eps, so $\sigma = \sqrt{\text{var} + \text{eps}}$. Return the new weight and the new bias.
#
# <details><summary>Hint</summary>The product with $W$ goes channel by channel: there is one factor for each output
# channel.</details>


# %% tags=["exercise"]
def fold(weight, mean, var, gamma, beta, eps): ...


# %% tags=["solution"]
def fold(weight, mean, var, gamma, beta, eps):
    scale = gamma / (var + eps).sqrt()
    return weight * scale[:, None, None, None], beta - mean * scale


# %%
folds = checks.verify("11.fold", fold)
folds

# %% [markdown]
# The kernel of the skip connection, $W^{(0)}$, is the identity matrix. Why is $\hat f_i = f_i$ (Koh et al., eq. 7)?
#
# - (a) $\hat W$ is the sum of the kernels, padded with zeros to 3x3, and $\hat b$ that of the biases:
#   $z_i * \hat W + \hat b = \sum_k (z_i * \hat W^{(k)} + \hat b^{(k)})$.
# - (b) Insert eq. 6.
# - (c) Rearrange: each summand is $(z_i * W^{(k)} - \mu^{(k)}) \frac{\gamma^{(k)}}{\sigma^{(k)}} + \beta^{(k)}$.
# - (d) This is BatchNorm, so the sum is eq. 4.


# %%
block = here.network("repvgg").model(0).double().stages[1][1]  # f_i, in float64
parts = models.skip_connections.branch_layers(block)


def conv(z, W, b=None):
    return F.conv2d(z, W, b, padding="same")


def steps(z):  # the lines of eq. 7: one convolution, three of them, f_i
    hats = [fold(*part) for part in parts]
    W_hat = sum(F.pad(W, [(3 - W.shape[-1]) // 2] * 4) for W, _ in hats)
    yield conv(z, W_hat, sum(b for _, b in hats))  # eq. 5
    yield sum(conv(z, W, b) for W, b in hats)  # (a), (b)
    yield sum(F.batch_norm(conv(z, W), *bn, eps=eps) for W, *bn, eps in parts)  # (d)


torch.manual_seed(seed)
z = torch.randn(1, len(parts[0][1]), 8, 8).double().requires_grad_()
if folds.passed:
    lines = [*steps(z)]
    backs = [torch.autograd.grad(y.square().sum(), z)[0] for y in lines]
    far = [(y - all_of[2]).abs().max() for all_of in (lines, backs) for y in all_of[:2]]
    told = "Largest difference to $f_i$: one convolution {:.0e}, three {:.0e}; of the "
    told += "gradients with respect to $z_i$: {:.0e} and {:.0e}."
    display(text(told, *far))

# %%
branched = here.network("repvgg").model(0)
both = [branched, models.skip_connections.fold(branched)]
out = [here.found(net) for net in both]
text(
    "Branches before: {}. After: {}. Attack accuracy before: {:.1f}%. After: {:.1f}%.",
    *map(models.skip_connections.branches, both),
    *(100 * here.judge.score(one.images, one.targets).accuracy for one in out),
)

# %% [markdown]
# In Koh et al., Table 4 a RepVGG-A0 has an attack accuracy of 85.19% before and 86.13% after. Up to rounding,
# folding changes no answer and no gradient, so it defends nobody.

# %% [markdown]
# ## Who should judge?
#
# Two networks have answered who is on the found faces. Can *you* tell? You get a face that the whole attack found, and photographs of six private people,
# one of them the person searched for. The attack has seen none of these photographs.

# %%
found = here.inverted(here.network(body))  # all four parts, for all people
best = found.result.places(here.people)
line_up.LineUp(found.result.images[best], private, found.top1[best], seed=seed)

# %% [markdown]
# Random guessing is right once in six rounds. The generator cannot make sharp faces.
#
# The attack has driven the *victim's* answer up. So the field asks an **evaluation model**, such as our judge. It has another architecture, and the attacker
# never sees it.

# %%
drawings.show("11.three_parties")

# %% [markdown]
# ### Exercise 3: why the victim is no judge *(difficulty 2, 10 minutes)*
#
# Write `convince(model, picture, target, steps)`. Change the *pixels* of `picture`, (1, channels, height, width) in [0, 1], until the model is sure that
# it shows class `target`. Return the new picture. `model` takes pixels and gives logits.
#
# <details><summary>Hint</summary>Use Adam on the pixels, at a rate of 0.02, and <code>cross_entropy</code>, which wants
# <code>torch.tensor([target])</code>. After each step, cut the pixels off at 0 and 1 by <code>x.data.clamp_(0, 1)</code>.</details>


# %% tags=["exercise"]
def convince(model, picture, target, steps=50): ...


# %% tags=["solution"]
def convince(model, picture, target, steps=50):
    x = picture.clone().requires_grad_()
    optimiser = torch.optim.Adam([x], lr=0.02)
    for _ in range(steps):
        loss = F.cross_entropy(model(x), torch.tensor([target]))
        (x.grad,) = torch.autograd.grad(loss, x)
        optimiser.step()
        x.data.clamp_(0, 1)
    return x.detach()


# %%
solved = checks.verify("11.convince", convince)
solved

# %% [markdown]
# ### Predict
#
# Change the pixels of *noise* until the victim is sure that it shows person 3. Then do so for every other person, each time with new
# noise. How often does the judge name the person asked for?

# %%
SAME, CHANCE, NEVER = "nearly always", "as often as by chance", "never"
guess_noise = widgets.choose("The judge names that person:", [SAME, CHANCE, NEVER])
guess_noise

# %%
draw = torch.Generator().manual_seed(seed)
before = after = torch.rand(1, *private.shape[1:], generator=draw)
if solved.passed:  # person 3, for the victim
    after = convince(lambda x: target(here.normalise(x)), after, 3, steps=200)
door, judge = target(here.normalise(after)).softmax(1)[0], here.judge.model(after)[0]
said = f"the victim: person 3, {door[3]:.0%}; the judge: person {judge.argmax()}"
row, alt = "noise, before and after", f"Two pictures of noise. The second: {said}."
noise = plots.images({row: torch.cat([before, after])}, alt, {row: ["", said]})
says = "attacc[orl, noise, {}_says]".format
told = text(
    "In the {} repeats the victim names {:.0f} of 100 such pictures as that person, "
    "the judge {:.0f}, and random guessing would name {:.0f}. A copy of the judge that "
    "has not seen the held-out photographs is right about {:.0f} of 100 of them.",
    *(len(kept), kept.mean(says("target")), kept.mean(says("judge")), 100 / 20),
    kept.mean("acc[orl, judge]"),
)
display(noise, told)
guess_noise.against(CHANCE if kept.mean(says("judge")) > 1 else NEVER)

# %% [markdown]
# ### Exercise 4: what counts as evidence? *(difficulty 1, 6 minutes)*
#
# A company had its door attacked, as you did here. Its report says six things.
#
# - **a** The door's network gives the right name to every face that was found.
# - **b** A second network, trained on photographs of the staff and kept from the attacker, gives the right name to most of these faces.
# - **c** Shown photographs of strangers instead of these faces, the second network hardly ever gives the names that were searched for.
# - **d** The pictures that were found look like real human faces.
# - **e** In line-ups of six, colleagues picked the right person far more often than once in six.
# - **f** The loss of the search fell to almost zero.
#
# Which of them, together, are evidence that the network gave the staff's faces away? Give their letters, as in `evidence = {"a", "b"}`.
#
# <details><summary>Hint</summary>Ask of each sentence: would it also be true of noise that convinces the victim, or of a generator that knows nobody of
# the staff? Then ask what a high number means if you have nothing to compare it with.</details>

# %% tags=["exercise", "reading"]
evidence = ...

# %% tags=["solution"]
evidence = {"b", "c", "e"}

# %%
checks.verify("11.evidence", evidence)

# %% [markdown]
# ## The answer

# %%
last = {net: gain[2] for net, gain in gains.items() if gain[2] != WAIT}
least, most = (f(last, key=lambda n: float(last[n].split()[0])) for f in (min, max))
text(
    "Yes: of 100 faces found in a ResNet, a judge that the attacker never saw names "
    "{:.0f} as the person searched for, of 100 first choices {:.0f}, and of 100 "
    "photographs of strangers {:.0f}; but this judge learned from the victim's own "
    "photographs. How much the skip connections help depends on the network: at equal "
    "accuracy, removing those of the last stage saves between {} points ({}) and {} "
    "({}), and all of our ResNet's {} (mean ± sd; a cut DenseNet knows few people).",
    *(kept.mean(attacked[name]) for name in ("ResNet", "first choice", "a stranger")),
    *(last[least], least, last[most], most, gains["18 layers"][3]),
)

# %% [markdown]
# ## The paper, and here

# %%
widgets.verdicts("11")

# %% [markdown]
# ## What would change our mind
#
# - A judge that learned from other photographs of the same people, in other light, and names few of these faces. Then the attack found what the
#   photographs share, and not the person. We did not run this.
# - The paper's own setting, which has not been run here: a ResNet-101, FaceScrub's 530 actors, and a StyleGAN. If skip connections matter most in deep
#   networks, or where the last stage sees many pixels, the 4x4 rows should show it.
# - More than 40 people: all draws come from the same 40, and they overlap.

# %% [markdown]
# ## Read on
#
# [The deeper notebook](deeper/11_skip_connections.ipynb) compares networks at equal accuracy, writes PPA's loss, and cuts a MaxViT.
#
# Lab 12 takes the defender's side: which architecture resists? Struppek et al. 2022 is PPA, Ding et al. 2021 RepVGG. Zhang et al. 2020 used the first GAN.
# This lab is about Koh et al. 2024, sections 3, 4, 9 and 12.
