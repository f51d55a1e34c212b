# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 14, deeper · Do many verdicts stand together?
#
# You come from [lab 14](../14_the_ledger.ipynb). There one verdict was wrong at most one time in twenty, each way.
# The ledger has hundreds. How many of them would you still believe if you had to believe all of them at once?
#
# After this notebook you can
# - correct a list of p-values for its length;
# - say when repeats should be compared in pairs.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 0.7 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 25 minutes. You need* lab 14. *Words that are new here*: **multiple comparisons**.

# %%
from privlab import experiments, ledger
from privlab.notebook import checks, plots, text, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)

# %% [markdown] tags=["printed"]
# ## All of them together
#
# Suppose a hundred claims are false, and each is tested at 5%. About five of them will be called *reproduced* by chance.
# This is the problem of **multiple comparisons**. Holm's rule asks for certainty about all claims together.
#
# ### Predict

# %%
judged = ledger.judgements()
tested = [j for j in judged if j.p is not None and not j.exploratory]
passed = [j for j in tested if j.verdict == "reproduced"]
guess = widgets.predict(
    f"Of {len(passed)} reproduced claims about means, Holm's rule keeps:",
    low=0,
    high=len(passed),
)
guess

# %% [markdown]
# ### Exercise 1: Holm's rule *(difficulty 2, 15 minutes)*
#
# Write `holm(p_values, level=0.05)`. `p_values` maps names to p-values, of which there are $m$.
# The smallest is compared with `level` / $m$, the next with `level` / $(m - 1)$, and so on.
# The rule stops at the first p-value that is too large. Return the set of names that passed before.
#
# <details><summary>Hint</summary>Sort the names by their p-value. The k-th, counted from 0, is compared with
# <code>level / (m - k)</code>.</details>


# %% tags=["exercise"]
def holm(p_values, level=0.05): ...


# %% tags=["solution"]
def holm(p_values, level=0.05):
    passed = set()
    for k, name in enumerate(sorted(p_values, key=p_values.get)):
        if p_values[name] > level / (len(p_values) - k):
            break
        passed.add(name)
    return passed


# %%
checks.verify("14.holm", holm)

# %% [markdown]
# The p-value of a claim is the chance of values as clear as ours if the claim were just false.

# %%
together = ledger.report.holm(judged)[-1]
guess.against(together)

# %% [markdown]
# ## Paired or not?
#
# Often a repeat of one network is a twin of a repeat of another: both look at the same photograph.
# Then the rule compares the *pairs*. Does it gain or lose by that?

# %%
kept = experiments.load("the_ledger.decisions")
mine = experiments.run("the_ledger.decisions", profile)
pairs = {
    f"{how}, {what.replace('_', ' ')}": f"decided_share[repeats_3, {how}, {what}]"
    for what in ("nothing_in_common", "a_photograph_in_common")
    for how in ("apart", "paired")
}
plots.evidence(kept, mine, pairs, xlabel="share that is decided")

# %%
shares = [kept.mean(name) for name in pairs.values()]
text(
    "Pairs with nothing in common are decided less often, {:.0%} in place of {:.0%}: "
    "two degrees of freedom are left in place of four. Pairs that share a photograph "
    "gain: {:.0%} in place of {:.0%}.",
    shares[1],
    shares[0],
    shares[3],
    shares[2],
)

# %% [markdown]
# ## Read on
#
# Holm 1979 is two pages of proof. Then go back to [lab 14](../14_the_ledger.ipynb).
