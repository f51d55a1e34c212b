# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 06 · What does the position embedding give away?
#
# A Vision Transformer cuts a photograph into patches, and adds to each patch a vector that says where it stands.
# Lu et al. (2022) search for a photograph with the help of this vector's gradient, and advise a client to keep it secret. Is the photograph safe then?
#
# After this lab you can
# - run APRIL's second algorithm, line by line, with a loss that you wrote;
# - say what a term of a loss is worth to a search;
# - say which part of a gradient depends on where a patch stands, and what withholding it protects against.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.1 GB |
# | class | 0.9 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 70 minutes. You need* labs 04 and 05. *New words*: **twin data**, **sense of place**.

# %%
from dataclasses import replace

from privlab import compute, data, experiments, metrics
from privlab.attacks.gradient_inversion import (
    derivatives,
    label_recovery,
    presets,
    schedules,
)
from privlab.course.lab_06 import sense_of_place
from privlab.leak import observe
from privlab.models import april
from privlab.notebook import checks, drawings, plots, text, widgets

import numpy as np
import torch
import torch.nn.functional as F
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
quick = profile == "smoke"  # a narrower network and fewer steps, to try the code


def victim(std, width=224 if quick else 384, depth=2, **shape):
    shape |= dict(width=width, depth=depth, seed=seed, position_std=std)
    return april.build("b", **shape).to(device)  # with fresh random weights


# %% [markdown]
# ## Algorithm 2, line by line
#
# The client's network is *architecture B* (APRIL, Figure 1), an ordinary ViT. Each patch becomes a token, and the position embedding is added to the tokens. Algorithm 1
# (lab 05) needs architecture A, where nothing stands between the embedding and the attention. Behind B, the paper searches (APRIL, Algorithm 2).
#
# So that you can see the search on two cores, our client sends the gradient of a digit, cut into four patches, through one of the paper's four layers. The server knows
# the weights and receives the gradient. First it reads the label: in the last layer's gradient, the label's row is the one whose products with all other rows are
# negative or zero (lines 2 and 3; lab 04). Then it takes out the position embedding's gradient (line 4), and starts from noise (line 5).

# %%
drawings.show("06.vit_position")

# %%
digit, label = data.load("mnist_samples").one(0)  # (1, 1, 28, 28) in [0, 1]
small = dict(image_size=28, patch_size=14, channels=1, depth=1)
client = victim(1.0, **small, normalise=data.NORMALISE["mnist"])
sent = replace(observe(client, digit, label), labels=None)  # the server gets no label

read = label_recovery.row_products(client, sent)
print(f"line 3: the label is read as {read.item()}; it is {label.item()}")
print("line 4: the position gradient has the shape", (*sent["pos_embed"].shape,))

# %% [markdown]
# Now the search makes up an image $x'$ and computes *its* gradient $\nabla w'$ (lines 7 and 9). Two numbers compare it with the gradient $\nabla w$ that was sent. The first is the
# squared distance $\mathcal L_G$ of DLG (line 8; APRIL, eq. 2, which searches for the label as well). The second is the negative cosine $\mathcal L_A$ of the two position gradients
# (line 10). Their weighted sum is the loss of line 11 (APRIL, eq. 12):
#
# $$\mathcal L = \mathcal L_G + \alpha\,\mathcal L_A = \lVert \nabla w' - \nabla w \rVert_F^2 \;-\; \alpha\, \cos(\nabla E_\text{pos}, \nabla E_\text{pos}') .$$

# %%
drawings.show("06.search_loop")

# %% [markdown]
# ### Exercise 1: equation 12 *(difficulty 2, 10 minutes)*
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
solved = checks.verify("06.april", april_loss)
solved

# %% [markdown]
# Here are lines 5 to 12 with your loss. The paper's rule in line 12 is plain gradient descent; its experiments use Adam, and so do we. Change `steps`, `rate` or `alpha`, and run
# the cell again.


# %%
def algorithm_2(model, leak, label, alpha=1.0, steps=20, rate=0.1):
    draw = torch.Generator().manual_seed(seed)
    image = torch.randn(1, *leak.image_shape, generator=draw).to(device)  # line 5
    optimiser = torch.optim.Adam([image.requires_grad_()], lr=rate)
    weights = dict(model.named_parameters())
    for step in range(steps):  # line 6
        loss = F.cross_entropy(model(image), label)
        mine = derivatives.gradients(loss, weights, create_graph=True)  # lines 7, 9
        total = april_loss(mine, leak.grads, alpha)  # lines 8, 10 and 11
        if step % 5 == 0:
            print(f"step {step:3}: loss {total.item():.4f}")
        (image.grad,) = torch.autograd.grad(total, image)
        optimiser.step()  # line 12
    return leak.normalise.inverse(image.detach().cpu()).clamp(0, 1)  # to pixels


if solved.passed:  # without your loss there is nothing to run
    image = algorithm_2(client, sent, read)
    titles = ["the client's", f"yours: {metrics.psnr(image, digit).item():.1f} dB"]
    alt = f"The digit, and {titles[1]}."
    display(plots.side_by_side(digit, image, titles=titles, alt=alt))

# %% [markdown]
# ## Four searches side by side
#
# The paper compares four losses. DLG is the distance alone. IG compares the directions of the gradients, and adds a term for smoothness. TAG adds *absolute* differences, with more
# weight on layers near the input. APRIL adds the cosine, with a weight $\alpha$ that the paper does not print; here it is 1. All four use Adam, the same noise and the label that was read. IG also keeps its signed steps, which get shorter.
#
# ### Predict

# %%
NAMES = {"DLG": "dlg", "IG": "ig", "TAG": "tag", "APRIL": "april"}
guess_race = widgets.choose("Which search gets nearest to the digit?", list(NAMES))
guess_race

# %% [markdown]
# Press *Play*. The curve below each image is its SSIM. Only you see the digit on the right. (The paper's film is APRIL, Figure 3.)

# %%
steps = 8 if quick else 150
four = presets.lu2022(steps)
for name in ("dlg", "tag", "april"):  # the paper names Adam, and no step length
    four[name] = replace(four[name], schedule=schedules.constant)


def begin(attack):
    return lambda: attack.search(client, sent, seed=seed)


film = widgets.watch({name: begin(four[key]) for name, key in NAMES.items()}, digit)
film

# %%
film.finish()  # to the last step, wherever you paused
at = [frame.step for frame in film.ways["DLG"]]
courses = {name: (at, [f.psnr for f in way]) for name, way in film.ways.items()}
ends = {name: dB[-1] for name, (_, dB) in courses.items()}
display(guess_race.against(max(ends, key=ends.get)))
said = ", ".join(f"{name} {dB:.1f} dB" for name, dB in ends.items())
alt = f"Four searches for one digit. They end at: {said}."
plots.lines(courses, xlabel="step", ylabel="PSNR in dB", alt=alt)

# %% [markdown]
# Now more digits, and the paper's network with all of its steps (APRIL, Table 1). The open diamonds are the printed errors. In the evidence $\alpha$ follows a rule of ours,
# which you meet below; one row has $\alpha = 1$. There all four searches shorten their steps; in the film only IG does.

# %%
named = {name: name for name in NAMES}
in_print = plots.published("lu2022_table1", named, dataset="MNIST", metric="mse")
digits = experiments.load("april_by_optimisation.mnist")
rows = {name: f"mse[mnist, {key}]" for name, key in NAMES.items()}
rows["APRIL, alpha 1"] = "mse[mnist, april_alpha_1]"
rows["mean digit"] = "mse[mnist, mean_photograph]"
look = dict(xlabel="error of the normalised digit", published=in_print, log=True)
display(plots.evidence(digits, None, rows, **look))
text(
    "Our TAG ends at an error of {:.0e} (geometric mean); {:.0e} is printed. So at "
    "least one setting differs from the paper's, and with its own the order of the "
    "four may be another.",
    np.exp(np.log(digits["mse[mnist, tag]"]).mean()),
    in_print["TAG"],
)

# %% [markdown]
# [A deeper notebook](deeper/06_four_attacks.ipynb) has photographs, batches and the unit of this error, and asks why one distance is ahead.
#
# ## What is the term worth?
#
# A search follows the *gradient* of its loss, not the loss. The **share** of the position term is the norm of its gradient with respect to the pixels, divided by the sum of
# both terms' norms. Our rule sets $\alpha$ so that both terms can fall by the same amount. An attacker can follow it, since it needs only the leak.
#
# ### Predict
#
# The search raises the cosine of the two position gradients towards 1. It starts from pure noise.

# %%
guess_cosine = widgets.predict("The cosine at the start is", low=-1, high=1)
guess_cosine

# %%
start = next(four["april"].search(client, sent, seed=seed)).losses
display(guess_cosine.against(round(-start["position"], 4)))
_, position = presets.april_balanced(steps, client, sent, seed).terms
text(
    "At a weight of 1 the position term is {:.1e} of what drives this search. The "
    "rule gives alpha = {:.0e}.",
    sense_of_place.gradient_share(client, replace(sent, labels=read), seed),
    position.weight,
)

# %%
ran = {0: film.ways["DLG"][-1].images, 1: film.ways["APRIL"][-1].images}
for alpha in (1e3, 1e4, 1e5):
    attack = replace(presets.april(steps, alpha), schedule=schedules.constant)
    result = attack.run(client, sent, seed=seed, progress=False)
    ran[alpha] = result.snapshots[-1].images.cpu()


def weigh(alpha):
    dB = metrics.psnr(ran[alpha], digit).item()
    titles = ["the client's", f"alpha {alpha:g}: {dB:.1f} dB"]
    alt = f"The digit, and what APRIL found. {titles[1]}."
    return plots.side_by_side(digit, ran[alpha], titles=titles, alt=alt)


widgets.explore(weigh, start=dict(alpha=1), alpha=tuple(ran))

# %% [markdown]
# ## Two photographs, one gradient
#
# We go back to photographs, in patches of 8 x 8 pixels and two layers. After the position embedding is added, attention treats all tokens alike.
#
# ### Predict
#
# Take the position embedding away. Now cut the photograph into its 16 patches, and put them together in another order. Is the gradient of the
# weights the same?

# %%
SAME, SOME, NEW = "the same", "the same in some layers", "another in all layers"
guess_order = widgets.choose("Without a position embedding it is", [SAME, SOME, NEW])
guess_order

# %% [markdown]
# ### Exercise 2: make a twin *(difficulty 2, 10 minutes)*
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
# ### See the twin
#
# A **twin** is another image with nearly the same gradient. Choose how large the position embedding is, and what happens to the patches. Each dot is a part of the network: how far does its gradient move? 100 % is how far it
# moves when the photograph is replaced by noise. Which part moves when the embedding is zero? Which parts move when it is large?

# %%
photo, label = data.load("cifar10_samples").one(0)  # (1, 3, 32, 32) in [0, 1]
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
widgets.explore(shuffle, start, position_std=(0.0, 0.02, 1.0), patches=tuple(orders))

# %%
others = [share for part, share in table[0.0, "shuffled"].items() if "pos" not in part]
right = SAME if max(others) < 1e-6 else SOME if min(others) < 1e-6 else NEW
display(guess_order.against(right))
moved_by = dict(table[0.02, "shuffled"])
text(
    "With an embedding of 0.02 the shuffled photograph moves the position gradient by "
    "{:.2g} % of the way to noise, and no other part by more than {:.2g} %.",
    moved_by.pop("position embedding"),
    max(moved_by.values()),
)

# %% [markdown]
# A zero embedding still *has* a gradient. It has a row for each position, and these rows move along with the patches. So this one gradient depends on the
# order, even where no other gradient does. It distinguishes the two photographs. The paper motivates its term by intuition, without a proof. This may be a reason for it.

# %% [markdown]
# ## A sense of place
#
# How much does the *whole* gradient say about places? We call it the **sense of place**: how far the gradient moves when the patches are shuffled, divided by how far it
# is from the gradient of noise. Both are one minus cosine.

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

# %% [markdown]
# How does this affect a search? Photographs are harder than digits. Here we use our own search `annealed` of lab 04, not the paper's, because it needs fewer steps. Only the size
# of the two clients' position embeddings differs. The chart below the pictures has more photographs, behind new weights, with a shorter search. The mean photograph is the
# *baseline*: an image that is made without the gradient.
#
# ### Predict

# %%
MEAN, REST, BOTH, NEITHER = "their mean", "how they differ", "both", "neither"
guess_search = widgets.choose(
    "What comes back of the patches at 0.02?", [MEAN, REST, BOTH, NEITHER]
)
guess_search

# %%
attack = replace(presets.annealed(5 if quick else 80), derivative="auto")
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

# %%
lines = {"search": along("psnr[fresh, {}]")}
base = {"mean photograph": shown.mean("psnr[cifar10, mean_photograph]")}
look = dict(xlabel=xlabel, ylabel="PSNR in dB", log="x", thresholds=base)
plots.evidence_lines(kept, mine, lines, **look)

# %%
mean = shown.mean("psnr[mean_patch, std_0p02]") > 20
rest = shown.mean("correlation[differences_between_patches, std_0p02]") > 0.5
right = BOTH if mean and rest else MEAN if mean else REST if rest else NEITHER
display(guess_search.against(right))
parts = {std: sense_of_place.parts(image, photo) for std, image in found.items()}
text(
    "Split your two pictures into the mean of their patches and the rest. The mean "
    "patch came back with {:.0f} dB at 0.02 and {:.0f} dB at 1. The differences "
    "between patches correlate with the true ones by {:.2f} and {:.2f}.",
    *(parts[0.02][0], parts[1.0][0], parts[0.02][1], parts[1.0][1]),
)

# %% [markdown]
# ## A cheap defence
#
# The paper's advice (section 4.2): do not send the position gradient, or freeze the embedding. Algorithm 2 then lacks its line 4, and DLG is left. The paper reports that such a search finds **twin data**: images without
# a meaning that have nearly the same gradient (APRIL, Figure 7). A *private* embedding goes further: the server does not know its numbers.
#
# ### Predict
#
# The embedding has standard deviation 1. The client withholds its gradient, and the attacker runs the same search, again our own `annealed`.
# Below the answer are the images that the paper's searches find without the position gradient (APRIL, Figure 8).

# %%
guess_withheld = widgets.predict("How many dB does the search lose?", -5, 20, "dB")
guess_withheld

# %%
kept_kinds = experiments.load("april_by_optimisation.embeddings")
mine_kinds = experiments.run("april_by_optimisation.embeddings", profile, device=device)
kinds = {"sent": "shared", "withheld": "withheld", "frozen 2-D sinusoid": "sinusoid_2d"}
kinds |= {"private": "private"}
rows = {kind: f"psnr[search, {key}]" for kind, key in kinds.items()}
rows |= {"mean photograph": "psnr[cifar10, mean_photograph]"}
display(plots.evidence(kept_kinds, mine_kinds, rows, xlabel="PSNR in dB, by search"))
of = kept_kinds or mine_kinds
lost = of.mean("psnr[search, shared] - psnr[search, withheld]")
display(guess_withheld.against(round(lost, 1)))
theirs = experiments.load("april_by_optimisation.cifar10")
titles = ["the client's", "DLG", "IG", "TAG", "DLG at 0.02"]
name = "picture[photograph_without_position_gradient]"
ends = plots.tiles(theirs.picture(name, theirs.repeats[0]), 32).split(1)
alt = f"Without the position gradient: {', '.join(titles)}."
display(plots.side_by_side(*ends, titles=titles, alt=alt))
keys = "cifar10, dlg", "position_hidden, dlg", "cifar10, dlg, std_0p02"
text(
    "DLG reached {:.1f} dB with the position gradient, and {:.1f} dB without. At 0.02: "
    "{:.1f} and {:.1f} dB, though the distance of gradients shrank {:,.0f}-fold.",
    *(theirs.mean(f"psnr[{key}]") for key in (*keys, "position_hidden, dlg, std_0p02")),
    10 ** theirs.mean("log10_grad_loss_drop[position_hidden, std_0p02]"),
)

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
    "reached {:.1f} dB with a large embedding ({:.1f} dB if only the class token's was "
    "small) and {:.1f} dB with a small one, with a baseline of {:.1f} dB. When its own "
    "gradient was withheld, the search lost {:.1f} dB; linear equations still reached "
    "{:.0f} dB.",
    shown.mean("psnr[fresh, std_1]"),
    shown.mean("psnr[patches_std_1, class_std_0p02]"),
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
