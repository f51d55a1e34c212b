"""The referee's desk: claims about one number, of each verdict some, and the reader's ruling beside the rule's."""

import math

import numpy as np
import pytest

from privlab import ledger
from privlab.notebook import referee


@pytest.fixture(scope="module")
def judged():
    return ledger.judgements()


def test_the_cases_are_judged_claims_about_one_number_with_their_repeats(judged):
    cases = referee.cases(judged, number=9, seed=3)
    assert 3 <= len(cases) <= 9 and len({case.judgement.claim.id for case in cases}) == len(cases)
    for case in cases:
        assert case.judgement.verdict in referee.RULINGS and len(case.values) >= 3
        assert case.low < case.high and math.isfinite(case.low) + math.isfinite(case.high) >= 1
        right = [case.low < case.values.mean() < case.high]
        if case.judgement.verdict != "inconclusive":  # what is decided lies where its verdict says
            assert right == [case.judgement.verdict == "reproduced"]


def test_the_seed_draws_the_cases_and_verdicts_take_turns(judged):
    def drawn(seed):
        return [case.judgement.claim.id for case in referee.cases(judged, 3, seed)]

    assert drawn(0) == drawn(0) != drawn(1)
    assert len({case.judgement.verdict for case in referee.cases(judged, 3, 0)}) == 3
    assert referee.cases([], 3) == []


def test_a_ruling_is_held_beside_the_rules_and_the_first_one_counts(judged):
    desk = referee.referee(judged, number=2)
    due = [case.judgement.verdict for case in desk.cases]
    other = next(ruling for ruling in referee.RULINGS if ruling != due[0])
    assert due[0] not in desk.verdict.value
    desk.rule(other)
    assert f"the rule says <b>{due[0]}</b>" in desk.verdict.value
    desk.rule(due[0])
    assert desk.rulings == {0: other} and desk.agreed == 0
    desk.go_on()
    desk.rule(due[1])
    assert (
        desk.agreed == 1
        and "You agree on 1 of the 2" in desk.verdict.value
        and "so does the rule" in desk.verdict.value
    )
    desk.go_on()
    assert desk.at == 0
    with pytest.raises(ValueError, match="ruling='maybe'; try one of reproduced"):
        desk.rule("maybe")


def test_a_desk_without_claims_says_so_and_its_buttons_do_nothing():
    desk = referee.Referee([])
    desk.rule("reproduced")
    desk.go_on()
    assert "nothing to rule on" in desk.claim.value and desk.rulings == {}


@pytest.mark.parametrize(
    ("low", "high", "wants"), [(0.5, math.inf, "above 0.5"), (-math.inf, 2, "below 2"), (-1, 1, "between -1 and 1")]
)
def test_a_case_says_what_the_claim_wants_and_draws_its_bars(judged, low, high, wants):
    case = referee.Case(judged[0], "psnr[a] - psnr[b]", np.array([1.0, 2.0, 4.0]), low, high)
    assert case.wants == wants and f"The claim wants the mean {wants}." in case.chart().alt


def test_a_page_without_a_kernel_has_every_claim_with_the_ruling_folded(judged):
    desk = referee.referee(judged, number=3)
    page = desk.page(5, 10**6)
    for case in desk.cases:
        assert desk.claim.value + desk.dots.value + "<details>" in page
        assert f"The rule says <b>{case.judgement.verdict}</b>." in page
        desk.go_on()
    assert "No claim is judged yet" in referee.Referee([]).page(5, 10**6)
