# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 04, deeper · Does it hold at the paper's size?
#
# You come from [lab 04](../04_gradient_inversion.ipynb). There you attacked small networks with few steps, and saw where the paper's own end. The paper attacks networks of 23 to 49 million
# parameters with 3,000 steps, and photographs of ImageNet too. Is the difference between ResNet and Swin the same there?
#
# After this notebook you can
# - compare reconstructions by four metrics, and say what each one sees;
# - say which numbers of the paper were measured again here, at which size;
# - list what a paper has to state, so that its attack can be repeated.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.6 GB |
# | class | 1 | 1.6 GB |
#
# (Measured on two CPU cores. `night` and `gpu` measure the paper's networks, as we read them, for hours, and continue where they were stopped.)

# %% [markdown]
# *About 25 minutes. You need* lab 04.

# %%
from privlab import compute, experiments, ledger
from privlab.notebook import plots, text, widgets

import pandas as pd

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)

# %% [markdown]
# ## Four metrics
#
# PSNR and MSE compare pixel by pixel. SSIM compares structure. *LPIPS* asks a trained network how different two images look; smaller is nearer. The
# paper's MSE exceeds 1, which no two images in [0, 1] can have. It fits images after normalisation, so ours is computed like that.

# %%
kept = experiments.load("gradient_inversion.architectures")
mine = experiments.run("gradient_inversion.architectures", profile, device=device)
text("The committed dots show {}, {} repeats.", kept.stands_for, len(kept))

# %%
rows = {n: f"[cifar10, {n.lower()}]" for n in ("ResNet", "Swin", "ViT", "ConvNeXt")}
rows |= {"mean photograph": "[cifar10, mean_photograph]"}
full = {"ResNet": "ResNet-50", "Swin": "Swin-T", "ConvNeXt": "ConvNeXt-T"}
tables = pd.concat(ledger.papers.table(f"zhang2024_table{n}") for n in (5, 7))
metrics_in_print = tables.groupby(["metric", "model"])["mean"].first()


def chart(metric, xlabel, log=False):
    published = {name: metrics_in_print[metric, model] for name, model in full.items()}
    names = {
        name: metric + keys for name, keys in rows.items() if metric + keys in mine
    }
    return plots.evidence(
        kept, mine, names, xlabel=xlabel, published=published, log=log
    )


chart("lpips", "LPIPS, smaller is nearer", log=True)

# %%
chart("mse", "MSE of normalised images", log=True)

# %% [markdown]
# ## A sixth of the way
#
# ### Predict

# %%
guess = widgets.predict("The Swin's PSNR after a sixth of the steps:", 5, 40, "dB")
guess

# %%
early = {"Swin, a sixth": "psnr[cifar10, swin, a_sixth]", "Swin": "psnr[cifar10, swin]"}
early |= {"ResNet, a sixth": "psnr[cifar10, resnet, a_sixth]"}
early |= {"ResNet": "psnr[cifar10, resnet]"}
plots.evidence(kept, mine, early, xlabel="PSNR in dB")

# %%
shown = kept or mine  # the committed evidence, where there is some
guess.against(round(shown.mean("psnr[cifar10, swin, a_sixth]"), 1))

# %% [markdown]
# The paper shows its Swins recognisable after 500 of 3,000 steps (Figure 5b). At `class` (your triangles) the attack is `annealed`. It begins with a large regularisation weight, so its picture is still coarse at a sixth of the way. The
# paper's attack, the dots, already has details there.

# %% [markdown]
# ## A larger pair, and ImageNet
#
# Table 5 has a larger pair too, ResNet-101 and Swin-S. Figure 5c repeats the attack on photographs of ImageNet, 224 x 224 here. On a CPU a
# search at 224 pixels takes hours. So ImageNet is measured at `gpu`, and the larger pair at `night`. Below that the same lines run small networks for a few steps, to try the code.

# %%
larger = experiments.load("gradient_inversion.larger_networks")
tried = experiments.run("gradient_inversion.larger_networks", profile, device=device)
pair = {"ResNet-101": "psnr[cifar10, resnet_101]", "Swin-S": "psnr[cifar10, swin_s]"}
published = {model: metrics_in_print["psnr", model] for model in pair}
pair |= {"mean photograph": "psnr[cifar10, larger_networks, mean_photograph]"}
plots.evidence(larger, tried, pair, xlabel="PSNR in dB", published=published)

# %%
imagenet = experiments.load("gradient_inversion.imagenet")
tried_imagenet = experiments.run("gradient_inversion.imagenet", profile, device=device)
four = {"ResNet-50": "resnet", "Swin-T": "swin", "ResNet-101": "resnet_101"}
four |= {"Swin-S": "swin_s", "mean photograph": "mean_photograph"}
names = {label: f"psnr[imagenet, {key}]" for label, key in four.items()}
plots.evidence(imagenet, tried_imagenet, names, xlabel="PSNR in dB")

# %%
text(
    "Committed so far: {} repeats of the larger pair at `{}`, and {} of ImageNet at "
    "`{}`. Your own dots stand for {}.",
    len(larger),
    larger.size,
    len(imagenet),
    imagenet.size,
    tried.stands_for,
)

# %% [markdown]
# ## What the paper does not say, and what we did
#
# - **Size and steps.** At `class` the victims are small and the attack is `annealed`. `night` and `gpu` have the paper's networks, as we read it.
# - **The attack.** Table 1 names the cost, Adam, the rate, the steps and the regularisation weight. The sign, the falling step length and the box are those of
#   Inverting Gradients.
# - **Fresh weights, evaluation mode.** The paper states neither. The ledger notes both beside every number.
# - **Stochastic depth is off.** timm's Swin would skip blocks at random in `train` mode. No attacker can match the gradient of unknown blocks.
# - **The photographs** come from CIFAR-10's test split, one for each repeat. The paper does not say which it used.

# %% [markdown]
# ## The answer
#
# The charts above say at which size the evidence stands, and the ledger of [lab 04](../04_gradient_inversion.ipynb) says whether it decides the
# paper's claims. A claim on ResNet-50 is not decided by a small ResNet.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 4.4, Table 5 and Figure 5. Lab 09 goes from ResNet-50 to ConvNeXt-T in fourteen steps.
