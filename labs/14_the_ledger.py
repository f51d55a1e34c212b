# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 14 · What is a verdict worth?
#
# Every lab ends with a table: a claim, the paper's number, our number, a verdict. Would you have ruled the same?
# Here you are the referee. First you rule from the dots alone. Then you put the rule itself on trial.
#
# After this lab you can
# - pass a verdict from the repeats behind it;
# - say what a few repeats can decide, and what they cannot;
# - find the flaw in a claim before you believe its verdict.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.0 GB |
# | class | 0.4 | 1.0 GB |
#
# (Measured on two CPU cores. Nothing is trained or attacked here.)

# %% [markdown]
# *About 60 minutes. You need* lab 00, and any labs whose claims you want to judge.
# *New words*: **power**.

# %%
from privlab import experiments, ledger
from privlab.course.lab_14 import referee
from privlab.notebook import checks, drawings, plots, text, widgets

import numpy as np
import pandas as pd
from IPython.display import display
from scipy.stats import t

pd.set_option("display.max_colwidth", None)  # no sentence is cut

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)

# %% [markdown]
# ## From a claim to a verdict
#
# A claim is a sentence of a paper together with a comparison that can be measured.
# Before an experiment runs, we *register* how many repeats it will have. Each repeat has its own photographs, its own weights and its own noise.
# When all of them are there, a rule passes one of five verdicts.

# %%
drawings.show("14.verdict")

# %% [markdown]
# A *need* is what must be true before the question makes sense. For example, an attack has to beat a picture that was made without the gradient. If a need fails, the claim is *not tested*.

# %% [markdown]
# ## You are the referee
#
# Each dot is one repeat. The thin line marks what the claim asks for.
# Rule on the claims one by one. The ledger's verdict appears after yours.

# %%
judged = ledger.judgements()
desk = referee.Referee(referee.cases(judged, number=8, seed=seed))
desk

# %% [markdown]
# Where did you and the rule differ? Most people trust a mean too soon. They see that the mean lies on one side of the line,
# and do not ask how far the single repeats are apart.

# %% [markdown]
# ## The rule behind the verdicts
#
# The repeats are a sample. Their mean would come out a little different with other photographs.
# Student's t distribution says by how much. It is centred on the mean of the $n$ repeats, and its width is
# the standard deviation of the repeats divided by $\sqrt n$.
# The rule asks how much of this distribution lies on the side that the claim wants.

# %%
drawings.show("14.three_rulings")

# %% [markdown] tags=["printed"]
# ### Exercise 1: a verdict by hand *(difficulty 2, 10 minutes)*
#
# `values` are the repeats of one number. The claim is that its true mean lies above `bar`. Write `verdict(values, bar)`.
# It returns "reproduced" if at least 95% of the t distribution with $n - 1$ degrees of freedom lie above the bar,
# "not reproduced" if at most 5% do, and "inconclusive" otherwise.
#
# <details><summary>Hint</summary><code>t.sf(x, df)</code> is the share of Student's t above x. How far is the bar above the mean, in units of this width? The standard deviation divides by n - 1.</details>


# %% tags=["exercise"]
def verdict(values, bar): ...


# %% tags=["solution"]
def verdict(values, bar):
    width = np.std(values, ddof=1) / len(values) ** 0.5
    above = t.sf((bar - np.mean(values)) / width, len(values) - 1)
    if above >= 0.95:
        return "reproduced"
    return "not reproduced" if above <= 0.05 else "inconclusive"


# %%
checks.verify("14.verdict", verdict)

# %% [markdown]
# Use your own function on the claims of the referee's desk:

# %%
above = [case for case in desk.cases if np.isinf(case.high)]
pd.DataFrame(
    {
        "number": [case.text for case in above],
        "yours": [verdict(case.values, case.low) for case in above],
        "the ledger's": [case.judgement.verdict for case in above],
    }
)

# %% [markdown]
# ## How much can a few repeats decide?
#
# We know the truth if we invent the numbers ourselves. So we draw made-up repeats of two attacks, and let the ledger's rule decide which is better.
# The **power** of a rule is how often it decides when there really is a difference.
#
# ### Predict
#
# The second attack is really better, by two standard deviations of a single repeat. There are three repeats of each.
# How often does the rule decide?

# %%
guess_power = widgets.predict(
    "decided, of 100 such experiments:", low=0, high=100, unit="%"
)
guess_power

# %%
kept = experiments.load("the_ledger.decisions")
mine = experiments.run("the_ledger.decisions", profile)
gaps = (0, 1, 2, 4)
share = "decided_share[repeats_{}, gap_{}]".format
plots.evidence_lines(
    kept,
    mine,
    {f"{n} repeats": {gap: share(n, gap) for gap in gaps} for n in (2, 3, 4, 8, 12)},
    xlabel="true difference, in standard deviations of one repeat",
    ylabel="share that is decided",
)

# %%
display(guess_power.against(100 * kept.mean(share(3, 2))))
text(
    "With no difference at all, {:.0%} of the experiments with three repeats are "
    "decided, and each of these verdicts is wrong. With a difference of two standard "
    "deviations, {:.0%} are decided with three repeats and {:.0%} with eight.",
    kept.mean(share(3, 0)),
    kept.mean(share(3, 2)),
    kept.mean(share(8, 2)),
)

# %% [markdown]
# So *inconclusive* does not mean that there is no effect. It often means that there were too few repeats to see it.

# %% [markdown]
# ### Exercise 2: how many repeats? *(difficulty 2, 10 minutes)*
#
# Write `repeats(effect, spread)`. It returns the smallest $n \geq 2$ for which
# $t_{0.95,\,n-1} \cdot \text{spread} / \sqrt n$ is at most `effect`.
# With this many repeats, a true difference of the size `effect` is decided about half of the time.
#
# <details><summary>Hint</summary><code>t.ppf(0.95, df)</code> is the quantile. Count n up from 2 until it
# fits.</details>


# %% tags=["exercise"]
def repeats(effect, spread): ...


# %% tags=["solution"]
def repeats(effect, spread):
    n = 2
    while t.ppf(0.95, n - 1) * spread / n**0.5 > effect:
        n += 1
    return n


# %%
checks.verify("14.repeats", repeats)

# %% [markdown]
# ## What no rule can repair
#
# A rule can only use the dots that it is given. It cannot see that the dots answer another question. Here are four made-up studies.

# %%
STUDIES = {
    "A": "Attack X beats attack Y on a ResNet: 11.6 against 10.9 dB, 12 photographs, "
    "each with its own weights. The mean of public photographs reaches 12.3 dB.",
    "B": "A Swin leaks more than a ResNet: 21 against 13 dB, 16 repeats: "
    "one photograph, 16 seeds of the search. The mean photograph reaches 12 dB.",
    "C": "A defence helps. After 4 repeats the test was open, so 4 more were added, "
    "and then 4 more. After 12 repeats it was decided.",
    "D": "GELU leaks more than ReLU: 19 against 15 dB, 12 repeats, each with its own "
    "photograph and weights, registered before. The mean photograph reaches 12 dB.",
}
pd.DataFrame({"study": STUDIES.keys(), "says": STUDIES.values()})

# %% [markdown]
# ### Predict
#
# All four end with the verdict *reproduced*.

# %%
guess_flaws = widgets.choose(
    "How many deserve their verdict?", ["0", "1", "2", "3", "4"]
)
guess_flaws

# %% [markdown]
# ### Exercise 3: find the flaw *(difficulty 2, 10 minutes)*
#
# Give each study the letter of its worst flaw, as in `{"A": "q", ...}`.
#
# - `p`: the repeats are not independent of each other;
# - `q`: two failed attacks are compared;
# - `r`: the number of repeats was chosen after a look at the data;
# - `s`: none of these.
#
# <details><summary>Hint</summary>Ask three questions of each study. What would a picture reach that was made without the gradient? What is different from repeat to repeat? When was the number of repeats fixed?</details>

# %% tags=["exercise", "reading"]
flaws = {"A": ..., "B": ..., "C": ..., "D": ...}

# %% tags=["solution"]
flaws = {"A": "q", "B": "p", "C": "r", "D": "s"}

# %%
checks.verify("14.flaws", flaws)

# %%
guess_flaws.against("1")

# %% [markdown]
# ## The whole ledger
#
# Now look at all the claims of the four papers that were measured so far.
#
# ### Predict

# %%
tried = [j for j in judged if j.claim.paper != "privlab" and j.verdict != "measuring"]
guess_held = widgets.predict(
    f"of {len(tried)} claims of the papers, reproduced:", low=0, high=100, unit="%"
)
guess_held

# %%
guess_held.against(100 * np.mean([j.verdict == "reproduced" for j in tried]))

# %% [markdown]
# The table counts the verdicts by paper. It keeps three scopes apart. In *the paper's own setting* a verdict speaks about the paper. Where the paper leaves
# something open that may matter, it speaks about *our reading* of it. In *a stand-in* it speaks about smaller networks or fewer images only.

# %%
head, *rows = ledger.report.counts(judged)
table = pd.DataFrame(rows, columns=head)
verdicts = [
    ", ".join(f"{count} {verdict}" for verdict, count in row.items() if count != "-")
    for _, row in table[head[2:]].iterrows()
]
table[head[:2]].assign(verdicts=verdicts)

# %% [markdown]
# Eighteen questions summarise the papers. Each answer rests on one or more claims.

# %%
asked = ledger.report.headlines(judged)
pd.DataFrame({"question": [h.asks for h in asked], "answer": [h.words for h in asked]})

# %% [markdown]
# One verdict is wrong at most one time in twenty. So of many false claims a few will pass by chance: the problem of *multiple comparisons*. Holm's rule asks
# for certainty about all claims together. It compares the smallest of $m$ p-values with $0.05/m$, the next with $0.05/(m-1)$, and so on, and stops at the first
# that is too large.

# %%
text(
    "Of {1} reproduced claims about means, Holm's rule keeps {2}.",
    *ledger.report.holm(judged),
)

# %% [markdown]
# The book's pages of claims have every claim with its repeats, and an explanation of what did not reproduce.

# %% [markdown]
# ## The answer

# %%
text(
    "A verdict is worth as much as the repeats and the needs behind it: with three "
    "repeats the rule misses {:.0%} of differences as large as two standard "
    "deviations, and with eight {:.0%}. It is worth nothing where two failed attacks "
    "are compared, where repeats are not independent, or where their number was "
    "chosen after a look.",
    1 - kept.mean(share(3, 2)),
    1 - kept.mean(share(8, 2)),
)

# %% [markdown]
# ## The paper, and here
#
# These claims are our own: they are about the rule.

# %%
widgets.verdicts("14")

# %% [markdown]
# ## What would change our mind
#
# - A kind of measured number whose repeats are so skewed that the rule decides wrongly more often than it promises.
#   The chapter on reading the ledger tabulates such cases.
# - A claim whose verdict flips when it is measured again on repeats that nobody had seen.

# %% [markdown]
# ## Read on
#
# - Student 1908 on the mean of a small sample.
# - Choose a claim that is *inconclusive*, and measure its experiment at a larger size:
#   `python -m privlab measure EXPERIMENT --size night`.
