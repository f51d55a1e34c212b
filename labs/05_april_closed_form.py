# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 05 · When is no search needed?
#
# A search takes many steps, and may fail (lab 04). In lab 00 the server solved one linear system instead.
# When is there such a system? What can stop the server from using it?
#
# After this lab you can
# - check the proof behind APRIL's closed form line by line, and say which change of the network breaks which line;
# - write Algorithm 1, and say how exact its solution is;
# - say why a fixed position embedding alone does not protect, and which property of it does.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.8 | 1.6 GB |
# | class | 1 | 1.6 GB |
#
# (Estimated for two CPU cores.)

# %% [markdown]
# *About 75 minutes. You need* lab 00, the chain rule for matrices, and the singular value decomposition by name. *New words*: **class token**, **pseudo-inverse**,
# **condition number**, **ridge**, **row space**.

# %%
import functools
import warnings

from privlab import compute, data, experiments, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.course.lab_05 import proof
from privlab.defences import perturbation
from privlab.experiments.trial import mean_photograph
from privlab.leak import observe
from privlab.notebook import checks, drawings, plots, text, widgets

import torch
import torch.nn.functional as F
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # one more stock ViT of timm to attack: "vit_tiny_patch16_224"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
photo, label = data.load("cifar10_samples").one(2)  # (1, 3, 32, 32) in [0, 1]


@functools.lru_cache(maxsize=6)
def client(architecture, precision=torch.float32, **shape):  # fresh weights
    model = models.april.build(architecture, seed=seed, **{"depth": 2, **shape})
    return model.to(precision)


# %% [markdown]
# ## Theorem 1: what attention gives away
#
# Lu et al. 2022 study two designs (APRIL, Figure 1). We begin with **A**, where attention sits directly on the sum of both embeddings. Its sizes are the paper's for CIFAR-10: width 384, four
# heads, four blocks. The photograph is cut into 16 patches of 8 x 8 pixels. (The paper prints 4. The code that it names counts the patches of one row: 4 x 4.) One more token, the **class token**, belongs to no patch: the model reads its answer from it. The input $z$ of the first
# attention has 384 rows and 17 columns, one for each token. Attention computes
#
# - $q = Qz$, $\;k = Kz$ and $v = Vz$ with three weight matrices (APRIL, eq. 3);
# - $h_i = \sum_j \mathrm{softmax}_j(q_i^\top k_j/\sqrt{d_k})\,v_j$ in each head, of width $d_k$ (APRIL, eq. 4; it prints the scale outside of the softmax, and $qk^\top$, which does not fit the columns of eq. 3);
# - $a = Wh$ (APRIL, eq. 5).
#
# timm adds a bias to all four, which changes no step below.

# %%
drawings.show("05.two_designs")

# %% [markdown]
# No server sees these numbers. To check the proof, a hook keeps them, and autograd gives the gradient of the loss $\ell$ at each.

# %%
model = client("a", torch.float64, depth=4)
attention, kept = model.blocks[0].attn, {}
hook = attention.qkv.register_forward_hook(
    lambda layer, entered, made: kept.update(z=entered[0], qkv=made)
)
loss = F.cross_entropy(model(model.normalise(photo.double())), label)
hook.remove()
at_z, at_qkv = torch.autograd.grad(loss, [kept["z"], kept["qkv"]])
z, dz = kept["z"][0].detach().T, at_z[0].T  # (384, 17) each
q, k, v = kept["qkv"][0].detach().T.chunk(3)  # (384, 17) each
dq, dk, dv = at_qkv[0].T.chunk(3)  # (384, 17) each

# %% [markdown]
# **The claim** (APRIL, Theorem 1). If the server knows $\partial\ell/\partial z$, then $z$ solves a linear system that it can write down.
#
# **The proof.** $z$ acts on the loss only through $q$, $k$ and $v$, so what comes back through each of them adds up (APRIL, eq. 6):
#
# $$\frac{\partial\ell}{\partial z} = Q^\top\frac{\partial\ell}{\partial q} + K^\top\frac{\partial\ell}{\partial k} + V^\top\frac{\partial\ell}{\partial v} .$$
#
# You met the chain rule of a linear map in lab 00 (APRIL, eq. 7):
#
# $$\frac{\partial\ell}{\partial Q} = \frac{\partial\ell}{\partial q}\, z^\top , \quad \frac{\partial\ell}{\partial K} = \frac{\partial\ell}{\partial k}\, z^\top , \quad \frac{\partial\ell}{\partial V} = \frac{\partial\ell}{\partial v}\, z^\top .$$
#
# Multiply the first equation by $z^\top$ from the right, and put the second in (APRIL, eq. 8):
#
# $$\frac{\partial\ell}{\partial z}\, z^\top = Q^\top\frac{\partial\ell}{\partial Q} + K^\top\frac{\partial\ell}{\partial K} + V^\top\frac{\partial\ell}{\partial V} =: b . \qquad\blacksquare$$
#
# The server sent the weights out, and got their gradients back. So it knows $b$. The theorem calls $z$ unique, but it is so only if the rank of $\partial\ell/\partial z$ is the number of tokens. (The theorem's statement and the paper's algorithm print $\partial\ell/\partial q$ in place of $\partial\ell/\partial Q$.
# Only the proof's version has the right shape.)
#
# ### Exercise 1: the right-hand side *(difficulty 1, 5 minutes)*
#
# timm keeps $Q$, $K$ and $V$ stacked in one matrix of shape (3 width, width). Write $b$ from it and from its gradient.
#
# <details><summary>Hint</summary>Split both in three and sum; or see what the product of the stacked matrices sums.</details>


# %% tags=["exercise"]
def right_hand_side(weight, gradient): ...


# %% tags=["solution"]
def right_hand_side(weight, gradient):
    return weight.T @ gradient  # stacked rows: it sums over Q, K and V


# %%
checks.verify("05.theorem", right_hand_side)

# %% [markdown]
# Now check the proof. The last column is the relative error. For eq. 6, each of $q$, $k$ and $v$ is computed from its own copy of $z$, so that the gradient
# at a copy is what comes back through it alone.

# %%
rows = proof.rows(model, photo.double(), label)
proof.table(rows[:11])

# %% [markdown]
# ## Theorem 2, and Algorithm 1
#
# The client does not send $\partial\ell/\partial z$. Or does it? In architecture A, $z$ is a sum (APRIL, eq. 10):
#
# $$z = E_\text{patch} + E_\text{pos} .$$
#
# The derivative of a sum with respect to one summand is 1. So $\partial\ell/\partial E_\text{pos} = \partial\ell/\partial z$ (APRIL, eq. 9). A *learned* position embedding sends exactly what was missing (APRIL, Theorem 2). For a
# batch it would be the sum over the images.
#
# Backpropagation would give the same tensor for both sides, which tests nothing. So in the next table $z$ moves a little, and the change of the loss is compared with the gradient.
#
# ### Exercise 2: Algorithm 1 *(difficulty 2, 12 minutes)*
#
# With $A = \partial\ell/\partial z$, eq. 8 is $A z^\top = b$. Solve it with the **pseudo-inverse** $A^+$, the matrix that undoes another as far as it can be undone (`torch.linalg.pinv`). Write the steps
# of APRIL, Algorithm 1: take $Q$, $K$, $V$ and their gradients out of the stacked `weight` and `gradient`; form $b$; multiply by $A^+$; transpose. Return $z$, of shape (width, tokens).
#
# <details><summary>Hint</summary>`weight.chunk(3)` gives three matrices. `dz` has shape (width, tokens), so its pseudo-inverse has shape (tokens, width).</details>


# %% tags=["exercise"]
def algorithm_1(weight, gradient, dz): ...


# %% tags=["solution"]
def algorithm_1(weight, gradient, dz):
    Q, K, V = weight.chunk(3)
    dQ, dK, dV = gradient.chunk(3)
    b = Q.T @ dQ + K.T @ dK + V.T @ dV
    z = torch.linalg.pinv(dz) @ b
    return z.T


# %%
checks.verify("05.algorithm", algorithm_1)

# %% [markdown]
# One step is left, from tokens to pixels. The patch embedding is linear, $E_\text{patch} = W_p x$ plus a bias (APRIL, eq. 11). So the pixels are $x = W_p^+ E_\text{patch}$ (section 3.3, without a number). Run your attack on what the client
# sends. The paper's pictures are in APRIL, Figure 2.


# %%
def pixels(z):  # the position embedding off, the bias off, and the pseudo-inverse
    W_p, bias = model.patch_embed.proj.parameters()
    E_patch = (z - model.pos_embed[0].T)[:, 1:]  # (384, 16): no class token
    x = torch.linalg.pinv(W_p.flatten(1)) @ (E_patch - bias[:, None])  # (192, 16)
    return model.normalise.inverse(F.fold(x[None], 32, 8, stride=8)).detach()


sent = observe(model, photo, label)  # what leaves the client
weight, gradient = attention.qkv.weight.detach(), sent["blocks.0.attn.qkv.weight"]
found = algorithm_1(weight, gradient, sent["pos_embed"][0].T)
if found is not None:  # once you have written it
    image = pixels(found)
    said = f"Algorithm 1: {metrics.psnr(image, photo).item():.0f} dB"
    titles, alt = ["the client's", said], f"The client's photograph, and {said}."
    display(plots.side_by_side(photo, image, titles=titles, alt=alt))

# %% [markdown]
# ### Predict
#
# Your table has 11 of the proof's rows. Theorem 1, Theorem 2, eq. 10 and the inverse of eq. 11 make 15. Change the network, here with two blocks, in three ways. Which row fails first?

# %%
ROWS = ["eq. 4", "eq. 6", "eq. 7", "eq. 8", "Theorem 1", "Theorem 2"]
ROWS += ["inverse of eq. 11", "none"]
bets = [
    widgets.choose("Architecture B instead of A", ROWS),
    widgets.choose("Patches of 4 pixels, so 65 tokens, and a width of 64", ROWS),
    widgets.choose(
        "Patches of 8 pixels, so 192 numbers each, and a width of 128", ROWS
    ),
]
display(*bets)


# %%
def proof_at(architecture, patch, width):
    shape = dict(patch_size=int(patch[0]), width=width)
    model = client(architecture.lower(), torch.float64, **shape)
    image = proof.solved(model, observe(model, photo, label))
    near = metrics.psnr(image.clamp(0, 1), photo).item()
    said = f"Algorithm 1: {near:.0f} dB"
    alt = f"The photograph; {said} on {architecture}, width {width}, patches {patch}."
    titles = ["the client's", said]
    shown = plots.side_by_side(photo, image, titles=titles, alt=alt)
    return shown, proof.table(proof.rows(model, photo.double(), label))


controls = dict(architecture=("A", "B"), patch=("8 x 8", "4 x 4"))
controls["width"] = (32, 40, 48, 56, 64, 68, 128, 192, 384)
widgets.explore(proof_at, start=dict(width=384), **controls)

# %%
networks = [("B", 8, 384), ("A", 4, 64), ("A", 8, 128)]
for bet, (architecture, patch, width) in zip(bets, networks, strict=True):
    changed = client(architecture.lower(), torch.float64, patch_size=patch, width=width)
    tried = proof.rows(changed, photo.double(), label)
    failed = [row.where for row in tried if not row.holds]
    display(text("*{}.* {}", bet.question, bet.against([*failed, "none"][0])))
theorems = experiments.load("april_closed_form.theorems")
text(
    "On {} fresh networks and photographs the error is at most {:.0e} in eq. 8, and "
    "{:.0e} in Theorem 2.",
    len(theorems),
    max(theorems["relative_residual[theorem_1, float64]"]),
    max(theorems["relative_error[theorem_2, float64]"]),
)

# %% [markdown]
# Take patches of 4 x 4 pixels and a width below the 65 tokens. (8 x 8 makes 17, below every width here.) The equations hold, but Theorem 1's row fails: many $z$ solve the system. Below 48, the numbers of a patch, eq. 11 has no
# inverse. Lu et al. see solid protection at half the patches (APRIL, Figure 5), here 32. [A deeper notebook](deeper/05_width_and_noise.ipynb) measures it.

# %% [markdown] tags=["printed"]
# ## How exact is the solution?
#
# A *float64* has 16 significant digits, and a *float32* has 7.
#
# ### Predict
#
# The client of architecture A computes in float32. How near does the server come? (From 50 dB on, nobody sees a difference.)

# %%
guess = widgets.predict("PSNR from float32 gradients:", low=0, high=300, unit="dB")
guess

# %%
leak = observe(client("a", depth=4), photo, label)
answer = closed_form.attention(client("a", depth=4), leak)
near = metrics.psnr(answer.images, photo).item()
display(guess.against(near))
G = sent["pos_embed"][0]  # (17 tokens, 384), from float64
per_number = G.square().mean().sqrt() * (G.shape[0] ** 0.5 + G.shape[1] ** 0.5)
eps = {"float32": closed_form.BACKWARD * torch.finfo(torch.float32).eps}
eps["bfloat16"] = torch.finfo(torch.bfloat16).eps / 12**0.5
lines = {name: float(per_number * size) for name, size in eps.items()}
values = torch.linalg.svdvals(G)
lost = {name: int((values < line).sum()) for name, line in lines.items()}
plots.lines(
    {"gradient of the position embedding": (torch.arange(1, 18), values)},
    xlabel="number, from the largest", ylabel="singular value", log="y",
    thresholds=lines, alt=f"Singular values; below the lines: {lost}.",
)  # fmt: skip

# %% [markdown]
# How much of an error reaches the picture depends on $A$. Its **condition number**, the largest singular value over the smallest, bounds the factor by which an error can grow.
# The lines are the sizes of the errors when the client computes in float32, and when it rounds to bfloat16. A singular value below a line is lost.
#
# A pseudo-inverse divides by each singular value $s$. Below the errors it would divide noise by almost nothing. So our solver adds a **ridge**: it divides by
# $s + \varepsilon^2/s$, with $\varepsilon$ the size of the errors. This changes nothing where $s$ is large. Where $s$ is small, the picture stays grey.
#
# ### Predict
#
# A client may add noise before it sends. We state its size by the *norm of the noise over the norm of the gradient*, for each tensor. The server knows this size, and sets its ridge to it.
# We call an image recognised when its SSIM with the photograph is above 0.5 (lab 04). At which noise level does this stop for your photograph? The chart below has more photographs (APRIL, Figure 6). Below 0.1 of the
# gradient's norm (Laplacian noise: 0.01), the paper says, noise does not protect. But it compares a *variance* with that norm.

# %%
levels = (1.0, 0.1, 0.03, 0.01, 0.001)
recovered, ssim = {}, {}
for level in (*levels, 0.0):
    noisy = perturbation.gaussian(leak, level, seed=seed)
    answer = closed_form.attention(client("a", depth=4), noisy, noise=level)
    recovered[level] = answer.clamped
    ssim[level] = metrics.ssim(answer.clamped, photo).item()
smallest = widgets.choose(
    "The smallest noise behind which it is not recognised", [f"{x:g}" for x in levels]
)
smallest


# %%
def shown_at(noise):
    title = f"noise {noise:g}: SSIM {ssim[noise]:.2f}"
    return plots.side_by_side(
        recovered[noise], titles=[title], alt=f"The recovered image at {title}."
    )


lost = [f"{x:g}" for x in levels if ssim[x] < 0.5]
display(smallest.against(lost[-1] if lost else None))
display(widgets.explore(shown_at, start={"noise": 0.0}, noise=tuple(recovered)))
kept_noise = experiments.load("april_closed_form.noise")
mine_noise = experiments.run("april_closed_form.noise", profile, device=device)
at = {x: f"{x:g}".replace(".", "p") for x in levels}
curve = {
    kind: {x: f"ssim[{kind}, relative_{at[x]}]" for x in levels[::-1]}
    for kind in ("gaussian", "laplacian")
}
shown = kept_noise or mine_noise
base = {"mean photograph": shown.mean("ssim[cifar10, mean_photograph]")}
plots.evidence_lines(
    kept_noise, mine_noise, curve, ylabel="SSIM", log="x", thresholds=base,
    xlabel="norm of the noise / norm of the gradient",
)  # fmt: skip

# %% [markdown] tags=["printed"]
# ## A system for every ViT
#
# In architecture B, an ordinary ViT, a norm stands between the sum of eq. 10 and attention, so eq. 9 is false, and the paper turns to a search (lab 06). What follows is ours.
#
# One layer earlier, a patch $x_i$ enters as $W_p x_i + b_p + e_i$, with the position embedding $e_i$. Let $g_i$ be the gradient of $e_i$, the rows of $G$. Then
#
# $$\frac{\partial\ell}{\partial W_p} = \sum_i g_i x_i^\top = G^\top X .$$
#
# The client sends the left side and $G$. Only the patches $X$ are unknown. What comes behind the first layer does not matter. So there is such a system for **every**
# ViT that cuts the image with one linear layer and adds a learned embedding to each patch. It has one solution if
#
# - the gradient is that of *one* image. For a batch see the deeper notebook of lab 07, [algebra first](deeper/07_algebra_first.ipynb);
# - the $g_i$ are linearly independent. This needs a width above the number of patches.
#
# Here are stock ViTs, at 224 pixels. DeiT-Ti has 196 patches and a width of 192. What does the second condition say?

# %%
kept = experiments.load("april_closed_form.stock")
# ViT-B takes 2 GB of memory, so your own dot is of ViT-S at most
size = "smoke" if profile == "class" else profile
mine = experiments.run("april_closed_form.stock", size, device=device)
stock = {"ViT-S/32": "vit_s_32", "ViT-B/16": "vit_b_16", "DeiT-Ti/16": "deit_tiny_16"}
rows = {
    f"{name}, {form}": f"psnr[patch_embedding, {key}, {form}]"
    for name, key in stock.items()
    for form in ("float64", "float32", "bfloat16")
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
# ## Take the position gradient away
#
# Without the gradient of the position embedding there is neither $A$ nor $G$. So the paper advises to *fix* the embedding (section 4.2): it is drawn once, and
# not trained. The paper does not say how; our server knows it. Is the photograph safe?
#
# The first attention of B multiplies each normed token $\mathrm{LN}(u_i)$ with one matrix, and the client sends its gradient:
#
# $$\frac{\partial\ell}{\partial W_{qkv}} = \sum_i (\ldots)_i \; \mathrm{LN}(u_i)^\top .$$
#
# Each row of this gradient is a combination of the normed tokens. All these combinations are its **row space** $S$. It has only 17 of 384 dimensions, one for
# each token, and the server can compute it. So it knows that each normed token's component outside of $S$ is zero. A fresh norm subtracts the
# mean and divides by a size, which changes no zero. So this holds for $u_i$ less its mean, and of $u_i = W_p x_i + b_p + e_i$ only $x_i$ is unknown. Outside of $S$ lie
# 367 dimensions. Less that of the mean: 366 linear equations for the 192 numbers of a patch.
#
# ### Predict
#
# Here are three fixed embeddings: random numbers; sine and cosine of the patch's number (*1-D*); sine and cosine of its row and of its column (*2-D*). Which of them protect the
# photograph, even if the client sends float64?

# %%
names = {"random": "random_std1_patch8", "1-D sinusoid": "sinusoid_1d_patch8"}
names |= {"2-D sinusoid": "sinusoid_2d_patch8"}
hide = widgets.choose("It is protected by", list(names), many=True)
display(drawings.show("05.vit_attention"), hide)

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
# Where only float64 gives the photograph, the system is badly conditioned. Where even float64 fails, an equation is *missing*. Which one?
#
# Take numbers $c_i$, one for each patch, with $\sum_i c_i = 0$ and $\sum_i c_i e_i = 0$. Combine the tokens with them. Bias and embeddings cancel:
#
# $$\sum_i c_i u_i = W_p d \quad\text{with}\quad d = \sum_i c_i x_i .$$
#
# So $W_p d$ is a combination of tokens. If you add $d$ to a patch, its token stays among the combinations of tokens, and every equation still holds. Such a $d$ is a
# *hidden direction*. Let $E$ have the embeddings as rows, and let $[E\;\mathbf 1]$ have one more column, of ones. A patch of $p \times p$ pixels has $3p^2$ numbers. So each of the $n$ patches has
#
# $$n_\text{hid} = \min\big(3p^2,\; n - \mathrm{rank}[E\;\mathbf 1]\big)$$
#
# hidden directions. [A deeper notebook](deeper/05_rank_rule_proved.ipynb) proves that there are no others, and lets you design an embedding.

# %% [markdown]
# ### Exercise 3: count them *(difficulty 3, 10 minutes)*
#
# The 2-D sinusoid is a function of the row plus a function of the column. So $\sum_i c_i e_i = 0$ for each table of numbers $c$ whose rows and columns all sum to zero. How many directions does
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
# ### Predict
#
# A fixed embedding may have a low rank. At rank 15 nothing is hidden, and float64 gives the whole photograph. At rank 14 *one* direction of each patch is hidden, of 192. What comes back
# then?

# %%
one_hidden = widgets.predict("PSNR with one direction hidden:", 0, 300, "dB")
one_hidden


# %%
def low_rank(rank):
    return dict(position="low_rank", position_rank=rank, position_std=1.0)


def behind(rank):  # what the server solves
    model = client("b", torch.float64, **low_rank(rank))
    sent = observe(model, photo, label, names=["blocks.0.attn.qkv.weight"])
    return closed_form.subspace(model, sent)


def at_rank(rank):
    answer = behind(rank)
    near, like = metrics.psnr(answer.images, photo), metrics.ssim(answer.clamped, photo)
    said = f"rank {rank}: {answer.hidden} of 192 hidden, {near.item():.0f} dB, "
    said += f"SSIM {like.item():.2f}"
    alt = f"The client's photograph, and what the server has at {said}."
    titles = ["the client's", said]
    return plots.side_by_side(photo, answer.images, titles=titles, alt=alt)


widgets.explore(at_rank, start=dict(rank=16), rank=range(1, 17))

# %% [markdown]
# Move the slider down from 16. From which rank on would you not recognise the photograph?

# %%
kept_rank = experiments.load("april_closed_form.rank_rule")
mine_rank = experiments.run("april_closed_form.rank_rule", profile, device=device)
ruled = kept_rank or mine_rank
one_lost = metrics.psnr(behind(14).images, photo).item()
display(one_hidden.against(round(one_lost, 1)))
keys = {f"rank {r}": f"rank_{r}" for r in (12, 8, 5, 3, 1)}
keys |= {"2-D sinusoid": "sinusoid_2d", "no embedding": "none"}
rows = {name: f"psnr[subspace, {key}]" for name, key in keys.items()}
rows = {name: key for name, key in rows.items() if key in ruled}
plots.evidence(kept_rank, mine_rank, rows, xlabel="PSNR in dB, from float64")

# %% [markdown] tags=["printed"]
# One direction costs so much because $d$ is made of the photograph's own patches. What is hidden is how one patch differs from another.
#
# ## The defender's desk
#
# You are the client of architecture B. Set the position embedding, the noise and the number format. The server solves both systems with the ridge for your noise, from what you sent and
# from the same in bfloat16. Its best picture counts. The photograph is protected when this picture is at most 1 dB above the *baseline*, the mean of other photographs.
#
# Find two settings that protect it: one with the *learned* embedding and as little noise as possible, one with no noise at all.

# %%
EMBEDDINGS = {"learned": {}, "learned, its gradient withheld": {}}
EMBEDDINGS |= {"random": dict(position="random", position_std=1.0)}
EMBEDDINGS |= {f"{n}-D sinusoid": dict(position=f"sinusoid_{n}d") for n in (1, 2)}
EMBEDDINGS |= {f"rank {r}": low_rank(r) for r in (15, 12, 8, 4)}
baseline = metrics.psnr(mean_photograph(), photo).item()


def desk(position_embedding, noise, number_format):
    computed = torch.float64 if number_format == "float64" else torch.float32
    model = client("b", computed, **EMBEDDINGS[position_embedding])
    noisy = perturbation.gaussian(observe(model, photo, label), noise, seed=seed)
    sent = [noisy.rounded(getattr(torch, f)) for f in {number_format, "bfloat16"}]
    answers = [closed_form.subspace(model, s, noise=noise) for s in sent]
    if position_embedding == "learned":
        answers += [closed_form.patch_embedding(model, s, noise=noise) for s in sent]
    best = max(answers, key=lambda one: metrics.psnr(one.clamped, photo).item()).clamped
    above = metrics.psnr(best, photo).item() - baseline
    said = f"{'protected' if above <= 1 else 'not protected'}, {above:+.1f} dB"
    alt = f"The photograph, and the server's best picture: {said} from the baseline."
    return plots.side_by_side(photo, best, titles=["the client's", said], alt=alt)


formats = ("float64", "float32", "bfloat16")
choices = dict(noise=(0.0, 0.001, 0.01, 0.03, 0.1, 1.0), number_format=formats)
widgets.explore(desk, position_embedding=tuple(EMBEDDINGS), **choices)

# %% [markdown]
# Behind a sinusoid, rounding or a little noise can give the server *more* than plain float32. Float32 leaves hidden directions grey. Errors disturb most the directions of $S$ with small singular
# values, so least squares keeps each token near the other directions: a better guess than grey.
#
# ### Exercise 4: whose photograph can be computed? *(difficulty 2, 8 minutes)*
#
# Six clients have architecture B, of width 384, with patches of 8 x 8 pixels. Of which can a server compute a recognisable photograph with one of the last two systems? Give a set of
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
# hidden? Is it one photograph? All but **f** you can try at the desk.</details>

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
# The paper prints no table for its closed form: it has theorems and Figures 2, 5 and 6. Rows without a source are our own claims.

# %%
widgets.verdicts("05")

# %% [markdown]
# ## What would change our mind
#
# Suppose that a photograph comes back from behind a low-rank embedding. Then the rank rule does not protect. It counts the equations of one system; lab 06 searches with all gradients. Where the server does not know a fixed embedding, none of the three systems works.

# %% [markdown]
# ## Read on
#
# Lu et al. 2022, sections 3 and 4.2. Lab 06 attacks architecture B by search, lab 07 attacks a batch, and lab 13 weighs defences.
