# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08, deeper · Do later blocks tell more?
#
# You come from [lab 08](../08_tracing_the_source.ipynb). Hatamizadeh et al. withhold gradients from GradViT, which attacks batches behind a *trained* ViT-B/16. They find
# that later blocks tell more than early ones, and attention more than the MLP. Does that hold here?
#
# After this notebook you can
# - choose gradients by depth and by kind, by their names;
# - say which settings of an attack a ranking depends on.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.2 GB |
# | class | 1.5 | 1.2 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 35 minutes. You need* lab 08, and what GradViT is (lab 07).

# %%
from privlab import compute, experiments, ledger, models
from privlab.notebook import checks, plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
model = models.build("vit_cifar", embed_dim=224, depth=3, seed=seed)
rows = ("all", "without_first", "without_middle", "without_last", "attention", "mlp")

# %% [markdown]
# ## By name
#
# Gradients are chosen by name, never by position. Here are some names of a block:

# %%
print(", ".join(models.parts.depth(model, 1, 1)))

# %% [markdown]
# ### Exercise 1: names *(difficulty 2, 10 minutes)*
#
# Write `attention_weights(names, first, last)`. Of a list of parameter names, it returns those of the *weights* (no biases) of attention in blocks `first` to `last`. Blocks are
# counted from 1 and both ends are included, as in the papers.
#
# <details><summary>Hint</summary>Split a name at its dots. What would a search for "blocks.1" find in a network of twelve blocks?</details>


# %% tags=["exercise"]
def attention_weights(names, first, last): ...


# %% tags=["solution"]
def attention_weights(names, first, last):
    chosen = []
    for name in names:
        kind, *rest = name.split(".")
        inside = kind == "blocks" and first <= int(rest[0]) + 1 <= last
        if inside and rest[1] == "attn" and rest[-1] == "weight":
            chosen.append(name)
    return chosen


# %%
checks.verify("08.select", attention_weights)

# %% [markdown]
# ## Three settings
#
# GradViT sums the *norms* of the differences, layer by layer, and not their squares. So a tensor with small gradients counts as well. We divide by the sum of
# the norms that the client sent. The networks: a fresh one, and one that has learned a little.

# %% [markdown]
# ### Predict
#
# The network is trained, and the distance is GradViT's.

# %%
guess = widgets.predict(
    "How many dB less without the last third than without the first?", -5, 5, "dB"
)
guess

# %%
kept = experiments.load("tracing_the_source.depth")
mine = experiments.run("tracing_the_source.depth", profile, device=device)
shown = kept or mine
settings = {"fresh, cosine": "fresh_cosine", "trained, cosine": "trained_cosine"}
settings |= {"trained, layer norms": "trained_layer_norms"}
cells = [[shown.mean(f"psnr[{s}, {row}]") for s in settings.values()] for row in rows]
names = [row.replace("_", " ") for row in rows]
spoken = [
    f"{name} {', '.join(f'{x:.1f}' for x in row)}"
    for name, row in zip(names, cells, strict=True)
]
plots.heat(
    cells, rows=names, columns=[*settings], xlabel="network and distance",
    ylabel="gradients seen", unit="mean PSNR in dB",
    alt=f"Mean PSNR in dB for {', '.join(settings)}: {'; '.join(spoken)}.",
)  # fmt: skip

# %%
late = "psnr[trained_layer_norms, without_first] - "
late += "psnr[trained_layer_norms, without_last]"
guess.against(round(shown.mean(late), 2))

# %%
over = "psnr[{0}, attention] - psnr[{0}, mlp]"
ahead = {name: shown.mean(over.format(key)) for name, key in settings.items()}
text(
    "The baseline, the mean photograph, has {:.1f} dB. Attention less MLP, ± standard "
    "deviation: {}.",
    shown.mean("psnr[depth, mean_photograph]"),
    "; ".join(
        f"{name} {value:+.1f} ± {shown.spread(over.format(settings[name])):.1f} dB"
        for name, value in ahead.items()
    ),
)

# %% [markdown]
# Read the columns against each other. "Attention leaks most" needs four words beside it: how many steps, which regularisation weight, which distance, and how far the network
# is trained.

# %% [markdown]
# ## GradViT itself
#
# The experiment of lab 07 runs GradViT, except for its registration, on batches of two and a small trained ViT. Here are its images without some gradients. The
# numbers of the paper are for a batch of eight and a ViT-B/16.

# %%
gradvit = experiments.load("layer_gradients.depth_and_components")
depth = ledger.papers.table("hatamizadeh2022_table4").query("metric == 'psnr'")
kinds = ledger.papers.table("hatamizadeh2022_table5").query("metric == 'psnr'")
printed = depth.set_index("layers_removed")["mean"].rename(
    {"none": "all", "1-4": "without first", "5-8": "without middle"}
    | {"9-12": "without last"}
)
printed = dict(printed) | {
    kind.removesuffix(" only").lower(): mean
    for kind, mean in zip(kinds["components"], kinds["mean"], strict=True)
}

# %%
where = {
    row.replace("_", " "): f"psnr[trained, {row}, std_1]"
    for row in (*rows[:4], "msa", "mlp")
}
where |= {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(gradvit, None, where, xlabel="PSNR in dB, GradViT", published=printed)

# %% [markdown]
# The dots belong to one position embedding, of standard deviation 1. The verdicts on both embeddings, and on two other metrics, are at the end of lab 08. Compare the dots with the
# mean photograph before you compare them with each other. At `night` no row is above it, so the ledger tests none of the paper's orders.

# %% [markdown]
# ## What may a client withhold?
#
# The client keeps back the stem and the whole first block, and with them all that the closed forms read.
#
# ### Predict

# %%
withheld = widgets.predict("How many dB does the search lose?", -3, 6, "dB")
withheld

# %%
left = {"all gradients": "psnr[fresh_cosine, all]"}
left |= {"without stem and first block": "psnr[fresh_cosine, withheld]"}
left |= {"mean photograph": "psnr[depth, mean_photograph]"}
plots.evidence(kept, mine, left, xlabel="PSNR in dB, fresh network")

# %%
lost = "psnr[fresh_cosine, all] - psnr[fresh_cosine, withheld]"
withheld.against(round(shown.mean(lost), 2))

# %% [markdown]
# ## What is different here
#
# Tables 4 and 5 have batches of 8 photographs of ImageNet, a trained ViT-B/16, and an image prior. The experiment of the three settings has one image, a ViT of three blocks, no prior, and takes from GradViT the distance
# alone. So it does not refute the paper's tables, and it cannot test their order either.

# %% [markdown]
# ## Read on
#
# Hatamizadeh et al. 2022, section 6.4. Lab 07 has GradViT and its prior.
