# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06 · What does the position embedding give away?
#
# A Vision Transformer cuts a photograph into patches, and adds to each patch a vector that says where it stands.
# Lu et al. (2022) read this vector's gradient, and advise a client to keep it secret. Is the photograph safe then?
#
# After this lab you can
# - say which part of a gradient knows where a patch stands;
# - add the position term of APRIL to a gradient inversion attack;
# - say what a withheld position gradient protects against, and what it does not.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.1 GB |
# | class | 0.9 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 65 minutes. You need* labs 04 and 05. *New words*: **sense of place**, **twin data**.

# %%
from dataclasses import replace

from privlab import compute, data, experiments, metrics
from privlab.attacks import gradient_inversion
from privlab.course.lab_06 import sense_of_place
from privlab.leak import observe
from privlab.models import april
from privlab.notebook import checks, drawings, plots, text, widgets

import torch

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
quick = profile == "smoke"  # a narrower network and fewer steps, to try the code
photo, label = data.load("cifar10_samples").one(0)  # (1, 3, 32, 32) in [0, 1]


def victim(std, width=224 if quick else 384):  # two layers, fresh random weights
    shape = dict(width=width, depth=2, seed=seed, position_std=std)
    return april.build("b", **shape).to(device)


# %% [markdown]
# ## Who knows where a patch stands?
#
# Here is the client's network. It is *architecture B* of the paper, an ordinary ViT with two of its four layers. Each patch becomes a token, and the position
# embedding is added to the tokens. After that, attention treats all tokens alike.

# %%
drawings.show("06.vit_position")

# %% [markdown]
# ### Predict
#
# Take the position embedding away. Now cut the photograph into its 16 patches, and put them together in another order. Is the gradient of the
# weights the same?

# %%
SAME, SOME, NEW = "the same", "the same in some layers", "another in all layers"
guess_order = widgets.choose("Without a position embedding it is", [SAME, SOME, NEW])
guess_order

# %% [markdown]
# ### Exercise 1: make a twin *(difficulty 2, 10 minutes)*
#
# A ViT *without* a position embedding sees images of 32 x 32 pixels, in patches of 8 x 8. Write `twin(image)`: given an image (1, 3, 32, 32), return another that is clearly
# different, and has the same gradients. The check builds such a ViT, and computes both.
#
# <details><summary>Hint</summary>What can the class token not see? <code>F.unfold</code> and <code>F.fold</code> cut an image into patches, but there is a
# way with one line of <code>torch</code>.</details>


# %% tags=["exercise"]
def twin(image): ...


# %% tags=["solution"]
def twin(image):
    return image.roll(8, dims=-1)  # whole patches; the last column comes first


# %%
checks.verify("06.twin", twin)

# %% [markdown] tags=["printed"]
# ## Shuffle the patches
#
# Choose how large the position embedding is, and what happens to the patches. Each dot is a part of the network: how far does its gradient move? 100 % is how far it
# moves when the photograph is replaced by noise. Which part moves when the embedding is zero? Which parts move when it is large?

# %%
PARTS = {"position embedding": "pos_embed", "patch embedding": "patch_embed"}
PARTS |= {"attention": ".attn.", "MLP": ".mlp.", "head": "head"}
orders = {"as sent": photo, "one column further": photo.roll(8, -1)}
orders |= {"two rows further": photo.roll(16, -2)}
orders["shuffled"] = sense_of_place.shuffled(photo, 1)


noise = torch.rand(photo.shape, generator=torch.Generator().manual_seed(seed))


def moved(model, image):  # part -> percent of how far noise moves its gradient
    one, two, far = (observe(model, x.double(), label) for x in (photo, image, noise))
    shares = {}
    for part, key in PARTS.items():
        names = [name for name in one.grads if key in name]
        a, b, c = (torch.cat([g[n].flatten() for n in names]) for g in (one, two, far))
        shares[part] = 100 * ((b - a).norm() / (c - a).norm()).item()
    return shares


# %%
table = {}
for std in (0.0, 0.02, 1.0):
    model = victim(std or 1.0, width=224).double()
    model.pos_embed.data *= std > 0  # a zero embedding is none
    table |= {(std, name): moved(model, image) for name, image in orders.items()}


def shuffle(position_std, patches):
    shares = table[position_std, patches]
    said = ", ".join(f"{part} {share:.2g} %" for part, share in shares.items())
    alt = f"Embedding of size {position_std:g}, patches {patches}. Moved: {said}."
    dots = {part: [share] for part, share in shares.items()}
    xlabel = "movement of the gradient, 100 % = for noise"
    pair = {"as sent": photo, patches: orders[patches]}
    return plots.images(pair, alt=alt), plots.dots(dots, xlabel=xlabel, alt=alt)


start = dict(position_std=1.0, patches="shuffled")
sizes = (0.0, 0.02, 1.0)
widgets.explore(shuffle, start=start, position_std=sizes, patches=tuple(orders))

# %%
others = [share for part, share in table[0.0, "shuffled"].items() if "pos" not in part]
guess_order.against(SAME if max(others) < 1e-6 else SOME if min(others) < 1e-6 else NEW)

# %% [markdown]
# A zero embedding still *has* a gradient. It has a row for each position, and these rows move along with the patches. So this one gradient knows the
# order, even where all others are blind to it.

# %% [markdown]
# ## A sense of place
#
# How much does the *whole* gradient say about places? We call it the **sense of place**: how far the gradient moves when the patches are shuffled, divided by how far it
# is from the gradient of noise. Both are one minus cosine.
#
# ### Predict
#
# Two public ViTs for small images draw their position embeddings with standard deviations of 0.02 and 1.

# %%
guess_sense = widgets.predict(
    "How many times larger is the sense of place at 1 than at 0.02?", 1, 1000, "times"
)
guess_sense

# %%
kept = experiments.load("april_by_optimisation.scale")
mine = experiments.run("april_by_optimisation.scale", profile, device=device)
shown = kept or mine
stds = {0.02: "std_0p02", 0.2: "std_0p2", 1.0: "std_1", 2.0: "std_2"}
stds = {std: key for std, key in stds.items() if f"psnr[fresh, {key}]" in shown.table}


def along(name):  # the name of a value at each standard deviation
    return {std: name.format(key) for std, key in stds.items()}


senses = {"sense of place": along("log10_sense_of_place[{}]")}
senses |= {"distance of noise": along("log10_distance_of_noise[{}]")}
xlabel = "standard deviation of the position embedding"
plots.evidence_lines(kept, mine, senses, xlabel=xlabel, ylabel="log10", log="x")

# %%
sense = "log10_sense_of_place[{}]"
guess_sense.against(
    round(
        10 ** (shown.mean(sense.format("std_1")) - shown.mean(sense.format("std_0p02")))
    )
)

# %% [markdown]
# ## What does a search find?
#
# The attacker of lab 04 runs `annealed`, gradient matching with total variation, on two clients. Only the size of their position
# embeddings differs.
#
# ### Predict

# %%
MEAN, REST, BOTH, NEITHER = "their mean", "how they differ", "both", "neither"
guess_search = widgets.choose(
    "What comes back of the patches at 0.02?", [MEAN, REST, BOTH, NEITHER]
)
guess_search

# %%
attack = replace(gradient_inversion.annealed(5 if quick else 80), derivative="auto")
found = {}
for std in (0.02, 1.0):
    model = victim(std)
    leak = observe(model, photo, label)
    found[std] = attack.run(model, leak, seed=seed, progress=False).images.cpu()
titles = ["the client's"]
for std, image in found.items():
    ssim, decibels = (m(image, photo).item() for m in (metrics.ssim, metrics.psnr))
    titles.append(f"{std:g}: {decibels:.1f} dB, SSIM {ssim:.2f}")
alt = f"The photograph, and two reconstructions: {'; '.join(titles[1:])}."
plots.side_by_side(photo, *found.values(), titles=titles, alt=alt)

# %% [markdown]
# That was one photograph. The experiment has more of them, behind new random weights, with a shorter search. The mean photograph is the *baseline*: an image that is made without the gradient.

# %%
lines = {"search": along("psnr[fresh, {}]")}
base = {"mean photograph": shown.mean("psnr[cifar10, mean_photograph]")}
plots.evidence_lines(
    kept, mine, lines, xlabel=xlabel, ylabel="PSNR in dB", log="x", thresholds=base
)

# %%
mean = shown.mean("psnr[mean_patch, std_0p02]") > 20
rest = shown.mean("correlation[differences_between_patches, std_0p02]") > 0.5
guess_search.against(
    BOTH if mean and rest else MEAN if mean else REST if rest else NEITHER
)

# %%
parts = {std: sense_of_place.parts(image, photo) for std, image in found.items()}
text(
    "Split your two pictures into the mean of their patches and the rest. The mean "
    "patch came back with {:.0f} dB at 0.02 and {:.0f} dB at 1. The differences "
    "between patches correlate with the true ones by {:.2f} and {:.2f}.",
    *(parts[0.02][0], parts[1.0][0], parts[0.02][1], parts[1.0][1]),
)

# %% [markdown]
# ## APRIL adds a term
#
# If the position gradient knows the places, why not ask it directly? APRIL (Lu et al. 2022, equation 12) adds its *direction* to the squared
# distance of DLG. $g$ is the gradient that was sent, and $p$ its part for the position embedding; $g'$ and $p'$ belong to the made-up image:
#
# $$\mathcal L = \lVert g' - g \rVert^2 \;-\; \alpha\, \cos(p', p) .$$

# %%
drawings.show("06.search_loop")

# %% [markdown]
# ### Exercise 2: equation 12 *(difficulty 2, 10 minutes)*
#
# Write `april_loss(mine, theirs, alpha)`: two gradients as dicts (parameter name -> tensor), one number.
#
# <details><summary>Hint</summary>The distance is over <em>all</em> parameters. The cosine is over "pos_embed" alone, taken as one long vector.</details>


# %% tags=["exercise"]
def april_loss(mine, theirs, alpha): ...


# %% tags=["solution"]
def april_loss(mine, theirs, alpha):
    distance = sum((mine[name] - theirs[name]).square().sum() for name in theirs)
    ours, sent = mine["pos_embed"].flatten(), theirs["pos_embed"].flatten()
    return distance - alpha * (ours @ sent) / (ours.norm() * sent.norm())


# %%
checks.verify("06.april", april_loss)

# %% [markdown]
# What the new term is worth depends on its weight $\alpha$, which the paper does not print. [One deeper notebook](deeper/06_weight_of_the_term.ipynb) weighs it, and
# [another](deeper/06_four_attacks.ipynb) runs the paper's four attacks.

# %% [markdown]
# ## A cheap defence
#
# The paper's advice (section 4.2): do not send the position gradient, or freeze the embedding. A search then finds **twin data**, it reports: images that look
# like nothing and have nearly the same gradient. A *private* embedding goes further: the server does not know its numbers.
#
# ### Predict
#
# The embedding has standard deviation 1. The client withholds its gradient, and the attacker runs the same search.

# %%
guess_withheld = widgets.predict(
    "How many dB does the search lose?", low=-5, high=20, unit="dB"
)
guess_withheld

# %%
kept_kinds = experiments.load("april_by_optimisation.embeddings")
mine_kinds = experiments.run("april_by_optimisation.embeddings", profile, device=device)
kinds = {"sent": "shared", "withheld": "withheld", "frozen 2-D sinusoid": "sinusoid_2d"}
kinds |= {"private": "private"}
rows = {kind: f"psnr[search, {key}]" for kind, key in kinds.items()}
rows |= {"mean photograph": "psnr[cifar10, mean_photograph]"}
plots.evidence(kept_kinds, mine_kinds, rows, xlabel="PSNR in dB, by search")

# %%
of = kept_kinds or mine_kinds
lost = of.mean("psnr[search, shared] - psnr[search, withheld]")
guess_withheld.against(round(lost, 1))

# %% [markdown]
# A search is not the strongest attack. Lab 05 solved linear equations instead. Here is what they find in the *same* gradients.

# %%
solved = {kind: f"psnr[subspace, {key}]" for kind, key in kinds.items()}
plots.evidence(kept_kinds, mine_kinds, solved, xlabel="PSNR in dB, by linear equations")

# %% [markdown] tags=["printed"]
# ### Exercise 3: is it the defence? *(difficulty 2, 8 minutes)*
#
# A team freezes the position embedding of its ViT. Its search reaches 10 dB. The team writes: "Freezing the embedding keeps the photographs
# safe." Which of these findings, if they were true, would speak against this sentence? Give a set of letters.
#
# - **a** Linear equations recover the photograph from the same gradient.
# - **b** The same search reaches 10 dB as well when the embedding is learned and its gradient is sent.
# - **c** An embedding that is frozen at another size lets the same search recover the photograph.
# - **d** The search ended with nearly the client's gradient.
# - **e** The search reaches 10 dB on a second photograph, too.
# - **f** With an embedding that the server does not know, the search finds even less.
#
# <details><summary>Hint</summary>Ask of each finding: does it name an attack that gets through, or another cause for the 10 dB?</details>

# %% tags=["exercise", "reading"]
against = ...

# %% tags=["solution"]
against = {"a", "b", "c"}

# %%
checks.verify("06.frozen", against)

# %% [markdown]
# ## The answer

# %%
text(
    "The position embedding tells the gradient where each patch stands: a search "
    "reached {:.1f} dB with a large embedding and {:.1f} dB with a small one, with a "
    "baseline of {:.1f} dB. When its own gradient was withheld, the search lost "
    "{:.1f} dB; linear equations still reached {:.0f} dB.",
    shown.mean("psnr[fresh, std_1]"),
    shown.mean("psnr[fresh, std_0p02]"),
    shown.mean("psnr[cifar10, mean_photograph]"),
    lost,
    of.mean("psnr[subspace, withheld]"),
)

# %% [markdown]
# ## The paper, and here

# %%
widgets.verdicts("06")

# %% [markdown]
# ## What would change our mind
#
# A search that recovers the photograph behind the small embedding, with more steps, would show that the sense of place decides only how *fast* a
# search is. The paper's four searches, on its network, with all of its steps and at our step length, did not. Trained networks may behave differently: the searches here attack fresh ones.

# %% [markdown]
# ## Read on
#
# Lu et al. 2022, sections 3.3, 4.1 and 4.2. Lab 07 takes a batch apart, lab 08 asks which gradients leak, and lab 13 what defences cost.
