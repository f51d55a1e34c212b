# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07, deeper · Does a reconstruction still identify anyone?
#
# You come from [lab 07](../07_gradvit.ipynb). The larger the batch, the less of each image is in the gradient. When can nobody be recognised any more?
#
# After this notebook you can
# - measure whether a blurred reconstruction *identifies* its image among many;
# - say why the choice of the distance decides the outcome.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 1.5 | 1.3 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured while other work ran on the two CPU cores; class estimated.)

# %% [markdown]
# *About 20 minutes. You need* lab 07. *New words*: **identifiability**, **distractor**.

# %%
from privlab import compute, experiments
from privlab.experiments.victims.batches import STDS
from privlab.notebook import plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
kept = experiments.load("gradvit.batches")
mine = experiments.run("gradvit.batches", profile, device=device)
shown = kept or mine

# %% [markdown]
# ## Larger batches
#
# The batches are nested: the first photograph is in all of them, and *that one* is compared (section 6.3 of the paper).
#
# ### Predict

# %%
guess_batch = widgets.predict(
    "PSNR of a photograph in a batch of 2 less in one of 4:", -3, 6, "dB"
)
guess_batch

# %%
sizes = (1, 2, 4, 8)
one = "psnr[first_photograph, batch_{}, {}]"
series = {
    f"standard deviation {std:g}": {size: one.format(size, name) for size in sizes}
    for name, std in STDS.items()
}
base = {"mean photograph": shown.mean("psnr[mean_photograph]")}
xlabel, ylabel = "images in the batch", "PSNR of the first, in dB"
plots.evidence_lines(
    kept, mine, series, xlabel=xlabel, ylabel=ylabel, log="x", thresholds=base
)

# %%
lost = shown.mean(f"{one.format(2, 'std_1')} - {one.format(4, 'std_1')}")
guess_batch.against(round(lost, 1))

# %%
strip = plots.tiles(shown.picture("picture[one_photograph_by_batch_size]"), 32)
titles = ["photograph", *(f"batch of {n}" for n in sizes[: len(strip) - 1])]
alt = f"A photograph, and what came back of it: {', '.join(titles)}."
plots.side_by_side(*strip.split(1), titles=titles, alt=alt)

# %% [markdown]
# ## Among many images
#
# Appendix A of the paper asks for the **identifiability** of a reconstruction: among many images, is it nearest to *its own* original? The share for which it is, is called image identifiability precision (IIP).
# The candidates are the true images of the batches and some **distractors**, images that were in no batch.
#
# What *nearest* means is a choice. In pixels, a blurred image is near to many. LPIPS compares structure. (The paper uses features of a ResNet-50, and does not name the distance.)
#
# ### Predict

# %%
guess_iip = widgets.predict(
    "Standard deviation 1: which share does LPIPS identify, batches of 4?", 0, 1
)
guess_iip

# %%
series = {
    by: {size: f"iip[{by}, batch_{size}]" for size in sizes}
    for by in ("pixels", "lpips")
}
plots.evidence_lines(
    kept, mine, series, xlabel=xlabel, ylabel="share identified", log="x"
)

# %%
guess_iip.against(shown.mean("iip[lpips, batch_4]"))

# %%
ahead = shown.mean("psnr[first_photograph, batch_1, std_1] - psnr[mean_photograph]")
text(
    "Even alone, an image is identified in {:.0%} of the cases by pixels and in {:.0%} "
    "by LPIPS: this search ends {:+.1f} dB from the mean photograph. So the chart "
    "cannot say at which batch size a search that works would lose them.",
    *(shown.mean(f"iip[{by}, batch_1]") for by in ("pixels", "lpips")),
    ahead,
)

# %% [markdown] tags=["printed"]
# ## A generator behind it
#
# The paper sends the faces that it recovered through StyleGAN2, a *generator* (a network that makes faces), and identifies the nearest image that it can make. With faces it gains: 87.5% against 75% at a batch size of 8.
# Here is the same step with a linear generator, the first components of public photographs. A deeper notebook of lab 11 trains one.

# %%
rows = {
    f"{by}{', refined' * bool(how)}": f"iip[{by}, batch_4{how}]"
    for by in ("pixels", "lpips")
    for how in ("", ", refined")
}
plots.evidence(kept, mine, rows, xlabel="share identified, out of batches of four")

# %% [markdown]
# ## Faces
#
# Table S.1 attacks a face Transformer. No package registry has MS-Celeb-1M or the weights of that model. We have ORL, forty people in ten photographs each. Here a small grey ViT looks
# at 32 x 32 pixels, one photograph a person. The *baseline*, made without the gradient, is the mean face of other people.
#
# ### Predict

# %%
ABOVE, BELOW = "above the mean face", "below the mean face"
guess_face = widgets.choose("Faces from a batch of four end", [ABOVE, BELOW])
guess_face

# %%
kept_faces = experiments.load("gradvit.faces")
mine_faces = experiments.run("gradvit.faces", profile, device=device)
of = kept_faces or mine_faces
rows = {
    "batch of four": "psnr[faces, batch_4]",
    "the same four in eight": "psnr[faces, batch_8]",
    "mean face": "psnr[faces, mean_face]",
}
published = {"batch of four": 27.370, "the same four in eight": 23.313}
plots.evidence(kept_faces, mine_faces, rows, xlabel="PSNR in dB", published=published)

# %%
gain = of.mean("psnr[faces, batch_4] - psnr[faces, mean_face]")
guess_face.against(ABOVE if gain > 0 else BELOW)

# %%
grey = of.picture("picture[faces, batch_8]")  # two rows of eight, in grey
eight, found = plots.tiles(grey[..., None].repeat(3, axis=2), 32).split(8)
alt = "Eight faces, and below them what came back from one gradient."
plots.images({"faces": eight, "from one gradient": found}, alt=alt)

# %% [markdown]
# Are the lower ones nearly black? GradViT also keeps the norm of the image small (equation 11). Perhaps the gradients of this victim are too
# small beside it; that was not measured by itself. An answer of one brightness says nothing about faces.

# %% [markdown]
# ## Read on
#
# Hatamizadeh et al. 2022, section 6.3, appendices A and F. The paper's faces are larger, and its searches two hundred times as long.
