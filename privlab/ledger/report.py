"""What is told of verdicts: each in words, their counts, the answers to the papers' questions, what moved, and all of it as a page.

No page says "not reproduced" without the scope beside it, and what was chosen after a look at the data is told apart.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace

import pandas as pd

from privlab.ledger.comparison import value
from privlab.ledger.evidence import LEVEL
from privlab.ledger.judging import MEASURING, NOT_REPRODUCED, REPRODUCED, SCOPES, VERDICTS, Judgement
from privlab.ledger.papers import PAPERS, Claim, entries

EXPLORATORY = "chosen after a look"
ANSWERS = ("yes", "no", "mixed", "equal", "undecided", MEASURING)
# Okabe and Ito's colours, told apart by colour-blind readers, edge what says the verdict in words; an icon stands beside it
EDGES = dict(zip(VERDICTS, ("#0072B2", "#D55E00", "#E69F00", "#999999", "#999999"), strict=True))
ICONS = dict(zip(VERDICTS, "✓✗?○…", strict=True))


def printed(claim: Claim) -> str:
    """The paper's numbers, or what it shows in their place, and whether they contradict the claim."""
    numbers = "; ".join(map(str, claim.numbers)) or claim.printed or "no number in print"
    return numbers + ("; these contradict the claim" if claim.denied_in_print else "")


def verdict(judgement: Judgement) -> str:
    """The verdict with its scope, in words."""
    looked = "exploratory" if judgement.scope and judgement.exploratory else ""
    return ", ".join(filter(None, [judgement.verdict, judgement.scope, looked]))


def reasons(j: Judgement) -> list[str]:
    """Why the verdict is as it is, under which needs, or which will be needed, at which size, and what other sizes say; a text each."""
    states = [f"{need.text} {need.state}" for need in j.needs if need.text not in j.reason]
    needs = "; ".join(states if j.needs else j.claim.needs)
    setting = f"{j.profile}: {j.stands_for}" if j.stands_for else j.profile
    told = [j.reason, needs and f"needs: {needs}", setting, j.reading and f"our reading: {j.reading}", *j.beside]
    return [text for text in told if text]


def counts(judgements: Sequence[Judgement]) -> list[list[str]]:
    """A head and a row for each paper and scope: how many claims have each verdict; what is measured still has no scope yet."""
    found = Counter((EXPLORATORY if j.exploratory else j.claim.paper, j.scope, j.verdict) for j in judgements)
    places = product((*PAPERS, EXPLORATORY), (*SCOPES, ""))
    rows = [[paper, scope or "-", *(str(found[paper, scope, v] or "-") for v in VERDICTS)] for paper, scope in places]
    return [["paper", "scope", *VERDICTS], *(row for row in rows if {*row[2:]} != {"-"})]


def holm(judgements: Sequence[Judgement]) -> tuple[int, int, int]:
    """(tested, reproduced, certain): claims about means, those that reproduced, and that still do at 0.05 for all together (Holm 1979)."""
    tested = sorted((j.p, j.verdict) for j in judgements if j.p is not None and not j.exploratory)
    failed = (k for k, (p, _) in enumerate(tested) if p > LEVEL / (len(tested) - k))
    return len(tested), sum(verdict == REPRODUCED for _, verdict in tested), next(failed, len(tested))


def headlines(judgements: Sequence[Judgement]) -> list[SimpleNamespace]:
    """The questions of papers/headlines.yaml that these verdicts answer, in their order, with their `number`, `answer` and `judgements`.

    yes: all claims that are judged are reproduced; no: none is; mixed: some are, some are not; equal: only those are that say that two
    things differ by less than a margin; undecided: none of these; measuring: none is judged. A comparison that was chosen after a look
    at the data gives no answer, and can take one away. words: the answer with its scope, and how many claims have which verdict.
    """
    found = []
    for number, asked in entries("headlines").items():
        if mine := [j for j in judgements if j.claim.headline == number]:
            firm, looked = ([j for j in mine if j.exploratory == after] for after in (False, True))
            answer = _answer(firm, {j.verdict for j in looked} - {MEASURING})
            words = answer.capitalize() + (f": {_counted(firm)}" if firm else "")
            words += f"; {EXPLORATORY}: {_counted(looked)}." if looked else "."
            found.append(SimpleNamespace(**asked, number=number, answer=answer, words=words, judgements=mine))
    return found


def _answer(firm: Sequence[Judgement], looked: set[str]) -> str:
    orders, equals = set[str](), set[str]()  # equals: of abs(difference) < margin, which holds where all is 0
    for j in firm:
        alike = j.claim.compare.startswith("abs(") and value(j.claim.compare, defaultdict(float))
        (equals if alike else orders).update({j.verdict} - {MEASURING})
    found, decided = orders or equals, {REPRODUCED, NOT_REPRODUCED}
    if orders and equals == {REPRODUCED} and REPRODUCED not in orders:
        return "equal"
    if found & decided and decided <= found | looked:
        return "mixed"
    if not found | looked:
        return MEASURING
    return "yes" if found == {REPRODUCED} else "no" if found == {NOT_REPRODUCED} else "undecided"


def _counted(judgements: Sequence[Judgement]) -> str:
    found = Counter((j.verdict, j.scope and f" ({j.scope})") for j in judgements)
    order = product(VERDICTS, (*(f" ({scope})" for scope in SCOPES), ""))
    return ", ".join(f"{found[kind]} {''.join(kind)}" for kind in order if found[kind])


def answered(judgements: Sequence[Judgement]) -> str:
    """How many of the questions have which answer, in one line."""
    found = Counter(one.answer for one in headlines(judgements))
    return f"of {found.total()} questions: {', '.join(f'{found[word]} {word}' for word in ANSWERS if found[word])}"


def changes(now: Sequence[Judgement], before: Sequence[Judgement]) -> list[list[str]]:
    """A head and a row for each claim whose verdict is another, the worse first; worse: no longer reproduced, or newly not reproduced."""
    here, rows = {j.claim.id: j for j in now}, []
    for old in before:
        new = here.get(old.claim.id)
        if new is None or new.verdict != old.verdict:
            why = f"{verdict(new)}: {new.reason}" if new else "no longer a claim"
            worse = old.verdict == REPRODUCED or (new is not None and new.verdict == NOT_REPRODUCED)
            rows.append(["worse" if worse else "other", old.claim.id, old.verdict, why])
    return [["what", "claim", "before", "now"], *sorted(rows, key=lambda row: row[0], reverse=True)]


def grid(rows: Sequence[Sequence[str]], escape: bool = True) -> list[str]:
    """A head and rows as the lines of a Markdown table."""
    head, *body = ([in_markdown(cell) for cell in row] if escape else row for row in rows)
    return [f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *(f"| {' | '.join(row)} |" for row in body)]


def in_markdown(text: str) -> str:
    """Text as a cell of a Markdown table shows it."""
    return re.sub(r"([\\`*_{}\[\]<>$|~#])", r"\\\1", " ".join(text.split()))


def render(judgements: Sequence[Judgement], form: str = "md") -> str:
    """The ledger as a page ("md"), the questions first, or as "csv" with a row a claim."""
    rows, head = [], ["id", "paper", "statement", "where", "compare", "printed", "ours", "size", "verdict", "p", "why"]
    for c, j in ((j.claim, j) for j in judgements):
        where = "; ".join(dict.fromkeys([c.where, f"lab {c.lab}"]))  # of ours it is the place
        ours, why = "; ".join(map(str, j.ours)) or "nothing measured", "; ".join(reasons(j))
        rows.append([c.id, c.paper, c.statement, where, c.compare, printed(c), ours, j.profile, verdict(j), j.p, why])
    table = pd.DataFrame(rows, columns=head)
    if form == "csv":
        return table.to_csv(index=False, float_format="%.3g")
    tested, reproduced, certain = holm(judgements)
    lines = ["# The ledger", "", *grid(counts(judgements)), ""]
    lines += [
        f"Of {tested} claims about means {reproduced} reproduced; {certain} of them do if all are asked together (Holm's correction).",
        "A stand-in speaks of its own size, and not of the paper's.",
    ]
    if asked := headlines(judgements):
        questions = [["", "question", "answer"], *([str(one.number), one.asks, one.words] for one in asked)]
        lines += ["", "## What a reader wants answered first", "", *grid(questions)]
    shown = ["statement", "where", "printed", "ours", "verdict", "why", "id"]
    for paper, title in PAPERS.items():
        if len(listed := table.loc[table["paper"] == paper, shown].to_numpy()):
            lines += ["", f"## {in_markdown(title)}", "", *grid([shown, *listed])]
    return "\n".join(lines) + "\n"
