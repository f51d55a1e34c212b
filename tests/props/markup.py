"""HTML as tests read it."""

from collections import defaultdict
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """A page or a piece of one: its tags in order with their attributes, its text, and the text by the tag that it stands in.

    Raises AssertionError for a tag that is not closed, or not in order.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.text, self.texts = "", defaultdict(str)
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        self.open += [] if tag in VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open[-1:] == [tag], f"</{tag}> at {self.getpos()} is in none of its own: {self.open}"
        self.open.pop()

    def handle_data(self, data):
        self.text += data
        self.texts[self.open[-1] if self.open else ""] += data

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.tags]

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of every tag of this name."""
        return [attributes for name, attributes in self.tags if name == tag]
