# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 05 · APRIL, the proofs: leaks that need no search
#
# A federated server receives one gradient. You prove that, for a Vision Transformer, the image can be read from it by linear
# algebra; you check each step on numbers; you find out what stops it; and you break the defence that the paper recommends.
#
# After it you can
# - derive two linear systems from the chain rule, and say which gradients they need;
# - predict from width, patch size, float format and noise whether a model leaks, and by how many decibels;
# - say why a *fixed* position embedding does not protect by itself, and which property of it does;
# - compute, before any attack is run, how many directions of each patch stay hidden.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.6 | 1.6 GB |
# | class | 1 | 1.6 GB |

# %% [markdown]
# *You need* lab 00, the chain rule, and the singular value decomposition by name. *Words that are new here*: **class token**, **condition number**,
# **pseudo-inverse**, **row space**, **ridge**.

# %%
import functools
import warnings

import torch

from privlab import compute, data, experiments, ledger, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.defences import perturbation
from privlab.experiments import april_closed_form
from privlab.leak import observe
from privlab.notebook import checks, flipbook, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # beside the stock models, another plain ViT of timm: "vit_tiny_patch16_224"

# %%
device = compute.device(device)


def measured(name, size=profile):
    """The committed evidence of an experiment of this lab, and what it measures here and now."""
    name = f"april_closed_form.{name}"
    return experiments.load(name), experiments.run(name, size, device=device)


def best(kept, mine):
    """What a sentence rests on: the evidence, or the live run where there is none yet."""
    return kept if len(kept) else mine


# %% [markdown]
# ## Architecture A
#
# The paper studies two designs (its figure 1). In **A**, *attention*, in which each token takes in a weighted mean of all others, sits directly on the embedding: patches, plus position embedding, then
# three linear maps: query, key and value. **B** is a real ViT, with a norm in between and shortcuts around.

# %% [markdown]
# We use the paper's size for CIFAR-10: width 384, four heads, four blocks, patches of 8 pixels. So 16 patches, and one vector more that belongs to no patch, from which the model reads its answer:
# the **class token**. Patches, once embedded, are *tokens* too.

# %%
photos = data.load("cifar10_samples")
photo, label = photos.one(2)  # (1, 3, 32, 32) in [0, 1]
model = models.april.build("a", seed=seed).double()
leak = observe(model, photo, label)
leak

# %% [markdown]
# ## Theorem 1: attention gives a linear system away
#
# Write the tokens as the rows of $Z$. Attention computes $Q = Z W_q^\top$, $K = Z W_k^\top$, $V = Z W_v^\top$ (biases change nothing below); what it does with them does not matter.

# %% [markdown]
# **Proof.** $Z$ acts on the loss only through $Q$, $K$ and $V$. The chain rule says
#
# $$\frac{\partial\ell}{\partial Z} = \frac{\partial\ell}{\partial Q} W_q + \frac{\partial\ell}{\partial K} W_k + \frac{\partial\ell}{\partial V} W_v ,
# \qquad \frac{\partial\ell}{\partial W_q} = \Big(\frac{\partial\ell}{\partial Q}\Big)^{\!\top} Z \quad\text{and so on.}$$
#
# Transpose the first, multiply by $Z$ from the right, and put the second in:
#
# $$\Big(\frac{\partial\ell}{\partial Z}\Big)^{\!\top} Z = W_q^\top \frac{\partial\ell}{\partial W_q} + W_k^\top \frac{\partial\ell}{\partial W_k} + W_v^\top \frac{\partial\ell}{\partial W_v} =: B . \qquad\blacksquare$$

# %% [markdown]
# The right side is made of weights, which the server sent out, and of their gradients, which it got back. If it also knew
# $\partial\ell/\partial Z$, then $Z$ would be the only unknown, and the only solution where $\partial\ell/\partial Z$ has full rank (a width of at
# least the number of tokens).
#
# (The paper prints the gradients of the *activations* on the right-hand side of its theorem and in its algorithm. Its proof, and the shapes, ask for those of
# the *weights*.)

# %% [markdown]
# ### Exercise 1: the right-hand side
#
# timm keeps the three projections stacked in one matrix of shape (3 width, width). Write $B$ from it and from its gradient.
#
# <details><summary>Hint</summary>You can split it in three and sum. Or write the stacked product and see that the sum is done for you.</details>


# %% tags=["exercise"]
def right_hand_side(weight, gradient): ...


# %% tags=["solution"]
def right_hand_side(weight, gradient):
    return weight.T @ gradient  # stacked rows: the product sums over query, key and value


# %%
checks.verify("05.theorem", right_hand_side)

# %% [markdown]
# Now the theorem on numbers. We hook the model to look at $Z$ and $\partial\ell/\partial Z$, as no server can, and compare both
# sides in float64.


# %%
def theorem_1(model, photo, label):
    """Relative residual of Theorem 1: what the server can compute against what only the client sees."""
    Z, dZ = april_closed_form.inside(model, photo, label)
    weight = model.blocks[0].attn.qkv.weight.detach()
    B = right_hand_side(weight, observe(model, photo, label)["blocks.0.attn.qkv.weight"])
    return None if B is None else ((dZ.T @ Z - B).norm() / B.norm()).item()  # None until you have written it


theorem_1(model, photo, label)

# %% [markdown]
# ## Theorem 2: the position embedding gives the rest away
#
# $Z = E_{\text{patch}} + E_{\text{pos}}$: a sum. So $\partial\ell/\partial E_{\text{pos}} = \partial\ell/\partial Z$, and a *learnable* position
# embedding sends exactly that. **Proof**: the derivative of a sum with respect to either summand is 1. $\blacksquare$
#
# (It speaks of one image: a batch sends the sum.)

# %% [markdown]
# Backpropagation would hand us the same tensor twice. So we compare the gradient that is *sent* with the
# slope of the loss when $Z$ itself is nudged, by differences; along a random direction too, since along the gradient alone anything that is
# missing from it would go unseen.


# %%
kept, mine = measured("theorems")
sides = {"Theorem 1": "relative_residual[theorem_1, float64]", "Theorem 2": "relative_error[theorem_2, float64]"}
plots.evidence(kept, mine, sides, xlabel="relative error of one side against the other, float64", log=True)

# %% [markdown]
# ## The attack
#
# Solve $G^\top Z = B$ with $G$ the position gradient (Algorithm 1). Then undo the patch embedding: $z_i - e_i - b = W_p x_i$, so the pixels are the
# **pseudo-inverse** of $W_p$, the matrix that undoes it as far as it can be undone, applied to it (equation 11): exact when the width is at least the number of pixels in a patch (192 here).

# %% [markdown]
# ### Before you go on: predict
#
# The model above computes in float64, the next one in float32, as everyone's does. How many decibels are left?

# %%
guess = widgets.predict("PSNR from float32 gradients:", low=0, high=300, unit="dB")
guess

# %%
exact = closed_form.attention(model, leak)
model32 = models.april.build("a", seed=seed)
usual = closed_form.attention(model32, observe(model32, photo, label))
scores = [metrics.psnr(r.images, photo).item() for r in (exact, usual)]
guess.against(scores[1])

# %%
plots.side_by_side(
    photo, exact.images, usual.images,
    titles=["the client's", f"from float64: {scores[0]:.0f} dB", f"from float32: {scores[1]:.0f} dB"],
    alt=f"A CIFAR-10 image and two recoveries of it, from float64 at {scores[0]:.0f} and from float32 at {scores[1]:.0f} dB.",
)  # fmt: skip

# %% [markdown]
# ## What the solve hangs on
#
# The system is solved in float64 whatever the gradients are; what is lost is lost before. The **condition number** of $G$, its largest singular value over
# its smallest, says by how much an error in the gradient can grow.

# %% [markdown]
# Here is $G$'s spectrum, with the size of the errors: those of a float32 backward
# pass (we measured 7 to 30 units in the last place, and take 8), and those of rounding to bfloat16 on top. What lies below is drowned.

# %%
G = leak["pos_embed"][0]  # (tokens, width)
size_of_errors = G.square().mean().sqrt() * (G.shape[0] ** 0.5 + G.shape[1] ** 0.5)
eps = {name: torch.finfo(getattr(torch, name)).eps for name in ("float32", "bfloat16")}
sent = {"float32": closed_form.BACKWARD * eps["float32"], "bfloat16": eps["bfloat16"] / 12**0.5}
drowned = {name: float(size_of_errors * relative) for name, relative in sent.items()}
spectrum = torch.linalg.svdvals(G)
above = {name: int((spectrum > line).sum()) for name, line in drowned.items()}
plots.spectrum(
    {"gradient at the tokens": spectrum}, cutoffs=drowned,
    alt=f"Singular values of the token gradient, falling by {exact.condition:.0e}; of {len(spectrum)}, {above['float32']} lie above "
    f"the errors of float32 and {above['bfloat16']} above those of bfloat16.",
)  # fmt: skip

# %% [markdown]
# A solver that ignores this divides noise by almost nothing. Ours adds a **ridge**: each direction is divided by $s + \varepsilon^2/s$ instead of $s$,
# with $\varepsilon$ the size of the errors. A direction well above the noise is untouched; one below it is left grey instead of wild.

# %% [markdown]
# ### Move the controls
#
# Find a setting that protects the image, and a second one.


# %%
@functools.lru_cache(maxsize=4)
def victim_of(width, patch, computed):
    return models.april.build("a", width=width, patch_size=patch, depth=2, seed=seed).to(computed)


# %%
def try_it(width, patch, precision, noise):
    victim = victim_of(width, patch, torch.float64 if precision == "float64" else torch.float32)
    received = observe(victim, photo, label, names=["pos_embed", "blocks.0.attn.qkv.weight"])
    received = perturbation.gaussian(received, noise, seed=seed).rounded(getattr(torch, precision))
    answer = closed_form.attention(victim, received, noise=noise)
    decibels = metrics.psnr(answer.images, photo).item()
    return plots.side_by_side(
        photo, answer.images, titles=["the client's", f"{decibels:.0f} dB, condition {answer.condition:.0e}, rank {answer.rank}"],
        alt=f"Width {width}, patch {patch}, {precision}, noise {noise}: recovered with {decibels:.0f} dB.",
    )  # fmt: skip


# %%
widgets.explore(
    try_it, start=dict(width=384, patch=8),
    width=(48, 96, 192, 384, 768), patch=(4, 8, 16), precision=("float64", "float32", "bfloat16"), noise=(0.0, 1e-3, 1e-2, 1e-1, 1.0),
)  # fmt: skip

# %% [markdown]
# ## Measure, do not look
#
# For all that follows: a photograph and a fresh model for each repeat, and a score for each.

# %%
kept_solved, mine_solved = measured("solved")

# %% [markdown]
# ### Width (the paper's figure 5)
#
# $G^\top Z = B$ has one equation for each dimension of the width, and one unknown for each token. The paper shrinks the width until the attack
# fails, at half the number of patches. Here with 64 patches of 4 pixels and a class token.

# %%
kept, mine = measured("width")
names = {32: "width_half_of_patches"} | {w: f"width_{w}" for w in (64, 128, 384, 768)}
curve = {"closed form, float32": {str(w): f"psnr[closed_form, {name}]" for w, name in names.items()}}
plots.evidence_lines(kept, mine, curve, xlabel="width (65 tokens)", ylabel="PSNR in dB", thresholds={"looks clean": 30})

# %% [markdown]
# The fall is gradual: half the width still fixes half of the directions, though above float32's errors only the few that the rank counts. *Unsolvable* and *private* are two words;
# exercise 3 has a stock model in which they come apart.

# %% [markdown]
# ### Noise (figure 6)
#
# The client may add noise. We say how much by the norm of the noise over the norm of the gradient, tensor by tensor. The amount
# is usually published, and then the server's ridge uses it: that attacker is the one a defence has to withstand.

# %% [markdown]
# ### Exercise 2: how large is the noise on each number?
#
# A gradient $g$ has $n$ numbers. You want noise whose norm, as a whole, is `relative` times $\lVert g \rVert$. What standard deviation must each
# number's noise have?
#
# <details><summary>Hint</summary>The squared norm of $n$ independent draws of standard deviation $\sigma$ is about $n\sigma^2$.</details>


# %% tags=["exercise"]
def sigma(g, relative): ...


# %% tags=["solution"]
def sigma(g, relative):
    return relative * g.norm() / g.numel() ** 0.5


# %%
checks.verify("05.noise", sigma)

# %%
kept, mine = measured("noise")
levels = (1e-3, 1e-2, 3e-2, 1e-1, 1.0)
curves = {k: {r: f"ssim[{k}, relative_{april_closed_form.at(r)}]" for r in levels} for k in ("gaussian", "laplacian")}
guess_ssim = {"mean photograph": best(kept, mine).mean("ssim[cifar10, mean_photograph]")}
plots.evidence_lines(
    kept, mine, curves, xlabel="norm of the noise / norm of the gradient", ylabel="SSIM", log="x", thresholds=guess_ssim
)  # fmt: skip

# %% [markdown]
# The paper finds that Laplacian noise must be ten times smaller than Gaussian noise to have the same effect, when it compares a *variance* with a *norm*.
# Measured by energy, do the two differ? They should not: a linear solve sums many draws, and of a sum only the variance counts.

# %% [markdown]
# Does only the *relative* size count, as the paper says? Multiply the loss, and so the gradient, by 100; keep the noise's relative size, then
# its absolute size. (The first can change nothing: it scales both sides of the system.)


# %%
rows = {
    "as it is, a tenth of it": "gradient_scale_1, relative_0p1",
    "times 100, a tenth of that": "gradient_scale_100, relative_0p1",
    "times 100, the noise as it was": "gradient_scale_100, absolute_0p1",
}
plots.evidence(
    kept, mine, {name: f"log10_mse[{key}]" for name, key in rows.items()}, xlabel="log10 of the error in pixels"
)

# %% [markdown]
# The same in pictures, frame by frame (this one also works where no Python runs):

# %%
frames, captions = [], []
for r in (*reversed(levels), 0.0):
    noisy = perturbation.gaussian(
        observe(model32, photo, label, names=["pos_embed", "blocks.0.attn.qkv.weight"]), r, seed=seed
    )
    frames.append(closed_form.attention(model32, noisy, noise=r).images)
    captions.append(f"relative noise {r:g}: {metrics.psnr(frames[-1], photo).item():.0f} dB")
flipbook.show(
    frames, captions, [f"The recovered image at {c}." for c in captions], label="relative noise, from much to none"
)

# %% [markdown]
# ### Batches
#
# With two images the client sends $\frac12(G_1 + G_2)$ and $\frac12(B_1 + B_2)$, while the system holds for each $G_k^\top Z_k = B_k$ alone. Our functions refuse a batch. An attacker may pretend not to know:


# %%
rows = {
    "one image": "batch_1",
    "the nearest of two": "batch_2",
    "the nearest of four": "batch_4",
    "architecture B": "arch_b",
}
names = {name: f"mse[closed_form, {key}]" for name, key in rows.items()}
plots.evidence(kept_solved, mine_solved, names, xlabel="error in pixels", log=True)

# %% [markdown]
# ## Architecture B: the paper's form stops, another begins
#
# A real ViT puts a LayerNorm between embedding and attention. Now $Q = \mathrm{LN}(Z) W_q^\top$, the position gradient is taken *before* the
# norm and the weight gradient *after* it: Theorem 1 does not hold. The paper turns to optimisation here (lab 06). The last row above is the same solver on B.

# %% [markdown]
# But look one layer *earlier*. The patch embedding is linear, and the position gradient is taken right behind it:
# $z_i = W x_i + b + e_i$. With $g_i = \partial\ell/\partial e_i$,
#
# $$\frac{\partial\ell}{\partial W} = \sum_i g_i x_i^\top = G^\top X .$$
#
# Both $\partial\ell/\partial W$ and $G$ are in the leak. The unknown is the image, in pixels, at once.

# %% [markdown]
# It does not matter what comes behind: norms,
# shortcuts, twelve blocks, any loss, any label. This system is not in the papers. It holds for **every** ViT that cuts
# the image into patches by one linear layer and adds a learnable embedding to each.
#
# It needs one image, as many independent $g_i$ as there are patches, and therefore a width above the number of patches.

# %%
samples = data.load("imagenet_samples")
kept, mine = measured("stock", "smoke" if profile == "class" else profile)  # ViT-B takes 2 GB: here one repeat of ViT-S
rows = {
    "ViT-S/32, float64": "vit_s_32, float64",
    "ViT-S/32, float32": "vit_s_32, float32",
    "ViT-S/32, bfloat16": "vit_s_32, bfloat16",
    "ViT-B/16, float32": "vit_b_16, float32",
    "ViT-B/16, bfloat16": "vit_b_16, bfloat16",
    "DeiT-Ti/16, float32": "deit_tiny_16, float32",
}
there = {name: f"psnr[patch_embedding, {key}]" for name, key in rows.items()}
there = {name: key for name, key in there.items() if key in kept.table or key in mine.table}
plots.evidence(kept, mine, there, xlabel="PSNR in dB at 224 pixels")

# %% [markdown]
# ### Exercise 3: the width that protects?
#
# `deit_tiny_patch16_224` has width 192 and 196 patches. Attack it all the same, and count the rank of the system:

# %%
warnings.filterwarnings("ignore", "width 192 is not above")
for name in filter(None, ("deit_tiny_patch16_224", victim)):
    tiny = models.build(name, num_classes=1000, seed=seed)
    image, true_class = samples.one(1, size=224)
    answer = closed_form.patch_embedding(tiny, observe(tiny, image, true_class))
    print(f"{name}: rank {answer.rank} of {answer.unknowns}: {metrics.psnr(answer.images, image).item():.1f} dB")

# %% [markdown]
# Write `hidden(width, image_size, patch)`: how many combinations *of the patches* stay undetermined, in each pixel position alike? The first answer that comes to mind is off by
# one.
#
# <details><summary>Hint</summary>Every $g_i$ has come back through a LayerNorm, which subtracts a mean on the way forward. What does its sum over the
# width have to be?</details>


# %% tags=["exercise"]
def hidden(width, image_size, patch): ...


# %% tags=["solution"]
def hidden(width, image_size, patch):
    return max(0, (image_size // patch) ** 2 - (width - 1))


# %%
checks.verify("05.width", hidden)

# %% [markdown]
# ## The defence that the paper recommends, and its end
#
# No gradient of the position embedding, no $G$: both forms above stop. So the paper advises to *fix* the embedding (section 4.2). Is the image
# safe then?

# %% [markdown]
# Look at the first attention's weight gradient. $[Q\,K\,V] = \mathrm{LN}(Z)\,W^\top$, so
#
# $$\frac{\partial\ell}{\partial W} = \sum_t (\text{something})_t \; \mathrm{LN}(z_t)^\top .$$
#
# Its **row space** $S$ is spanned by the normed tokens: $n + 1$ dimensions out of 384. The server knows $S$, so it knows that no normed token has any part
# outside of $S$.

# %% [markdown]
# Let the rows of $N^\top$ span what is outside, let $C$ subtract the mean, and write the norm out:
#
# $$\mathrm{LN}(z_i) = \gamma \odot C(z_i)/\sigma_i + \beta \quad\Rightarrow\quad N^\top\big(\gamma \odot C(W x_i + b + e_i)\big) + \sigma_i N^\top\beta = 0 .$$
#
# Everything but the patch $x_i$ (and the one number $\sigma_i$, where $\beta \ne 0$) is known: the embedding $e_i$ is fixed, so it is *public*.

# %% [markdown]
# That is a linear system for each patch, from a gradient that every client sends. It needs one image, a norm before attention, two blocks or more, and $384 - (n+1) > 3p^2$: one
# equation is lost, for the norm takes the mean out (or $\sigma_i$ is one unknown more).

# %% [markdown]
# ### Before you go on: predict
#
# Three fixed embeddings: random numbers, sine and cosine of the patch's number (1-D), sine and cosine of its row and column (2-D). Which of them protect? And how far does the
# attack get on the first?

# %%
guess = widgets.predict("PSNR against the fixed random embedding, from float32:", low=0, high=150, unit="dB")
guess

# %%
kept, mine = measured("subspace")
shown = best(kept, mine)
guess.against(shown.mean("psnr[subspace, random_std1_patch8, float32]"))

# %%
embeddings = {
    "random, std 1": "random_std1_patch8", "random, std .02": "random_std002_patch8", "random, std .02, patch 4": "random_std002_patch4",
    "sinusoid 1-D": "sinusoid_1d_patch8", "sinusoid 2-D": "sinusoid_2d_patch8",
}  # fmt: skip
names = {
    f"{name}, {p}": f"psnr[subspace, {key}, {p}]" for name, key in embeddings.items() for p in ("float32", "float64")
}
plots.evidence(kept, mine, names | {"mean photograph": "psnr[cifar10, mean_photograph]"}, xlabel="PSNR in dB")

# %% [markdown]
# A fixed random embedding is broken; smaller numbers and smaller patches (more tokens, closer to each other) cost the attacker
# precision. Where float64 breaks what float32 does not, as with the 1-D sinusoid, the system is badly conditioned and nothing more. Where even
# float64 fails, as with the 2-D sinusoid, something is *missing*. What?

# %% [markdown]
# ## What really protects: the rank rule
#
# Take $\beta = 0$ (otherwise $\sigma_i$ moves along, and the count is the same), and a combination $a$ of patches with $\sum_i a_i = 0$ and
# $\sum_i a_i e_i = 0$. Then
#
# $$\sum_i a_i (W x_i + b + e_i) = W \sum_i a_i x_i ,$$
#
# so $\gamma \odot C(W d)$, with $d = \sum_i a_i x_i$, is a combination of normed tokens (each times its $\sigma_i$): it lies *in* $S$, and no equation sees the
# direction $d$.

# %% [markdown]
# Conversely, let $\gamma\odot C(Wd) = \sum_t c_t \mathrm{LN}(z_t)$, and put $a_t = c_t/\sigma_t$. Then
# $C\big(W(\sum_i a_i x_i - d)\big) + C\big(\sum_i a_i (b + e_i)\big) + a_0 C(z_0) = 0$, with $z_0$ the class token. If the columns of $W$, the bias $b$, the class token
# and the embeddings are in general position (which a width above $3p^2 + n + 1$ leaves room for), each part vanishes by itself: $a_0 = 0$,
# $\sum_i a_i = 0$, $\sum_i a_i e_i = 0$ and $d = \sum_i a_i x_i$. Different $a$ give different $d$ as long as the patches are independent, until all $3p^2$
# are filled.

# %% [markdown]
# The combinations form a space of dimension $n - \mathrm{rank}[E\;\mathbf 1]$, with $[E\;\mathbf 1]$ the embeddings as rows and a column of ones. Hence the
# number of *hidden directions*, changes of a patch that no equation feels, is for *every* patch
#
# $$h = \min\big(3p^2,\; n - \mathrm{rank}[E\;\mathbf 1]\big). \qquad\blacksquare$$
#
# (Small print. $C$ removes multiples of $\mathbf 1$, so an embedding that is one hides as if it were 0; the code counts that too. And an image whose
# patches *repeat*, such as a digit on black, hides less: where two patches are equal, their difference is no direction.)

# %% [markdown]
# A random embedding has full rank: $h = 0$. The 2-D sinusoid is a function of the row plus a function of the column. The combinations that it cannot see are the
# tables whose rows and columns all sum to zero.

# %% [markdown]
# ### Exercise 4: count them
#
# `hidden_2d(n, patch)`: how many directions does the 2-D sinusoid hide on a grid of $n \times n$ patches of `patch` pixels a side?
#
# <details><summary>Hint</summary>Fill the upper left $(n-1) \times (n-1)$ corner of the table as you like. What is left to choose?</details>


# %% tags=["exercise"]
def hidden_2d(n, patch): ...


# %% tags=["solution"]
def hidden_2d(n, patch):
    return min(3 * patch**2, (n - 1) ** 2)


# %%
checks.verify("05.rank", hidden_2d)

# %% [markdown]
# Now the rule against the solver: `hidden_directions` looks at the model alone, `Recovery.hidden` counts the singular values that vanish.


# %%
kept_rank, mine_rank = measured("rank_rule")
ranks = {f"rank {r}": f"rank_{r}" for r in (1, 3, 5, 8, 12, 15, 16)} | {"sinusoid 2-D": "sinusoid_2d", "none": "none"}
names = {name: f"hidden[{key}]" for name, key in ranks.items() if f"hidden[{key}]" in best(kept_rank, mine_rank).table}
plots.evidence(kept_rank, mine_rank, names, xlabel="hidden directions that the solver counts")

# %%
gap = best(kept_rank, mine_rank)["null_space_gap[rank_rule]"].max()
print(f"counted less foretold, over all repeats and embeddings: {gap:.0f} at most")


# %%
def at_rank(rank, photograph):
    victim = models.april.build(
        "b", depth=2, position="low_rank", position_rank=rank, position_std=1.0, seed=seed
    ).double()
    image, true_class = photos.one(photograph)
    answer = closed_form.subspace(victim, observe(victim, image, true_class, names=["blocks.0.attn.qkv.weight"]))
    decibels = metrics.psnr(answer.images, image).item()
    return plots.side_by_side(
        image, answer.images, titles=["the client's", f"rank {rank}: {answer.hidden} of 192 hidden, {decibels:.0f} dB"],
        alt=f"A position embedding of rank {rank} hides {answer.hidden} directions of each patch; recovered with {decibels:.0f} dB.",
    )  # fmt: skip


widgets.explore(at_rank, rank=range(1, 17), photograph=range(20))

# %% [markdown]
# It is the *rank* that protects, not the freezing. Move the slider from 15 to 14: one hidden direction out of 192 is enough to ruin a recovery that was exact,
# because $d$ is made of the image's own patches: what is hidden is where the picture differs from patch to patch.
#
# A warning: a low-rank embedding that is *rounded* has full rank again, about $10^{-8}$ below its size, and from float64
# gradients the attack recovered the image from those last bits. `position_embeddings.draw("low_rank")` is therefore exact.

# %% [markdown]
# ### Exercise 5: design it
#
# You may choose a random embedding of any rank $r$ for $n$ patches, and want at least $k$ hidden directions for every patch. What is the *largest* rank that you can allow?
#
# <details><summary>Hint</summary>$\mathrm{rank}[E\;\mathbf 1]$ is not $r$.</details>


# %% tags=["exercise"]
def largest_rank(patches, k): ...


# %% tags=["solution"]
def largest_rank(patches, k):
    return patches - 1 - k


# %%
checks.verify("05.design", largest_rank)

# %% [markdown]
# ### And a batch?
#
# With $B$ images, $S$ has $Bn + 1$ dimensions: $n$ for each image, and one for the class token, which enters the same in all. An attacker who takes the
# batch for one image gets nonsense, as we measure here. One who counts right is left with $n(B-1)$ open directions of each patch; lab 07
# searches among them.


# %%
taken_for_one = {
    "a batch of two, taken for one": "psnr[subspace, batch_2, float64]",
    "mean photograph": "psnr[cifar10, mean_photograph]",
}
plots.evidence(kept, mine, taken_for_one, xlabel="PSNR in dB of the nearer image")

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("05")

# %% [markdown]
# ## What we did differently, and why
#
# - Theorem 1 has the gradients of the weights on the right-hand side, as in the paper's proof; softmax is scaled inside (its equation 4 prints
#   the scale outside).
# - "4 patches" is read as four *a row*, which is what the code that the paper names does: 17 tokens.
# - The paper solves with a pseudo-inverse. We add a ridge of the size of the leak's own errors. In float64 the two agree to 4 dB (`make bench`); from float32 the ridge is 4 to 7 dB ahead, and on `deit_tiny`, whose width is below its patches, it finds 41 dB where the pseudo-inverse finds 1.
# - Noise is relative to the norm of each tensor, and the attacker knows its level. The paper compares a variance with a norm.
# - Whether the paper's figure 6 concerns the closed form is implied there, not stated. We take it so.
# - `patch_embedding`, `subspace` and the rank rule are ours; none of the four papers has them.

# %% [markdown]
# ## Summary
#
# - One learnable position embedding and one linear layer on either side of it are enough for a linear system.
# - Float format, width and noise set how many decibels come back, through the condition of one matrix.
# - Fixing the embedding removes $G$, and the first attention's gradient takes its place. What protects is a *low rank*, and it can be counted before any attack.

# %% [markdown]
# ## Where to read on
#
# Lu et al. 2022, sections 3 and 4.2. Lab 06 attacks architecture B and batches by optimisation; lab 08 asks which gradients leak; lab 13 weighs the defences, and what a low-rank embedding costs in accuracy.
