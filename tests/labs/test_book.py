"""The book with every lab as it ran: a page each, none without its pictures, and no picture without words."""

import re
from pathlib import Path

LABS = sorted((Path(__file__).parents[2] / "labs").glob("[0-9]*.py"))


def test_the_book_shows_every_lab_as_it_ran(built_book):
    """`make book` after `make run`: none of a picture without words for who cannot see it."""
    for path in LABS:
        page = (built_book / f"_generated/labs/{path.stem}.html").read_text()
        assert "as it is before it runs" not in page and "<img" in page, path.stem
        assert all(alt.strip() for alt in re.findall(r'<img[^>]*?alt="([^"]*)"', page))
        assert len(re.findall(r"<img\b", page)) == len(re.findall(r'<img[^>]*?\balt="', page)), path.stem
