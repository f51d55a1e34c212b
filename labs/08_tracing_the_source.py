# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08 · Which gradients leak?
#
# A client sends a gradient for every parameter of the network. Two papers attack with some of these gradients only, and rank the parts.
# If one part leaks most, a client could withhold this part and send the rest. Would the photograph be safe?
#
# After this lab you can
# - divide a gradient into parts, and attack each part alone;
# - say what a ranking of parts measures: the gradients, or the attack;
# - black out parts of an update within a budget, and say what that protects against.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.5 | 1.2 GB |
# | class | 1.1 | 1.2 GB |
#
# (Measured on two CPU cores. `night` and `gpu` measure larger networks, for hours, and continue where they were stopped.)

# %% [markdown]
# *About 65 minutes. You need* lab 04 (a search) and lab 05 (closed forms). *New words*: **stem**, **redaction**.

# %%
from dataclasses import replace
from functools import cache

from privlab import compute, data, experiments, ledger, metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import closed_form
from privlab.course.lab_08 import redaction
from privlab.leak import observe
from privlab.notebook import checks, drawings, plots, text, widgets

from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
quick = profile == "smoke"  # fewer steps, to try the code
photos = data.load("cifar10_samples")
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
shape = dict(embed_dim=224, depth=3, position_std=1.0, seed=seed)
model = models.build("vit_cifar", **shape)
model.normalise = photos.normalise
model = model.to(device)
leak = observe(model, photo, label)

# %% [markdown]
# ## Five parts
#
# The client's network is a small ViT with fresh random weights: three blocks of width 224. Its position embedding has a standard deviation of 1,
# since a search finds little behind a small one (lab 04). A gradient has a name, the name of its parameter. So we can sort all gradients into the five parts of
# Zhang et al., Figure 6 (there a part is a *module*, and the tensor of one parameter is a *layer*):
#
# - the **stem** turns pixels into tokens: patch embedding, class token and position embedding (marked in the drawing);
# - each block has *attention*, an *MLP*, and a *norm* in front of each of the two;
# - the *head* is the final norm and the classifier.

# %%
drawings.show("00.vit")

# %% [markdown]
# ### Predict
#
# The photograph has 32 x 32 pixels in three colours, so 3,072 numbers. Which parts of the gradient have *fewer* numbers than this? You may tick more than
# one.

# %%
PARTS = ("stem", "attention", "mlp", "norm", "head")
few = widgets.choose("Fewer than 3,072 numbers:", PARTS, many=True)
few

# %%
parts = models.parts.group(model)  # part -> names of its parameters
numbers = {name: leak[name].numel() for name in leak.grads}
size = {part: sum(numbers[name] for name in parts[part]) for part in parts}
display(few.against([part for part, count in size.items() if count < 3072]))
table = ledger.papers.table("zhang2024_table6").query("metric == 'psnr'")
text(
    "The update has {:,} numbers. Stem {stem:,}, attention {attention:,}, MLP {mlp:,}, "
    "norm {norm:,}, head {head:,}. In this order these are {} tensors; in the paper's "
    "ViT-B they are {}.",
    sum(size.values()),
    ", ".join(str(len(parts[part])) for part in PARTS),
    ", ".join(map(str, table["n_layers"][1:])),
    **size,
)

# %% [markdown]
# ## One part at a time
#
# Some parts have fewer numbers than the photograph. Can a search find it there? Withhold everything except one part, and search.
#
# It is the search of lab 04, with two changes: a better optimiser (L-BFGS), and another distance. This one compares each tensor by itself, in units of its own length.

# %%
steps = 2 if quick else 8
search = gradient_inversion.quasi_newton(steps, (0.02, 1e-4))
search = replace(search, derivative="auto")


@cache
def searched(names):  # the names of what is sent -> what the search finds
    result = search.run(model, leak.only(names), seed=seed, snapshots=0, progress=False)
    return result.images.cpu()


drawings.show("08.client_and_server")

# %% [markdown]
# ### Predict
#
# You attack six times: with all gradients, and with each part alone. Which attack ends with the best image? (We compare by SSIM, see lab 04.)

# %%
best_part = widgets.choose("The best image comes from", ["all", *parts])
best_part

# %%
groups = {"all": [*leak.grads], **parts}
found = {part: searched(frozenset(names)) for part, names in groups.items()}
ssim = {part: metrics.ssim(image, photo).item() for part, image in found.items()}
db = {part: metrics.psnr(image, photo).item() for part, image in found.items()}
titles = [f"{part}: {db[part]:.0f} dB, SSIM {ssim[part]:.2f}" for part in found]
alt = f"The photograph, and what a search finds in: {'; '.join(titles)}."
images = (photo, *found.values())
display(plots.side_by_side(*images, titles=["photograph", *titles], alt=alt))
best_part.against(max(ssim, key=ssim.get))

# %% [markdown]
# Is that luck? The experiment has other photographs, each behind new random weights. Its search is a shorter form of Zhang et al.'s: it compares all gradients that are sent
# by one cosine. At this size it takes too few steps for a good image. The *baseline* is the mean of other photographs. The paper's numbers (Zhang et al., Table 6) are of a ViT-B, after 3,000 steps. GradViT, Table 5 has attention alone and MLPs alone, by another search.

# %%
kept = experiments.load("tracing_the_source.parts")
mine = experiments.run("tracing_the_source.parts", profile, device=device)
shown = kept or mine
named = zip(table["layers"], table["mean"], strict=True)
printed = {layers.split()[0].lower(): mean for layers, mean in named}
by_part = {part: f"psnr[{part}_layers]" for part in ("all", *parts)}
rows = by_part | {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(kept, mine, rows, xlabel="PSNR in dB, by search", published=printed)

# %%
gap = "psnr[stem_layers] - psnr[all_layers]"
apart = {p: shown.mean(f"{by_part[p]} - {by_part['all']}") for p in parts}
first, *others = sorted(apart, key=apart.get, reverse=True)
lead = shown.mean(f"{by_part[first]} - {rows['mean photograph']}")
text(
    "The experiment's search finds more in the stem alone than in all gradients on {} "
    "of {} photographs; the mean difference is {:+.1f} dB. In the paper it is {:+.1f} "
    "dB. With your stronger search, on your photograph, it is {:+.1f} dB. The paper's "
    "order is {}, so it concludes that attention leaks more than MLP, norm and head. "
    "The experiment's order is {}, {}. The first of these is {:+.1f} dB from the mean "
    "photograph. The nearer this is to 0, the less the order says. For your search the "
    "order is {}, by SSIM.",
    kept.above(gap, 0),
    len(kept),
    shown.mean(gap),
    printed["stem"] - printed["all"],
    db["stem"] - db["all"],
    ", ".join(sorted(parts, key=printed.get, reverse=True)),
    first,
    ", ".join(others),
    lead,
    ", ".join(sorted(ssim, key=ssim.get, reverse=True)),
)

# %% [markdown]
# It is strange that one part gives a better image than all gradients. All gradients *contain* those of the part. An attacker with all gradients can ignore the
# rest. So such a ranking does not say how much of the photograph a part contains.
#
# ### Exercise 1: a use for the head *(difficulty 1, 5 minutes)*
#
# In the paper's ranking the head comes last. Is it harmless? The search was *given* the label of the photograph. For one image, which parameters' gradients determine the
# label with certainty, in the *fewest* numbers? Give a set of names, such as `{"cls_token"}`; `sorted(leak.grads)` lists all.
#
# <details><summary>Hint</summary>The gradient of the class scores is p - y: the probabilities, minus a one for the true class. So only the true class has a number below zero.
# Which parameter is added to the scores, and gets this gradient as it is?</details>

# %% tags=["exercise"]
tells_label = ...

# %% tags=["solution"]
tells_label = {"head.bias"}

# %%
checks.verify("08.label", tells_label)

# %% [markdown]
# ## Algebra on the same parts
#
# A search is one attack. Lab 05 has two others, which solve linear equations: `patch_embedding` works with the stem alone, and `subspace` with the attention
# of the first block alone. We know of no closed form for the other parts.
#
# ### Predict

# %%
solved_stem = widgets.predict(
    "What does the closed form recover from the stem alone?", 0, 160, "dB"
)
solved_stem

# %%
forms = {"patch_embedding": "stem", "subspace": "attention"}


@cache
def solved(form, names):  # None where a gradient is missing that the form needs
    try:
        image = getattr(closed_form, form)(model, leak.only(names)).clamped
    except ValueError:
        return None
    return image.cpu()


exact = {part: solved(form, frozenset(parts[part])) for form, part in forms.items()}
decibels = {part: metrics.psnr(image, photo).item() for part, image in exact.items()}
titles = [f"{part}: {value:.0f} dB" for part, value in decibels.items()]
alt = f"What two closed forms recover from one part each: {'; '.join(titles)}."
display(plots.side_by_side(*exact.values(), titles=titles, alt=alt))
solved_stem.against(round(decibels["stem"], 1))

# %%
algebra = {part: f"psnr[{part}_closed_form]" for part in ("stem", "attention")}
plots.evidence(kept, mine, algebra, xlabel="PSNR in dB, by linear equations")

# %% [markdown]
# ### Exercise 2: what is the least? *(difficulty 2, 10 minutes)*
#
# Which *parameters'* gradients are enough for a closed form to find the photograph, with the fewest numbers in them? Give a set of names. (The check tries
# them on a network of the same width.)
#
# <details><summary>Hint</summary>There are two forms. Lab 05 derives what each of them reads. Count: <code>leak[name].numel()</code>.</details>

# %% tags=["exercise"]
least = ...

# %% tags=["solution"]
least = {"pos_embed", "patch_embed.proj.weight"}

# %%
checks.verify("08.fewest", least)

# %% [markdown]
# ## Why does the whole do worse than a part?
#
# The search of the paper compares by a cosine: it takes all gradients as one long vector. The share of a part in the *squared length* of this vector says how
# much the part counts in the cosine.
#
# ### Predict

# %%
longest = widgets.choose("Which part has the largest share?", [*parts])
longest

# %% [markdown]
# ### Exercise 3: whose length is it? *(difficulty 2, 10 minutes)*
#
# Write `shares(grads, groups)`. It returns a dict: part -> its share of the squared length of the whole gradient. `grads` is a dict of name -> tensor, and `groups` of part ->
# names.
#
# <details><summary>Hint</summary>Why squares? Lengths do not add up, their squares do.</details>


# %% tags=["exercise"]
def shares(grads, groups): ...


# %% tags=["solution"]
def shares(grads, groups):
    squares = {name: g.square().sum().item() for name, g in grads.items()}
    total = sum(squares.values())
    return {
        part: sum(squares[name] for name in names) / total
        for part, names in groups.items()
    }


# %%
checks.verify("08.share", shares)

# %%
own = shares(leak.grads, parts) or {}  # once you have written it
print(", ".join(f"{part} {share:.1%}" for part, share in own.items()))
shared = {part: f"share_of_square[{part}]" for part in parts}
display(plots.evidence(kept, mine, shared, xlabel="share of the squared length"))
means = {part: shown.mean(name) for part, name in shared.items()}
longest.against(max(means, key=means.get))

# %% [markdown]
# So one part dominates the cosine, and this part has fewer numbers than the photograph. An attacker can mend this. In the *balanced* search each part is first scaled to the same
# length. Steps and regularisation weight stay the same. (Your own search already scales each tensor in a similar way.)

# %%
balance = {"all": "psnr[all_layers]", "all, balanced": "psnr[balanced]"}
balance |= {"stem": "psnr[stem_layers]", "mean photograph": "psnr[mean_photograph]"}
display(plots.evidence(kept, mine, balance, xlabel="PSNR in dB, by search"))
mended = "psnr[balanced] - psnr[all_layers]"
text(
    "With the parts balanced, the same search finds more in the same gradients on {} "
    "of {} photographs. On average it gains {:+.1f} dB.",
    kept.above(mended, 0),
    len(kept),
    shown.mean(mended),
)

# %% [markdown]
# So the ranking depends on how the attack weighs the parts. It also depends on the regularisation weight, because parts change by different amounts with the image. [A deeper notebook](deeper/08_depth_with_gradvit.ipynb) repeats these searches with other weights.
#
# ## Withhold a third
#
# Hatamizadeh et al. ask the same question by depth (GradViT, Table 4). The attacker gets all gradients except those of the first, the middle or the last third of the blocks.
# The attack below is not GradViT: it is a search by cosine, for one photograph behind a fresh network, of 60 steps. (Your run does not repeat this experiment, so its chart has no triangle.)
#
# ### Predict

# %%
NONE = "none of them costs 1 dB"
thirds = ["first", "middle", "last"]
missed = widgets.choose("Which third does a search miss most?", [*thirds, NONE])
missed

# %%
deep = experiments.load("tracing_the_source.depth")
without = {f"without the {t}": f"psnr[fresh_cosine, without_{t}]" for t in thirds}
alone = {f"the {t} alone": f"psnr[fresh_cosine, only_{t}]" for t in thirds}
every = {"all": "psnr[fresh_cosine, all]"}
base = {"mean photograph": "psnr[depth, mean_photograph]"}
rows = every | without | alone | base
display(plots.evidence(deep, None, rows, xlabel="PSNR in dB, by search"))
lost = {t: deep.mean(f"{every['all']} - {without[f'without the {t}']}") for t in thirds}
worst = max(lost, key=lost.get)
missed.against(worst if lost[worst] >= 1 else NONE)

# %% [markdown]
# That search is short. Your own search is stronger. Here it gets the gradients of a *single* third, which is a single block:

# %%
blocks = {f"block {k}": models.parts.depth(model, k, k) for k in (1, 2, 3)}
single = {name: searched(frozenset(names)) for name, names in blocks.items()}
like = {name: metrics.ssim(image, photo).item() for name, image in single.items()}
titles = [f"{name} alone: SSIM {value:.2f}" for name, value in like.items()]
alt = f"The photograph, and what a search finds in one block: {'; '.join(titles)}."
images = (photo, *single.values())
display(plots.side_by_side(*images, titles=["photograph", *titles], alt=alt))
table = ledger.papers.table("hatamizadeh2022_table4").query("metric == 'psnr'")
depths = table.set_index("layers_removed")["mean"]
text(
    "Without a third the experiment's search loses, on average, at most {:.1f} of the "
    "{:.1f} dB that it has above the mean photograph. The paper reports a loss of "
    "{:.1f} dB without the last third, for GradViT, a trained ViT-B and a batch. From "
    "one block alone, your search reached an SSIM of {:.2f} to {:.2f}.",
    lost[worst],
    deep.mean(f"{every['all']} - {base['mean photograph']}"),
    depths["none"] - depths["9-12"],
    min(like.values()),
    max(like.values()),
)

# %% [markdown] tags=["printed"]
# Every block's gradient is computed from the same tokens of the same photograph. So the parts of an update are not like the pages of a letter. Each of them depends on the whole photograph.
# The same deeper notebook also has a trained network, GradViT's distance, and batches.
#
# ## Black it out
#
# You are the client. A **redaction** is what you strike out of the update. The server cannot train what it does not get. So you have a *budget*: the share of all numbers that you may withhold.
# What is left is attacked by both closed forms and by the search. The photograph is *hidden* if no attack reaches an SSIM above 0.5.
#
# ### Predict

# %%
LITTLE, HALF, MOST = "15 % or less", "15 to 50 %", "50 to 90 %"
MORE = "more than 90 %"
needed = widgets.choose(
    "How much must you strike out, until the photograph is hidden?",
    [LITTLE, HALF, MOST, MORE],
)
needed

# %% [markdown]
# Start with the smallest budget, and find out what stops the closed forms. Then take more. (`attention 1` is the attention of the first block.) Each search takes some seconds.

# %%
names = {"stem": parts["stem"], "norms": parts["norm"], "head": parts["head"]}
for part in ("attention", "mlp"):
    for k, inside in enumerate(blocks.values(), start=1):
        names[f"{part} {k}"] = [name for name in parts[part] if name in inside]


def sent(pieces):  # the names of the parameters behind some parts of the desk
    return frozenset(name for piece in pieces for name in names[piece])


attacks = {
    form.replace("_", " "): lambda pieces, form=form: solved(form, sent(pieces))
    for form in forms
}
attacks["search"] = lambda pieces: searched(sent(pieces))

counts = {piece: sum(numbers[name] for name in names[piece]) for piece in names}
desk = redaction.Desk(photo, counts, attacks)
desk.redact([])  # first, nothing is struck out
desk

# %% [markdown]
# Here are two redactions of ours. The first strikes out the parts that the closed forms read. The second leaves only the last block's MLP.

# %%
ours = {"what algebra reads": ["stem", "attention 1"]}
ours["all but one MLP"] = [piece for piece in names if piece != "mlp 3"]
shown_here, titles = [photo], ["photograph"]
for what, struck in ours.items():
    reached = desk.redact(struck)
    best = max(reached, key=reached.get)
    shown_here.append(desk.tries[frozenset(struck)][best])
    said = f"struck out: {what} ({desk.share(struck):.0%})"
    titles.append(f"{said}: SSIM {reached[best]:.2f}, by {best}")
alt = f"The photograph, and the best image after two redactions: {'; '.join(titles)}."
plots.side_by_side(*shown_here, titles=titles, alt=alt)

# %%
least_share = desk.cheapest or 1.0
bars = {LITTLE: 0.15, HALF: 0.5, MOST: 0.9, MORE: 1.0}
smallest = next(name for name, bar in bars.items() if least_share <= bar)
needed.against(None if quick else smallest)  # a quick search hides everything

# %% [markdown] tags=["printed"]
# The answer counts what you have tried at the desk. When you find a smaller redaction that hides the photograph, run the last cell again.
#
# ### Exercise 4: is the rest safe? *(difficulty 2, 8 minutes)*
#
# A team writes: "We ran one search on each part of the gradient. The stem gave the best image, so the stem leaks most. Our clients withhold it. So the photographs are
# safe." It concludes twice, each time after a "so". Which of these findings, if they were true, would speak against a conclusion? Give a set of letters.
#
# - **a** Without the stem, the same search ends within 1 dB of where it ended with all gradients.
# - **b** The search ran on 8 photographs, each behind new random weights.
# - **c** A closed form recovers the photograph from the attention of the first block.
# - **d** With a tenth of the regularisation weight, the best image comes from the MLP.
# - **e** The search from the head ended below the mean of other photographs.
# - **f** The team's search had 100 steps. With 3,000 steps, attention alone gives the photograph.
#
# <details><summary>Hint</summary>Ask of each finding: does it name a way to the photograph that does not need the stem, or show that the ranking is one of the
# attack?</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"a", "c", "d", "f"}

# %%
checks.verify("08.safe", against)

# %% [markdown]
# ## The answer

# %%
withheld = "psnr[fresh_cosine, all] - psnr[fresh_cosine, withheld]"
text(
    "More than one part leaks: the stem and the first attention each give the "
    "photograph to linear equations ({:.0f} and {:.0f} dB), your search reached an "
    "SSIM of {:.2f} from a single block, and what comes first depends on the attack. A "
    "client who withholds the stem and the whole first block stops the closed forms, "
    "and costs the experiment's search {:.1f} dB; with all gradients it ends at {:.1f} "
    "dB, where the mean photograph has {:.1f}.",
    shown.mean("psnr[stem_closed_form]"),
    shown.mean("psnr[attention_closed_form]"),
    max(like.values()),
    deep.mean(withheld),
    deep.mean("psnr[fresh_cosine, all]"),
    deep.mean("psnr[depth, mean_photograph]"),
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. (2024, Table 6) attack a ViT-B by kind of layer; Hatamizadeh et al. (2022, Tables 4 and 5) by depth and by component, with GradViT. The closed forms, the
# balanced search and the attacks on a single third are our own.

# %%
widgets.verdicts("08")

# %% [markdown]
# ## What would change our mind
#
# - A search that runs to its end. Ours are short. With enough steps, all gradients should not do worse than a part of them.
# - A part that no attack can use. The head comes closest: its gradient depends on one vector, the class token. Yet the image that our search finds in it is better than the mean photograph. A redaction that
#   hides the photograph from our search may not hide it from a better one.
# - Trained networks at full size. The networks here are small and fresh.
#
# ## Read on
#
# Zhang et al. 2024, section 5.1; Hatamizadeh et al. 2022, section 6.4. Lab 09 takes a ResNet apart step by step, and lab 13 spends noise part by part under
# one budget.
