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
# - say when repeats should be compared in pairs;
# - spot a compound claim that a careless rule decides wrongly.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 0.7 | 1.2 GB |
#
# (Measured on two CPU cores.)

# %% [markdown]
# *About 30 minutes. You need* lab 14. *Words that are new here*: **multiple comparisons**.

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
# ## Compound claims
#
# "Both are better", "one of four is better", "they are alike": such claims are made of several comparisons.
# In the next chart all true means are zero, and there are eight repeats. So every decision *for* the first four is wrong.
# The last claim, "alike within 0.2", is true here. For it, a decision *against* is wrong.

# %%
kept = experiments.load("the_ledger.nothing_to_find")
mine = experiments.run("the_ledger.nothing_to_find", profile)
compounds = ("both", "either", "order_of_four", "largest_of_four", "within")
ways = {
    f"{name.replace('_', ' ')}, {way}": f"decided_share[{name}, {way}]"
    for name in compounds
    for way in ("holds", "fails")
}
plots.evidence(kept, mine, ways, xlabel="share that is decided where nothing is true")

# %% [markdown]
# ## The lines alone
#
# Do the verdicts depend on anything but the registered repeats? Invented evidence is judged again: with its lines in another order, and
# among lines that do not count (pilots, another protocol, a second line for a repeat, a line that was cut short). The third row is a control, with every sign turned.

# %%
kept = experiments.load("the_ledger.judged_again")
mine = experiments.run("the_ledger.judged_again", profile)
ways = {
    "in another order": "verdicts_kept[in_another_order]",
    "among others": "verdicts_kept[among_others]",
    "signs turned": "verdicts_kept[of_another_sign]",
}
plots.evidence(kept, mine, ways, xlabel="share of verdicts kept")

# %% [markdown]
# ## Read on
#
# Holm 1979 is two pages of proof. Then go back to [lab 14](../14_the_ledger.ipynb).
