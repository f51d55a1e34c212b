"""What is told of verdicts: each in words, their counts, the answers to the papers' questions, what moved, and all of it as a page.

No page says "not reproduced" without the scope beside it, and what was chosen after a look at the data is told apart.
"""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace

import pandas as pd

from privlab.ledger.comparison import names, parse, value
from privlab.ledger.evidence import LEVEL
from privlab.ledger.judging import MEASURING, NOT_REPRODUCED, READING, REPRODUCED, SCOPES, VERDICTS, Judgement
from privlab.ledger.papers import PAPERS, Claim, entries

EXPLORATORY = "chosen after a look"
# Okabe and Ito's colours, told apart by colour-blind readers, edge what says the verdict in words; an icon stands beside it
EDGES = dict(zip(VERDICTS, ("#0072B2", "#D55E00", "#E69F00", "#999999", "#999999"), strict=True))
ICONS = dict(zip(VERDICTS, "✓✗?○…", strict=True))


def printed(claim: Claim) -> str:
    """The paper's numbers, or what it shows in their place, and whether they contradict the claim."""
    told = "; ".join(map(str, claim.numbers)) or claim.printed or "no number in print"
    return told + ("; these contradict the claim" if claim.numbers and _denied(claim) else "")


def _denied(claim: Claim) -> bool:
    """Whether numbers in print contradict the comparison, or a part of it that has to hold and has all its numbers in print."""
    tree, known = parse(claim.compare), {number.name: number.mean for number in claim.numbers}
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    return not all(value(part, known) for part in parts if known.keys() >= {*names(part)})


def verdict(judgement: Judgement) -> str:
    """The verdict with its scope, in words."""
    looked = "exploratory" if judgement.exploratory else ""
    return ", ".join(filter(None, [judgement.verdict, judgement.scope, looked]))


def reasons(j: Judgement) -> list[str]:
    """Why the verdict is as it is, under which needs, or which will be needed, at which size, and what other sizes say; a text each."""
    needs = "; ".join(f"{need} {j.needs.get(need, '').partition(' (')[0]}".strip() for need in j.claim.needs)
    setting = f"{j.profile}: {j.stands_for}" if j.stands_for else j.profile
    reading = j.scope == READING and f"our reading: {j.claim.reading}"
    return [text for text in (j.reason, needs and f"needs: {needs}", setting, reading, *j.beside) if text]


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

    yes: all claims that are judged are reproduced; no: none is; mixed: some are, some are not; undecided: none of these; measuring: none
    is judged. A comparison that was chosen after a look at the data gives no answer, and can take one away.
    words: the answer, and how many claims have which verdict.
    """
    found = []
    for number, asked in entries("headlines").items():
        if mine := [j for j in judgements if j.claim.headline == number]:
            answer, ordered = _answer(mine), sorted(mine, key=lambda j: (j.exploratory, VERDICTS.index(j.verdict)))
            counted = "; ".join(f"{count} {kind}" for kind, count in Counter(map(verdict, ordered)).items())
            words = f"{answer.capitalize()}: {counted}."
            found.append(SimpleNamespace(**asked, number=number, answer=answer, words=words, judgements=mine))
    return found


def _answer(asked: Sequence[Judgement]) -> str:
    every = {j.verdict for j in asked} - {MEASURING}
    firm = {j.verdict for j in asked if not j.exploratory} - {MEASURING}
    if not every:
        return MEASURING
    if {REPRODUCED, NOT_REPRODUCED} <= every:
        return "mixed" if firm & {REPRODUCED, NOT_REPRODUCED} else "undecided"
    return "yes" if firm == {REPRODUCED} else "no" if firm == {NOT_REPRODUCED} else "undecided"


def answered(judgements: Sequence[Judgement]) -> str:
    """How many of the questions have which answer, in one line."""
    found = Counter(one.answer for one in headlines(judgements))
    return f"of {found.total()} questions: {', '.join(f'{count} {answer}' for answer, count in found.most_common())}"


def changes(now: Sequence[Judgement], before: Sequence[Judgement]) -> list[list[str]]:
    """A head and a row for each claim whose verdict is another, the worse first; worse: no longer reproduced, or newly not reproduced.

    now, before: of the same claims, in the same order.
    """
    rows = []
    for new, old in zip(now, before, strict=True):
        if new.verdict != old.verdict:
            worse = old.verdict == REPRODUCED or new.verdict == NOT_REPRODUCED
            why = f"{verdict(new)}: {new.reason}"
            rows.append(["worse" if worse else "other", new.claim.id, old.verdict, why])
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
    means = f"Of {tested} claims about means {reproduced} reproduced; {certain} of them do if all are asked together (Holm's correction)."
    lines = ["# The ledger", "", *grid(counts(judgements)), ""]
    lines += [means, "A stand-in speaks of its own size, and not of the paper's."]
    if asked := [[one.asks, one.words] for one in headlines(judgements)]:
        lines += ["", "## What a reader wants answered first", "", *grid([["question", "answer"], *asked])]
    shown = ["statement", "where", "printed", "ours", "verdict", "why", "id"]
    for paper, title in PAPERS.items():
        if len(listed := table.loc[table["paper"] == paper, shown].to_numpy()):
            lines += ["", f"## {in_markdown(title)}", "", *grid([shown, *listed])]
    return "\n".join(lines) + "\n"
