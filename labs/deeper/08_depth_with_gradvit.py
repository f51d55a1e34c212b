# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08, deeper · Does a ranking of gradients hold for other attacks?
#
# You come from [lab 08](../08_tracing_the_source.ipynb), which attacked single parts of a fresh ViT with one regularisation weight. Zhang et al. rank the
# parts by kind. Hatamizadeh et al. rank them by depth and by kind, for GradViT, a trained ViT-B/16 and a batch. They find that later blocks tell more
# than early ones, and attention more than the MLP. Do these rankings hold with another weight, another distance, or a trained network?
#
# After this notebook you can
# - choose gradients by depth and by kind, by their names;
# - say which settings of an attack a ranking depends on.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.6 | 1.2 GB |
# | class | 3 | 1.2 GB |
#
# (Estimated on two CPU cores.)

# %% [markdown]
# *About 45 minutes. You need* lab 08, and what GradViT is (lab 07).

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
selections = (
    "all",
    "without_first",
    "without_middle",
    "without_last",
    "attention",
    "mlp",
)

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
# ## By kind, and by weight
#
# Zhang et al., Table 6 attacks one kind of layer at a time, with one regularisation weight. The search minimises the distance between the gradients plus
# this weight times the total variation of the image. If the distance of a part changes little with the image, the same weight makes the image smoother. So we
# divide the weight by ten, and repeat all searches.
#
# ### Predict

# %%
parts = ("all", "stem", "attention", "mlp", "norm", "head")
best = widgets.choose("With a tenth of the weight, which gives the best image?", parts)
best

# %%
kept_parts = experiments.load("tracing_the_source.parts")
my_parts = experiments.run("tracing_the_source.parts", profile, device=device)
ENDS = {"one weight": "", "a tenth of it": ", tenth_weight"}
rows = {f"{p}, {w}": f"psnr[{p}_layers{end}]" for p in parts for w, end in ENDS.items()}
rows |= {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(kept_parts, my_parts, rows, xlabel="PSNR in dB")

# %%
shown = kept_parts or my_parts
tenth = {part: shown.mean(f"psnr[{part}_layers, tenth_weight]") for part in parts}
best.against(max(tenth, key=tenth.get))

# %%
order = "psnr[attention_layers{0}] - psnr[mlp_layers{0}]"
text(
    "At one weight the attention is {:+.1f} dB ahead of the MLP on average, and at a "
    "tenth of it {:+.1f} dB. At one weight the images of the two reach {:.1f} and "
    "{:.1f} dB, where the mean photograph has {:.1f} dB.",
    *(shown.mean(order.format(end)) for end in ENDS.values()),
    *(shown.mean(f"psnr[{part}_layers]") for part in ("attention", "mlp")),
    shown.mean("psnr[mean_photograph]"),
)

# %% [markdown]
# An attacker may choose a weight for each part. They can choose it on a photograph of their own, whose gradient they compute with the same network. The next
# chart has a larger ViT and three weights for each part: the best one, which only a look at the client's photograph finds, and the attacker's choice.

# %%
kept_best = experiments.load("tracing_the_source.best_weights")
my_best = experiments.run("tracing_the_source.best_weights", profile, device=device)
ways = {"one weight": "", "best": ", best_weight", "chosen": ", chosen_weight"}
pair = ("attention", "mlp")
rows = {
    f"{p}, {way}": f"psnr[{p}_layers{end}]" for p in pair for way, end in ways.items()
}
rows |= {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(kept_best, my_best, rows, xlabel="PSNR in dB")

# %%
text(
    "The committed evidence has {} repeats of this chart so far. They stand for {}.",
    len(kept_best),
    kept_best.stands_for,
)

# %% [markdown]
# ## By depth, and by setting
#
# GradViT, Table 4 leaves out one third of the blocks at a time, and GradViT, Table 5 takes the attention or the MLP alone. Here are both in a small ViT, with three settings. GradViT sums the *norms* of the differences, layer by layer, and not their squares. So a tensor with small gradients counts as well. We divide by the sum of
# the norms that the client sent. The first setting has a fresh network, the other two one that has learned a little.
#
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
cells = [
    [shown.mean(f"psnr[{s}, {row}]") for s in settings.values()] for row in selections
]
names = [row.replace("_", " ") for row in selections]
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
# Compare the columns with each other. A report that says "attention leaks most" must add four things: the number of steps, the regularisation weight, the
# distance, and how far the network is trained.

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
    for row in (*selections[:4], "msa", "mlp")
}
where |= {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(gradvit, None, where, xlabel="PSNR in dB, GradViT", published=printed)

# %% [markdown]
# The dots belong to a position embedding of standard deviation 1. The verdicts on this embedding and on a smaller one are at the end of lab 08. Compare the
# dots with the mean photograph before you compare them with each other. An order among attacks that do not beat it says nothing, so the ledger tests none.

# %% [markdown]
# ## What may a client withhold?
#
# The client withholds the gradients of the stem and of the whole first block. The closed forms read nothing else.
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
# GradViT, Table 4 and GradViT, Table 5 have batches of 8 photographs of ImageNet, a trained ViT-B/16, and an image prior. Our three settings have one image
# and a ViT of three blocks without a prior, and take only the distance from GradViT. So they do not refute the paper's tables.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 5.1; Hatamizadeh et al. 2022, section 6.4. Lab 07 has GradViT and its prior. Lab 09 asks between fourteen networks: is one weight fair to all?
