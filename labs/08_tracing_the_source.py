# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 08 · Tracing the source: which gradients give the image away?
#
# A client sends a gradient for every parameter of the model. Do all of them leak? Two papers cut the message into pieces and attack each
# piece: Zhang et al. by kind of layer (Table 6), Hatamizadeh et al. by depth and by component (Tables 4 and 5). You do the same,
# with a search and with algebra, and then ask what such a table measures: the gradients, or the attack.
#
# After it you can
# - cut a message into parts by name, and say what each could tell at most;
# - explain how *fewer* gradients can do better than all of them, and mend the attack;
# - say which three choices of the attacker a ranking of layers hangs on;
# - say how little of a message is enough for the whole image.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.8 | 1.7 GB |
# | class | 3 | 1.7 GB |
#
# (Measured on two CPU cores. `night` measures larger networks, for hours; stopped, and run again, it goes on from there.)

# %% [markdown]
# *You need* lab 04 (a search) and lab 05 (closed forms). *Words that are new here*: **stem**, **sensitivity**, **pull**.

# %%
from dataclasses import replace
from functools import cache

import pandas as pd
import torch
import torch.nn.functional as F
from torch import func

from privlab import compute, data, experiments, ledger, metrics, models
from privlab.attacks import gradient_inversion
from privlab.attacks.gradient_inversion import closed_form
from privlab.leak import observe
from privlab.notebook import checks, flipbook, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
device = compute.device(device)
shape = ("vit_cifar", dict(embed_dim=224, depth=3))
live_steps = 6 if profile == "smoke" else 30

# %% [markdown]
# ## Five parts
#
# The victim is a ViT: a **stem** (patch embedding, class token, position embedding), blocks of **attention** and **MLP** with a **norm** in front
# of each, and a **head** (the final norm and the classifier). `parts.group` sorts the names of the parameters into these five. For the paper's
# ViT-B the groups have the sizes that its Table 6 prints: 4, 48, 48, 48 and 4 tensors.

# %%
with torch.device("meta"):  # names and shapes, no numbers
    stock = models.build("vit_base_patch16_224")
print({part: len(names) for part, names in models.parts.group(stock).items()})

# %%
photos = data.load("cifar10_samples")


def victim():
    built = models.build(shape[0], seed=seed, position_std=1.0, **shape[1])
    built.normalise = photos.normalise
    return built.to(device)


model = victim()
photo, label = (tensor.to(device) for tensor in photos.one(0))  # (1, 3, 32, 32) in [0, 1], and its class
leak = observe(model, photo, label)
leak

# %%
for part, names in models.parts.group(model).items():
    print(f"{part:>9}: {len(names):3} tensors, {leak.only(names)}".replace("Leak: ", ""))

# %% [markdown]
# Our victim has a position embedding with a standard deviation of 1: a search gets next to nothing out of timm's 0.02 (lab 04). The image has $3 \cdot 32 \cdot 32 = 3{,}072$ numbers. Count before you attack: which part *cannot* fix an image, however long one searches?

# %% [markdown]
# - The **head**'s gradient is made of one vector, the class token as it leaves the last block: 224 numbers in our small victim (768 in a ViT-B). Whatever
#   the image, the head tells no more than these.
# - The **norms** of a small victim send 2,688 numbers, fewer than the image has. (A ViT-B's send more.)
# - All other parts send enough numbers.

# %% [markdown]
# ## Exercise 1: names
#
# Parts are chosen by name, never by position. Write `attention_weights(names, first, last)`: of a list of parameter names, those of the weights
# (no biases) of attention in blocks `first` to `last`, counted from 1 and both included, as the papers count.
#
# <details><summary>Hint</summary>The names look like <code>blocks.0.attn.qkv.weight</code>. Split them at the dots. What would a search for
# "blocks.1" find in a model of twelve blocks?</details>


# %% tags=["exercise"]
def attention_weights(names, first, last): ...


# %% tags=["solution"]
def attention_weights(names, first, last):
    chosen = []
    for name in names:
        kind, *rest = name.split(".")
        if kind == "blocks" and first <= int(rest[0]) + 1 <= last and rest[1] == "attn" and rest[-1] == "weight":
            chosen.append(name)
    return chosen


# %%
checks.verify("08.select", attention_weights)

# %% [markdown]
# `parts.depth(model, first, last)` gives whole blocks. Here are all the selections of this lab:

# %%
THIRDS = ("first", "middle", "last")


@cache
def selections():
    """Name of a selection -> the parameters whose gradients the attacker sees."""
    names = [name for name, _ in model.named_parameters()]
    third = len(models.parts.blocks(model)) // 3
    of = {name: models.parts.depth(model, 1 + k * third, (k + 1) * third) for k, name in enumerate(THIRDS)}
    without = {f"without {name}": [n for n in names if n not in inside] for name, inside in of.items()}
    only = {f"only {name}": inside for name, inside in of.items()}
    withheld = {*models.parts.stem(model), *models.parts.depth(model, 1, 1)}
    rest = [n for n in names if n not in withheld]
    return {"all": names, **models.parts.group(model), **without, **only, "the rest": rest}


print(", ".join(f"{name} ({len(names)})" for name, names in selections().items()))

# %% [markdown]
# ## The attack
#
# It is lab 04's: a cosine between gradients, and a regularisation weight on roughness. Both will turn out to matter.


# %%
def attack(weight=1.0, steps=live_steps):
    """Lab 04's short search, with a multiple of its regularisation weight."""
    return gradient_inversion.annealed(steps, tv=(0.02 * weight, 1e-5 * weight))


attack()

# %% [markdown]
# ## Tick what the attacker sees
#
# Choose the parts that are sent, and from which blocks. Below you see what a short search makes of them (too short for a verdict), and what the two closed forms of lab 05 do: one needs the stem, the other the first block's attention.


# %%
def ticked(choice, blocks):
    """The names behind the ticks: parts that are sent, from those blocks (stem and head lie in none)."""
    names = {name for part, names in models.parts.group(model).items() if choice[part] == "sent" for name in names}
    inside = {name for third in THIRDS for name in selections()[f"only {third}"]}
    return names if blocks == "all" else names & set(selections()[blocks]) | (names - inside)


def closed_forms(model, leak):
    """What algebra makes of a leak: form -> image, where the form has what it needs."""
    found, needs = (
        {},
        {"patch_embedding": ("pos_embed", "patch_embed.proj.weight"), "subspace": ("blocks.0.attn.qkv.weight",)},
    )
    for form, required in needs.items():
        if all(name in leak.grads for name in required):
            found[form] = getattr(closed_form, form)(model, leak).clamped.cpu()
    return found


# %%
def scored(title, image):
    return f"{title}: {metrics.psnr(image, photo).item():.0f} dB"


def look(blocks, weight, **choice):
    names = ticked(choice, blocks)
    if not names:
        return widgets.Sentence("Nothing is sent, and nothing leaks.")
    seen = leak.only(names)
    found = {"search": attack(weight).run(model, seen, seed=seed, snapshots=0, progress=False).images}
    found |= closed_forms(model, seen)
    titles = ["the photograph", *(scored(name, image) for name, image in found.items())]
    numbers = sum(g.numel() for g in seen.grads.values())
    alt = f"The photograph, and what {len(names)} tensors with {numbers:,} numbers give away. {'; '.join(titles[1:])}."
    return plots.side_by_side(photo.cpu(), *found.values(), titles=titles, alt=alt)


# %%
sent = {part: ("sent", "withheld") for part in models.parts.group(model)}
blocks = ("all", *(f"{how} {third}" for how in ("without", "only") for third in THIRDS))
widgets.explore(look, start={"weight": 1.0}, blocks=blocks, weight=(0.1, 1.0, 10.0), **sent)

# %% [markdown]
# ## Table 6: one part at a time
#
# The paper gives the attack all gradients of a ViT-B, or one part alone, and finds: stem 67 dB, all 44, attention 40, MLP 37, norm 37, head 19.
#
# ### Before you go on: predict
#
# All gradients *contain* the stem's. How much better, or worse, will the same search do with the stem alone than with all?

# %%
guess = widgets.predict("PSNR from the stem less PSNR from all:", low=-15, high=15, unit="dB")
guess


# %%
kept = experiments.load("tracing_the_source.parts")
mine = experiments.run("tracing_the_source.parts", profile, device=device)
kept

# %%
guess.against(mine.mean("psnr[stem_layers]") - mine.mean("psnr[all_layers]"))

# %%
FIVE = tuple(models.parts.group(model))
table = ledger.papers.table("zhang2024_table6").query("metric == 'psnr'")
printed = {row.layers.split()[0].lower(): row.mean for row in table.itertuples(index=False)}
by_search = {part: f"psnr[{part}_layers]" for part in ("all", *FIVE)}
mean = {"mean photograph": "psnr[mean_photograph]"}
plots.evidence(kept, mine, by_search | mean, xlabel="PSNR in dB (higher is a better attack)", published=printed)

# %% [markdown]
# And by algebra? The closed form `patch_embedding` reads the stem alone; `subspace` reads the first block's attention alone. For MLP, norms and
# head we know of none.

# %%
algebra = {f"{part}, closed form": f"psnr[{part}_closed_form]" for part in ("stem", "attention")}
plots.evidence(kept, mine, algebra, xlabel="PSNR in dB")

# %% [markdown]
# Photographs and victims are the same in every row, so the verdicts compare repeat by repeat. Which of stem and all is ahead hangs on how long the search is: the stem takes its time.

# %% [markdown]
# But a stem that beats *all*, as it does in the paper by 24 dB, is a riddle. Whoever has all gradients can throw the rest away. So "the
# stem leaks more than all" cannot be true of the gradients. It can only be true of an attack that does not know what to look at. What does it look at?

# %% [markdown]
# ## Why would fewer do better? First, who is heard
#
# A cosine over all gradients takes them as one long vector. A part that makes up most of its length makes up most of the cosine.

# %% [markdown]
# ## Exercise 2: whose length is it?
#
# Write `shares(grads, groups)`: for each part, its share of the squared length of the whole gradient. `grads` is name -> tensor, `groups`
# part -> names.
#
# <details><summary>Hint</summary>Why squares? Lengths do not add up, their squares do.</details>


# %% tags=["exercise"]
def shares(grads, groups): ...


# %% tags=["solution"]
def shares(grads, groups):
    squares = {name: g.square().sum().item() for name, g in grads.items()}
    return {part: sum(squares[name] for name in names) / sum(squares.values()) for part, names in groups.items()}


# %%
checks.verify("08.share", shares)

# %%
own = shares(leak.grads, models.parts.group(model)) or {}  # once you have written it
print(", ".join(f"{part} {share:.1%}" for part, share in own.items()))

# %%
shared = {part: f"share_of_square[{part}]" for part in FIVE}
plots.evidence(kept, mine, shared, xlabel="share of the squared length")

# %% [markdown]
# Nearly all of the length is the part that can tell the least. But a search walks on how the gradient *changes* as the
# image does. Let $u$ be the client's gradient divided by its length, and $J$ the Jacobian, how the gradient moves with the pixels. Near the true
# image, for a small error $d$,
#
# $$1 - \cos \;\approx\; \tfrac12\, d^\top K d , \qquad K = \frac{J^\top (I - u u^\top) J}{|g|^2} ,$$
#
# and how well a search finds its way is a matter of $K$: how large it is, and how far its eigenvalues lie apart.

# %% [markdown]
# $J$ has a column for each of 3,072 pixels. We ask for its effect along a few directions only, by forward differentiation: the colour of each patch as a whole (16 patches, 3 colours), which
# is the coarse picture, and 24 random ones, which are nearly all detail.


# %%
def changes(model, image, label, along):
    """How the gradient changes along some directions of the (normalised) image: a list of name -> tensor."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def sent(x):
        return func.grad(lambda w: F.cross_entropy(func.functional_call(model, w, (x,)), label))(weights)

    x = model.normalise(image)
    return [func.jvp(sent, (x,), (direction,))[1] for direction in along]


def curvature(leak, moved, names):
    """K along those directions, (directions, directions), for a cosine over these gradients."""
    square, products, onto = leak.only(names).norm.double() ** 2, 0, 0
    for name in names:
        rows = torch.stack([change[name].flatten() for change in moved]).double()  # (directions, numbers)
        products, onto = products + rows @ rows.T, onto + rows @ leak[name].flatten().double()
    return (products - onto[:, None] * onto / square) / square


# %%
def at_random(count, image):
    """(count, *image.shape): orthonormal directions."""
    noise = torch.randn(image.numel(), count, generator=torch.Generator().manual_seed(seed))
    return torch.linalg.qr(noise).Q.T.reshape(count, *image.shape).to(image)


def patch_colours(patch=8, size=32):
    """(patches * 3, 1, 3, size, size), orthonormal: one patch in one colour each."""
    side = size // patch
    spread = torch.ones(patch, patch) / patch
    return torch.kron(torch.eye(3 * side**2).reshape(-1, 3, side, side), spread)[:, None]


# %%
tiny = victim().cpu()
tiny_leak = observe(tiny, photo.cpu(), label.cpu())
groups = {"all": [*tiny_leak.grads], **models.parts.group(tiny)}
kinds = {"coarse": patch_colours(), "random": at_random(24, photo.cpu())}
spectra, moved = {}, []
for kind, along in kinds.items():
    moved.clear()  # a third of a gigabyte; the last kind, "random", is read again below
    moved += changes(tiny, photo.cpu(), label.cpu(), along)
    for part, names in groups.items():
        spectra[kind, part] = torch.linalg.eigvalsh(curvature(tiny_leak, moved, names)).clamp(min=0).sqrt()

# %%
coarse = {part: spectra["coarse", part] for part in groups}
plots.spectrum(
    coarse,
    alt="Singular values of the Jacobian: "
    + "; ".join(f"{part} from {s.max():.1e} down to {s.min():.1e}" for part, s in coarse.items()),
)

# %% [markdown]
# Look for a drop behind the third direction. The first three are the mean colour of the whole image (to 99%, which we checked apart, for this victim and photograph); all behind it is
# *where*.

# %% [markdown]
# A part's **sensitivity** is the height of its curve (the root of its mean curvature, over the random directions). How steep it falls says how unequally directions are seen; we print the largest
# over the smallest. And its **pull** is its share of what moves the search that looks at all gradients.


# %%
unit = {name: g / tiny_leak.norm for name, g in tiny_leak.grads.items()}  # u


def square(names):
    """Sum of the squared changes of these gradients, without what lies along u: a cosine does not see that."""
    total = 0.0
    for change in moved:
        along = sum((unit[name] * change[name]).sum() for name in unit)
        total += sum((change[name] - along * unit[name]).square().sum().item() for name in names)
    return total


def facts(part, names):
    length = (tiny_leak.only(names).norm / tiny_leak.norm).item() ** 2
    pull = square(names) / square(groups["all"])
    sensitivity = spectra["random", part].square().mean().sqrt().item()
    return [
        100 * length,
        100 * pull,
        1e3 * sensitivity,
        *((s := spectra[k, part]).max().item() / s.min().item() for k in kinds),
    ]


columns = ["% of the length", "% of the pull", "sensitivity, 1e-3", "largest / smallest, coarse", "the same, random"]
measured = pd.DataFrame({part: facts(part, names) for part, names in groups.items()}, index=columns).T.round(2)
moved.clear()
measured

# %% [markdown]
# Read it column by column.
#
# - The **head** has nearly all of the length and a third of the pull, and sees both kinds of directions most unequally. In a cosine over all gradients it shouts.
# - The **stem** has less than a thousandth of the length and a fourteenth of the pull. Yet by itself it is ten times as sensitive as all together, and of fine
#   detail it has the most even view.
# - The **MLP** is as little sensitive as the head, but it has the most even view of the coarse picture.
#
# So "all" is mostly attention and head. A search that sees the MLP alone should soon find the coarse picture, one that sees the stem alone should do best in the long run.

# %% [markdown]
# ## Second, what smoothness costs
#
# The sensitivities differ by a factor of twenty, the curvatures by its square, four hundred. But the regularisation weight is the same in every row of the table: small for
# the stem and for attention, large for MLP and head. Is Table 6 a table of layers, or of weights? We divide the weight by ten.

# %%
shown = kept if len(kept) else mine
plots.heat(
    torch.tensor([[shown.mean(f"psnr[{part}_layers{end}]") for end in ("", ", tenth_weight")] for part in by_search]),
    rows=list(by_search), columns=["the same weight", "a tenth of it"], xlabel="regularisation weight", ylabel="gradients seen",
    unit="mean PSNR in dB", alt=f"Mean PSNR by selection at two regularisation weights. {shown!r}.",
)  # fmt: skip

# %% [markdown]
# An attacker is free to choose the weight for each part anew. So let each part have the better of the two:

# %%
for part, name in by_search.items():
    better = [max(pair) for pair in zip(shown[name], shown[f"psnr[{part}_layers, tenth_weight]"], strict=True)]
    print(f"{part:>9}: {sum(better) / len(better):.1f} dB")

# %% [markdown]
# (This takes the better of two by the truth, which an attacker does not see. It bounds from below what choosing a weight can bring: stem and attention may want
# a *higher* one.)

# %% [markdown]
# ## Mend the attack: let all parts be heard alike
#
# If the stem is drowned, raise its voice. `objectives.weighted` multiplies the gradients of each part before they are compared. With $1/|g_p|$ for part
# $p$ all parts have the same length. Predict: where will *all gradients, balanced* lie, between all and the stem?

# %%
guess_balanced = widgets.predict("all, balanced, less all as they are:", low=-10, high=10, unit="dB")
guess_balanced


# %%
balance = {"all": "psnr[all_layers]", "all, balanced": "psnr[balanced]", "stem": "psnr[stem_layers]"}
plots.evidence(kept, mine, balance | mean, xlabel="PSNR in dB")

# %%
guess_balanced.against(mine.mean("psnr[balanced]") - mine.mean("psnr[all_layers]"))

# %% [markdown]
# This answers the riddle: what the stem knows is in "all" as well, and a search that listens to it gets it. Regularisation weight and steps are the same; only the voices have changed.

# %% [markdown]
# ### A control: the usual position embedding
#
# All this was with a position embedding of standard deviation 1. With timm's 0.02, does the stem still win? That victim's gradient changes more with the image, relative to its length.
# To keep smoothness as important we give its weight in units of the curvature. The attacker can do that: they have the model, and take a grey image.

# %%
kept = experiments.load("tracing_the_source.position_scale")
mine = experiments.run("tracing_the_source.position_scale", profile, device=device)
scales = {"1": "std_1", "0.02": "std_0p02"}
rows = {f"{part}, std {std}": f"psnr[{part}_layers, {key}]" for std, key in scales.items() for part in ("all", "stem")}
plots.evidence(kept, mine, rows | {"mean photograph": "psnr[position_scale, mean_photograph]"}, xlabel="PSNR in dB")

# %% [markdown]
# With the small embedding the search finds little in either, and the closed form still everything: such a table tells what one search could see.

# %% [markdown]
# ## Table 4 and Table 5: where, and what
#
# Hatamizadeh et al. ask the same of a *trained* ViT-B/16 with their own attack. Table 4 withholds a third of the blocks at a time: the later the third, the worse the
# recovery (15.5 dB with all; 14.0, 11.1 and 10.3 without the first, middle, last). Table 5 keeps attention (MSA) alone or MLP alone: 13.6 and 12.3 dB.

# %% [markdown]
# GradViT sums the *norms* of the differences, layer by layer, not their squares. So a tensor of small gradients is heard there too. We divide by the sum of the
# norms that the client sent; then the distance is a share, as the cosine is. It grows in proportion to an error, not to its square, and wants another regularisation weight. The victims: a fresh one, and one
# that has learnt a little.

# %% [markdown]
# ### Predict
#
# The paper: later blocks tell more. On the trained victim with GradViT's distance, how much more does it cost the attacker to lose the *last* third than
# the *first*?

# %%
guess_depth = widgets.predict("PSNR without the first less PSNR without the last:", low=-5, high=5, unit="dB")
guess_depth

# %%
kept = experiments.load("tracing_the_source.depth")
mine = experiments.run("tracing_the_source.depth", profile, device=device)
settings = {
    "fresh, cosine": "fresh_cosine",
    "trained, cosine": "trained_cosine",
    "trained, layer norms": "trained_layer_norms",
}
rows = ("all", "without_first", "without_middle", "without_last", "attention", "mlp")
kept

# %%
shown = kept if len(kept) else mine
plots.heat(
    torch.tensor([[shown.mean(f"psnr[{key}, {row}]") for key in settings.values()] for row in rows]),
    rows=[row.replace("_", " ") for row in rows], columns=list(settings), xlabel="victim and distance", ylabel="gradients seen",
    unit="mean PSNR in dB", alt=f"Mean PSNR by selection, victim and distance. {shown!r}.",
)  # fmt: skip

# %%
last = "psnr[trained_layer_norms, {}]"
guess_depth.against(mine.mean(last.format("without_first")) - mine.mean(last.format("without_last")))

# %% [markdown]
# Two things.
#
# - **Where.** Withholding a third costs this search some tenths of a decibel. The fall of Table 4, 1.5 to 5 dB, is not there, nor its order.
# - **What.** Attention against MLP is not one verdict but four: it changes with the number of steps, the regularisation weight, the distance and the state of the victim. "Attention leaks most" needs all four beside it.
#
# The same tables with GradViT itself, on batches, are measured for lab 07.

# %% [markdown]
# ### The other way round: one third alone
#
# Turn Table 4 round (this is not in the papers): what does one third do by *itself*?

# %%
alone = {"all gradients": "all", **{f"blocks of the {third} third": f"only_{third}" for third in THIRDS}}
alone = {label: f"psnr[fresh_cosine, {key}]" for label, key in alone.items()}
depth_mean = {"mean photograph": "psnr[depth, mean_photograph]"}
plots.evidence(kept, mine, alone | depth_mean, xlabel="PSNR in dB, fresh victim")

# %% [markdown]
# Any third does nearly what all gradients do. Every block's gradient is made from the same picture: to withhold some of them is to
# withhold copies.

# %% [markdown]
# ## What may a client withhold?
#
# Say it keeps back the stem, or freezes it. Then `patch_embedding` stops, and `subspace` goes on. It
# keeps back the first block as well, and both closed forms stop. Does the search?

# %%
withheld = {"all gradients": "psnr[fresh_cosine, all]", "without stem and first block": "psnr[fresh_cosine, withheld]"}
plots.evidence(kept, mine, withheld | depth_mean, xlabel="PSNR in dB, fresh victim")

# %%
forms = closed_forms(model, leak.only(selections()["the rest"]))
print(f"closed forms left: {len(forms)}")

# %% [markdown]
# The algebra is out of work; the search hardly notices. That is worth something: a search gives decibels in the teens where the closed forms gave more than a hundred. But it is not
# what the tables seem to promise a defender: there is no guilty part. Lab 13 spends noise by part instead.

# %% [markdown]
# ## Exercise 3: what is the least?
#
# Which *parameters'* gradients are enough for a closed form of lab 05 to find the image, with the fewest numbers in them? Give a set of names. (It is tried out on a small model.)
#
# <details><summary>Hint</summary>There are two forms. Count what each reads: <code>leak[name].numel()</code>.</details>

# %% tags=["exercise"]
least = ...

# %% tags=["solution"]
least = {"pos_embed", "patch_embed.proj.weight"}

# %%
checks.verify("08.fewest", least)

# %% [markdown]
# ## How few rows?
#
# Whole tensors are coarse. The form `subspace` asks for the *row space* of the first attention's gradient, the span of the tokens that went in. Any rows of that matrix that span it will do.

# %% [markdown]
# ### Predict
#
# The matrix has three times the width rows: 672 in our small victim. The client sends some of them, drawn at random, and nothing else at all. How many are enough?

# %%
guess_rows = widgets.predict("rows of 672 that give 40 dB:", low=0, high=672)
guess_rows


# %%
@cache
def whole():
    """The gradient of the first attention for the photograph above, on the CPU."""
    return observe(victim().cpu(), photo.cpu(), label.cpu(), names=["blocks.0.attn.qkv.weight"])


def from_rows(count):
    """What `subspace` finds in so many rows of that gradient; the others are withheld, that is, zero."""
    matrix = whole()["blocks.0.attn.qkv.weight"]  # (3 width, width)
    rows = torch.randperm(len(matrix), generator=torch.Generator().manual_seed(seed))[:count]
    cut = torch.zeros_like(matrix).index_copy(0, rows, matrix[rows])
    return closed_form.subspace(victim().cpu(), replace(whole(), grads={"blocks.0.attn.qkv.weight": cut})).clamped


# %%
kept = experiments.load("tracing_the_source.rows")
mine = experiments.run("tracing_the_source.rows", profile, device=device)
counts = (8, 16, 17, 18, 20, 24, 34, 64, 128, 672)
guess_rows.against(next(n for n in counts if mine.mean(f"psnr[rows, n{n}]") >= 40))

# %%
by_rows = {"subspace": {n: f"psnr[rows, n{n}]" for n in counts}}
plots.evidence_lines(kept, mine, by_rows, xlabel="rows that are sent, of 672", ylabel="PSNR in dB", log="x")

# %%
pictures = {n: from_rows(n) for n in counts}
titles = [f"{n} of 672 rows: {metrics.psnr(image, photo.cpu()).item():.0f} dB" for n, image in pictures.items()]
flipbook.show(list(pictures.values()), captions=titles, alts=titles, label="rows that are sent")

# %% [markdown]
# Twice the tokens, 34 rows, are 7,616 numbers: 0.4% of the message. Clients that save bandwidth send the
# *largest* numbers, wherever they stand. As many of them, and ten times as many:


# %%
largest = {"34 whole rows": "psnr[rows, twice_tokens]", "the 7,616 largest numbers": "psnr[largest, as_many]"}
largest |= {"the 76,160 largest numbers": "psnr[largest, ten_times_as_many]"}
plots.evidence(kept, mine, largest, xlabel="PSNR in dB")

# %% [markdown]
# So it is not how few numbers are sent that protects, but which. Whole rows keep the row space, and with it the image. The largest numbers, scattered, do not, and *this form* is lost;
# what a search makes of them is another question, and lab 13's.

# %% [markdown]
# ## Exercise 4: where is the cliff?
#
# Write `rows_needed(image_size, patch)`: the smallest number of rows (in exact arithmetic) of the first attention's gradient that can span what `subspace` needs, for one image and a ViT with a class token.
#
# <details><summary>Hint</summary>Read it off the figure. How many vectors enter the first attention?</details>


# %% tags=["exercise"]
def rows_needed(image_size, patch): ...


# %% tags=["solution"]
def rows_needed(image_size, patch):
    return (image_size // patch) ** 2 + 1  # patches, and the class token


# %%
checks.verify("08.rows", rows_needed)

# %% [markdown]
# ## Exercise 5: and the label?
#
# The searches were given the label. Which parameters' gradients give it away, of one image and with certainty, in the *fewest* numbers? Give a set of names.
#
# <details><summary>Hint</summary>Lab 04 derived the last layer's gradient. Which of its two tensors has one number for each class?</details>

# %% tags=["exercise"]
tells_label = ...

# %% tags=["solution"]
tells_label = {"head.bias"}

# %%
checks.verify("08.label", tells_label)

# %%
shown = kept if len(kept) else mine
print(f"{shown.mean('label_accuracy[head_bias]'):.0%} of {len(shown)} labels read off ten numbers")

# %% [markdown]
# So the parts share the work: the head gives the label and little of the image, the stem and the first attention give the image and need no label.

# %% [markdown]
# ## A batch
#
# GradViT attacks eight images at once. Is the order of attention and MLP the same for two as for one, on a fresh victim, with the cosine and as few steps?

# %%
kept = experiments.load("tracing_the_source.batch")
mine = experiments.run("tracing_the_source.batch", profile, device=device)
rows = {part: f"psnr[batch_2, {part}]" for part in ("all", "attention", "mlp")}
plots.evidence(kept, mine, rows | {"mean photograph": "psnr[batch_2, mean_photograph]"}, xlabel="PSNR in dB")

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("08")

# %% [markdown]
# ## What we did differently, and why
#
# - **Size.** At `smoke` and `class` the victim is a ViT of three blocks and width 224 with patches of 8 pixels: wide enough that a patch (192 numbers) goes in without loss and that both closed forms
#   have enough equations. By part it is a ViT-S at `night` and a ViT-B at `gpu`, on 32-pixel images, with patches of 4. (Zhang et al. name no data set for Table 6; its numbers fit CIFAR-10. Nor do they name the patch size.)
# - **Position embedding.** Its standard deviation is 1, but for the control. The papers do not state theirs; timm's is 0.02, and there our searches find next to nothing, in all parts or in the stem.
# - **Steps.** 120 by part and 60 by depth at `class`, with lab 04's short attack, in place of 3,000 and 120,000. The comparisons are among searches of the same length.
# - **Tables 4 and 5** have one image here and no image prior; the paper has a batch of 8 ImageNet photographs, a trained ViT-B/16 and the BatchNorm prior of lab 07. Of GradViT we take the distance alone. That does not
#   refute the paper's table. It does show that its order is no property of the gradients by themselves.
# - **Labels** are given.
# - The closed forms as rows of Table 6, the weights, the balanced parts, single thirds, and the rows are ours.

# %% [markdown]
# ## Summary
#
# - Count first: the head's part is made of a vector of the network's width, and can never tell an image.
# - A search with the stem alone can beat one with all gradients, which contain it: its distance hears the head. Balanced by part, all gradients do far better.
# - The order of the parts hangs on the regularisation weight, the victim and the number of steps.
# - Blocks repeat each other. No third is missed, and any third nearly suffices.
# - By algebra two parts give the whole image, the stem and the first attention; of the latter, twice as many rows as there are tokens do.

# %% [markdown]
# ## Where to read on
#
# Zhang et al. 2024, section 5.1; Hatamizadeh et al. 2022, section 6.4. Lab 09 takes a ResNet apart step by step; lab 13 spends noise part by part under one budget.
