# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 07, deeper · Is GradViT ahead of other attacks?
#
# You come from [lab 07](../07_gradvit.ipynb). Table 1 of the paper compares GradViT with five earlier attacks, of which four run here. What does such a table need before you can read it?
#
# After this notebook you can
# - say what each rival assumes about images;
# - name the rows of such a table that see no gradient.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.1 GB |
# | class | 2 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 15 minutes. You need* lab 07.

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
# ## Read on
#
# Hatamizadeh et al. 2022, sections 5.1 and 6.2, appendix B; Yin et al. 2021 for GradInversion. Lab 08 asks which gradients GradViT owes most to.
