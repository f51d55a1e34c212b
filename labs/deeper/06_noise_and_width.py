# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06, deeper · What protects a position?
#
# You come from [lab 06](../06_april_by_optimisation.ipynb). A client can hide the position embedding in other ways, or add noise. Which of these stops a search, and which stops linear equations?
#
# After this notebook you can
# - say what a withheld, a frozen, a low-rank and a *private* embedding protect against;
# - say why a matched gradient proves little.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.2 GB |
# | class | 2 | 1.4 GB |
#
# (Smoke measured on two CPU cores; class estimated.)

# %% [markdown]
# *About 40 minutes. You need* lab 06.

# %%
from privlab import compute, data, experiments, metrics
from privlab.attacks import gradient_inversion
from privlab.leak import observe
from privlab.models import april
from privlab.notebook import plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
steps = {"smoke": 3, "class": 40}.get(profile, 1500)  # of what is searched live
shape = {"smoke": dict(width=224, depth=2), "class": dict(depth=2)}.get(profile, {})


def victim(**changes):  # a fresh architecture B, or another one
    size = {"seed": seed, "position_std": 1.0} | shape | changes
    return april.build(**{"architecture": "b"} | size).to(device)


photos = data.load("cifar10_samples")
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
leak = observe(victim(), photo, label)


def measured(name):  # the committed evidence, and what is measured here and now
    name = f"april_by_optimisation.{name}"
    return experiments.load(name), experiments.run(name, profile, device=device)


# %% [markdown]
# If a random embedding is frozen, its gradient is not sent. For a single gradient this *is* the same as withholding it.
#
# ## Before you go on: predict
#
# Lab 06 withheld this gradient. Now the client freezes a 1-D sinusoid in place of the learned embedding. How many decibels does the annealed search lose?

# %%
guess = widgets.predict(
    "PSNR, learned and sent, less that with the sinusoid:", low=-5, high=20, unit="dB"
)
guess

# %%
kept_kinds, mine_kinds = measured("embeddings")
shown = kept_kinds or mine_kinds
guess.against(shown.mean("psnr[search, shared] - psnr[search, sinusoid_1d]"))

# %%
kinds = {
    "shared": "shared",
    "withheld": "withheld",
    "frozen, 1-D sinusoid": "sinusoid_1d",
    "frozen, 2-D sinusoid": "sinusoid_2d",
    "2-D sinusoid, class token 1": "sinusoid_2d_class_1",
    "private": "private",
}
line = {"mean photograph": "psnr[cifar10, mean_photograph]"}
rows = {kind: f"psnr[search, {key}]" for kind, key in kinds.items()} | line
plots.evidence(kept_kinds, mine_kinds, rows, xlabel="PSNR in dB, annealed search")

# %%
titles = ["the client's", *kinds]
strip = plots.tiles(shown.picture("picture[photograph_and_embeddings]"), 32)
plots.side_by_side(
    *strip.split(1),
    titles=titles,
    alt=f"photograph and embeddings: {', '.join(titles)}.",
)

# %%
rows = {kind: f"log10_distance_fall[search, {key}]" for kind, key in kinds.items()}
plots.evidence(
    kept_kinds,
    mine_kinds,
    rows,
    xlabel="fall of the distance between the gradients, powers of ten",
)

# %% [markdown]
# **Withheld**, or random and frozen: the search loses almost nothing. At this scale the position gradient is a very small part of the whole gradient.
#
# **Sinusoids**: the picture is worse, although the distance falls by orders of magnitude. This is twin data. Yet at the paper's size the search ends above the mean photograph on
# average, further behind one dimension than behind two. And the sinusoid is not the only cause. Our builder gives the class token of a sinusoidal ViT no embedding, and timm
# draws the token itself at $10^{-6}$. Whether a class token of size 1 gives part of the protection away is not decided.

# %% [markdown]
# **Private**: the paper also proposes that only the client updates the embedding. Then the server soon does not know its *values*. To test this, we give the server another random
# embedding. Its search does not even match the gradients, because its model is not the client's. This is not twin data: the embedding is a key that the attacker does not have.

# %% [markdown]
# ## As in the paper: squared distance (Figures 7 and 8)
#
# The paper compares two attacks on architectures A and B: APRIL on the full gradient, and DLG on a gradient without the position embedding's. (DLG is APRIL without its position term.)

# %%
kept, mine = measured("cifar10")
rows = {
    "B, everything sent": "mse[cifar10, april]",
    "B, no position gradient": "mse[position_hidden, dlg]",
    "the same by IG": "mse[position_hidden, ig]",
    "the same by TAG": "mse[position_hidden, tag]",
    "mean photograph": "mse[cifar10, mean_photograph]",
}
plots.evidence(kept, mine, rows, xlabel="error of the image, normalised", log=True)

# %%
rows = {
    "everything sent": "log10_grad_loss_drop[position_shared]",
    "no position gradient": "log10_grad_loss_drop[position_hidden]",
}
plots.evidence(kept, mine, rows, xlabel="fall of the squared distance, powers of ten")

# %%
text(
    "Without the position gradient DLG loses {:.3f} dB, and TAG ends at {:.0f} dB in "
    "place of {:.0f} dB. APRIL's term, with the same gradient as DLG, is worth "
    "{:.1f} dB.",
    kept.mean("psnr[cifar10, dlg] - psnr[position_hidden, dlg]"),
    kept.mean("psnr[position_hidden, tag]"),
    kept.mean("psnr[cifar10, tag]"),
    kept.mean("psnr[cifar10, april] - psnr[cifar10, dlg]"),
)

# %% [markdown]
# The paper's pair differs in two things: the gradient that is sent, and the term that asks for it. To see what withholding does, change one of them. At the size `class` the search
# is too short for either.

# %% [markdown]
# ## The same gradients, by linear equations
#
# A search is not the strongest attack on these gradients. `closed_form.subspace` of lab 05 needs only the gradient of the first attention.

# %%
rows = {kind: f"psnr[subspace, {key}]" for kind, key in kinds.items()}
plots.evidence(kept_kinds, mine_kinds, rows, xlabel="PSNR in dB, by algebra")

# %% [markdown]
# Choose what the client does, and see what the linear equations recover from its gradient.

# %%
drawn = {
    "frozen at random": dict(position="random"),
    "frozen, 1-D sinusoid": dict(position="sinusoid_1d", position_std=None),
    "frozen, 2-D sinusoid": dict(position="sinusoid_2d", position_std=None),
}


def under(embedding, photograph):
    truth, y = photos.one(photograph)
    model = victim(width=384, **drawn[embedding])
    solve = gradient_inversion.closed_form.subspace(
        model, observe(model, truth, y, names=["blocks.0.attn.qkv.weight"])
    ).clamped
    said = f"solve: {metrics.psnr(solve, truth).item():.0f} dB"
    return plots.side_by_side(
        truth,
        solve,
        titles=["the client's", said],
        alt=f"Embedding {embedding}; {said}.",
    )


widgets.explore(under, embedding=tuple(drawn), photograph=tuple(range(4)))

# %% [markdown]
# If the position gradient is withheld, or the embedding is random and frozen, the linear equations still recover the image exactly. The 1-D sinusoid stops them only because float32
# has too few digits (lab 05: float64 gives the image back). The 2-D sinusoid stops them by its low rank. The private embedding stops both attacks as long as it stays private.

# %% [markdown]
# ## Noise, and width
#
# The paper adds noise to the gradient (its Figure 6 is about the closed form, see lab 05). How much noise does the search tolerate at this scale?

# %%
kept_noise, mine_noise = measured("noise_and_width")
noises = {
    "none": "everything",
    "Gaussian 0.003": "gaussian_0p003",
    "Gaussian 0.03": "gaussian_0p03",
    "Gaussian 0.3": "gaussian_0p3",
    "Laplacian 0.03": "laplacian_0p03",
}
rows = {f"search, {name}": f"psnr[search, {key}]" for name, key in noises.items()}
rows |= {
    f"solve, {name}": f"psnr[patch_embedding, {key}]" for name, key in noises.items()
}
plots.evidence(
    kept_noise,
    mine_noise,
    rows | line | {"search, width 96": "psnr[search, width_96]"},
    xlabel="PSNR in dB",
)

# %% [markdown]
# The search loses hardly anything to 0.03 of either kind of noise, and ends below the mean photograph at 0.3. The linear equations are exact without noise, and lose much faster: they cannot ignore a
# term that does not fit, and a search with a prior can. Yet at 0.003 they still find more than this search does.

# %% [markdown]
# ## Read on
#
# Lu et al. 2022, section 4.2. Lab 13 asks what defences cost.
