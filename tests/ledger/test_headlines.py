"""The eighteen questions: which verdicts make which answer; and the explanations: which verdicts bear them out."""

import judgements
import pytest

from privlab.ledger import judging, papers, report
from privlab.ledger.judging import INCONCLUSIVE, MEASURING, NOT_REPRODUCED, REPRODUCED, STAND_IN


def judged(verdict=REPRODUCED, scope=STAND_IN, **more):
    return judgements.judged("lu2022.x.y", verdict, "" if verdict == MEASURING else scope, headline=4, **more)


LOOKED = judged(exploratory="class")


@pytest.mark.parametrize("verdicts, words", [
    ([judged(scope=judging.OWN), judged(MEASURING), judged(), judged()],
     "Yes: 1 reproduced, the paper's own setting; 2 reproduced, a stand-in; 1 measuring."),
    ([judged(NOT_REPRODUCED)], "No: 1 not reproduced, a stand-in."),
    ([judged(NOT_REPRODUCED), judged()], "Mixed: 1 reproduced, a stand-in; 1 not reproduced, a stand-in."),
    ([judged(INCONCLUSIVE), judged()], "Undecided: 1 reproduced, a stand-in; 1 inconclusive, a stand-in."),
    ([judged(MEASURING)], "Measuring: 1 measuring."),
    ([LOOKED], "Undecided: 1 reproduced, a stand-in, exploratory."),
    ([judged(NOT_REPRODUCED), LOOKED], "Mixed: 1 not reproduced, a stand-in; 1 reproduced, a stand-in, exploratory."),
    ([LOOKED, judged(NOT_REPRODUCED, exploratory="class"), judged(INCONCLUSIVE)],
     "Undecided: 1 inconclusive, a stand-in; 1 reproduced, a stand-in, exploratory; 1 not reproduced, a stand-in, exploratory."),
])  # fmt: skip
def test_verdicts_make_an_answer_with_its_scope(verdicts, words):
    (one,) = report.headlines(verdicts)
    assert (one.number, one.words) == (4, words)
    assert report.answered(verdicts) == f"of 1 questions: 1 {words.partition(':')[0].lower()}"


def test_every_question_has_claims_of_its_paper_and_none_that_the_paper_s_own_numbers_deny():
    asked = papers.entries("headlines")
    assert [*asked] == list(range(1, 19))
    for number, question in asked.items():
        claims, paper = [c for c in papers.claims() if c.headline == number], question["figure"].partition(".")[0]
        assert paper in {c.paper for c in claims} <= {paper, "privlab"}, question
        assert not any("contradict" in report.printed(c) for c in claims), question
        assert question["figure"] in {c.id for c in papers.claims() if c.paper == paper}, question
        assert question["asks"].endswith("?") and 40 <= len(question["about"].split()) <= 90, question


def test_every_claim_has_a_judgement_and_no_explanation_is_contradicted_by_the_evidence():
    """Where a verdict moves, the sentence that rested on it has to move, too."""
    found = judging.judgements()
    assert [j.claim.id for j in found] == [c.id for c in papers.claims()]
    for j in found:
        assert j.verdict in judging.VERDICTS and (j.scope in judging.SCOPES) == bool(j.ours) != (j.verdict == MEASURING)
    verdicts = {j.claim.id: j.verdict for j in found}
    for name, why in papers.entries("explanations").items():
        rests, refuted = ([verdicts[one] for one in why.get(of, ())] for of in ("evidence", "refuted"))
        assert why["because"] and verdicts[name], name
        assert verdicts[name] != NOT_REPRODUCED or (NOT_REPRODUCED not in rests and REPRODUCED not in refuted), name
