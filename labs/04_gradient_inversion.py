# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 04 · Can one search for the picture?
#
# In lab 00 a linear system returned the client's photograph at once, because a Vision Transformer adds a position embedding to its patches.
# A ResNet adds none, and neither does a Swin. Is a photograph safe behind them, if the server *searches* for it?
#
# After this lab you can
# - write a gradient inversion attack as a sum of two terms;
# - run it on four architectures, and say which of them give a photograph away;
# - say what a failed attack proves, and what it does not.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.4 GB |
# | class | 1.3 | 1.5 GB |
#
# (Measured on two CPU cores. `night` attacks the paper's networks, as we read them, which takes one core half an hour, and continues where it was stopped.)

# %% [markdown]
# *About 65 minutes. You need* lab 00, and what an optimiser does. *New words*: **gradient matching**, **total variation**, **box**, **restart**,
# **BatchNorm**, **SSIM**.

# %%
from dataclasses import replace

from privlab import compute, data, experiments, ledger, metrics, models
from privlab.attacks import gradient_inversion
from privlab.leak import observe
from privlab.notebook import checks, drawings, plots, text, widgets

import pandas as pd
import torch
from IPython.display import display

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"
victim = ""  # one more network in the race, by its timm name: "mobilenetv3_small_050"

# %% [markdown]
# ## Who sees what
#
# The client computes a gradient from its photograph and sends it. The server knows the model. So the server can make up an image, compute the gradient
# that *this* image would have sent, and compare the two gradients. Then it changes the image, and compares again.

# %%
drawings.show("00.client_and_server")

# %%
drawings.show("04.search_loop")

# %% [markdown]
# ## A search in two terms
#
# **Gradient matching** searches for an image $x^*$ whose gradient is close to the one that was sent, $g = \nabla_\theta \mathcal L_\theta(x, y)$. Here $x$ is the
# photograph, $y$ its class and $\mathcal L$ the loss. Zhang et al. (section 3.1.3) write it with a squared distance:
#
# $$\arg\min_{x^*} \; \| \nabla_\theta \mathcal L_\theta(x, y) - \nabla_\theta \mathcal L_\theta(x^*, y) \|^2 .$$
#
# But their settings (Zhang et al., Table 1) name a *similarity* as the cost, and a second term of weight $\alpha$. We follow the settings, and take the
# cosine of the two gradients:
#
# $$\begin{aligned} &\arg\min_{x^* \in [0,1]} \; \underbrace{1 - \cos\big(\nabla_\theta \mathcal L_\theta(x^*, y),\; g\big)}_{\text{distance of the gradients}} \\ &+ \; \alpha \; \underbrace{\mathrm{TV}(x^*)}_{\text{regularisation}} \end{aligned}$$
#
# **Total variation** (TV) is the mean absolute difference between neighbouring pixels. The attacker assumes only that photographs are smooth.
# The *regularisation weight* $\alpha$ says how much smoothness counts. After each step, a pixel outside the **box** [0, 1] is set to its nearest edge.
#
# The loss needs the class $y$. The attacker is *given* it. This helps them little: [a deeper notebook](deeper/04_first_attack.ipynb)
# reads the label of a single image from the gradient of the last layer.
#
# The search begins with noise. The attacker may repeat it from other noise. Of these **restarts** they keep the one with the lowest loss.
# They cannot compare it with the photograph.

# %%
device = compute.device(device)
photos = data.load("cifar10_samples")
photo, label = photos.one(0)  # (1, 3, 32, 32) in [0, 1], and its class
profile = experiments.profile(profile)
quick = profile == "smoke"  # narrower networks and fewer steps, to try the code
steps = 32 if quick else 120
# "auto": a faster derivative, which checks itself against the exact one
attack = replace(gradient_inversion.annealed(steps), derivative="auto")
print(f"profile {profile}, {steps} steps", *attack.terms, sep="\n")

# %% [markdown]
# The first line names the profile whose pictures you see. Each other line is a term with its weight: the distance, then the smoothness, whose weight
# falls during the search. At each step a pixel moves up or down by the *sign* of its derivative. The steps become shorter. Zhang et al. 2024 attack
# with the same two terms ("Inverting Gradients", Geiping et al. 2020), a constant weight $\alpha$ of 0.0001, and 3,000 steps of Adam. `annealed` is our version
# for few steps.

# %% [markdown]
# ### Exercise 1: why a cosine? *(difficulty 2, 10 minutes)*
#
# The first attack of this kind, *Deep Leakage from Gradients* (Zhu et al. 2019; [a deeper notebook](deeper/04_first_attack.ipynb) runs it), compares two
# gradients by their squared distance. Ours takes one minus their cosine. Write it: `distance(mine, theirs)`. Each argument is a dict, parameter name -> tensor.
# The names are the same, but their order may differ. Take three sums over all names $n$, and divide once ($a$ is `mine`, $b$ is `theirs`):
#
# $$d = 1 - \frac{\sum_n \langle a_n, b_n\rangle}{\sqrt{\sum_n |a_n|^2}\,\sqrt{\sum_n |b_n|^2}} .$$
#
# <details><summary>Hint</summary>One name's part of the first sum is <code>(mine[name] * theirs[name]).sum()</code>.</details>


# %% tags=["exercise"]
def distance(mine, theirs): ...


# %% tags=["solution"]
def distance(mine, theirs):
    a = torch.cat([mine[name].flatten() for name in theirs])
    b = torch.cat([theirs[name].flatten() for name in theirs])
    return 1 - a @ b / (a.norm() * b.norm())


# %%
checks.verify("04.cosine", distance)

# %%
# the gradient that was sent, multiplied: the same image stands behind it
draw = torch.Generator().manual_seed(seed)
client, noise = torch.randn(2, 1000, generator=draw)  # 1,000 numbers each
ours = client + noise  # a gradient that agrees with the client's in part
for times in (0.001, 1, 1000):
    squared = (ours - times * client).square().sum()
    angle = 1 - torch.cosine_similarity(ours, times * client, dim=0)
    print(f"{times:>6} x: squared distance {squared:.3g}, 1 - cosine {angle:.3f}")

# %% [markdown]
# The length of a gradient says mostly how wrong the model was about the image. Its direction says what is in the image. A client that has
# trained for some time is hardly wrong, so its gradients are short, and a squared distance would need another $\alpha$ for each client.
#
# ## The race
#
# Here are four small networks. You know the *ResNet*, a CNN, and the *ViT* of lab 00. A *Swin* is a Transformer without an added position embedding.
# It relates patches to each other within a window, with a learned bias for each direction and distance. A few times it merges four neighbouring patches into one,
# and each of the four has its own weights. A *ConvNeXt* is a ResNet that was rebuilt step by step to resemble a Swin.
#
# All have fresh random weights and run in evaluation mode. (The paper says neither which weights nor which mode its networks have.) In this mode a **BatchNorm** layer, which normalises each channel of the ResNet, uses stored averages
# and not those of the batch.

# %%
family = {"ResNet": "resnet_cifar", "Swin": "swin_cifar", "ViT": "vit_cifar"}
family |= {"ConvNeXt": "convnext_cifar"}
smaller = {"ResNet": dict(channels=(16, 32, 64, 128)), "ViT": dict(depth=2)}
smaller = smaller if quick else {}
if victim:
    family[victim], smaller[victim] = victim, models.sized(victim, 32)


def fresh(name, **changes):  # with new random weights
    size = smaller.get(name, {}) | changes
    return models.build(family[name], num_classes=10, seed=seed, **size).to(device)


networks = {name: fresh(name) for name in family}
for name, network in networks.items():
    print(f"{name:>8}: {sum(p.numel() for p in network.parameters()) / 1e6:.1f} M")

# %% [markdown] tags=["printed"]
# Two numbers say how near a reconstruction comes. PSNR, from lab 00, compares pixel by pixel. **SSIM** compares the structure of two images: 1 means
# that they are equal, about 0 that they share no structure. We call an image *recognised* when its SSIM is above 0.5.
#
# ### Predict
#
# Place your bet: which of the networks give the photograph away? (The profile `smoke` stops early, and may have other winners.)

# %%
bet = widgets.choose("Which are recognised at the end?", list(family), many=True)
bet

# %% [markdown]
# Every network gets the same attack, the same photograph and the same number of steps, as in Zhang et al., Figure 5. The curve below an image is its SSIM so far, with a finishing
# line in the middle. In the notebook, press *Play*. Press *Pause* when something happens, and *Step* through it. The next cell finishes a race that you paused.
# In the book, the race is over: move the slider to step 0, and then to the right. (Click it, then use the arrow keys.)

# %%
leaks = {name: observe(network, photo, label) for name, network in networks.items()}
race = widgets.watch(
    {
        name: lambda name=name: attack.search(networks[name], leaks[name], seed=seed)
        for name in networks
    },
    truth=photo,
    stride=5,
)
race

# %%
race.finish()
race.picture()

# %% [markdown]
# Did you bet on the ViT, after lab 00? The section *Is a ViT safe?* returns to it. Lab 09 walks from ResNet to ConvNeXt, and asks which step
# makes the difference.
#
# Here is the ResNet's reconstruction, A, beside three other images. Exercise 2 asks about them.

# %%
truth, resnet = photo, race.states["ResNet"].images.cpu()
error = (resnet - truth).square().mean()  # as much as darkening will make
dark = truth * (1 - (error / truth.square().mean()).sqrt())
four = {"A": resnet, "B": torch.full_like(truth, 0.5), "C": dark}
four |= {"D": race.states["Swin"].images.cpu()}
decibels = {k: metrics.psnr(image, truth).item() for k, image in four.items()}
titles = [f"{k}: {value:.1f} dB" for k, value in decibels.items()]
says = "The ResNet's reconstruction, plain grey, the darkened photograph, the Swin's"
plots.side_by_side(*four.values(), titles=titles, alt=f"{says}. {', '.join(titles)}.")

# %%
bet.against(race.recognised)

# %% [markdown]
# ### Exercise 2: is half of the picture there? *(difficulty 1, 5 minutes)*
#
# A student reads the PSNR of A, the ResNet's reconstruction, and says: "A clean picture has about twice as many decibels. So half of the picture leaks."
# Compare A with the three other images above.

# %% [markdown]
# 1. Which image has about the same PSNR as A, and was made with neither the gradient nor the photograph?
# 2. Which image has about the same PSNR as A, and shows all of the photograph?
# 3. Which number tells these two apart: "PSNR", "MSE" (the mean squared error), or "SSIM"?
#
# Write a tuple, such as `("D", "D", "PSNR")`.
#
# <details><summary>Hint</summary>Which image needs no leak at all? And what does PSNR compare, pixel by pixel, when all pixels are too dark?</details>

# %% tags=["exercise", "reading"]
reading = ...

# %% tags=["solution"]
reading = ("B", "C", "SSIM")

# %%
checks.verify("04.decibels", reading)

# %% [markdown]
# ## Was that luck?
#
# You saw one photograph. The experiment repeats the search with others, each behind new random weights. Your guess is about its dots, which were measured before, with 120
# steps. (A triangle is your own run. At `smoke` it stops after 8 steps, and says little about the dots.) The *baseline* is an image that was made
# without the gradient: the mean of 50,000 other photographs. An attack that does not beat it has found nothing. The open diamonds are printed (Zhang et al., Table 5; for the
# ConvNeXt Zhang et al., Table 7).
# [A deeper notebook](deeper/04_larger_networks.ipynb) has larger networks, and says where we differ from the paper.

# %%
share = widgets.predict(
    "On what share of the photographs is the Swin's image recognised?", 0, 100, "%"
)
share

# %%
kept = experiments.load("gradient_inversion.architectures", "class")
mine = experiments.run("gradient_inversion.architectures", profile, device=device)
rows = {n: f"[cifar10, {n.lower()}]" for n in ("ResNet", "Swin", "ViT", "ConvNeXt")}
rows |= {"mean photograph": "[cifar10, mean_photograph]"}
full = {"ResNet": "ResNet-50", "Swin": "Swin-T", "ConvNeXt": "ConvNeXt-T"}
tables = pd.concat(ledger.papers.table(f"zhang2024_table{n}") for n in (5, 7))
in_print = tables.groupby(["metric", "model"])["mean"].first()


def chart(kept, mine, metric, xlabel):  # with the numbers of Zhang et al. 2024
    published = {name: in_print[metric, model] for name, model in full.items()}
    shown = {name: metric + keys for name, keys in rows.items()}
    shown = {name: value for name, value in shown.items() if value in (mine or kept)}
    return plots.evidence(kept, mine, shown, xlabel=xlabel, published=published)


chart(kept, mine, "ssim", "SSIM")

# %%
names = ("swin", "convnext", "resnet")
recognised = {n: kept.above(f"ssim[cifar10, {n}]", 0.5) for n in names}
display(share.against(100 * recognised["swin"] / max(len(kept), 1)))
text(
    "Each dot is a photograph, behind new random weights of the network. It was "
    "recognised on {swin} of {} photographs for the Swin, on {convnext} for the "
    "ConvNeXt, and on {resnet} for the ResNet. The Swin's PSNR is {:.1f} dB above the "
    "ResNet's on average. The paper's numbers are of full-size networks, after 3,000 "
    "steps. Will the ResNet, too, give its photograph away then?",
    len(kept),
    kept.mean("psnr[cifar10, swin] - psnr[cifar10, resnet]"),
    **recognised,
)

# %%
larger = experiments.load("gradient_inversion.architectures", "night")
strip = larger.picture("picture[photograph_and_reconstructions]")
titles = ["photograph", *full.values()]
alt = f"A photograph, and what 3,000 steps find behind {', '.join(full.values())}."
display(plots.side_by_side(*plots.tiles(strip, 32).split(1), titles=titles, alt=alt))
display(chart(larger, None, "ssim", "SSIM, the paper's networks, 3,000 steps"))
text(
    "Of {} photographs {} were recognised behind Swin-T, {} behind ConvNeXt-T and {} "
    "behind ResNet-50. On average Swin-T ends at {:.1f} dB, ConvNeXt-T at {:.1f} dB, "
    "ResNet-50 at {:.1f} dB, and the mean photograph has {:.1f} dB. (Two networks can "
    "be the paper's ResNet-50. This one begins with 3x3 filters and has timm's draw of "
    "weights; the other, with 7x7 and PyTorch's draw, ends at {:.1f} dB.) The paper's "
    "other two measures agree: MSE {:.3f}, {:.3f} and {:.3f}; LPIPS {:.4f}, {:.4f} and "
    "{:.4f}. (Both are lower for a better image. MSE is of normalised images.)",
    len(larger),
    *(larger.above(f"ssim[cifar10, {n}]", 0.5) for n in names),
    *(larger.mean(f"psnr[cifar10, {n}]") for n in (*names, "mean_photograph")),
    experiments.load("fourteen_steps.steps", "night").mean("psnr[step_1]"),
    *(larger.mean(f"{m}[cifar10, {n}]") for m in ("mse", "lpips") for n in names),
)

# %% [markdown]
# ## What does the second term do?
#
# Here are four regularisation weights $\alpha$, each constant during the search. The paper takes 0.0001. Which one gives the best picture behind the Swin,
# with our few steps?

# %%
weights = {"0.000001": 1e-6, "0.0001": 1e-4, "0.02": 0.02, "0.3": 0.3}
favourite = widgets.choose("The best weight:", list(weights))
favourite

# %%
found = {}
for w, weight in weights.items():
    constant = gradient_inversion.annealed(steps, (weight, weight))
    attack_w = replace(constant, derivative="auto")
    found[w] = attack_w.run(networks["Swin"], leaks["Swin"], seed=seed, progress=False)
ssim = {w: metrics.ssim(result.images, photo).item() for w, result in found.items()}
apart = {w: result.trace[-1]["gradients"] for w, result in found.items()}
titles = [f"{w}: SSIM {ssim[w]:.2f}, gradients {apart[w]:.2g} apart" for w in found]
images = [result.images for result in found.values()] + [four["D"]]
titles += [f"falling, in the race: SSIM {metrics.ssim(four['D'], photo).item():.2f}"]
says = f"A reconstruction for each regularisation weight. {'; '.join(titles)}."
plots.side_by_side(*images, titles=titles, alt=says)

# %% [markdown]
# In the race the weight falls. A large weight finds the coarse picture soon, but later it would blur the details. When the search is short, a constant
# weight may win.

# %%
favourite.against(max(ssim, key=ssim.get))

# %% [markdown]
# ### Exercise 3: how does an attacker choose? *(difficulty 2, 6 minutes)*
#
# You chose a weight by looking at the photograph. An attacker cannot: they have the gradient, the model, and public photographs. How should they
# choose $\alpha$?
# - "A": Try several, and take the one whose reconstruction has the highest SSIM with the client's photograph.
# - "B": Try several, and take the one whose search ends with the smallest distance between the gradients.
# - "C": Try several, and take the one whose search ends with the lowest loss.
# - "D": Compute gradients of public photographs behind the same model, attack these, and take the one with the highest SSIM there.
#
# <details><summary>Hint</summary>Which of these can be computed without the client's photograph? Then read the titles above: does the smallest distance
# belong to the best picture?</details>

# %% tags=["exercise", "reading"]
choice = ...

# %% tags=["solution"]
choice = "D"

# %%
checks.verify("04.tuning", choice)

# %% [markdown] tags=["printed"]
# ## Is a ViT safe?
#
# The ViT of the race has timm's position embedding, drawn with a standard deviation of 0.02. Other public ViTs for small images draw it
# with 1. We change only this number. Does this search find more with an embedding that is fifty times as large?

# %%
scale = widgets.choose(
    "With the large position embedding the search finds",
    ["more", "less", "about as much"],
)
scale

# %%
kept_scale = experiments.load("gradient_inversion.position_scale")
mine_scale = experiments.run(
    "gradient_inversion.position_scale", profile, device=device
)
scales = {"standard deviation 0.02": "psnr[vit, std_0p02]"}
scales |= {"standard deviation 1": "psnr[vit, std_1]"}
scales |= {"mean photograph": "psnr[vit, mean_photograph]"}
plots.evidence(kept_scale, mine_scale, scales, xlabel="PSNR in dB")

# %%
large = fresh("ViT", position_std=1.0)
result = attack.run(large, observe(large, photo, label), seed=seed, progress=False)
pair = {"0.02": race.states["ViT"].images.cpu(), "1": result.images}
titles = [
    f"{std}: SSIM {metrics.ssim(one, photo).item():.2f}" for std, one in pair.items()
]
says = f"Reconstructions behind a ViT with position embedding {', '.join(titles)}."
plots.side_by_side(*pair.values(), titles=titles, alt=says)

# %% [markdown]
# With a small embedding all *places* look alike to the network. If two patches swap places, the gradient hardly changes (lab 06 measures this), and the search
# cannot tell the images apart. A Swin has windows, biases and merging instead. We have not measured whether it leaks *for that reason*. The closed form of lab 00
# recovers the photograph anyway.

# %%
shown = kept_scale or mine_scale
gain = shown.mean("psnr[vit, std_1] - psnr[vit, std_0p02]")
scale.against("more" if gain > 1 else "less" if gain < -1 else "about as much")

# %% [markdown]
# ### Exercise 4: what does a failed attack prove? *(difficulty 2, 8 minutes)*
#
# You report on this lab to a hospital. Which of these statements may you sign? Give a set of letters.
#
# - "A": The attack `annealed`, with these steps, did not recover this photograph from the gradient of this ResNet.
# - "B": The gradient of the ViT with the small position embedding does not contain the photograph.
# - "C": By SSIM, the same attack recovered more from the small Swin than from the small ResNet.
# - "D": No attack recovers a photograph from the gradient of a ResNet.
# - "E": The ResNet with random weights resisted this search, so a trained one will resist it too.
#
# <details><summary>Hint</summary>Which statements speak only of what was run? For B, think of lab 00.</details>

# %% tags=["exercise", "reading"]
signed = ...

# %% tags=["solution"]
signed = {"A", "C"}

# %%
checks.verify("04.failure", signed)

# %% [markdown]
# ## The answer

# %%
text(
    "One can search for the picture, and find it behind some architectures: it was "
    "recognised on {swin} of {} photographs behind the Swin, on {convnext} behind "
    "the ConvNeXt, and on {resnet} behind the ResNet, and a Swin gives far more "
    "away at the paper's size, by either reading of its ResNet-50. A failed search "
    "does not prove that a picture is safe: behind the ViT it reached {:.1f} dB, "
    "where the mean photograph has {:.1f} dB, and {:.1f} dB when only the scale of "
    "the position embedding was changed.",
    len(kept),
    shown.mean("psnr[vit, std_0p02]"),
    shown.mean("psnr[vit, mean_photograph]"),
    shown.mean("psnr[vit, std_1]"),
    **recognised,
)

# %% [markdown]
# ## The paper, and here
#
# Zhang et al. attack ResNets and Swins (Table 5, Figure 5) and a ConvNeXt (Table 7), on CIFAR-10 and, in pictures only, on ImageNet. The first three claims answer the question of this lab. Most of the others belong to the
# deeper notebooks. Claims without a table or figure are our own.

# %%
widgets.verdicts("04", first=3)

# %% [markdown]
# ## What would change our mind
#
# A search that recovers the photograph from the ResNet would show that the ResNet's gradient contains it, and that our search was too weak.
# [A deeper notebook](deeper/04_gauss_newton.ipynb) gives the attacker a stronger optimiser, also behind networks of full size. All networks here were fresh. A trained one
# could give another result.

# %% [markdown]
# ## Read on
#
# Lab 05 has the closed forms that need no search. Lab 07 attacks batches, lab 08 asks which gradients leak, and lab 09 which step from ResNet to ConvNeXt
# makes the difference. Geiping et al. 2020 describe the attack. Zhang et al. 2024, sections 3.1.3 and 4.4, ask the question.
