"""Why claims did not reproduce, as far as we know."""

from privlab.ledger import judging, papers


def test_explanations_name_claims_that_are_there():
    ids = {claim.id for claim in papers.claims()}
    for name, one in papers.explanations().items():
        assert {name, *one.rests_on} <= ids and one.because, name


def test_how_an_explanation_stands():
    one = papers.Explanation("it is", evidence=("a",), refuted=("b",))
    yes, no, open_ = "reproduced", "not reproduced", "inconclusive"
    assert one.standing({"a": yes, "b": no}) == "measured"
    assert one.standing({"a": no, "b": no}) == one.standing({"a": open_, "b": yes}) == "contradicted"
    assert one.standing({"a": yes, "b": open_}) == one.standing({"a": yes}) == "in part undecided"
    assert papers.Explanation("it is").standing({}) == "a conjecture"


def test_no_explanation_is_contradicted_by_the_evidence():
    """Where a verdict moves, the sentence that rested on it has to move, too."""
    verdicts = {j.claim.id: j.verdict for j in judging.judgements()}
    failed = {n: e for n, e in papers.explanations().items() if verdicts[n] == "not reproduced"}
    assert failed and not [name for name, each in failed.items() if each.standing(verdicts) == "contradicted"]
