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
# - hold a run of today against one of last week, and say what moved.

# %% [markdown]
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.4 | 0.8 GB |
# | class | 1.3 | 0.8 GB |
# | gpu | 2 | 1.0 GB |
# | paper | 5 | 1.0 GB |
#
# (Measured on two CPU cores; the last two rows are estimates. Nothing is trained or attacked here.)
#
# *You need* lab 00, and whichever labs you want to judge. *Words that are new here*: **baseline**, **power**, **multiple comparisons**.

# %%
from collections import Counter
from dataclasses import asdict

import numpy as np
import pandas as pd
from IPython.display import Markdown
from scipy.stats import t

from privlab import ledger
from privlab.notebook import checks, plots, widgets

# %% tags=["parameters"]
profile = "smoke"
seed = 0
device = "auto"

# %%
page = ledger.Page("14", profile=profile, seed=seed, device=device)
about = dict(mode="eval", victim="none")
pd.set_option("display.max_colwidth", None)  # claims are sentences
# simulated pairs for each rate; blocks, each of which gives one value of a rate; numbers of repeats that are looked at
times, blocks, sizes = {
    "smoke": (50, 3, (2, 3, 5)),
    "class": (200, 5, (2, 3, 4, 6, 8)),
    "gpu": (400, 5, (2, 3, 4, 6, 8, 16)),
    "paper": (1_000, 5, (2, 3, 4, 6, 8, 16)),
}[profile]

# %% [markdown]
# ## The runs on the shelf
#
# A **baseline** is a run that was kept, to hold later ones against. One for each profile that we could run came with this book. Your own runs are on the shelf too, if you made any.

# %%
kept, mine = ledger.baselines.committed(), ledger.baselines.own()
if not kept:
    print("The book's baselines are not beside the package; git clone brings them. Your own runs stand in for them.")
    kept = {run.profile: run for run in reversed(mine.values())}
shelf = kept | {f"yours: {name}": run for name, run in mine.items()}
pd.DataFrame({name: {"profile": run.profile, "when": run.when, "records": len(run.records), **ledger.report.tally(run.judgements)} for name, run in shelf.items()}).T  # fmt: skip

# %% [markdown]
# *Not run* stands for claims that need more than the profile gives: a card, a hundred times the steps. They wait for somebody who has both.
#
# ### Before you go on: predict

# %%
latest = max(kept.values(), key=lambda run: ledger.papers.PROFILES.index(run.profile))
tried = [j for j in latest.judgements if j.claim.paper != "privlab" and j.verdict != ledger.verdicts.NOT_RUN]
guess_held = widgets.predict(f"of {len(tried)} claims of the papers that were tried at {latest.profile}, reproduced:", low=0, high=100, unit="%")  # fmt: skip
guess_held

# %%
held = [j.verdict == ledger.verdicts.REPRODUCED for j in tried]
guess_held.against(100 * np.mean(held))


# %%
def counts(run):
    """Paper -> how many of its claims got each verdict, in the order of `verdicts.VERDICTS`."""
    return {
        paper: list(ledger.report.tally(j for j in run.judgements if j.claim.paper == paper).values())
        for paper in ledger.papers.PAPERS
    }


plots.heat(
    list(counts(latest).values()), rows=list(counts(latest)), columns=ledger.verdicts.VERDICTS, xlabel=f"verdict at {latest.profile}", ylabel="paper",
    unit="claims", digits=".0f",
    alt=f"Claims by paper and verdict at {latest.profile}: " + "; ".join(f"{paper} {', '.join(map(str, n))}" for paper, n in counts(latest).items()),
)  # fmt: skip

# %% [markdown]
# (`privlab` are claims of our own. Many were written after a first look, as their notes say, so that they hold is no surprise.)
#
# ## Every claim
#
# Choose a run, a paper, a lab, a verdict. Each row gives the claim in our words, the comparison that decides it, the number in print, ours, and the verdict with its reason.


# %%
def claims_of(run, paper, lab, verdict):
    found = [
        j
        for j in shelf[run].judgements
        if paper in ("all", j.claim.paper) and lab in ("all", j.claim.lab) and verdict in ("all", j.verdict)
    ]
    return ledger.report.Panel(f"{run}: {len(found)} claims", tuple(found))


# %%
everything = dict(
    run=tuple(shelf),
    paper=("all", *ledger.papers.PAPERS),
    lab=("all", *sorted({claim.lab for claim in ledger.papers.claims()})),
    verdict=("all", *ledger.verdicts.VERDICTS),
)
beginning = {"run": latest.profile, "paper": "lu2022", "lab": "05", "verdict": ledger.verdicts.REPRODUCED}
widgets.explore(claims_of, start=beginning, **everything)

# %% [markdown]
# ## One verdict, passed again
#
# A verdict can be passed again by anybody, because the ledger keeps every repeat and not the mean alone. Here is a claim that lost, with all that it was judged by:

# %%
lost = next((j for j in latest.judgements if j.verdict == ledger.verdicts.NOT_REPRODUCED), latest.judgements[0])
claim = lost.claim
print(claim.statement, claim.where, claim.compare, claim.note, sep="\n")
evidence = [r for r in latest.records if r.lab == claim.lab and r.name in ledger.verdicts.parse(claim.compare).names]
pd.DataFrame(
    {r.name: {"repeats": r.values, "victim": r.victim, "seed": r.seed, "torch": r.machine.torch} for r in evidence}
)

# %%
ledger.report.Panel("passed again", (ledger.verdicts.judge(claim, latest.records, latest.profile),))

# %% [markdown]
# Each mean is drawn, 4,000 times, from what its repeats allow, and the comparison is put to every draw. Nothing of a claim is ever run as code: its text is parsed, and only comparisons and arithmetic are let in.

# %%
today = {claim.id: claim for claim in ledger.papers.claims()}


def kept_share(run):
    """The share of a run's claims whose verdict, passed again with today's comparison by today's judge, is the one that was passed then."""
    ran = {j.claim.lab for j in run.judgements if j.reason != f"lab {j.claim.lab} was not run"}
    old = [(j.verdict, today.get(j.claim.id), j.claim.lab in ran) for j in run.judgements]
    old = [each for each in old if each[1] is None or not each[1].experiments]  # the others are judged from evidence
    return np.mean(
        [
            c is not None and ledger.verdicts.judge(c, run.records, run.profile, ran=was).verdict == v
            for v, c, was in old
        ]
    )


# %%
for name, run in kept.items():
    page.record(
        "verdicts_kept", [f"at_{name}"], kept_share(run), unit="share", note="judged again by today's code", **about
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
failed = {j.claim.id: j for j in latest.judgements if j.verdict == ledger.verdicts.NOT_REPRODUCED}
verdict_of = {j.claim.id: j.verdict for j in latest.judgements}
unexplained = [name for name in failed if name not in why]
print(
    f"{len(failed)} did not reproduce at {latest.profile}; without a word of explanation: {', '.join(unexplained) or 'none'}"
)


# %%
def standing(name):
    """How well a claim's explanation stands, by the verdicts of its evidence."""
    if name not in why or not why[name].evidence:
        return "a guess"
    votes = {verdict_of.get(other) for other in why[name].evidence}
    if ledger.verdicts.NOT_REPRODUCED in votes:
        return "contradicted"
    return "measured" if votes == {ledger.verdicts.REPRODUCED} else "measured, in part undecided"


stands = Counter(map(standing, failed))
print(*(f"{count:3d} {kind}" for kind, count in stands.most_common()), sep="\n")


# %%
def explained(claim):
    """A claim that did not reproduce, its explanation, and the verdicts that hold it up."""
    judgement, reason = failed[claim], why.get(claim, ledger.papers.Explanation("Nobody has looked yet."))
    rows = [judgement, *(j for j in latest.judgements if j.claim.id in reason.evidence)]
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
page.record("explained_share", ["measured"], measured, unit="share", **about)
guess_measured.against(100 * measured)

# %% [markdown]
# ## What the papers say against themselves
#
# Some claims do not even hold on the numbers that their own paper prints. Those were checked before anything was run:

# %%
contradicted = [c for c in ledger.papers.claims() if c.holds_on_printed_numbers is False]
page.record("contradicted_in_print", ["all"], len(contradicted), unit="claims", **about)
pd.DataFrame(
    [{"claim": c.id, "statement": c.statement, "in print": "; ".join(map(str, c.numbers))} for c in contradicted]
)

# %% [markdown]
# ## What is a verdict worth?
#
# Suppose there is *nothing* to find: two attacks are equally good, and each is repeated three times. How often do we say "reproduced" all the same? And suppose there is: how large must a difference be before three repeats see it? That is the **power** of the procedure.
#
# We know the truth where we draw it ourselves. So let us put invented numbers before the very same judge:

# %%
question = ledger.papers.Claim("privlab.invented", "privlab", "lab 14", "14", "ordering", "one is above the other", "score[one] > score[other]", profile="smoke", profile_why="invented")  # fmt: skip
paired = ledger.papers.Claim(**asdict(question) | {"compare": "difference[one_less_other] > 0"})


# %%
def rate(gap, repeats, draw, asked=question):
    """The share of `times` invented experiments that end in each verdict: `gap` between the means, in standard deviations of a repeat."""
    found = Counter()
    for _ in range(times):
        one, other = draw.normal(gap, 1, repeats), draw.normal(0, 1, repeats)
        values = {("score", "one"): one, ("score", "other"): other, ("difference", "one_less_other"): one - other}
        invented = [ledger.records.record(*(name[0], [name[1]], v), lab="14", profile="smoke", seed=0, device="cpu", machine=page.machine, **about) for name, v in values.items()]  # fmt: skip
        found[ledger.verdicts.judge(asked, invented, "smoke", ran=True).verdict] += 1
    return {verdict: found[verdict] / times for verdict in ledger.verdicts.VERDICTS[:3]}


# %% [markdown]
# ### Predict

# %%
guess_power = widgets.predict("with 3 repeats, a difference of 2 standard deviations is decided in", low=0, high=100, unit="%")  # fmt: skip
guess_power

# %%
gaps = (0, 1, 2, 4)
draw = np.random.default_rng(seed)
decided = {
    n: np.array([[1 - rate(gap, n, draw)["inconclusive"] for gap in gaps] for _ in range(blocks)]) for n in sizes
}  # (blocks, gaps)
guess_power.against(100 * decided[3][:, gaps.index(2)].mean())

# %%
plots.lines(
    {f"{n} repeats": (gaps, of.mean(0)) for n, of in decided.items()},
    xlabel="true difference, in standard deviations of one repeat", ylabel="share that is decided",
    alt="Share of invented experiments that are decided, by true difference: " + "; ".join(f"{n} repeats " + ", ".join(f"{v:.2f}" for v in of.mean(0)) for n, of in decided.items()),
)  # fmt: skip

# %%
for n, of in decided.items():
    for i, gap in enumerate(gaps):
        page.record(
            "decided_share", [f"repeats_{n}", f"gap_{gap}"], of[:, i], unit="share", note=f"{times} a value", **about
        )
print(
    f"nothing to find, decided all the same: {', '.join(f'{n} repeats {of[:, 0].mean():.1%}' for n, of in decided.items())}"
)

# %% [markdown]
# So a decisive verdict is seldom an accident, and "inconclusive" from three repeats says little: a difference of two standard deviations often ends there. Where each repeat of one is a twin of a repeat of the other (the same photograph, the same victim), record the *difference*:

# %%
twins = {
    what: np.array([1 - rate(2, 3, draw, asked)["inconclusive"] for _ in range(blocks)])
    for what, asked in (("apart", question), ("as_a_difference", paired))
}
for what, values in twins.items():
    page.record("decided_share", ["repeats_3", what], values, unit="share", note="gap of 2, independent twins", **about)

# %% [markdown]
# (These twins have nothing in common, which is the worst case for a difference. Where they share a photograph, the difference varies less than either, and gains far more.)
#
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
# A share of the draws is almost a p-value: what does not hold, of 4,000. Where all draws hold it is only known to be below 1 in 4,000, and 1 in 4,000 is what we take.

# %%
judged = [j for j in latest.judgements if j.share is not None and j.verdict == ledger.verdicts.REPRODUCED]
p_values = {j.claim.id: max(1 - j.share, 1 / ledger.verdicts.DRAWS) for j in judged}
if (together := holm(p_values)) is not None:  # once you have written it
    page.record(
        "survive_holm",
        [f"at_{latest.profile}"],
        len(together) / max(len(judged), 1),
        unit="share",
        note="of what reproduced",
        **about,
    )
    print(f"{len(together)} of {len(judged)} stand together; the others, each likely, are not certain as a set")

# %% [markdown]
# ## Since last time
#
# The weekly run is held against a baseline: which verdicts got worse, which stopped being run. Choose one of your runs; without one, the book's own is held against itself.


# %%
def since(run):
    """What moved in a run since the committed one of its profile."""
    now = shelf[run]
    if now.profile not in kept:
        return widgets.Sentence(
            f"No baseline of the profile {now.profile} is committed yet; this run could be the first."
        )
    return Markdown(str(ledger.comparison.compare(now, kept[now.profile])))


widgets.explore(since, run=tuple(shelf))

# %% [markdown]
# (A run of two labs lacks the claims of all others; they stand there as no longer run. In a terminal: `python -m privlab report runs/smoke --baseline book/baselines/smoke.json`.)
#
# ## Where the numbers come from
#
# A number without its machine is a rumour. The committed runs were made over weeks, lab by lab:


# %%
def made_by(run):
    return pd.DataFrame(ledger.baselines.provenance(shelf[run])).set_index("lab")


widgets.explore(made_by, run=tuple(shelf))

# %% [markdown]
# ## The paper, and here

# %%
page.show()

# %% [markdown]
# ## What we did differently, and why
#
# - **A verdict for each claim, and none for a paper.** Papers are not right or wrong; sentences in them are.
# - **Sizes.** A laptop's verdict is about small members of the same families. Where it fails, the paper's own size may still hold: such claims are run at `gpu` and `paper`, by who has the card.
# - **Our own claims** are in the same ledger, under the same rule. Where one was written after a look at the data, its note says so.

# %% [markdown]
# ## Summary
#
# - A verdict can be passed again from the repeats that are kept. Without them it is an opinion.
# - From three repeats a decisive verdict is seldom an accident, and an inconclusive one says little.
# - About half of what failed here failed for a reason that was measured, too: overfitting, one price of smoothness for unlike networks, a norm that does nothing.
# - Two hundred verdicts are not certain together, even where each is.
#
# ## Where to read on
#
# Student 1908 on small samples; Holm 1979. The chapter on reading the ledger, and the ledger page, in the book. Then choose a claim that says *inconclusive*, and run its lab with more repeats: `python -m privlab run --claim ID --profile laptop`.
