# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06, deeper · What protects a position?
#
# You come from [lab 06](../06_april_by_optimisation.ipynb). There are more ways to hide the position embedding, and noise can be added. What does a search bear, and what do linear equations bear?
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
import torch

from privlab import compute, data, experiments, metrics
from privlab.attacks import gradient_inversion
from privlab.leak import observe
from privlab.models import april
from privlab.notebook import plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
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


def best(kept, mine):  # the evidence, or the live run where there is none yet
    return kept if len(kept) else mine


def pictures(evidence, name, titles):  # a strip that an experiment keeps, cut apart
    strip = torch.from_numpy(evidence.picture(f"picture[{name}]")) / 255
    strip = strip if strip.ndim == 3 else strip[..., None]
    cut = [x.permute(2, 0, 1)[None] for x in strip.split(len(strip), dim=1)]
    alt = f"{name.replace('_', ' ')}: {', '.join(titles)}."
    return plots.side_by_side(*cut, titles=titles, alt=alt)


# %% [markdown]
# To freeze a random embedding *is* to withhold its gradient, for one gradient at least.
#
# ## Before you go on: predict
#
# At a standard deviation of 1, how many decibels does it cost the annealed search when this one gradient is withheld?

# %%
guess = widgets.predict(
    "PSNR with the position gradient less that without:", low=-5, high=20, unit="dB"
)
guess

# %%
kept_kinds, mine_kinds = measured("embeddings")
shown = best(kept_kinds, mine_kinds)
guess.against(shown.mean("psnr[search, shared]") - shown.mean("psnr[search, withheld]"))

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
pictures(shown, "photograph_and_embeddings", ["the client's", *kinds])

# %%
rows = {kind: f"log10_distance_fall[search, {key}]" for kind, key in kinds.items()}
plots.evidence(
    kept_kinds,
    mine_kinds,
    rows,
    xlabel="fall of the distance between the gradients, powers of ten",
)

# %% [markdown]
# **Withheld**, or frozen at random: next to nothing is lost. At this scale the position gradient was next to nothing of the gradient.
#
# **Sinusoids**: now the picture suffers while the distance falls by orders: twin data. But part of that is not the sinusoid's doing. Our builder gives the
# class token of a sinusoidal ViT no embedding, and timm draws the token itself at $10^{-6}$. Give it one of size 1, and part of the protection is gone.

# %% [markdown]
# **Private**: the paper has a third wording, to update the embedding on the client alone. Then the server soon does not know the *numbers*. We gave it a draw of its own.
# Its search does not even match the gradients: the model that it differentiates is not the client's. That is no twin data, but a key that the attacker lacks.

# %% [markdown]
# ## As in the paper: squared distance (Figures 7 and 8)
#
# The paper compares APRIL on a full gradient with what is left of it, DLG, on one without the position gradient; on A and on B.

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

# %% [markdown]
# A squared distance that has fallen fifty-fold says little about an image, whether or not that gradient was sent: look at the error *with* the position gradient beside the one without.

# %% [markdown]
# ## The same gradients, by algebra
#
# A search was never the strongest thing to do with them. `closed_form.subspace` of lab 05 reads the first attention's gradient alone.

# %%
rows = {kind: f"psnr[subspace, {key}]" for kind, key in kinds.items()}
plots.evidence(kept_kinds, mine_kinds, rows, xlabel="PSNR in dB, by algebra")

# %% [markdown]
# Choose what the client does, and see what the solve finds in its gradient.

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
# The solve returns what is withheld or frozen at random, exactly. The 1-D sinusoid stops it for want of digits alone (lab 05: float64 gives the image back), the 2-D sinusoid by its low
# rank. The private embedding stops both, for as long as it stays private.

# %% [markdown]
# ## Noise, and width
#
# The paper adds noise to the gradient (its Figure 6, for the closed form: lab 05). What does the search bear at this scale?

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
# The search bears 0.03 of either kind of noise, and nothing is left at 0.3. The linear solve, exact without noise, needs cleaner
# gradients: a sum of thousands of terms cannot pass over what does not fit, and a search with a prior can.

# %% [markdown]
# ## Read on
#
# Lu et al. 2022, section 4.2. Lab 13 asks what defences cost.
