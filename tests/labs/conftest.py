"""What tests ask of a lab: its cells, prose, sections, exercises and minutes.

A test with one of these arguments runs once for each: `notebook`, every lab and what goes deeper; `lab`, the labs; `deeper`, what goes
deeper.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from nbformat import NotebookNode

from privlab.runner import catalogue, pairing

MATHS = re.compile(r"\$\$.*?\$\$", re.DOTALL)
EXERCISE = re.compile(r"### Exercise (\d+): .+ \*\(difficulty (\d+), (\d+) minutes\)\*")


@dataclass(frozen=True)
class Exercise:
    """An exercise of a lab, as its heading has it: `### Exercise 2: why the sign? *(difficulty 2, 15 minutes)*`.

    text: below the heading.  cell: that is to be filled in.
    """

    number: int
    difficulty: int
    minutes: int
    text: str
    cell: NotebookNode


@dataclass(frozen=True)
class Notebook:
    """A lab, or what goes deeper into one, as its reader meets it."""

    lab: catalogue.Lab

    path = property(lambda self: self.lab.path)
    number = property(lambda self: self.lab.number)

    @cached_property
    def cells(self) -> list[NotebookNode]:
        return pairing.notebook(self.path).cells

    @cached_property
    def markdown(self) -> list[str]:
        return [cell.source for cell in self.cells if cell.cell_type == "markdown"]

    @cached_property
    def code(self) -> list[str]:
        return [cell.source for cell in self.cells if cell.cell_type == "code"]

    def tagged(self, tag: str) -> list[NotebookNode]:
        return [cell for cell in self.cells if tag in cell.metadata.get("tags", [])]

    @property
    def headings(self) -> list[str]:
        return re.findall(r"^#+ .+$", "\n".join(self.markdown), re.MULTILINE)

    def below(self, heading: str) -> list[NotebookNode]:
        """The cells of a section, from its heading to the next one of its kind."""
        starts = [k for k, cell in enumerate(self.cells) if re.match("##? ", cell.source)] + [len(self.cells)]
        (first,) = (k for k in starts[:-1] if self.cells[k].source.partition("\n")[0] == f"## {heading}")
        return self.cells[first : starts[starts.index(first) + 1]]

    @cached_property
    def exercises(self) -> list[Exercise]:
        found, text = [], ""
        for cell in self.cells:
            text += f"{cell.source}\n\n" if cell.cell_type == "markdown" else ""
            if "exercise" in cell.metadata.get("tags", []):
                *_, heading = EXERCISE.finditer(text)
                found.append(Exercise(*map(int, heading.groups()), text[heading.end() :], cell))
        return found

    def lines(self, code: str) -> int:
        """Lines of code as a reader counts them: no blank ones, and none that only speaks to the formatter."""
        return sum(1 for line in code.replace("# fmt: skip", "").splitlines() if line.strip())

    def words(self, text: str) -> int:
        """Words of prose in Markdown: no tables, no displayed equations (one in a line of text counts as a word), no tags (a
        folded hint counts, its <details> does not), no targets of links, no signs that stand alone."""
        text = re.sub(r"\$[^$]+\$", "x", MATHS.sub(" ", re.sub(r"^\s*\|.*$", "", text, flags=re.MULTILINE)))
        text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<[^>]+>", " ", text))
        return sum(1 for word in text.split() if re.search(r"\w", word))


SHELF = [Notebook(lab) for lab in catalogue.everything(Path(__file__).parents[2] / "labs")]
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
