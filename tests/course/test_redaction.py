"""The desk of redactions: what is struck out is not sent, what counts, what the budget allows, and what is told. Numbers by hand."""

import pytest
import torch

from privlab import metrics
from privlab.course.lab_08 import redaction
from privlab.notebook.control_sweep import SKIP

pytestmark = pytest.mark.usefixtures("no_widgets_of_other_tests")

DRAW = torch.Generator().manual_seed(0)
PHOTOGRAPH = torch.rand(1, 3, 16, 16, generator=DRAW)
NOISE = torch.rand(1, 3, 16, 16, generator=DRAW)
PARTS = {"stem": 10, "block": 60, "head": 30}


def desk(asked=None):
    """The algebra needs the stem, the search needs the block; both give the photograph then."""
    seen = asked if asked is not None else []

    def search(sent):
        seen.append(sent)
        return PHOTOGRAPH if "block" in sent else NOISE

    return redaction.Desk(
        PHOTOGRAPH, PARTS, {"algebra": lambda sent: PHOTOGRAPH if "stem" in sent else None, "search": search}
    )


def test_attacks_get_the_parts_that_are_sent_and_a_redaction_is_attacked_once():
    asked = []
    one = desk(asked)
    one.redact(["stem"])
    one.redact({"stem"})
    assert asked == [frozenset({"block", "head"})] and list(one.tries) == [frozenset({"stem"})]


def test_an_attack_that_cannot_be_run_has_no_image_and_is_named():
    one = desk()
    assert one.redact(["stem"]) == {"search": pytest.approx(1.0)}
    assert "algebra: it lacks a gradient" in one.sheet.value
    assert one.redact([]) == {"algebra": pytest.approx(1.0), "search": pytest.approx(1.0)}


def test_it_is_hidden_where_no_attack_is_above_the_bar():
    one = desk()
    assert metrics.ssim(NOISE, PHOTOGRAPH).item() < redaction.RECOGNISED
    for struck, hidden in (["stem"], False), (["block"], False), (["stem", "block"], True):
        one.redact(struck)
        assert one.hides(struck) is hidden
    assert one.cheapest == pytest.approx(0.7) and "The smallest that hides it: 70.0%" in one.sheet.value


def test_nothing_hides_it_before_something_does():
    one = desk()
    assert one.cheapest is None
    one.redact(["head"])
    assert one.cheapest is None and "No redaction so far hides it" in one.sheet.value


def test_shares_are_of_all_numbers():
    assert desk().share(["stem", "head"]) == pytest.approx(0.4) and desk().share([]) == 0


def test_the_budget_closes_the_button_and_opens_it():
    one = desk()  # budgets of 15, 50 and 90 %
    assert not one.send.disabled, "to strike nothing is within any budget"
    one.boxes["block"].value = True
    assert one.send.disabled and "untick a part" in one.words.value and "60.0%" in one.words.value
    one.budget.value = 0.9
    assert not one.send.disabled
    one.boxes["stem"].value = one.boxes["head"].value = True
    assert one.send.disabled, "nothing would be sent"


def test_a_click_sends_what_is_not_ticked():
    asked = []
    one = desk(asked)
    one.boxes["stem"].value = True
    one.send.click()
    assert asked == [frozenset({"block", "head"})] and "Struck out: stem (10.0%)" in one.sheet.value
    assert "Your budget is 15%" in one.words.value


def test_the_newest_stands_first_and_every_image_has_words():
    one = desk()
    one.redact([])
    one.redact(["head"])
    text = one.sheet.value
    assert text.index("Struck out: head") < text.index("Struck out: nothing") and "Redactions sent: 2" in text
    assert text.count("<img") == text.count('alt="') == 6


def test_a_sweep_of_the_controls_runs_no_attack():
    one = desk()
    assert SKIP in one.send._dom_classes and not any(SKIP in box._dom_classes for box in one.boxes.values())
    assert all(box.description.startswith(name) for name, box in one.boxes.items())


@pytest.mark.parametrize(
    ("struck", "why"),
    [(["tail"], "struck=.'tail'.: give some of stem, block, head"), (PARTS, "leave one to send")],
)
def test_what_cannot_be_struck_out_is_told(struck, why):
    with pytest.raises(ValueError, match=why):
        desk().redact(struck)


def test_a_page_without_a_kernel_has_what_was_sent():
    one = desk()
    assert "Nothing was sent" in one.page(5, 10**6)
    one.redact([])
    one.redact(["stem", "block"])
    page = one.page(5, 10**6)
    assert page.count("data-frame=") == 2 and ">stem, block (70.0%)</option>" in page
