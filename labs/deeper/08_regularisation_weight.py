# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08, deeper · Is it a ranking of parts, or of weights?
#
# You come from [lab 08](../08_tracing_the_source.ipynb). There every part was attacked with the same regularisation weight. The parts differ in how much
# they change with the image. So is the same weight the same for all?
#
# After this notebook you can
# - say why one weight for all parts is a choice;
# - read a ranking together with the weight that it was made with.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 1.5 | 1.2 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 20 minutes. You need* lab 08.

# %%
from privlab import compute, experiments
from privlab.notebook import plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
kept = experiments.load("tracing_the_source.parts")
mine = experiments.run("tracing_the_source.parts", profile, device=device)
shown = kept or mine
parts = ("all", "stem", "attention", "mlp", "norm", "head")

# %% [markdown]
# ## A tenth of the weight
#
# The search minimises a distance between gradients plus a weight times the total variation of the image. Where the distance changes little with the image, the same
# weight makes the image smoother. So we divide the weight by ten, and repeat all searches.
#
# ### Predict

# %%
guess = widgets.choose(
    "With a tenth of the weight, which gradients give the best image?", parts
)
guess

# %%
ENDS = {"the same weight": "", "a tenth of it": ", tenth_weight"}
cells = [
    [shown.mean(f"psnr[{part}_layers{end}]") for end in ENDS.values()] for part in parts
]
spoken = [f"{p} {a:.1f} and {b:.1f}" for p, (a, b) in zip(parts, cells, strict=True)]
plots.heat(
    cells, rows=[*parts], columns=[*ENDS], xlabel="regularisation weight",
    ylabel="gradients seen", unit="mean PSNR in dB",
    alt=f"Mean PSNR in dB at the weight and at a tenth of it: {'; '.join(spoken)}.",
)  # fmt: skip

# %%
tenth = {part: row[1] for part, row in zip(parts, cells, strict=True)}
guess.against(max(tenth, key=tenth.get))

# %%
rows = {part: f"psnr[{part}_layers, tenth_weight]" for part in parts}
rows |= {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB, a tenth of the weight")

# %%
order = "psnr[attention_layers{0}] - psnr[mlp_layers{0}]"
text(
    "At the first weight the attention is {:+.1f} dB ahead of the MLP on average, and "
    "at a tenth of it {:+.1f} dB. At the first weight neither picture comes back: "
    "{:.1f} and {:.1f} dB, where the mean photograph has {:.1f} dB.",
    *(shown.mean(order.format(end)) for end in ENDS.values()),
    *(shown.mean(f"psnr[{part}_layers]") for part in ("attention", "mlp")),
    shown.mean("psnr[mean_photograph]"),
)

# %% [markdown]
# ## The better of two weights
#
# An attacker may choose the weight for each part. Let each part have the better of the two, photograph by photograph:

# %%
pairs = {
    part: [shown[f"psnr[{part}_layers{end}]"] for end in ENDS.values()]
    for part in parts
}
for part, (one, other) in pairs.items():
    print(f"{part:>9}: {one.clip(min=other).mean():.1f} dB")

# %% [markdown]
# This takes the better image by a look at the photograph, which an attacker does not have. It shows what the choice of a weight can bring at least: some parts may want a
# *higher* one.
#
# ## Read on
#
# Lab 09 meets the same question between fourteen networks: is one weight the same for all?
