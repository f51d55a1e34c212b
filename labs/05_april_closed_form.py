# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 05 · When is no search needed?
#
# A search takes many steps, and it may fail (lab 04). In lab 00 the server solved one linear system, and had the photograph at once.
# When is there such a system? And what takes it away from the server?
#
# After this lab you can
# - write the linear system behind the first layer of a ViT, and say how exact its solution is;
# - say why a fixed position embedding does not protect by itself, and which property of it does;
# - choose a defence against linear systems before any attack is run.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.6 | 1.5 GB |
# | class | 0.8 | 1.5 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 70 minutes. You need* lab 00, and the singular value decomposition by name. *New words*: **class token**, **pseudo-inverse**,
# **condition number**, **ridge**, **row space**.

# %%
import functools
import warnings

from privlab import compute, data, experiments, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.defences import perturbation
from privlab.experiments.trial import mean_photograph
from privlab.leak import observe
from privlab.notebook import checks, drawings, plots, text, widgets

import torch
from IPython.display import display
from scipy.stats import t

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # one more stock ViT of timm to attack: "vit_tiny_patch16_224"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
photo, label = data.load("cifar10_samples").one(2)  # (1, 3, 32, 32) in [0, 1]


@functools.lru_cache(maxsize=4)
def client(precision=torch.float32, **position):  # an ordinary ViT, fresh weights
    model = models.april.build("b", depth=2, seed=seed, **position)
    return model.to(precision)


# %% [markdown]
# ## One layer, one system

# %%
drawings.show("00.vit")

# %% [markdown]
# Here is the client's network: an ordinary ViT of width 384, with random weights. It cuts the photograph into $n = 16$ patches of 8 x 8 pixels. One token more
# belongs to no patch, the **class token**: the model reads its answer from it.
#
# A patch $x_i$ enters as $z_i = W x_i + b + e_i$, with the position embedding $e_i$. Let $g_i$ be the gradient of $e_i$. You met the chain rule of $W$ in
# lab 00:
#
# $$\frac{\partial\ell}{\partial W} = \sum_i g_i x_i^\top = G^\top X .$$
#
# The client sends the left side and $G$. Only $X$ is unknown, the patches of the photograph.

# %% [markdown] tags=["printed"]
# It does not matter what comes behind the first layer: norms, twelve blocks, any loss, any label. So there is such a system for **every** ViT that cuts the
# image with one linear layer and adds a learned embedding to each patch. It has one solution if
#
# - the gradient is that of *one* image. [A deeper notebook](deeper/05_batches.ipynb) tries it on more;
# - the $g_i$ are linearly independent. This needs a width above the number of patches. [Another](deeper/05_width_and_noise.ipynb) asks what a smaller width
#   protects.
#
# Lu et al. 2022 have a different system, for an architecture of their own. It comes from *attention*, the layer in which each token takes in a weighted mean of all
# tokens. [A third notebook](deeper/05_the_two_theorems.ipynb) proves it. You need none of the three for what follows.

# %% [markdown] tags=["printed"]
# ## How exact is the solution?
#
# With exact numbers the solution is $X = (G^\top)^+ \, \partial\ell/\partial W$. The plus is the **pseudo-inverse**, the matrix that undoes another as far
# as it can be undone. But computers round: a *float64* has 16 significant digits, and a *float32* has 7.
#
# ### Predict
#
# The client computes in float32. How near does the server come? (From 50 dB on, nobody sees a difference.)

# %%
guess = widgets.predict("PSNR from float32 gradients:", low=0, high=300, unit="dB")
guess

# %%
leaks = {
    name: observe(client(getattr(torch, name)), photo, label)
    for name in ("float64", "float32")
}
found = {
    name: closed_form.patch_embedding(client(getattr(torch, name)), leak).images
    for name, leak in leaks.items()
}
near = {name: metrics.psnr(image, photo).item() for name, image in found.items()}
display(guess.against(near["float32"]))
titles = [f"from {name}: {value:.0f} dB" for name, value in near.items()]
plots.side_by_side(
    photo,
    *found.values(),
    titles=["the client's", *titles],
    alt="A CIFAR-10 image and two recoveries of it, from float64 at "
    f"{near['float64']:.0f} and from float32 at {near['float32']:.0f} dB.",
)

# %% [markdown]
# The digits are lost on the client. The server solves in float64 in both cases. How much of an error reaches the picture depends on $G$. Its
# **condition number**, the largest singular value over the smallest, bounds the factor by which an error can grow.
#
# Below are the singular values of $G$. The lines are the sizes of the errors, when the client computes in float32, and when it rounds to bfloat16 before it
# sends. A singular value below a line is lost in the errors.

# %%
G = leaks["float64"]["pos_embed"][0, 1:]  # (16 patches, width); no class token
per_number = G.square().mean().sqrt() * (G.shape[0] ** 0.5 + G.shape[1] ** 0.5)
sizes = {"float32": closed_form.BACKWARD * torch.finfo(torch.float32).eps}
sizes["bfloat16"] = torch.finfo(torch.bfloat16).eps / 12**0.5
lines = {name: float(per_number * size) for name, size in sizes.items()}
values = torch.linalg.svdvals(G)
condition = (values[0] / values[-1]).item()
lost = {name: int((values < line).sum()) for name, line in lines.items()}
alt = (
    f"Singular values of G, condition number {condition:.0f}. Below the lines: {lost}."
)
plots.lines(
    {"gradient at the patches": (torch.arange(1, len(values) + 1), values)},
    xlabel="number, from the largest", ylabel="singular value", log="y",
    thresholds=lines, alt=alt,
)  # fmt: skip

# %% [markdown]
# A pseudo-inverse divides by each singular value $s$. Below the errors it would divide noise by almost nothing. So our solver adds a **ridge**: it divides by
# $s + \varepsilon^2/s$, with $\varepsilon$ the size of the errors. This changes nothing where $s$ is large. Where $s$ is small, the picture stays grey.
#
# Now stock ViTs, at 224 pixels. DeiT-Ti has 196 patches and a width of 192. What does the list of conditions above say about it?

# %%
kept = experiments.load("april_closed_form.stock")
# ViT-B takes 2 GB of memory, so your own dot is of ViT-S at most
size = "smoke" if profile == "class" else profile
mine = experiments.run("april_closed_form.stock", size, device=device)
stock = {"ViT-S/32": "vit_s_32", "ViT-B/16": "vit_b_16", "DeiT-Ti/16": "deit_tiny_16"}
forms = ("float64", "float32", "bfloat16")
rows = {
    f"{name}, {form}": f"psnr[patch_embedding, {key}, {form}]"
    for name, key in stock.items()
    for form in forms
}
rows = {name: key for name, key in rows.items() if key in kept or key in mine}
if victim:
    warnings.filterwarnings("ignore", "width .* is not above")
    guest = models.build(victim, num_classes=1000, seed=seed)
    image, true_class = data.load("imagenet_samples").one(1, size=224)
    answer = closed_form.patch_embedding(guest, observe(guest, image, true_class))
    print(f"{victim}: {metrics.psnr(answer.images, image).item():.1f} dB")
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %% [markdown]
# ## Noise on the gradient
#
# A client may add noise before it sends. We state its size by the *norm of the noise over the norm of the gradient*, for each tensor. The
# server knows this size, as defences are usually published, and sets its ridge to it.
#
# ### Exercise 1: how large is the noise on each number? *(difficulty 2, 10 minutes)*
#
# A gradient $g$ has $m$ numbers. The noise as a whole is to have the norm `relative` times $\lVert g \rVert$. Which standard deviation must the noise of each
# number have? Write `sigma(g, relative)`.
#
# <details><summary>Hint</summary>The squared norm of $m$ independent draws of standard deviation $\sigma$ is about $m\sigma^2$.</details>


# %% tags=["exercise"]
def sigma(g, relative): ...


# %% tags=["solution"]
def sigma(g, relative):
    return relative * g.norm() / g.numel() ** 0.5


# %%
checks.verify("05.noise", sigma)

# %% [markdown]
# ### Predict
#
# We call an image recognised when its SSIM with the photograph is above 0.5 (lab 04). Where does that end?

# %%
levels = (1.0, 0.1, 0.03, 0.01, 0.001)
smallest = widgets.choose(
    "The smallest noise behind which it is not recognised", [f"{x:g}" for x in levels]
)
smallest

# %%
recovered, ssim = {}, {}
for level in (*levels, 0.0):
    noisy = perturbation.gaussian(leaks["float32"], level, seed=seed)
    recovered[level] = closed_form.patch_embedding(client(), noisy, noise=level).clamped
    ssim[level] = metrics.ssim(recovered[level], photo).item()


def shown_at(noise):
    title = f"noise {noise:g}: SSIM {ssim[noise]:.2f}"
    return plots.side_by_side(
        recovered[noise], titles=[title], alt=f"The recovered image at {title}."
    )


display(smallest.against(f"{min(x for x in levels if ssim[x] < 0.5):g}"))
widgets.explore(shown_at, start={"noise": 0.0}, noise=tuple(recovered))

# %% [markdown]
# That was one photograph. The experiment has more, and attacks the paper's architecture with the paper's system (Figure 6).

# %%
kept_noise = experiments.load("april_closed_form.noise")
mine_noise = experiments.run("april_closed_form.noise", profile, device=device)
at = {x: f"{x:g}".replace(".", "p") for x in levels}
curve = {"closed form": {x: f"ssim[gaussian, relative_{at[x]}]" for x in levels[::-1]}}
shown = kept_noise or mine_noise
base = {"mean photograph": shown.mean("ssim[cifar10, mean_photograph]")}
xlabel = "norm of the noise / norm of the gradient"
plots.evidence_lines(
    kept_noise,
    mine_noise,
    curve,
    xlabel=xlabel,
    ylabel="SSIM",
    log="x",
    thresholds=base,
)

# %% [markdown]
# ## Take the position gradient away
#
# Without the gradient of the position embedding there is no $G$. So the paper advises to *fix* the embedding (section 4.2): it is drawn once, the
# server knows it, and nobody trains it. Is the photograph safe then? Look one layer further.

# %%
drawings.show("05.vit_attention")

# %% [markdown]
# The first attention multiplies each normed token $\mathrm{LN}(z_t)$ with one matrix, and the client sends its gradient:
#
# $$\frac{\partial\ell}{\partial W_{qkv}} = \sum_t (\ldots)_t \; \mathrm{LN}(z_t)^\top .$$
#
# Each row of this gradient is a combination of the normed tokens. All these combinations are its **row space** $S$. It has only 17 of 384 dimensions, one for
# each token, and the server can compute it. So it knows where every token lies: its component outside of $S$ is zero. Now $z_i = W x_i + b + e_i$, and of this only the
# patch $x_i$ is unknown. Outside of $S$ lie $384 - 17 = 367$ dimensions. One of them says nothing, as the norm makes the mean of every token zero. So there are 366 linear
# equations for the 192 numbers of a patch.
#
# ### Predict
#
# Here are three fixed embeddings: random numbers; sine and cosine of the patch's number (*1-D*); sine and cosine of its row and of its column (*2-D*). Which of them hide the
# photograph, even if the client sends float64?

# %%
names = {"random": "random_std1_patch8", "1-D sinusoid": "sinusoid_1d_patch8"}
names |= {"2-D sinusoid": "sinusoid_2d_patch8"}
hide = widgets.choose("It is hidden behind", list(names), many=True)
hide

# %%
kept_fixed = experiments.load("april_closed_form.subspace")
mine_fixed = experiments.run("april_closed_form.subspace", profile, device=device)
rows = {
    f"{name}, {form}": f"psnr[subspace, {key}, {form}]"
    for name, key in names.items()
    for form in ("float32", "float64")
}
rows["mean photograph"] = "psnr[cifar10, mean_photograph]"
fixed = kept_fixed or mine_fixed
display(hide.against([n for n in names if fixed.mean(rows[f"{n}, float64"]) < 20]))
plots.evidence(kept_fixed, mine_fixed, rows, xlabel="PSNR in dB")

# %% [markdown]
# Where float64 breaks what float32 does not break, the system is badly conditioned, and more digits would break it as well. Where even float64 fails, an equation is
# *missing*. Which one?

# %% [markdown]
# ## Which embedding hides the photograph?
#
# Take numbers $a_i$, one for each patch, with $\sum_i a_i = 0$ and $\sum_i a_i e_i = 0$. Combine the tokens with them. Bias and embeddings cancel:
#
# $$\sum_i a_i z_i = W d \quad\text{with}\quad d = \sum_i a_i x_i .$$
#
# So $Wd$ is a combination of tokens. If you add $d$ to a patch, its token stays among the combinations of tokens, and no equation notices. Such a $d$ is a
# *hidden direction*: a change of a patch that the server cannot see.
#
# Let $E$ have the embeddings as rows, and let $[E\;\mathbf 1]$ have one more column, of ones. The $a$ then form a space of dimension $n - \mathrm{rank}[E\;\mathbf 1]$. A
# patch of $p \times p$ pixels has only $3p^2$ numbers. So each patch has
#
# $$h = \min\big(3p^2,\; n - \mathrm{rank}[E\;\mathbf 1]\big)$$
#
# hidden directions. [A deeper notebook](deeper/05_rank_rule_proved.ipynb) proves that there are no others, and treats the norm with care.

# %% [markdown]
# ### Exercise 2: count them *(difficulty 3, 12 minutes)*
#
# The 2-D sinusoid is a function of the row plus a function of the column. So it cannot see a table of numbers $a$ whose rows and columns all sum to zero. How many directions does
# it hide on a grid of `side` x `side` patches, of `patch` pixels a side? Write `hidden_2d(side, patch)`.
#
# <details><summary>Hint</summary>Fill all of the table but its last row and its last column as you like. What is left to choose?</details>


# %% tags=["exercise"]
def hidden_2d(side, patch): ...


# %% tags=["solution"]
def hidden_2d(side, patch):
    return min(3 * patch**2, (side - 1) ** 2)


# %%
checks.verify("05.rank", hidden_2d)

# %% [markdown]
# ### Exercise 3: design it *(difficulty 2, 10 minutes)*
#
# You may choose a random embedding of any rank for $n$ patches. You want at least $k$ hidden directions in every patch, and $k$ is below the $3p^2$ numbers of a patch. Which is the *largest*
# rank that you can allow? Write `largest_rank(patches, k)`.
#
# <details><summary>Hint</summary>The rule asks for the rank of $[E\;\mathbf 1]$. What does the column of ones do to the rank of a random $E$?</details>


# %% tags=["exercise"]
def largest_rank(patches, k): ...


# %% tags=["solution"]
def largest_rank(patches, k):
    return patches - 1 - k


# %%
checks.verify("05.design", largest_rank)

# %% [markdown]
# ### Predict
#
# At rank 15 nothing is hidden, and float64 gives the whole photograph, as behind the random one. At rank 14 *one* direction of each patch is hidden, of 192. What comes back
# then?

# %%
one_hidden = widgets.predict("PSNR with one direction hidden:", 0, 300, "dB")
one_hidden


# %%
def low_rank(rank):
    return dict(position="low_rank", position_rank=rank, position_std=1.0)


def behind(rank):  # what the server solves
    model = client(torch.float64, **low_rank(rank))
    sent = observe(model, photo, label, names=["blocks.0.attn.qkv.weight"])
    return closed_form.subspace(model, sent)


def scores(answer):  # PSNR in dB, SSIM
    return metrics.psnr(answer.images, photo), metrics.ssim(answer.clamped, photo)


def at_rank(rank):
    answer = behind(rank)
    said = "rank {}: {} of 192 hidden, {:.0f} dB, SSIM {:.2f}"
    said = said.format(rank, answer.hidden, *(score.item() for score in scores(answer)))
    alt = f"The client's photograph, and what the server has at {said}."
    titles = ["the client's", said]
    return plots.side_by_side(photo, answer.images, titles=titles, alt=alt)


widgets.explore(at_rank, start=dict(rank=16), rank=range(1, 17))

# %% [markdown]
# Move the slider down from 16, step by step. Which step costs most decibels? From which on would you not recognise the photograph? Below are lower ranks over many photographs.

# %%
kept_rank = experiments.load("april_closed_form.rank_rule")
mine_rank = experiments.run("april_closed_form.rank_rule", profile, device=device)
ruled = kept_rank or mine_rank
keys = {f"rank {r}": f"rank_{r}" for r in (12, 8, 5, 3, 1)}
keys |= {"2-D sinusoid": "sinusoid_2d", "no embedding": "none"}
rows = {name: f"psnr[subspace, {key}]" for name, key in keys.items()}
rows = {name: key for name, key in rows.items() if key in ruled}
display(plots.evidence(kept_rank, mine_rank, rows, xlabel="PSNR in dB, from float64"))
ranks = {rank: scores(behind(rank)) for rank in range(16, 0, -1)}
display(one_hidden.against(round(ranks[14][0].item(), 1)))
gone = next((r for r in ranks if ranks[r][1] < 0.5), 1)
text(
    "On this photograph SSIM falls below 0.5 at rank {}, with {} directions hidden. "
    "Over {} photographs {:.0f} dB come back with nothing hidden (rank 15), and {:.0f} "
    "dB with three directions hidden (rank 12).",
    *(gone, behind(gone).hidden, len(ruled)),
    ruled.mean("psnr[subspace, rank_15]"),
    ruled.mean("psnr[subspace, rank_12]"),
)

# %% [markdown] tags=["printed"]
# One direction costs so much because $d$ is made of the photograph's own patches. What is hidden is how one patch differs from another.
#
# ## The defender's desk
#
# You are the client. Set the position embedding, the noise and the number format. The server solves both systems with the ridge for your noise, and with one for noise of 0.01 where yours
# is smaller. It keeps the best picture. The photograph counts as hidden when this picture is at most 1 dB above the *baseline*, the mean of other photographs.
#
# Find two settings that hide it: one with the *learned* embedding and as little noise as possible, one with no noise at all.

# %%
EMBEDDINGS = {"learned": {}, "learned, its gradient withheld": {}}
EMBEDDINGS |= {"random": dict(position="random", position_std=1.0)}
EMBEDDINGS |= {"2-D sinusoid": dict(position="sinusoid_2d")}
EMBEDDINGS |= {f"rank {r}": low_rank(r) for r in (15, 12, 8, 4)}
baseline = metrics.psnr(mean_photograph(), photo).item()


def desk(position_embedding, noise, number_format):
    computed = torch.float64 if number_format == "float64" else torch.float32
    model = client(computed, **EMBEDDINGS[position_embedding])
    noisy = perturbation.gaussian(observe(model, photo, label), noise, seed=seed)
    sent = noisy.rounded(getattr(torch, number_format))
    ridges = {noise, max(noise, 0.01)}
    answers = [closed_form.subspace(model, sent, noise=r) for r in ridges]
    if position_embedding == "learned":
        answers += [closed_form.patch_embedding(model, sent, noise=r) for r in ridges]
    best = max(answers, key=lambda one: metrics.psnr(one.clamped, photo).item()).clamped
    above = metrics.psnr(best, photo).item() - baseline
    said = f"{'hidden' if above <= 1 else 'not hidden'}, {above:+.1f} dB"
    alt = f"The photograph, and the server's best picture: {said} from the baseline."
    return plots.side_by_side(photo, best, titles=["the client's", said], alt=alt)


formats = ("float64", "float32", "bfloat16")
choices = dict(noise=(0.0, 0.001, 0.01, 0.03, 0.1, 1.0), number_format=formats)
widgets.explore(desk, position_embedding=tuple(EMBEDDINGS), **choices)

# %% [markdown]
# ### Predict
#
# Both defences may cost accuracy. Lab 13 trains small ViTs with each: with noise of size 1, as long as the gradient, in every tensor; and with a fixed embedding of rank 4. Which
# costs more?

# %%
options = ["the noise", "the low rank", "too close to tell"]
costs_more = widgets.choose("It costs more accuracy:", options)
costs_more

# %%
cost = experiments.load("defences.training_cost")
lost = [f"task_acc[none] - task_acc[{kind}]" for kind in ("own_1", "fixed_rank_4")]
apart = "task_acc[fixed_rank_4] - task_acc[own_1]"
mean, error = cost.mean(apart), cost.spread(apart) / max(len(cost), 1) ** 0.5
clear = abs(mean) > t.ppf(0.975, len(cost) - 1) * error  # a t test at 5%
display(costs_more.against(options[(0 if mean > 0 else 1) if clear else 2]))
text(
    "The noise costs {:.1f} points of accuracy and the low rank {:.1f}; below zero is "
    "a gain. They are {:.1f} ± {:.1f} points apart (mean and standard error of {} "
    "repeats). This was measured on {}, so it says little about large networks. What "
    "smaller noise costs was not measured.",
    *(cost.mean(name) for name in lost),
    *(mean, error, len(cost), cost.stands_for),
)

# %% [markdown]
# ### Exercise 4: whose photograph can be computed? *(difficulty 2, 8 minutes)*
#
# Six clients have the ViT of this lab, with width 384 and 16 patches of 8 x 8 pixels. Whose photograph can a server compute with one of the two systems, so that one recognises it? Give a set of
# letters.
#
# - **a** The embedding is learned. The client rounds all gradients to bfloat16, and sends them.
# - **b** The embedding is learned. The client sends all gradients except that of the embedding.
# - **c** The embedding is fixed, the 1-D sinusoid. The client computes and sends float64.
# - **d** The embedding is fixed, random, and of rank 4. The client computes and sends float64.
# - **e** The embedding is learned. The client adds noise as long as the gradient to each tensor.
# - **f** The embedding is learned. The client sends the mean gradient of two photographs.
#
# <details><summary>Hint</summary>Ask of each client: does the server have $G$, or else the row space and the numbers of the embedding? Is anything
# hidden? Is it one photograph? Most of them you can try at the desk.</details>

# %% tags=["exercise", "reading"]
computed = ...

# %% tags=["solution"]
computed = {"a", "b", "c"}

# %%
checks.verify("05.clients", computed)

# %% [markdown]
# ## The answer

# %%
text(
    "No search is needed where one image stands behind a gradient and a linear layer "
    "reads its patches: on a stock ViT-S/32 the system reaches {:.0f} dB from float32, "
    "and behind a fixed random embedding another one reaches {:.0f} dB. Enough noise "
    "takes it away, and so does an embedding of low rank: at rank 3 no more "
    "than {:.0f} dB come back on average, where the mean photograph has {:.0f} dB.",
    kept.mean("psnr[patch_embedding, vit_s_32, float32]"),
    fixed.mean("psnr[subspace, random_std1_patch8, float32]"),
    ruled.mean("psnr[subspace, rank_3]"),
    fixed.mean("psnr[cifar10, mean_photograph]"),
)

# %% [markdown]
# ## The paper, and here
#
# The paper prints no table for its closed form: its theorems and Figures 2, 5 and 6 stand behind the rows. Rows without a source are our own claims.

# %%
widgets.verdicts("05")

# %% [markdown]
# ## What would change our mind
#
# A photograph that comes back from one gradient behind a low-rank embedding would show that the rule counts too little: it speaks of one system. A search uses all gradients at once; lab 06 tries it. And a private embedding, which the server does not know, takes away both systems.

# %% [markdown]
# ## Read on
#
# Lu et al. 2022, sections 3 and 4.2. Lab 06 attacks the same network by search, lab 07 takes batches apart, lab 08 asks which gradients leak, and lab 13 weighs the
# defences.
