# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 11, deeper · Can a digit come out that the generator never saw?
#
# You come from [lab 11](../11_model_inversion.ipynb). There the generator was linear, and it knew faces. Here it is a network, and it has never seen what the
# attacker looks for: the victim tells the digits 0 to 4 apart, and the attacker has only pictures of 5 to 9.
#
# After this notebook you can
# - say how a generator is trained against a discriminator;
# - say what limits an attack: the victim, or the generator;
# - read a result in which the attack does hardly better than chance.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.3 GB |
# | class | 1.5 | 1.5 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 20 minutes. You need* lab 11. *New words*: **GAN**.

# %%
from privlab import compute, data, experiments, training
from privlab.attacks import model_inversion
from privlab.attacks.model_inversion import gans
from privlab.experiments import private_people
from privlab.notebook import plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)
short = profile == "smoke"
numbers = private_people.numbers(
    each=32 if short else 200, public=300 if short else 6_000, side=16, seed=seed
)

# %%
private, _ = numbers.photographs(0)
plots.images(
    {
        "private: 0 to 4": private[:8].float() / 255,
        "public: 5 to 9": numbers.draws[0].public[:8].float() / 255,
    },
    alt="Eight private pictures of the digits 0 to 4, and eight public ones of 5 to 9.",
)

# %% [markdown]
# ## Two networks against each other
#
# A **GAN** is two networks. The generator turns latents into pictures. The *discriminator* learns to tell these from real ones, and the generator learns to
# deceive it. Ours is a DCGAN, which is made of convolutions. Both learn from 5 to 9. Each row shows the same eight latents, some epochs later.

# %%
recipe = model_inversion.GANRecipe(
    2 if short else 30, seed, channels=8 if short else 24
)
gan = gans.gmi(numbers.draws[0].public, recipe, device=device, progress=False)

# %%
made = gan.synthesise(gan.map(gan.sample(16, seed))).detach().cpu()
plots.images(
    {"random latents": made},
    alt="Sixteen pictures from random latents of the generator.",
)

# %% [markdown]
# ### Predict
#
# Can a generator that knows 5 to 9 draw a 3, a 0, a 1?

# %%
DIGITS = ["0", "1", "2", "3", "4"]
guess = widgets.choose("Which digits will come out?", DIGITS, many=True)
guess

# %% [markdown]
# ## The attack
#
# It is PPA again, with this generator. Another network, trained on all ten digits' private pictures, reads what comes out.

# %%
normalise, how = data.NORMALISE["mnist"], training.RECIPES["digits"]


def trained(name, size, keep):
    return private_people.trained(
        numbers, normalise, seed, device, name, size, keep, how
    )


victim = trained("resnet18", private_people.NARROW, numbers.keep()).model(0).to(device)

# %%
small = dict(growth_rate=12, block_config=(2, 2, 2))
reading = trained("densenet121", small, numbers.evaluation_keep())
reader = model_inversion.evaluation.evaluation_models(reading, numbers)[0]

# %%
attack = model_inversion.ppa(
    lr=0.1, pool=200 if short else 1_000, candidates=8, kept=8, views=10
)

# %%
found = attack.run(victim, gan, range(5), seed)
score = reader.score(found.images, found.targets)
first = reader.score(found.first, found.targets)

# %%
plots.images(
    {f"target {k}": found.images[found.targets == k] for k in range(5)},
    alt="Eight pictures that were found for each of the digits 0 to 4.",
    captions={
        f"target {k}": [
            "read right" if yes else "" for yes in score.top1[found.targets == k]
        ]
        for k in range(5)
    },
)

# %%
share = [score.top1[found.targets == k].double().mean().item() for k in range(5)]
guess.against(
    [digit for digit, right in zip(DIGITS, share, strict=True) if right > 0.5]
)

# %% [markdown]
# A digit counts as found here if the reader gets more than half of its pictures right.

# %%
text(
    "The reader gets {:.0f} % of the pictures right, and {:.0f} % of those with which"
    " the search began. Guessing is right in one of five. The victim is {:.0f} % sure"
    " on average.",
    100 * score.accuracy,
    100 * first.accuracy,
    100 * found.likelihood.mean().item(),
)

# %% [markdown]
# ## Is that luck? And do skip connections matter?
#
# The committed evidence has smaller generators, which are trained for seconds. One dot is a repeat with its own victim, reader, and generator. *Skip-4* is a
# victim without the skip connections of its last stage.

# %%
kept = experiments.load("model_inversion.digits")
mine = experiments.run("model_inversion.digits", profile, device=device)
rows = {
    "full": "attacc[mnist, resnet, full]",
    "its first choice": "attacc[mnist, resnet, first_choice]",
    "Skip-4": "attacc[mnist, resnet, skip_4]",
    "the reader, on real digits": "acc[mnist, reader]",
}
plots.evidence(kept, mine, rows, xlabel="digits that are read right, %")

# %%
text(
    "There the search reads {:.0f} ± {:.0f} of 100 right, its first choice {:.0f} ±"
    " {:.0f} (standard deviation), and chance is 20.",
    *(
        of(rows[k])
        for k in ("full", "its first choice")
        for of in (kept.mean, kept.spread)
    ),
)

# %% [markdown]
# Where the attack is no better than chance, a comparison of two victims says nothing about them. It says that the generator was the limit. A deeper notebook of
# lab 12 has attacks that ask the victim while they train their generator.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2020 (GMI) and Chen et al. 2021 (KEDMI) have this small case: private digits 0 to 4, public ones 5 to 9.
