# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11 · Can a face come out of a classifier?
#
# A company trains a network to tell its staff apart, and builds it into a door. Somebody copies the network. They have no photograph of the staff.
# Can they still find out what these people look like?
#
# After this lab you can
# - search for a face, with a classifier and a generator;
# - say which network may judge the result, and which may not;
# - tell evidence from appearance in a report about such an attack.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 1.8 | 1.4 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 75 minutes. You need* lab 01, or to know what a classifier and its logits are. *New words*: **model inversion**, **generator**, **latent**,
# **eigenfaces**, **evaluation model**, **skip connection**.
#
# The faces come from the ORL set: 40 people who were photographed for science around 1993. Fredrikson et al. (2015) showed the first attack of this kind
# on them. These people agreed to be in a research data set. Never show a reconstruction of a person to somebody who may take it for a photograph.

# %%
from privlab import compute, experiments, models
from privlab.attacks.model_inversion import losses
from privlab.course.lab_11 import line_up
from privlab.experiments.victims import private_people
from privlab.notebook import checks, drawings, plots, text, widgets

import pandas as pd
import torch
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
# Now your machine trains the lab's networks, and attacks them. The bar says how far it
# is. Read on meanwhile: the cells below wait until it is done.
mine = experiments.run("model_inversion.skips", profile, device=device)

# %% [markdown]
# ## Private people, public people
#
# **Model inversion** asks a trained model what its training data look like. Here the model is a classifier, the *victim*. It tells 20 *private* people
# apart (8 at `smoke`). The attacker has a copy of it, with all its weights. They also have photographs of other people, the *public* ones, but of
# no private person.

# %%
size = experiments.find("model_inversion.skips").size(mine.size)
stage = {**size.settings["stage"], **({"faces": faces} if faces else {})}
here = private_people.People(mine.repeats[0] + seed, **stage, device=device)
private, public = here.private(here.people), here.split.public[:6].float() / 255
staff = f"private, of the set {here.faces}"
plots.images(
    {staff: private[:6], "public": public},
    alt="Photographs of six private people, and six public photographs.",
    captions={staff: [f"person {k}" for k in range(len(private[:6]))]},
)

# %% [markdown]
# ## A search by hand
#
# Which picture makes the victim sure that it sees person 0? Many do, and most of them look like no face. So the attacker searches among pictures that a
# **generator** can make. A generator turns a few numbers, the **latent**, into a picture. Strong attackers take a StyleGAN, which was trained for weeks.
# Yours takes a tenth of a second. It is made of **eigenfaces** (Turk and Pentland 1991):
#
# $$x = \bar x + \sum_{i=1}^{100} w_i \, \sigma_i \, e_i$$
#
# Here $\bar x$ is the mean of the public photographs. The $e_i$ are the 100 directions in which these photographs differ most, and $\sigma_i$ is the
# standard deviation along $e_i$. The latent is $w$.

# %%
prior = here.prior
w = torch.randn(6, prior.width, generator=torch.Generator().manual_seed(seed))
plots.images(
    {"random latents": prior.synthesise(w)},
    alt="Six faces from random latents: blurred, and of nobody.",
)

# %% [markdown]
# The victim is a VGG, a plain chain of convolutions. **Be the attacker.** A slider sets one of the first six $w_i$: it adds one eigenface, or takes it away.
# How sure of person 0 can you make the victim in three minutes? (Click a slider, then use the arrow keys.)

# %%
target = here.network("vgg").model(0)


def turn(**eigenfaces):
    w = torch.zeros(1, prior.width)
    w[0, : len(eigenfaces)] = torch.tensor([*eigenfaces.values()]).float()
    face = prior.synthesise(w)
    sure = target(here.normalise(face)).softmax(1)[0]
    first = [f"person {k}: {sure[k]:.0%}" for k in sure.topk(3).indices.tolist()]
    wanted = f"person 0: {sure[0]:.1%}"
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
# Now compare your face with the photograph of person 0, at the top. Is it alike? An attacker cannot compare: they have no such photograph.
#
# ## A search by gradient
#
# You turned six numbers. A computer turns all 100, and follows the gradient. The attack is PPA (Struppek et al. 2022), which Koh et al. (2024) use. It has four
# parts.
#
# 1. **First choice.** Draw 500 random latents, and show the pictures to the victim. Keep the two best for each person.
# 2. **Search.** Follow the gradient of a loss, back through the victim *and* the generator, into the latent. Each *step* changes the latent a little. Take 50.
# 3. **Loss.** It is the *Poincaré distance*. Its gradient does not fade when the victim is nearly sure.
#    [Why not cross-entropy?](deeper/11_a_loss_that_does_not_fade.ipynb)
# 4. **Last choice.** Show the victim ten *views* of each picture, cuts of slightly different size and place. For each person keep the picture with the highest mean
#    probability.

# %%
drawings.show("11.generator_inversion")

# %% [markdown]
# Parts 2 and 3 are ten lines. Here they run for six people at once, persons 0 to 5. So that you can see faces appear, part 1 is left out: all six
# searches begin at the mean of the public photographs.

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

# %% [markdown]
# ### Predict
#
# At `class` the victim will be almost sure of all six; the ten steps at `smoke` are too few. Now a second network is asked, the *judge*. It learned from
# photographs of the same people, and had no part in the search. It may name any private person.

# %%
guess_named = widgets.predict(
    "Of the six faces at the end of the search, the judge names:", 0, 6, "rightly"
)
guess_named

# %%
moments = (0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
shown = [k for k in moments if k < len(frames)]
named = {k: int(here.judge.score(frames[k], people).top1.sum()) for k in shown}


def film(steps):
    line = (
        f"The victim is {sure[steps].mean():.0f}% sure on average, at worst "
        f"{sure[steps].min():.0f}%; the judge names {named[steps]} of {len(people)}."
    )
    alt = f"Six faces after {steps} steps."
    return plots.images({"": frames[steps]}, alt, smooth=True), widgets.Sentence(line)


display(
    widgets.explore(film, start={"steps": shown[-1]}, steps=shown),
    guess_named.against(named[shown[-1]]),
)

# %% [markdown]
# (The film opens at its end: move the slider.)
#
# ## Who is it?
#
# Two networks have answered. Can *you* tell who it is? You get a face that the whole attack found, parts 1 to 4, and photographs of six private people.
# One of them is the person searched for. The attack has seen none of these photographs.

# %%
found = here.inverted(here.network("vgg"))  # all four parts, for all people
best = found.result.places(here.people)
judged = found.top1[best]
guess_you = widgets.predict("Of eight faces, you will name:", 0, 8, "right")
guess_you

# %%
game = line_up.LineUp(found.result.images[best], private, judged, seed=seed)
game

# %%
guess_you.against(sum(game.right) if game.played else float("nan"))

# %% [markdown]
# (In the notebook, run the last cell again after your game.) Random guessing is right once in six rounds.
# The faces are blurred, because the generator cannot make sharp ones. Yet the shape of the head, the hairline, or a pair of glasses often remain.

# %% [markdown]
# ## Who should judge?
#
# People are slow, and they disagree. To count faces by the hundred, one asks a network. The attack has driven the *victim's* answer up. So the
# field asks an **evaluation model**: the judge that you met. It has another architecture, learned from all private photographs, and the attacker never sees it.

# %%
drawings.show("11.three_parties")

# %% [markdown]
# ### Exercise 1: why the victim is no judge *(difficulty 2, 12 minutes)*
#
# Write `convince(model, picture, target, steps)`. Change the *pixels* of `picture`, (1, channels, height, width) in [0, 1], until the model is sure that
# it shows class `target`. Return the new picture. `model` takes pixels and gives logits. There is no generator.
#
# <details><summary>Hint</summary>Use Adam on the pixels, at a rate of 0.02, and <code>cross_entropy</code>: its gradient fades only when the model is sure,
# and that is enough here. <code>target</code> is an int, and <code>cross_entropy</code> wants <code>torch.tensor([target])</code>. After each step, <code>clamp_(0, 1)</code> the
# pixels under <code>torch.no_grad()</code>.</details>


# %% tags=["exercise"]
def convince(model, picture, target, steps=50): ...


# %% tags=["solution"]
def convince(model, picture, target, steps=50):
    x = picture.clone().requires_grad_()
    optimiser = torch.optim.Adam([x], lr=0.02)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([target]))
        (x.grad,) = torch.autograd.grad(loss, x)
        optimiser.step()
        with torch.no_grad():
            x.clamp_(0, 1)
    return x.detach()


# %%
solved = checks.verify("11.convince", convince)
solved

# %% [markdown]
# ### Predict
#
# Take noise instead of a face. Change its pixels until the *victim* is sure that it shows person 3. Then do so for every other person, each time with new
# noise. How often does the judge name the person asked for?

# %%
draw = torch.Generator().manual_seed(seed)
before = after = torch.rand(1, *private.shape[1:], generator=draw)
if solved.passed:  # person 3, for the victim
    after = convince(lambda x: target(here.normalise(x)), before, 3, steps=200)
SAME, CHANCE, NEVER = "nearly always", "as often as by chance", "never"
guess_noise = widgets.choose(
    "The judge names the person asked for:", [SAME, CHANCE, NEVER]
)
guess_noise

# %%
door, judge = target(here.normalise(after)).softmax(1)[0], here.judge.model(after)[0]
said = f"the victim: person 3, {door[3]:.0%}; the judge: person {judge.argmax()}"
noise = plots.images(
    {"noise, before and after": torch.cat([before, after])},
    smooth=True,
    alt=f"Two pictures of noise that look alike. The second: {said}.",
    captions={"noise, before and after": ["", said]},
)
NOISE = "attacc[orl, noise, {}]"
rows = {"victim": NOISE.format("target_says"), "judge": NOISE.format("judge_says")}
chart = plots.evidence(
    kept, mine, rows, xlabel="noise named as the person asked for, %"
)
told = text(
    "In the {} repeats the victim is a ResNet. It names {:.0f} of 100 such pictures "
    "as the person asked for. If the victim were the judge, noise would count as a "
    "face. The judge names {:.0f} of 100, and random guessing would name {:.0f}. The "
    "victim's row has no spread over repeats, so the ledger's usual test is "
    "inconclusive. An exact test over people decides.",
    *(len(kept), kept.mean(rows["victim"]), kept.mean(rows["judge"]), 100 / 20),
)
verdict = CHANCE if kept.mean(rows["judge"]) > 1 else NEVER
display(noise, chart, told)
guess_noise.against(verdict)

# %% [markdown]
# One dot is a repeat: its own draw of private people, with newly trained networks. Your own run at `smoke` is too small to compare with it.
#
# ### Predict
#
# The *attack accuracy* is the share of the found faces that the judge names as the person searched for. Random guessing is right once in 20.

# %%
guess_attack = widgets.predict("Attack accuracy of our VGG:", 0, 100, "%")
guess_attack

# %%
rows = {
    "a face from the victim": "attacc[orl, vgg, full]",
    "a photograph of a stranger": "attacc[orl, random_face]",
    "a photograph of the person": "acc[orl, judge]",
}
NAMED = "the judge names the person searched for, %"
display(plots.evidence(kept, mine, rows, xlabel=NAMED))
guess_attack.against(round(kept.mean("attacc[orl, vgg, full]"), 1))

# %% [markdown]
# The chart's second row is a *baseline*, a number to compare with: the judge gets a photograph of a stranger, and may be right by chance.
# The last row says how far we can trust the judge. It has seen all private photographs, so they cannot test it. We train a copy of it
# without some photographs, and test the copy on these.
#
# ### Exercise 2: what counts as evidence? *(difficulty 1, 6 minutes)*
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
# ### Exercise 3: how near, and to whom *(difficulty 2, 10 minutes)*
#
# PPA has a second measure, in the judge's *features*: the numbers before its last layer. It is the *squared* Euclidean distance from a face to the nearest
# private photograph *of the person whom it should show*. Write `delta(features, targets, private, labels)`. It gets the features (n, width) of n faces, their
# targets (n,), the features (m, width) of m private photographs, and who is on each (m,). Return one distance for each face, (n,).
#
# <details><summary>Hint</summary><code>torch.cdist</code> gives all distances, not squared. Distances to other people must not win: set them to
# infinity.</details>


# %% tags=["exercise"]
def delta(features, targets, private, labels): ...


# %% tags=["solution"]
def delta(features, targets, private, labels):
    distance = torch.cdist(features, private).square()
    distance[targets[:, None] != labels[None]] = torch.inf
    return distance.min(1).values


# %%
measured = checks.verify("11.delta", delta)
measured

# %%
LAST, meant = models.representations.LAST, found.result.targets
seen = models.representations.read(here.judge.model, found.result.images)[LAST]
apart = [float("nan")] * 2  # as long as Exercise 3 is open
if measured.passed:
    known = here.judge.features, here.judge.labels
    both = [delta(seen, who, *known) for who in (meant, (meant + 1) % here.people)]
    apart = [torch.as_tensor(each).mean().item() for each in both]
text(
    "Your measure, on the faces found in your victim: {:.1f} on average to the person "
    "searched for, {:.1f} to another one. If the first is smaller, the faces are, for "
    "the judge, nearer to the right person than to somebody else.",
    *apart,
)

# %% [markdown]
# ## Does the architecture matter?
#
# Koh et al. (2024) say that it does. A residual block computes $z_{i+1} = z_i + g_i(z_i)$. The summand $z_i$ is a **skip connection**: it leads past the
# block. The gradient comes back the same way. That helps training. Does it help the attacker, too?

# %%
drawings.show("11.first_skip_cut")

# %% [markdown]
# A *stage* is a group of blocks at one resolution. The paper trains ResNets without the skip connections of one stage, and attacks them. It finds
# that the *last* stage matters most. And it finds that VGG, which has none, resists (Tables 2 and 11).
#
# ### Predict
#
# Our ResNet has as many channels as our VGG, and the same training. The chart has six rows.
#
# - *Fine stem*: the *stem* is a network's first layers. A ResNet's stem halves the picture twice before the first block. A VGG looks at every pixel,
#   and so does our ResNet with a fine stem.
# - *Last stage cut*, *all stages cut*: the ResNet without the skip connections of these stages.
# - *First choice only*: what the ResNet gives away before the search, by part 1 of the attack.

# %%
MORE, ALIKE, LESS = "more than the VGG", "as much, within 5 points", "less than the VGG"
guess_resnet = widgets.choose(
    "How much does the ResNet give away?", [MORE, ALIKE, LESS]
)
guess_resnet

# %%
rows = {
    "VGG": "vgg, full",
    "ResNet": "resnet, full",
    "ResNet, fine stem": "resnet_fine, full",
    "ResNet, last stage cut": "resnet, skip_4",
    "ResNet, all stages cut": "resnet, none_left",
    "ResNet, first choice only": "resnet, first_choice",
}
attacked = {label: f"attacc[orl, {name}]" for label, name in rows.items()}
SKIPS = {"ResNet": "Full", "ResNet, last stage cut": "Skip-4 Removed"}
printed = plots.published(
    "koh2024_table2", SKIPS, architecture="ResNet-101", metric="attacc"
)
printed |= plots.published("koh2024_table11", {"VGG": "VGG-16"}, metric="attacc")
plots.evidence(
    kept,
    mine,
    attacked,
    published=printed,
    xlabel=NAMED,
)

# %%
of = {label: kept.mean(name) for label, name in attacked.items()}
gap, theirs = of["ResNet"] - of["VGG"], printed["ResNet"] - printed["VGG"]
told = text(
    "Of 100 faces the judge names {:.0f} rightly from the VGG, and {:.0f} from the "
    "ResNet. In the paper, with larger networks and 530 people, {:.0f} and {:.0f}: {}. "
    "The stem may be part of the difference: with a fine stem our ResNet gives away "
    "{:.0f}. The first choice alone gives away {:.0f}; the search adds {:.0f}. Without "
    "the skip connections of the last stage it is {:.0f}. Compare this with the whole "
    "ResNet and its standard deviation over repeats, {:.0f}. Without any skip "
    "connection it is {:.0f}. But that network is worse at its task, too: it is right "
    "about {:.0f}% of new photographs, the whole ResNet about {:.0f}%. A whole ResNet, "
    "stopped in training where it is as accurate as that, gives away {:.0f}.",
    *(of["VGG"], of["ResNet"], printed["VGG"], printed["ResNet"]),
    "the other way round, and why we do not know" if gap * theirs < 0 else "like ours",
    *(of["ResNet, fine stem"], of["ResNet, first choice only"]),
    of["ResNet"] - of["ResNet, first choice only"],
    *(of["ResNet, last stage cut"], kept.spread(attacked["ResNet"])),
    of["ResNet, all stages cut"],
    *(kept.mean(f"acc[orl, resnet, {cut}]") for cut in ("none_left", "full")),
    kept.mean("attacc_if_stopped[orl, resnet, none_left]"),
)
display(told)
guess_resnet.against(MORE if gap > 5 else LESS if gap < -5 else ALIKE)

# %% [markdown]
# Each repeat draws other people and trains other weights, so the dots of a row differ. The ledger below compares two rows within each repeat, and tests
# whether chance explains the difference. At `night` training and attack are longer than yours. And our setting is small: twenty people, 32 pixels, eigenfaces.
#
# ### Exercise 4: which comparison? *(difficulty 2, 8 minutes)*
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
# ## The answer

# %%
nets = ["resnet", "resnet_deep", "resnet_shallow", "resnet_wide", "densenet"]
called = ["18 layers", "34 layers", "10 layers", "18 wide layers", "DenseNet"]
cuts = {"stage 1": "skip_1", "2": "skip_2", "the last": "skip_4", "all": "none_left"}


def saved(cut):  # faces of 100, beyond a whole network that is as accurate
    name = f"attacc_if_stopped[orl, {cut}] - attacc[orl, {cut}]"
    return f"{kept.mean(name):+.1f} ± {kept.spread(name):.1f}" if name in kept else "…"


rows = [[saved(f"{net}, {cut}") for cut in cuts.values()] for net in nets]
display(pd.DataFrame(rows, called, list(cuts)).rename_axis("saved, mean ± sd"))
said = ["vgg, full", "random_face", "resnet, none_left"]
text(
    "By this evidence yes: of 100 faces found in a VGG, a judge that the attacker never"
    " saw names {:.0f} as the person searched for, and of 100 photographs of strangers"
    " {:.0f}; but the judge learned from the victim's photographs, too. What skips add"
    " depends on the network: cut at all stages, our ResNet gives away {:.0f}, and a"
    " whole one, stopped where it is as accurate, {:.0f}; cut at the last stage alone"
    " it saves {:.0f}; with 34 layers, and in a DenseNet, each cut saves some, but the"
    " cut networks know fewer people, most of them far fewer; with 10 none certainly"
    " does.",
    *(kept.mean(f"attacc[orl, {name}]") for name in said),
    kept.mean("attacc_if_stopped[orl, resnet, none_left]"),
    kept.mean("attacc_if_stopped[orl, resnet, skip_4] - attacc[orl, resnet, skip_4]"),
)

# %% [markdown]
# ## The paper, and here
#
# Rows about equations come first. They need no statistics, and belong to [the deeper notebook on RepVGG](deeper/11_repvgg.ipynb). Below them stands what this lab measured.

# %%
widgets.verdicts("11")

# %% [markdown]
# ## What would change our mind
#
# - A judge that learned from other photographs of the same people, in other light, and names few of these faces. Then the attack found what the
#   photographs share, and not the person. We did not run this.
# - The paper's own setting: a ResNet-101, FaceScrub's 530 actors, and a StyleGAN. It has not been run here. At 32 pixels the last
#   stage of most of our networks sees a single pixel. If its skip connections matter most there, their effect needs depth, resolution or a sharper
#   generator. With ten layers the last skip is a projection; without its last features
#   the DenseNet knows a quarter of its people.
# - More than 40 people. All draws come from the same 40, and they overlap.

# %% [markdown]
# ## Read on
#
# Networks with and without skip connections also differ in how good they are at their *task*. [Cut the stages yourself](deeper/11_skip_connections.ipynb)
# compares them at equal accuracy. There is more: [networks whose skip connections are folded away](deeper/11_repvgg.ipynb).
#
# Lab 12 takes the defender's side: which architecture resists? Struppek et al. 2022 is PPA. Fredrikson et al. 2015 began with these photographs, and Zhang
# et al. 2020 used the first GAN. Koh et al. 2024, sections 3, 4 and 9, is the paper behind this lab.
