"""The book with every lab as it ran: a page each, none without its pictures, and no picture without words."""

import re

import pytest

QUESTION, ANSWER = (
    re.compile(rf'class="privlab-{kind}"[^>]* data-name="([^"]*)"') for kind in ("prediction", "answer")
)


def check_page(built_book, name):
    page = (built_book / f"_generated/labs/{name}.html").read_text()
    assert "as it is before it runs" not in page and "<img" in page, name
    assert all(alt.strip() for alt in re.findall(r'<img[^>]*?alt="([^"]*)"', page))
    assert len(re.findall(r"<img\b", page)) == len(re.findall(r'<img[^>]*?\balt="', page)), name


def test_the_book_shows_every_lab_as_it_ran(built_book, shelf):
    """`make book` after `make run`: none of a picture without words for who cannot see it."""
    for one in shelf["lab"]:
        check_page(built_book, one.lab.name)


def test_every_prediction_can_be_made_in_the_book_and_is_compared_there(built_book, shelf):
    for one in shelf["lab"]:
        page = (built_book / f"_generated/labs/{one.lab.name}.html").read_text()
        asked = QUESTION.findall(page)
        assert len(asked) == len(re.findall(r"widgets\.(?:predict|choose)\(", one.lab.path.read_text())), one.lab.name
        assert sorted(asked) == sorted(ANSWER.findall(page)) and len({*asked}) == len(asked), one.lab.name


def test_the_book_has_a_page_of_what_goes_deeper_run_or_not(built_book, deeper):
    page = (built_book / f"_generated/labs/{deeper.lab.name}.html").read_text()
    above = next((built_book / "_generated/labs").glob(f"{deeper.number}_*.html"))
    assert f'href="../{above.name}' in page and f'href="{deeper.lab.name}.html"' in above.read_text()


@pytest.mark.weekly
def test_the_book_shows_what_goes_deeper_as_it_ran(built_book, deeper):
    """`make weekly` has run it before the tests begin."""
    check_page(built_book, deeper.lab.name)
