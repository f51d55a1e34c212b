"""What tests ask of a lab: its cells, prose, sentences, sections, exercises and minutes.

A test with one of these arguments runs once for each: `notebook`, every lab and what goes deeper; `lab`, the labs; `deeper`, what goes
deeper.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from privlab.runner import catalogue, pairing

LABS = Path(__file__).parents[2] / "labs"

MATHS = re.compile(r"\$\$.*?\$\$", re.DOTALL)
EXERCISE = re.compile(r"### Exercise (\d+): .+ \*\(difficulty (\d+), (\d+) minutes\)\*")


@dataclass(frozen=True)
class Exercise:
    """An exercise of a lab: the heading above it, what the heading says of it, its text, and its cell that is to be filled in."""

    heading: str
    text: str
    cell: dict

    @property
    def _said(self) -> re.Match | None:
        return EXERCISE.fullmatch(self.heading)

    number = property(lambda self: self._said and int(self._said[1]))
    difficulty = property(lambda self: self._said and int(self._said[2]))
    minutes = property(lambda self: int(self._said[3]) if self._said else 0)

    def __repr__(self) -> str:
        return self.heading


@dataclass(frozen=True)
class Notebook:
    """A lab, or what goes deeper into one, as its reader meets it."""

    path: Path

    @cached_property
    def lab(self) -> catalogue.Lab:
        return catalogue.Lab(self.path)

    @property
    def number(self) -> str:
        return self.lab.number

    @cached_property
    def cells(self) -> list:
        return pairing.notebook(self.path).cells

    @property
    def markdown(self) -> list[str]:
        return [cell.source for cell in self.cells if cell.cell_type == "markdown"]

    @property
    def code(self) -> list[str]:
        return [cell.source for cell in self.cells if cell.cell_type == "code"]

    def tagged(self, tag: str) -> list:
        return [cell for cell in self.cells if tag in cell.metadata.get("tags", [])]

    @property
    def headings(self) -> list[str]:
        return [line for text in self.markdown for line in re.findall(r"^#+ .+$", text, re.MULTILINE)]

    @property
    def sections(self) -> list[str]:
        """Headed sections, without what is inside them."""
        return [heading[3:] for heading in self.headings if heading.startswith("## ")]

    def below(self, heading: str) -> list:
        """The cells of a section, from its heading to the next one of its kind."""
        starts = {
            k: cell.source.partition("\n")[0].strip()
            for k, cell in enumerate(self.cells)
            if cell.cell_type == "markdown" and re.match("##? ", cell.source)
        }
        assert f"## {heading}" in starts.values(), f"no cell begins with ## {heading}"
        first = next(k for k, line in starts.items() if line == f"## {heading}")
        return self.cells[first : min((k for k in starts if k > first), default=len(self.cells))]

    @property
    def lines(self) -> int:
        return sum(map(lines, self.code))

    @property
    def words(self) -> int:
        return sum(map(words, self.markdown))

    @property
    def columns(self) -> int:
        """The longest line of code."""
        return max(len(line) for code in self.code for line in code.splitlines())

    @property
    def exercises(self) -> list[Exercise]:
        found = []
        for k, cell in enumerate(self.cells):
            if "exercise" in cell.metadata.get("tags", []):
                above = [c.source for c in self.cells[:k] if c.cell_type == "markdown"]
                text = "\n\n".join(above)
                at = max(text.rfind("\n#"), 0)
                heading, _, rest = text[at:].lstrip("\n").partition("\n")
                found.append(Exercise(heading, rest, cell))
        return found

    @property
    def minutes(self) -> float:
        """For a student: reading prose and code, and what each exercise says that it takes."""
        return self.words / 140 + self.lines / 12 + sum(exercise.minutes for exercise in self.exercises)

    lines_of = staticmethod(lambda code: lines(code))
    words_of = staticmethod(lambda text: words(text))
    sentences_of = staticmethod(lambda text: sentences(text))

    @property
    def sentences(self) -> list[str]:
        return [sentence for text in self.markdown for sentence in sentences(text)]


def lines(code: str) -> int:
    """Lines of code as a reader counts them: no blank ones, and none that only speaks to the formatter."""
    return sum(1 for line in code.replace("# fmt: skip", "").splitlines() if line.strip())


def words(cell: str) -> int:
    """Words of prose in a markdown cell: no tables, no displayed equations (one in a line of text counts as a word), no
    tags (a folded hint counts, its <details> does not), no targets of links, no signs that stand alone."""
    text = re.sub(r"\$[^$]+\$", "x", MATHS.sub(" ", re.sub(r"^\s*\|.*$", "", cell, flags=re.MULTILINE)))
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<[^>]+>", " ", text))
    return sum(1 for word in text.split() if re.search(r"\w", word))


def sentences(cell: str) -> list[str]:
    """The sentences of a markdown cell: what ends in a full stop, a question or an exclamation mark; no headings, no tables.

    A displayed equation belongs to the sentence around it. An item of a list that is none, such as a noun, is left out.
    """
    text = re.sub(r"^\s*(#|\|).*$", "\n", MATHS.sub(" x ", cell), flags=re.MULTILINE)
    text = re.sub(r"</?details>|<summary>.*?</summary>", "\n\n", text)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<[^>]+>|[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", text))
    text = re.sub(r"\b(et al|e\.g|i\.e|cf|vs|Fig|Eq)\.", r"\1", re.sub(r"`[^`]*`|\$[^$]+\$", "x", text))
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*+]|\d+\.)\s+", "\n" + text)
    return [found for block in blocks for found in re.findall(r"\S.*?[.?!](?=[\s)\"”]|$)", " ".join(block.split()))]


SHELF = [Notebook(lab.path) for lab in catalogue.everything(LABS)]
GROUPS = {
    "notebook": SHELF,
    "lab": [one for one in SHELF if not one.lab.goes_deeper],
    "deeper": [one for one in SHELF if one.lab.goes_deeper],
}


def pytest_generate_tests(metafunc):
    for name, group in GROUPS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, group, ids=[one.lab.name for one in group])


@pytest.fixture(scope="session")
def shelf():
    """The groups of notebooks, by the names of the arguments."""
    return GROUPS


@pytest.fixture
def written(tmp_path):
    """A notebook of this source: written("# %% [markdown]\\n# words")."""

    def write(source: str, name: str = "05_made.py") -> Notebook:
        (tmp_path / name).write_text(source)
        return Notebook(tmp_path / name)

    return write


@pytest.fixture(scope="session")
def median_sentence():
    """The median length of the sentences of some notebooks, in words."""
    return lambda some: statistics.median(words(one) for each in some for one in each.sentences)
