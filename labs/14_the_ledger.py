# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 14 · The ledger: what held, what did not, and why
#
# Fourteen labs have measured what four papers claim. Here you read the result as a referee would: every claim, the paper's number beside ours, and a verdict. Then you turn on the verdicts themselves, and ask what *they* are worth.
#
# After it you can
# - take a verdict apart, and pass it again from the numbers behind it;
# - say what three repeats can decide, and what they cannot;
# - tell a claim that failed from one that was not tried hard enough, and an explanation that was measured from a guess;
# - say which verdicts would stand if all were asked together.

# %% [markdown]
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 1.1 GB |
# | class | 0.6 | 1.2 GB |
#
# (Measured on two CPU cores. Nothing is trained or attacked here.)
#
# *You need* lab 00, and whichever labs you want to judge. *Words that are new here*: **power**, **multiple comparisons**.

# %%
from collections import Counter

import numpy as np
import pandas as pd
from scipy.stats import t

from privlab import experiments, ledger
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
pd.set_option("display.max_colwidth", None)  # claims are sentences
HELD, FAILED = "reproduced", "not reproduced"

# %% [markdown]
# ## The evidence on the shelf
#
# What was measured lies in files that came with this book, one line for each repeat of an experiment. Which repeats are judged was registered before the first of them was measured.

# %%
registered = ledger.evidence.registrations()


def there(entry):
    return len(ledger.evidence.read(entry.experiment, entry.size, entry.digest).of(entry.first, entry.repeats))


shelf = [{"experiment": e.experiment, "size": e.size, "stands for": e.stands_for, "repeats": f"{there(e)} of {e.repeats}"} for e in registered]  # fmt: skip
pd.DataFrame(shelf)

# %% [markdown]
# ### Before you go on: predict

# %%
judged = ledger.judgements()
tried = [j for j in judged if j.claim.paper != "privlab" and j.verdict != "measuring"]
guess_held = widgets.predict(f"of {len(tried)} claims of the papers that were measured, reproduced:", low=0, high=100, unit="%")  # fmt: skip
guess_held

# %%
guess_held.against(100 * np.mean([j.verdict == HELD for j in tried]))

# %% [markdown]
# By paper, and by what the numbers speak about: the paper's own setting, or a stand-in of another size.

# %%
head, *rows = ledger.report.counts(judged)
pd.DataFrame(rows, columns=head)

# %% [markdown]
# (`privlab` are claims of our own. What was chosen after a look at the data stands apart: that it holds is no surprise.)
#
# Whoever reads nothing else asks eighteen questions, which the papers answer with yes:

# %%
pd.DataFrame([{"question": h.question.asks, "answer": h.words} for h in ledger.headlines.headlines(judged)])

# %% [markdown]
# ## Every claim
#
# Choose a paper, a lab, a verdict. Each row gives the claim in our words, the comparison that decides it, the number in print, ours, and the verdict with its reason.


# %%
def claims_of(paper, lab, verdict):
    found = [
        j
        for j in judged
        if paper in ("all", j.claim.paper) and lab in ("all", j.claim.lab) and verdict in ("all", j.verdict)
    ]
    return ledger.report.Panel(f"{len(found)} claims", tuple(found))


# %%
everything = dict(
    paper=("all", *ledger.papers.PAPERS),
    lab=("all", *sorted({j.claim.lab for j in judged})),
    verdict=("all", *ledger.judging.VERDICTS),
)
widgets.explore(claims_of, start={"paper": "lu2022", "lab": "05", "verdict": HELD}, **everything)

# %% [markdown]
# ## One verdict, passed again
#
# A verdict can be passed again by anybody, because every repeat is kept and not the mean alone. Here is a claim with all that it was judged by:

# %%
ours = [j for j in judged if j.claim.experiments and j.ours]
lost = next((j for j in ours if j.verdict == FAILED), ours[0])
claim = lost.claim
print(claim.statement, claim.where, claim.compare, claim.note, sep="\n")
kept = {name: experiments.load(name, lost.profile) for name in claim.experiments}
pd.DataFrame({f.name: kept[name][f.name] for f in lost.ours for name in kept if f.name in kept[name].table})

# %%
ledger.report.Panel("passed again", (ledger.judging.judge(claim),))

# %% [markdown]
# Each comparison is a test on the repeats' own values, once for it and once against it, by Student's t; names that were measured in the same repeat are paired. Neither shown: **inconclusive**. `and`, `or`, `min` and `max` are put together from such tests so that ignorance stays ignorance; that two things are *alike*, `abs(a - b) < margin`, is shown by two of them, one in each direction. Before the question come its *needs*, such as an attack that beats a guess: where one does not hold, the claim is **not tested**. Nothing of a claim is ever run as code: its text is parsed, and only comparisons and arithmetic are let in.
#
# Are verdicts the lines' alone? Invented evidence, judged again with its lines in another order, and among lines that are none (pilots, another protocol, second lines for a repeat, one cut short). The third row is a control: every sign turned.

# %%
kept = experiments.load("the_ledger.judged_again")
mine = experiments.run("the_ledger.judged_again", profile)
ways = {"in another order": "in_another_order", "among others": "among_others", "signs turned": "of_another_sign"}
plots.evidence(
    kept, mine, {label: f"verdicts_kept[{name}]" for label, name in ways.items()}, xlabel="share of verdicts kept"
)

# %% [markdown]
# ## Exercise 1: a verdict by hand
#
# `values` are repeats of one difference; the claim is that its true mean lies above `bar`. The repeats allow a Student's t distribution with n - 1 degrees of freedom around their mean, of width $s/\sqrt n$. Write `verdict(values, bar)`: "reproduced" if at least 95% of it lie above the bar, "not reproduced" if at most 5% do, "inconclusive" otherwise.
#
# <details><summary>Hint</summary><code>t.sf(x, df)</code> is the share of Student's t above x. How many widths is the bar above the mean? And s divides by n - 1.</details>


# %% tags=["exercise"]
def verdict(values, bar): ...


# %% tags=["solution"]
def verdict(values, bar):
    width = np.std(values, ddof=1) / len(values) ** 0.5
    above = t.sf((bar - np.mean(values)) / width, len(values) - 1)
    return "reproduced" if above >= 0.95 else "not reproduced" if above <= 0.05 else "inconclusive"


# %%
checks.verify("14.verdict", verdict)

# %% [markdown]
# ## What did not reproduce, and why
#
# A number that fails to appear is the beginning of a question. For each such claim we wrote down the best explanation that we found, and which *measured* claims hold it up. An explanation without any is a guess.

# %%
why = ledger.papers.explanations()
failed = {j.claim.id: j for j in judged if j.verdict == FAILED}
verdict_of = {j.claim.id: j.verdict for j in judged}
unexplained = [name for name in failed if name not in why]
print(f"{len(failed)} did not reproduce; without a word of explanation: {', '.join(unexplained) or 'none'}")


# %%
def standing(name):
    """How well a claim's explanation stands, by the verdicts of its evidence."""
    if name not in why or not why[name].evidence:
        return "a guess"
    votes = {verdict_of.get(other) for other in why[name].evidence}
    if FAILED in votes:
        return "contradicted"
    return "measured" if votes == {HELD} else "measured, in part undecided"


stands = Counter(map(standing, failed))
print(*(f"{count:3d} {kind}" for kind, count in stands.most_common()), sep="\n")


# %%
def explained(claim):
    """A claim that did not reproduce, its explanation, and the verdicts that hold it up."""
    judgement, reason = failed[claim], why.get(claim, ledger.papers.Explanation("Nobody has looked yet."))
    rows = [judgement, *(j for j in judged if j.claim.id in reason.evidence)]
    says = widgets.Sentence(f"{reason.because} ({standing(claim).capitalize()}.)")
    return says, ledger.report.Panel("The claim, and below it what the explanation rests on", tuple(rows))


# %%
widgets.explore(explained, claim=tuple(failed)) if failed else print("Nothing failed here.")

# %% [markdown]
# ### Predict
#
# For which share of what failed is every piece of the explanation itself measured and reproduced?

# %%
guess_measured = widgets.predict("explanations that are measured through and through:", low=0, high=100, unit="%")
guess_measured

# %%
measured = float(np.mean([standing(name) == "measured" for name in failed])) if failed else 0.0
guess_measured.against(100 * measured)

# %% [markdown]
# ## What the papers say against themselves
#
# Some claims do not even hold on the numbers that their own paper prints. Those were checked before anything was run:

# %%
contradicted = [c for c in ledger.papers.claims() if c.holds_on_printed_numbers is False]
pd.DataFrame(
    [{"claim": c.id, "statement": c.statement, "in print": "; ".join(map(str, c.numbers))} for c in contradicted]
)

# %% [markdown]
# ## What is a verdict worth?
#
# Suppose there is *nothing* to find: two attacks are equally good, and each is repeated three times. How often do we say "reproduced" or "not reproduced" all the same? And suppose there is: how large must a difference be before three repeats see it? That is the **power** of the procedure.
#
# We know the truth where we draw it ourselves. So let us put invented numbers before the very same judge.
#
# ### Predict

# %%
guess_power = widgets.predict("with 3 repeats, a difference of 2 standard deviations is decided in", low=0, high=100, unit="%")  # fmt: skip
guess_power

# %%
kept = experiments.load("the_ledger.decisions")
mine = experiments.run("the_ledger.decisions", profile)
guess_power.against(100 * mine.mean("decided_share[repeats_3, gap_2]"))

# %%
gaps = (0, 1, 2, 4)
plots.evidence_lines(
    kept, mine, {f"{n} repeats": {gap: f"decided_share[repeats_{n}, gap_{gap}]" for gap in gaps} for n in (2, 3, 4, 6, 8, 12)},
    xlabel="true difference, in standard deviations of one repeat", ylabel="share that is decided",
)  # fmt: skip

# %% [markdown]
# With nothing to find one verdict in ten is decided all the same, five in a hundred each way: that is what the level promises, whatever the number of repeats. And "inconclusive" from three repeats says little: a difference of two standard deviations often ends there.
#
# Where each repeat of one is a twin of a repeat of the other (the same photograph, the same victim), test the *pairs*:

# %%
pairs = {
    f"{how}, {what.replace('_', ' ')}": f"decided_share[repeats_3, {how}, {what}]"
    for what in ("nothing_in_common", "a_photograph_in_common")
    for how in ("apart", "paired")
}
plots.evidence(kept, mine, pairs, xlabel="share that is decided")

# %% [markdown]
# Pairs that have nothing in common lose by it: two degrees of freedom in place of four. Pairs that share a photograph gain far more.
#
# Compounds are where a rule goes wrong without a sound. Here all true means are 0 and there are eight repeats. What is decided should be wrong in at most five of a hundred, each way; and `abs(a - b) < 0.2` is true here, so that "fails" is the error:

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
# ## Exercise 2: how many repeats?
#
# Write `repeats(effect, spread)`: the smallest n of at least 2 for which $t_{.95,\,n-1}\cdot$ `spread` $/\sqrt n$ is no more than `effect`. With so many repeats a difference of the size `effect`, of this standard deviation, is decided about every other time.
#
# <details><summary>Hint</summary><code>t.ppf(0.95, df)</code>. Count n up from 2 until it fits.</details>


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
# ## Many claims at once
#
# One verdict in twenty may go wrong in our favour by chance. With two hundred verdicts that is no longer rare: the trouble of **multiple comparisons**. How many of the reproduced claims would stand if we asked for certainty about *all* of them together?
#
# ## Exercise 3: all of them together
#
# Write `holm(p_values, level=0.05)`: `p_values` maps names to p-values. Holm's rule holds the smallest against `level` / m, the next against `level` / (m - 1), and so on, and stops at the first that is above. Return the set of names that passed.
#
# <details><summary>Hint</summary>Sort the names by their p-value. The k-th, counted from 0, is held against <code>level / (m - k)</code>.</details>


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
# The p-value of a claim is the chance of values as clear as ours, were it just false.

# %%
tested = [j for j in judged if j.p is not None and not j.claim.exploratory]
p_values = {j.claim.id: j.p for j in tested}
passed = sum(j.verdict == HELD for j in tested)
if (together := holm(p_values)) is not None:  # once you have written it
    print(f"{len(p_values)} claims about means: {passed} reproduced; {len(together)} stand together, and the others, each likely, are not certain as a set")  # fmt: skip

# %% [markdown]
# ## Since last time
#
# Evidence is only ever added. Where more repeats were registered after a look, they are judged alone and at half the level, and the earlier verdict stays in the history, beside those of other sizes:

# %%
pd.DataFrame([vars(line) for line in ledger.history.lines()]).tail(20)

# %% [markdown]
# (In a terminal: `python -m privlab history`, and `python -m privlab report --before FOLDER` against earlier evidence.)
#
# ## Where the numbers come from
#
# A number without its machine is a rumour.

# %%
lines = [
    (e, row) for e in registered for row in ledger.evidence.read(e.experiment, e.size, e.digest).of(e.first, e.repeats)
]
made_on = Counter((e.size, row.device, *row.versions.values()) for e, row in lines)
pd.DataFrame(
    [
        {"size": size, "device": device, "versions": ", ".join(of), "repeats": n}
        for (size, device, *of), n in made_on.items()
    ]
)

# %% [markdown]
# ## The paper, and here

# %%
ledger.show("14")

# %% [markdown]
# ## What we did differently, and why
#
# - **A verdict for each claim, and none for a paper.** Papers are not right or wrong; sentences in them are.
# - **Sizes.** Most verdicts are about stand-ins: small members of the same families. Where one fails there, the paper's own size may still hold; the scope beside each verdict says which it is.
# - **Our own claims** are in the same ledger, under the same rule. Those written after a look at the data are counted apart.

# %% [markdown]
# ## Summary
#
# - A verdict can be passed again from the repeats that are kept. Without them it is an opinion.
# - From three repeats a decisive verdict is seldom an accident, and an inconclusive one says little.
# - Much of what failed here failed for a reason that was measured, too: overfitting, one price of smoothness for unlike networks, a norm that does nothing.
# - Two hundred verdicts are not certain together, even where each is.
#
# ## Where to read on
#
# Student 1908 on small samples; Holm 1979. The chapter on reading the ledger, and the ledger page, in the book. Then choose a claim that says *inconclusive*, and measure its experiment at a larger size: `python -m privlab measure EXPERIMENT --size night`.
