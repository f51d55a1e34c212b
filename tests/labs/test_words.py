"""The words of the labs: not too many in a cell, each new one defined where it first stands, and all of them in the glossary."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEW = re.compile(r"(?:\*Words that are new here\*|\*?New words\*?):(.*?)(?:\n\n|\Z)", re.DOTALL)
LAST = re.compile(r"## (?:Where to read on|Read on)")
BOLD = re.compile(r"\*\*[^*]+\*\*")
MATHS = re.compile(r"\$\$.*?\$\$", re.DOTALL)


def head_and_body(notebook):
    """What stands before the first code cell; and the prose behind it: no headings, tables, code, equations or pointers."""
    cells = notebook.cells
    first = next(i for i, cell in enumerate(cells) if cell.cell_type == "code")
    prose = [cell.source for cell in cells[first:] if cell.cell_type == "markdown"]
    body = "\n\n".join(LAST.split(text)[0] for text in prose)
    body = re.sub(r"\$[^$\n]+\$|`[^`]*`|<code>.*?</code>", "·", MATHS.sub("·", body))
    return "\n\n".join(cell.source for cell in cells[:first]), re.sub(r"^(#|\|).*$", "", body, flags=re.MULTILINE)


def new_words(notebook):
    listed = NEW.search(head_and_body(notebook)[0])
    return re.findall(r"\*\*(.+?)\*\*", listed[1]) if listed else []


def first_use(word, body):
    """Where a word first stands in a text, in singular or plural; None where it does not."""
    letters = r"\s+".join(map(re.escape, word.removesuffix("s").split()))
    found = re.search(rf"(?<![\w-]){letters}(?:e?s)?(?![\w-])", body, re.IGNORECASE)
    return found and found.start()


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


def test_a_new_word_is_in_bold_where_the_lab_first_uses_it(notebook):
    head, body = head_and_body(notebook)
    assert new_words(notebook) or not re.search("New words|Words that are new", head)
    for word in new_words(notebook):
        place = first_use(word, body)
        assert place is not None, f"{word!r} is announced and never used"
        around, bold = body[max(0, place - 60) : place + 60], BOLD.finditer(body)
        marked = any(span.start() <= place < span.end() for span in bold)
        assert marked, f"{word!r} is used before it is defined: ...{around}..."


def test_the_glossary_has_every_new_word_and_the_one_lab_that_introduces_it(shelf):
    """That is the one that says it is new, or whose deeper notebooks do."""
    new = [(word, one.number) for one in shelf["notebook"] for word in new_words(one)]
    assert len(new) == len(dict(new)) and dict(new).items() <= glossary().items()
