# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 05, deeper · Which system does attention give away?
#
# You come from [lab 05](../05_april_closed_form.ipynb). There the patch embedding gave a linear system away. Lu et al. 2022 found another one first, and prove it with two
# theorems.
#
# After this notebook you can
# - derive the system of attention from the chain rule, and check it on numbers;
# - say why a norm in front of attention stops it.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.2 GB |
# | class | 0.4 | 1.3 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 40 minutes. You need* lab 05 and the chain rule for matrices.

# %%
import warnings

from privlab import compute, data, experiments, metrics, models
from privlab.attacks.gradient_inversion import closed_form
from privlab.course.lab_05 import experiments as april_closed_form
from privlab.leak import observe
from privlab.notebook import checks, plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
photo, label = data.load("cifar10_samples").one(2)  # (1, 3, 32, 32) in [0, 1]
model = models.april.build("a", seed=seed).double()
leak = observe(model, photo, label)
leak

# %% [markdown]
# ## Architecture A
#
# The paper studies two designs (Figure 1). In **A**, attention sits directly on the embedding: patches plus position embedding, then three linear maps, query, key and
# value. **B** is a usual ViT, with a norm in between, and shortcuts around attention and MLP. Sizes are the paper's for CIFAR-10: width 384, four heads, four blocks. It says "4 patches",
# and the code that it names has four in a *row*: 16 patches, and a class token.

# %% [markdown]
# ## Theorem 1: attention
#
# Write the tokens as the rows of $Z$. Attention computes $Q = Z W_q^\top$, $K = Z W_k^\top$, $V = Z W_v^\top$. What it does with them does not matter.
#
# **Proof.** $Z$ acts on the loss only through $Q$, $K$ and $V$. The chain rule says
#
# $$\begin{aligned}
# \frac{\partial\ell}{\partial Z} &= \frac{\partial\ell}{\partial Q} W_q + \frac{\partial\ell}{\partial K} W_k + \frac{\partial\ell}{\partial V} W_v , \\
# \frac{\partial\ell}{\partial W_q} &= \Big(\frac{\partial\ell}{\partial Q}\Big)^{\!\top} Z \quad\text{and so on.}
# \end{aligned}$$
#
# Transpose the first, multiply by $Z$ from the right, and put the second in:
#
# $$\begin{aligned}
# \Big(\frac{\partial\ell}{\partial Z}\Big)^{\!\top} Z &= W_q^\top \frac{\partial\ell}{\partial W_q} + W_k^\top \frac{\partial\ell}{\partial W_k} \\
# &\quad {} + W_v^\top \frac{\partial\ell}{\partial W_v} =: B . \qquad\blacksquare
# \end{aligned}$$

# %% [markdown]
# The right side is made of weights, which the server sent out, and of their gradients, which it got back. If it also knew $\partial\ell/\partial Z$, then $Z$ would be the only
# unknown. There is one solution where $\partial\ell/\partial Z$ has full rank, so at a width of at least the number of tokens.
#
# The paper prints the gradients of the *activations* on the right side of its theorem and in its algorithm. Its proof, and the shapes, ask for those of the *weights*.

# %% [markdown]
# ### Exercise 1: the right-hand side *(difficulty 2, 15 minutes)*
#
# timm keeps the three projections stacked in one matrix of shape (3 width, width). Write $B$ from it and from its gradient.
#
# <details><summary>Hint</summary>You can split it in three and sum. Or write the stacked product and see that the sum is done for you.</details>


# %% tags=["exercise"]
def right_hand_side(weight, gradient): ...


# %% tags=["solution"]
def right_hand_side(weight, gradient):
    return weight.T @ gradient  # stacked rows: it sums over query, key and value


# %%
checks.verify("05.theorem", right_hand_side)

# %% [markdown]
# Now check the theorem on numbers. We look at $Z$ and $\partial\ell/\partial Z$ inside of the model, as no server can, and compare both sides in float64.


# %%
def theorem_1(model, photo, label):  # error of one side against the other
    Z, dZ = april_closed_form.inside(model, photo, label)
    weight = model.blocks[0].attn.qkv.weight.detach()
    B = right_hand_side(weight, leak["blocks.0.attn.qkv.weight"])
    if B is None:  # until you have written it
        return None
    return ((dZ.T @ Z - B).norm() / B.norm()).item()


theorem_1(model, photo, label)

# %% [markdown]
# ## Theorem 2: the position embedding
#
# $Z = E_{\text{patch}} + E_{\text{pos}}$ is a sum. So $\partial\ell/\partial E_{\text{pos}} = \partial\ell/\partial Z$, and a *learned* position embedding sends exactly that.
# **Proof**: the derivative of a sum with respect to either summand is 1. $\blacksquare$
#
# It speaks of one image: a batch sends the sum.
#
# Backpropagation would give the same tensor twice. So the experiment compares the gradient that is sent with differences of the loss, when $Z$ itself is moved a little.
# It does so along a random direction too. Along the gradient alone, a missing part would not be noticed.

# %%
kept = experiments.load("april_closed_form.theorems")
mine = experiments.run("april_closed_form.theorems", profile, device=device)
sides = {"Theorem 1": "relative_residual[theorem_1, float64]"}
sides |= {"Theorem 2": "relative_error[theorem_2, float64]"}
xlabel = "relative error of one side against the other, float64"
plots.evidence(kept, mine, sides, xlabel=xlabel, log=True)

# %% [markdown]
# ## The attack
#
# Solve $G^\top Z = B$, where $G$ is the position gradient (Algorithm 1). Then undo the patch embedding: $z_i - e_i - b = W_p x_i$. The pixels are the pseudo-inverse of
# $W_p$ times this (equation 11). It is exact when the width is at least the number of pixels in a patch, 192 here.

# %%
answer = closed_form.attention(model, leak)
score = metrics.psnr(answer.images, photo).item()
plots.side_by_side(
    photo,
    answer.images,
    titles=["the client's", f"from float64: {score:.0f} dB"],
    alt=f"A CIFAR-10 image and its recovery by the paper's system: {score:.0f} dB.",
)

# %% [markdown]
# ## Architecture B
#
# In a usual ViT, $Q = \mathrm{LN}(Z) W_q^\top$. The position gradient is taken *before* the norm and the weight gradient *after* it.
#
# ### Predict

# %%
YES, NO = "still the photograph", "not the photograph"
guess = widgets.choose("On architecture B the same solver returns", [YES, NO])
guess

# %%
kept_solved = experiments.load("april_closed_form.solved")
mine_solved = experiments.run("april_closed_form.solved", profile, device=device)
rows = {"architecture A": "mse[closed_form, arch_a, cifar10]"}
rows |= {"architecture B": "mse[closed_form, arch_b]"}
xlabel = "mean squared error in pixels"
plots.evidence(kept_solved, mine_solved, rows, xlabel=xlabel, log=True)

# %%
shown = kept_solved or mine_solved
found = shown.mean("mse[closed_form, arch_b]") < 0.01
guess.against(YES if found else NO)

# %%
warnings.filterwarnings("ignore", "a norm or a shortcut")
other = models.april.build("b", seed=seed)
sent = observe(other, photo, label)
theirs, ours = (
    closed_form.attention(other, sent),
    closed_form.patch_embedding(other, sent),
)
text(
    "On architecture B the paper's system reaches {:.0f} dB. The system of the patch "
    "embedding, one layer earlier, reaches {:.0f} dB from the same gradient.",
    metrics.psnr(theirs.clamped, photo).item(),
    metrics.psnr(ours.images, photo).item(),
)

# %% [markdown]
# The paper turns to a search here (lab 06). The two systems of lab 05 are ours; none of the four papers has them.
#
# ## Read on
#
# Lu et al. 2022, sections 3.1 to 3.3. One detail differs: we scale inside of the softmax, as is usual, and its equation 4 prints the scale outside.
