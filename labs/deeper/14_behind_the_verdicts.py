# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 14, deeper · What stands behind the verdicts?
#
# You come from [lab 14](../14_the_ledger.ipynb). A verdict that cannot be checked is an opinion.
# Here is everything that stands behind ours: the evidence, every claim, the explanations, what other sizes say and the machines.
#
# After this notebook you can
# - find any claim, and the repeats that it was judged by;
# - tell an explanation that was measured from a conjecture;
# - say on what machine a number was made.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.3 | 1.1 GB |
# | class | 0.3 | 1.1 GB |
#
# (Measured on two CPU cores. Nothing is measured here.)

# %% [markdown]
# *About 20 minutes. You need* lab 14. *No words are new here.*

# %%
from collections import Counter

from privlab import experiments, ledger
from privlab.notebook import widgets

import pandas as pd

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
pd.set_option("display.max_colwidth", None)  # claims are sentences
FAILED = "not reproduced"
judged = ledger.judgements()

# %% [markdown]
# ## The evidence on the shelf
#
# The measurements lie in files that came with this book, one line for each repeat.
# Which repeats are judged was registered before the first of them was measured.

# %%
registered = ledger.evidence.registrations()


def lines_of(entry):
    return ledger.evidence.read(
        entry.experiment, entry.size, entry.digest, within=entry.range
    )


shelf = [
    (e.experiment, e.size, e.stands_for, f"{len(lines_of(e))} of {e.repeats}")
    for e in registered
]
pd.DataFrame(shelf, columns=["experiment", "size", "stands for", "repeats"])

# %% [markdown]
# ## Every claim
#
# Choose a paper, a lab and a verdict.


# %%
def claims_of(paper, lab, verdict):
    found = tuple(
        j
        for j in judged
        if paper in ("all", j.claim.paper)
        and lab in ("all", j.claim.lab)
        and verdict in ("all", j.verdict)
    )
    return widgets.Verdicts(f"{len(found)} claims", found)


# %%
widgets.explore(
    claims_of,
    start={"paper": "lu2022", "lab": "05", "verdict": "reproduced"},
    paper=("all", *ledger.papers.PAPERS),
    lab=("all", *sorted({j.claim.lab for j in judged})),
    verdict=("all", *ledger.judging.VERDICTS),
)

# %% [markdown]
# ## One verdict, passed again
#
# Every repeat is kept, not only the mean. So anybody can pass a verdict again. Here is one claim with all the numbers that decide it:

# %%
ours = [j for j in judged if j.claim.experiments and j.ours]
one = next((j for j in ours if j.verdict == FAILED), ours[0])
kept = {name: experiments.load(name, one.profile) for name in one.claim.experiments}
print(one.claim.statement, one.claim.where, one.claim.compare, sep="\n")
repeats = {f.name: of[f.name] for f in one.ours for of in kept.values() if f.name in of}
pd.DataFrame(repeats).T.round(3)

# %%
widgets.Verdicts("passed again", (ledger.judging.judge(one.claim),))

# %% [markdown]
# The text of a claim is never run as code. It is parsed, and only comparisons and arithmetic are let in.

# %% [markdown]
# ## What did not reproduce, and why
#
# An effect that fails to appear is the beginning of a question. For such claims we wrote down the best explanation that we found,
# and which *measured* claims it rests on. An explanation without any is a conjecture.
#
# ### Predict

# %%
why = ledger.papers.explanations()
nobody = ledger.papers.Explanation("Nobody has looked yet.")
verdict_of = {j.claim.id: j.verdict for j in judged}
failed = {j.claim.id: j for j in judged if j.verdict == FAILED}


def standing(name):
    """How well an explanation stands, by the verdicts of its evidence."""
    return why.get(name, nobody).standing(verdict_of)


guess = widgets.predict(
    f"explanations of {len(failed)} claims, measured:", low=0, high=100, unit="%"
)
guess

# %%
counts = Counter(map(standing, failed))
guess.against(100 * counts["measured"] / max(1, len(failed)))

# %%
pd.DataFrame(counts.most_common(), columns=["explanation", "claims"])


# %%
def explained(claim):
    """A claim that did not reproduce, and what its explanation rests on."""
    reason = why.get(claim, nobody)
    rows = [failed[claim], *(j for j in judged if j.claim.id in reason.rests_on)]
    says = widgets.Sentence(f"{reason.because} ({standing(claim).capitalize()}.)")
    return says, widgets.Verdicts("The claim, and what explains it", tuple(rows))


# %%
widgets.explore(explained, claim=tuple(failed)) if failed else "Nothing failed."

# %% [markdown]
# ## What the papers say against themselves
#
# Some claims do not hold on the numbers that their own paper prints. These were found before anything was run.

# %%
denied = [c for c in ledger.papers.claims() if c.denied_in_print]
pd.DataFrame(
    [(c.statement, ", ".join(map(str, c.numbers))) for c in denied],
    columns=["statement", "in print"],
)

# %% [markdown]
# ## Since last time
#
# Evidence is only ever added. If more repeats are registered after a look, they are judged alone and at half the level.
# The earlier verdict stands beside the new one, as do those of other sizes.

# %%
pd.DataFrame(
    [(j.claim.id, j.verdict, told) for j in judged for told in j.beside],
    columns=["claim", "verdict", "beside it"],
).tail(20)

# %% [markdown]
# In a terminal: `python -m privlab report --before FOLDER` against earlier evidence.

# %% [markdown]
# ## Where the numbers come from

# %%
made_on = Counter(
    (e.size, row.device, ", ".join(row.versions.values()))
    for e in registered
    for row in lines_of(e)
)
pd.DataFrame(
    [(*machine, n) for machine, n in made_on.items()],
    columns=["size", "device", "versions", "repeats"],
)

# %% [markdown]
# ## Read on
#
# The chapter on reading the ledger, and the ledger page, in the book. Then go back to [lab 14](../14_the_ledger.ipynb).
