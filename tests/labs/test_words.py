"""The words of the labs: not too many in a cell, each new one defined where it first stands, and all of them in the glossary."""

import re
import statistics
from functools import cache
from pathlib import Path

import pytest

from privlab.runner import pairing

ROOT = Path(__file__).parents[2]
LABS = sorted((ROOT / "labs").glob("[0-9]*.py"))
NEW = re.compile(r"\*Words that are new here\*:(.*?)(?:\n\n|\Z)", re.DOTALL)
BOLD = re.compile(r"\*\*[^*]+\*\*")
IN_PLACE = re.compile(r"\*\*[^*]+\*\*|(?<!\*)\*[^*\n]+\*(?!\*)|\[[^\]]+\]\(")  # bold, italic, or a link
MATHS = re.compile(r"\$\$.*?\$\$", re.DOTALL)
# Words of the glossary that plain English has too; a lab may use them in that sense before they are introduced.
EVERYDAY = {"batch", "matrix", "pass", "pattern", "private", "public", "pull", "rank", "repeat"}


def named(path):
    return path.stem


@cache
def cells_of(path):
    return pairing.notebook(path).cells


def markdown(cells):
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def words(cell):
    """Words of prose in a markdown cell: no tables, no displayed equations (one in a line of text counts as a word), no
    tags (a folded hint counts, its <details> does not), no targets of links, no signs that stand alone."""
    text = re.sub(r"\$[^$]+\$", "x", MATHS.sub(" ", re.sub(r"^\s*\|.*$", "", cell, flags=re.MULTILINE)))
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<[^>]+>", " ", text))
    return sum(1 for word in text.split() if re.search(r"\w", word))


def head_and_body(path):
    """What stands before a lab's first code cell; and its prose behind it: no headings, tables, code, equations or pointers."""
    cells = cells_of(path)
    first = next(i for i, cell in enumerate(cells) if cell.cell_type == "code")
    body = "\n\n".join(cell.partition("## Where to read on")[0] for cell in markdown(cells[first:]))
    body = re.sub(r"\$[^$\n]+\$|`[^`]*`|<code>.*?</code>", "·", MATHS.sub("·", body))
    return "\n\n".join(markdown(cells[:first])), re.sub(r"^(#|\|).*$", "", body, flags=re.MULTILINE)


def new_words(path):
    return re.findall(r"\*\*(.+?)\*\*", NEW.search(head_and_body(path)[0])[1])


def first_use(word, body):
    """Where a word first stands in a text, in singular or plural; None where it does not."""
    letters = r"\s+".join(map(re.escape, word.removesuffix("s").split()))
    found = re.search(rf"(?<![\w-]){letters}(?:e?s)?(?![\w-])", body, re.IGNORECASE)
    return found and found.start()


def is_marked(body, place, mark):
    return any(span.start() <= place < span.end() for span in mark.finditer(body))


def glossary():
    """Term -> the number of the lab that its entry names first, or None where it names none."""
    entries = re.search(r"```\{glossary\}\n(.*?)```", (ROOT / "book" / "glossary.md").read_text(), re.DOTALL)[1]
    found, terms = {}, []
    for line in filter(str.strip, entries.splitlines()):
        if not line.startswith(" "):
            terms = [line] if not terms or terms[-1] in found else [*terms, line]
            continue
        lab = re.search(r"[Ll]abs? (\d\d)", line)
        for term in terms:
            found[term] = found.get(term) or (lab and lab[1])
    return found


def homes():
    """Word -> the labs that say it is new."""
    found = {}
    for path in LABS:
        for word in new_words(path):
            found.setdefault(word, []).append(path.name[:2])
    return found


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_cell_is_a_thought(path):
    counts = [words(cell) for cell in markdown(cells_of(path))]
    assert statistics.median(counts) <= 60
    assert max(counts) <= 250, "split it where a new idea begins"


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_new_word_is_in_bold_where_the_lab_first_uses_it(path):
    body = head_and_body(path)[1]
    assert new_words(path)
    for word in new_words(path):
        place = first_use(word, body)
        assert place is not None, f"{word!r} is announced and never used"
        around = body[max(0, place - 60) : place + 60]
        assert is_marked(body, place, BOLD), f"{word!r} is used before it is defined: ...{around}..."


def test_no_word_is_new_twice():
    assert {word: labs for word, labs in homes().items() if len(labs) > 1} == {}


def test_the_glossary_has_every_new_word_and_the_lab_that_introduces_it():
    listed = glossary()
    assert {word for word in homes() if word not in listed} == set()
    assert {word: (listed[word], labs) for word, labs in homes().items() if listed[word] not in labs} == {}


@pytest.mark.parametrize("path", LABS, ids=named)
def test_a_word_of_this_lab_or_a_later_one_is_explained_in_place(path):
    body, number = head_and_body(path)[1], path.name[:2]
    later = {word: lab for word, lab in glossary().items() if lab and lab >= number}
    later |= {word: min(labs) for word, labs in homes().items() if min(labs) > number}
    early = {}
    for word in sorted(later.keys() - EVERYDAY):
        place = first_use(word, body)
        if place is not None and not is_marked(body, place, IN_PLACE):
            early[word] = (later[word], body[max(0, place - 60) : place + 60])
    assert early == {}, "give a short definition there, the word in italics"
