# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07, deeper · How far does GradViT reach?
#
# You come from [lab 07](../07_gradvit.ipynb). The paper compares GradViT with earlier attacks (Table 1), attacks other ViTs (Table 3) and larger batches (Figure 5), and recovers faces (Table S.1). What does such a table need before you can read it?
#
# After this notebook you can
# - say what each rival assumes about images, and name the rows that see no gradient;
# - measure whether a blurred reconstruction *identifies* its image among many;
# - say why the choice of the distance decides the outcome.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 1.7 | 1.3 GB |
# | class | 4 | 1.5 GB |
#
# (Estimated, on two CPU cores.)

# %% [markdown]
# *About 35 minutes. You need* lab 07. *New words*: **identifiability**, **distractor**.

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
kept = experiments.load("gradvit.attacks")
mine = experiments.run("gradvit.attacks", profile, device=device)
shown = kept or mine

# %% [markdown]
# ## The rivals
#
# The victims are trained, as section 6.2 of the paper implies for its own. Ours are small and trained for a few epochs. No attack has registration.
#
# - **GradInversion** (Yin et al. 2021) wants images with the BatchNorm statistics of the victim itself. A ViT has none, so there this term is left out.
# - **Inverting Gradients** (Geiping et al. 2020) and *annealed*, ours, are those of lab 04.
# - **DeepInversion** (Yin et al. 2020) looks at no gradient. It makes images that the victim takes for these labels.
# - **Latent projection** matches gradients among the images of a *generator*, a map from a few numbers to an image. The paper's is BigGAN. Ours is linear, the principal components of public images.

# %% [markdown]
# ### Predict
#
# The victim is a trained ResNet, and the searches are short beside the paper's.

# %%
METHODS = ["gradvit", "gradinversion", "inverting_gradients", "annealed"]
BLIND = ["deep_inversion", "latent_projection"]
guess = widgets.choose(
    "Which ends furthest up?", [name.replace("_", " ") for name in METHODS + BLIND]
)
guess

# %%
VICTIMS = {"ViT": "vit", "ViT, std 0.02": "vit_std_0p02", "ResNet": "resnet"}
rows = {
    f"{victim}: {name.replace('_', ' ')}": f"psnr[{name}, {key}]"
    for victim, key in VICTIMS.items()
    for name in METHODS + BLIND * (key == "resnet")
}
rows |= {"noise": "psnr[random_noise]", "mean photograph": "psnr[mean_photograph]"}
printed = {"ViT, std 0.02: gradvit": 15.515, "ViT, std 0.02: gradinversion": 10.824}
printed |= {"ResNet: gradvit": 11.635, "ResNet: gradinversion": 12.929}
printed |= {"ResNet: inverting gradients": 11.703, "ResNet: deep inversion": 10.131}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB", published=printed)

# %%
of_resnet = {n: shown.mean(f"psnr[{n}, resnet]") for n in METHODS + BLIND}
guess.against(max(of_resnet, key=of_resnet.get).replace("_", " "))

# %%
above = [n for n, v in of_resnet.items() if v > shown.mean("psnr[mean_photograph]")]
text(
    "Three rows see no gradient: noise, the mean photograph, and DeepInversion. On the "
    "ResNet {} of the {} methods end above the mean photograph, which has {:.1f} dB. "
    "On the ViT GradViT has {:.1f} dB, and annealed has {:.1f} dB.",
    *(len(above), len(of_resnet), shown.mean("psnr[mean_photograph]")),
    *(shown.mean("psnr[gradvit, vit]"), shown.mean("psnr[annealed, vit]")),
)

# %% [markdown]
# An order among attacks that all end below this *baseline* says nothing about what they recover. Where latent projection is ahead of a search among all pixels, the assumption about images does more than the search.

# %% [markdown]
# ## Which ViT?
#
# Table 3 attacks ViTs and DeiTs of several sizes. Smaller patches, larger models and *distillation* (training on the answers of another model) are said to leak more.
# That table needs the published weights and a GPU. Here is a small version of the first statement: the same small ViT, with patches of 4 and of 8 pixels, at both sizes of the position embedding. It has no image prior.
#
# ### Predict

# %%
guess_patch = widgets.predict(
    "PSNR with patches of 4 less that with patches of 8, std 0.02:", -5, 5, "dB"
)
guess_patch

# %%
kept_patch = experiments.load("gradvit.patch_size")
mine_patch = experiments.run("gradvit.patch_size", profile, device=device)
of = kept_patch or mine_patch
rows = {
    f"patches of {side}, std {std:g}": f"psnr[patch_{side}, {name}]"
    for name, std in STDS.items()
    for side in (4, 8)
}
rows["mean photograph"] = "psnr[mean_photograph]"
plots.evidence(kept_patch, mine_patch, rows, xlabel="PSNR in dB")

# %%
gain = of.mean("psnr[patch_4, std_0p02] - psnr[patch_8, std_0p02]")
guess_patch.against(round(gain, 1))

# %% [markdown]
# ## Larger batches
#
# The larger the batch, the less of each image is in the gradient. The batches here are nested: the first photograph is in all of them, and *that one* is compared (section 6.3 of the paper).
#
# ### Predict

# %%
guess_batch = widgets.predict(
    "PSNR of a photograph in a batch of 2 less in one of 4:", -3, 6, "dB"
)
guess_batch

# %%
kept_batch = experiments.load("gradvit.batches")
mine_batch = experiments.run("gradvit.batches", profile, device=device)
shown = kept_batch or mine_batch
sizes = (1, 2, 4, 8)
one = "psnr[first_photograph, batch_{}, {}]"
series = {
    f"standard deviation {std:g}": {size: one.format(size, name) for size in sizes}
    for name, std in STDS.items()
}
base = {"mean photograph": shown.mean("psnr[mean_photograph]")}
xlabel, ylabel = "images in the batch", "PSNR of the first, in dB"
plots.evidence_lines(
    kept_batch,
    mine_batch,
    series,
    xlabel=xlabel,
    ylabel=ylabel,
    log="x",
    thresholds=base,
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
    kept_batch, mine_batch, series, xlabel=xlabel, ylabel="share identified", log="x"
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
plots.evidence(
    kept_batch, mine_batch, rows, xlabel="share identified, out of batches of four"
)

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
# Hatamizadeh et al. 2022, sections 5.1, 6.2 and 6.3, appendices A, B and F; Yin et al. 2021 for GradInversion. The paper's faces are larger, and its searches two hundred times as long. Lab 08 asks which gradients GradViT owes most to.
