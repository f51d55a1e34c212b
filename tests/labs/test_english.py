"""Plain English with the field's words: what may not stand in a lesson, in a title or an alt text of its charts, or on a page of the book.

A student looks words up, and reads the papers with them. So a regularisation weight is no price, and a gradient no slope.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTEAD = {  # what a pattern finds -> what says it
    r"\bpric(?:es?|ed|ing)\b": "weight (of a regularisation)",
    r"\bslopes?\b": "gradient, derivative",
    r"(?<!error )\bmessages?\b": "gradient, update",
    r"\bwhoever\b|\bwho knows nothing\b": "anyone who, a student who; random guessing",
    r"(?<![\w.])[-−+]?\.\d": "0.5, with its zero",
    r"\bhangs? (?:up)?on\b": "depends on",
    r"\bbut for\b|\bnothing but\b": "except for, only",
    r"\b(?:is|are) heard\b|\blistens? to\b|\b(?:is|are|falls?|stays?) silent\b": "a gradient is zero, or counts",
    r"\bpromised (?:ourselves|you)\b": "our target was",
    r"\b(?:he|she|his|hers?|him|himself|herself)\b": "they, their (the attacker, a student)",
    r"\bthe same, \w+ed\b": "a sentence with a verb",
    r"\bby how much (?:do|does|is|are) \w+\?": "the whole question: how many points less does it leak than ...?",
    r"\bby heart\b": "memorised",
}


def prose(text):
    """Markdown or MyST without code, front matter, targets of links, tags and roles; what stands in a directive is kept."""
    kept, fence = [], None
    for line in re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).splitlines():
        if line.lstrip().startswith("```"):
            fence = line if fence is None else None
        elif fence is None or ("{" in fence and "{code-cell}" not in fence):
            kept.append(line)
    text = re.sub(r"<code>.*?</code>|`[^`\n]*`|<[^>]+>", " ", "\n".join(kept), flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", text)


def told(code):
    """The strings of a cell that are sentences or titles, not names: those with a space, without what is filled in."""
    values = [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]
    words = [re.sub(r"\{[^{}]*\}", "", text) for text in values if isinstance(text, str)]
    return [text for text in words if " " in text.strip() and "[" not in text]


def found(text):
    """(what stands there, what says it), for each word that may not."""
    one = " ".join(text.split())
    return [(hit[0], better) for pattern, better in INSTEAD.items() for hit in re.finditer(pattern, one, re.IGNORECASE)]


def test_a_lesson_uses_the_words_of_its_field(notebook):
    texts = [*map(prose, notebook.markdown), *(text for code in notebook.code for text in told(code))]
    assert [one for text in texts for one in found(text)] == []


PAGES = [ROOT / "README.md", *sorted((ROOT / "book").glob("*.md")), *sorted((ROOT / "book/teaching").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_uses_the_words_of_its_field(page):
    assert found(prose(page.read_text())) == []
