# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 04, deeper · What else decides, beside the architecture?
#
# You come from [lab 04](../04_gradient_inversion.ipynb). There all networks had fresh weights and ran in evaluation mode. A real client trains a network that has learned
# something, and trains it in `train` mode. Papers seldom say which they attacked. Does it matter?
#
# After this notebook you can
# - say what BatchNorm hides from an attacker in either of its modes;
# - check whether a gradient is zero because of how the weights were drawn;
# - say what training changes for the attacker.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.6 GB |
# | class | 1.5 | 1.6 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 45 minutes. You need* lab 04, and what BatchNorm computes.

# %%
from privlab import compute, data, experiments, models
from privlab.leak import observe
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
photo, label = data.load("cifar10_samples").one(0)

# %% [markdown]
# ## What a BatchNorm hides
#
# A BatchNorm subtracts a mean from each channel and divides by a standard deviation. In `train` mode it computes both from the batch, over all images
# and all pixels. So it cannot tell some inputs apart.

# %% [markdown]
# ### Exercise 1: what does a BatchNorm hide? *(difficulty 2, 15 minutes)*
#
# Write `twin(x)`: given a map $x$ (batch, channels, height, width), return another map that differs from $x$ by more than a little, and of which a fresh
# `torch.nn.BatchNorm2d` in `train` mode makes the same output (up to 0.001).
#
# <details><summary>Hint</summary>Each channel becomes (x - mean) / root(variance + eps). What could you do to x that changes the mean and
# the variance in the same way?</details>


# %% tags=["exercise"]
def twin(x): ...


# %% tags=["solution"]
def twin(x):
    return (
        3 * x + 7
    )  # for each channel, any positive factor that is not tiny, and any shift


# %%
checks.verify("04.batchnorm", twin)

# %% [markdown]
# ### Exercise 2: and in evaluation mode? *(difficulty 1, 10 minutes)*
#
# In `eval` mode the norm uses its **running** mean and variance, which it gathered in training. By what factor, to seven digits, does a fresh
# `BatchNorm2d` in `eval` mode multiply its input?
#
# <details><summary>Hint</summary>Look at <code>running_mean</code>, <code>running_var</code>, <code>weight</code>, <code>bias</code> and
# <code>eps</code> of <code>torch.nn.BatchNorm2d(1)</code>.</details>

# %% tags=["exercise"]
factor_in_eval_mode = ...

# %% tags=["solution"]
factor_in_eval_mode = 1 / (1 + 1e-5) ** 0.5

# %%
checks.verify("04.eval_scale", factor_in_eval_mode)

# %% [markdown]
# An attack on a *fresh* CNN in `eval` mode is therefore almost an attack on a CNN without a norm. Many attacks are run like this, because `train` mode fails on
# some networks when the batch has one image. A *LayerNorm* has no modes. So a comparison of the two norms is in part a comparison of modes, and every figure of this book names the mode.

# %% [markdown]
# ## What the network has learned
#
# A client of a running federation has a trained network. The experiment trains a ResNet and a Swin for a few epochs, and attacks both before and after.

# %%
trained = widgets.predict(
    "Swin: PSNR after training minus PSNR before:", low=-10, high=10, unit="dB"
)
trained

# %%
name = "gradient_inversion.trained_victims"
kept_trained = experiments.load(name)
mine_trained = experiments.run(name, profile, device=device)
rows = {
    f"{network}, {state}": f"psnr[{network.lower()}, {state}]"
    for network in ("ResNet", "Swin")
    for state in ("fresh", "trained")
}
rows |= {"mean photograph": "psnr[trained_victims, mean_photograph]"}
plots.evidence(kept_trained, mine_trained, rows, xlabel="PSNR in dB")

# %%
shown = kept_trained or mine_trained
trained.against(shown.mean("psnr[swin, trained] - psnr[swin, fresh]"))

# %% [markdown]
# ## Weights that begin at zero
#
# A block of a ResNet adds the output of its layers, the *residual branch*, to its input. timm multiplies the end of each branch by a weight that
# begins at zero (`zero_init_last`). How much of the gradient is zero because of it?


# %%
def zeros(network):
    sent = observe(network, photo, label).grads.values()
    zero = sum(gradient.numel() for gradient in sent if not gradient.any())
    return zero / sum(gradient.numel() for gradient in sent)


small = zeros(models.build("resnet_cifar", num_classes=10, seed=seed))
print(f"small ResNet: {small:.0%} of the gradient is zero")
print(f"ResNet-50: {zeros(models.build('resnet50_cifar', seed=seed)):.0%}")

# %% [markdown]
# ### Predict
#
# Which of these two choices explains why the ResNet kept its photograph in lab 04?

# %%
guess = widgets.choose(
    "The search recovers clearly more, if one changes",
    ["the mode to train", "the weights that begin at zero", "neither"],
)
guess

# %%
name = "gradient_inversion.first_weights_and_mode"
kept = experiments.load(name)
mine = experiments.run(name, profile, device=device)
variants = {"eval mode": "eval", "train mode": "train", "no zeros": "plain_init"}
rows = {
    f"ResNet, {label}": f"psnr[resnet, variant_{k}]" for label, k in variants.items()
}
rows |= {"Swin, eval mode": "psnr[swin, variant_eval]"}
rows |= {"mean photograph": "psnr[resnet, mean_photograph]"}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB")

# %%
shown = kept or mine  # the committed evidence, where there is some
gains = {
    "the mode to train": "psnr[resnet, variant_train] - psnr[resnet, variant_eval]",
    "the weights that begin at zero": "psnr[resnet, variant_plain_init]"
    " - psnr[resnet, variant_eval]",
}
guess.against(
    [said for said, gain in gains.items() if shown.mean(gain) > 3] or "neither"
)

# %% [markdown] tags=["printed"]
# (We count a gain of more than 3 dB, a halved squared error, as clear.)

# %% [markdown]
# ## The answer
#
# Mode, first weights and training are choices of the one who sets up the training or the experiment. A figure that does not name them cannot be compared with another. The ledger at the end of
# [lab 04](../04_gradient_inversion.ipynb) has our claims on all three, and their verdicts.

# %% [markdown]
# ## Read on
#
# Deeper notebooks of lab 10 compare norms in both modes, and one of lab 06 attacks trained ViTs.
