"""The desk of redactions: what is struck out is not sent, what counts, what the budget allows, and what is told. Numbers by hand."""

import pytest
import torch

from privlab.course.lab_08 import redaction
from privlab.notebook.control_sweep import SKIP

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

PHOTOGRAPH, NOISE = torch.rand(2, 1, 3, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def one():
    """The algebra needs the stem, the search needs the block; both give the photograph then."""

    def search(sent):
        desk.asked.append(set(sent))
        return PHOTOGRAPH if "block" in sent else NOISE

    attacks = {"algebra": lambda sent: PHOTOGRAPH if "stem" in sent else None, "search": search}
    desk = redaction.Desk(PHOTOGRAPH, {"stem": 10, "block": 60, "head": 30}, attacks)
    desk.asked = []
    return desk


def test_attacks_get_once_what_is_sent_and_it_is_hidden_where_none_is_above_the_bar(one):
    assert one.redact(["stem"]) == one.redact({"stem"}) == {"search": pytest.approx(1.0)}
    assert one.asked == [{"block", "head"}] and "algebra: it lacks a gradient" in one.sheet.value
    assert one.redact([]) == {"algebra": pytest.approx(1.0), "search": pytest.approx(1.0)}
    for struck, cheapest in (["block"], None), (["stem", "block"], pytest.approx(0.7)):
        one.redact(struck)
        assert one.cheapest == cheapest and ("No redaction so far hides it" in one.sheet.value) == (cheapest is None)
    assert "The smallest that hides it: 70.0%" in one.sheet.value


def test_the_budget_closes_the_button_and_opens_it(one):
    one.boxes["block"].value = True
    assert one.send.disabled and "untick a part" in one.words.value and "60.0%" in one.words.value
    one.budget.value = 0.9
    assert not one.send.disabled
    one.boxes["stem"].value = one.boxes["head"].value = True
    assert one.send.disabled, "nothing would be sent"


def test_a_click_sends_what_is_not_ticked_the_newest_stands_first_and_a_page_has_what_was_sent(one):
    assert SKIP in one.send._dom_classes and not any(SKIP in box._dom_classes for box in one.boxes.values())
    one.redact([])
    one.boxes["stem"].value = True
    one.send.click()
    text = one.sheet.value
    assert one.asked[1] == {"block", "head"} and "Redactions sent: 2" in text
    assert text.index("Struck out: stem (10.0%)") < text.index("Struck out: nothing")
    assert text.count("<img") == text.count('alt="') == 5 and ">stem (10.0%)</option>" in one.page(5, 10**6)
