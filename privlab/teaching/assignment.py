"""What a lab gives to students: its notebook without the solutions, for self-study, or its exercises as an assignment of nbgrader.

nbgrader takes what stands between BEGIN SOLUTION and END SOLUTION out of what students get. Points can be changed in `source`.
"""

import ast
import re
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from privlab.compute.files import write_atomic
from privlab.runner import pairing
from privlab.runner.catalogue import Lab

HEADING = re.compile(r"^#+ Exercise \d", re.MULTILINE)
_VERIFY = re.compile(r"""\bverify\(\s*["'](\d\d\.\w+)["'](?:\s*,\s*(.*)\))?""")

_WHY = """\
**Why?** One to three sentences in your own words: why is this right, and what would have been wrong?

0 points: none, or only that the check passed. 1: names the right idea. 2: follows the idea for one step, such as an equation or a
drawing. 3: follows it to the end, and says where it would fail."""
_CONFIG = '''\
"""nbgrader's settings for this course."""
from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute

from privlab.teaching.grade import ShutIn  # where students' code runs, and nowhere else

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "privlab"
c.ClearSolutions.code_stub = {"python": ""}  # the lab's own dots say where to write
c.Autograde.autograde_preprocessors = [ShutIn if p is Execute else p for p in Autograde.autograde_preprocessors.default()]
'''


class Exercise(NamedTuple):
    """The cells of an exercise of a lab. name: as its check is called, such as "04.cosine".  text: from its heading to the stub."""

    name: str
    text: list[NotebookNode]
    stub: NotebookNode
    solution: NotebookNode
    check: NotebookNode


def checked(cell: NotebookNode) -> dict[str, str]:
    """The exercises that a cell checks -> the code that it gives as the answer, "" where that is not on the same line."""
    return dict(_VERIFY.findall(cell.source)) if cell.cell_type == "code" else {}


def exercises(cells: list[NotebookNode]) -> list[Exercise]:
    """The exercises of a lab, in order.  cells: of its notebook, solutions included."""
    found, start, tagged = list[Exercise](), 0, dict[str, int]()
    for k, cell in enumerate(cells):
        if cell.cell_type == "markdown" and HEADING.search(cell.source):
            start = k
        tagged |= dict.fromkeys(cell.metadata.get("tags", []), k)
        for name in checked(cell):
            stub, solution = tagged["exercise"], tagged["solution"]
            found.append(Exercise(name, cells[start:stub], cells[stub], cells[solution], cell))
    return found


def sheet(source: Path, sentences: bool = False) -> NotebookNode:
    """The assignment of a lab, with its solutions, as it stands in nbgrader's `source`.

    sentences: whether an exercise that is answered by reading also asks for sentences, which a person marks with 0 to 3 points.
    """
    notebook = pairing.notebook(source)
    cells = [new_markdown_cell(notebook.cells[0].source.splitlines()[0])]
    cells.append(new_code_cell(_imports(notebook.cells), metadata=_marked("imports", locked=True)))
    for one in exercises(notebook.cells):
        grade_id = one.name.replace(".", "-")
        answer = f"{one.stub.source}\n### BEGIN SOLUTION\n{one.solution.source}\n### END SOLUTION"
        cells += [new_code_cell(c.source) if c.cell_type == "code" else new_markdown_cell(c.source) for c in one.text]
        cells.append(new_code_cell(answer, metadata=_marked(f"{grade_id}-answer", solution=True)))
        cells.append(new_code_cell(one.check.source, metadata=_marked(grade_id, grade=True, locked=True, points=1)))
        if sentences and "reading" in one.stub.metadata.tags:
            by_hand = _marked(f"{grade_id}-sentence", grade=True, solution=True, points=3)
            cells += [new_markdown_cell(_WHY), new_markdown_cell("Nothing yet.", metadata=by_hand)]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    notebook.cells = cells
    return notebook


def write(labs: list[Lab], course: Path, sentences: bool = False) -> list[Path]:
    """Write the assignments of labs into a course's `source`; their paths.

    Raises FileExistsError, before anything is written, where another sheet stands: a teacher may have changed its points.
    """
    names, source = [lab.path.stem for lab in labs], course / "source"
    sheets = [pairing.as_bytes(sheet(lab.path, sentences)) for lab in labs]
    texts = {source / name / f"{name}.ipynb": text for name, text in zip(names, sheets, strict=True)}
    if other := [path for path, text in texts.items() if path.exists() and path.read_bytes() != text]:
        why = "differs from what would be written, so there may be somebody's work in it; nothing was written"
        raise FileExistsError(f"{other[0]} {why}. Move it away for a new one")
    for path, text in texts.items():
        write_atomic(path, text)
    if not (course / "nbgrader_config.py").exists():
        write_atomic(course / "nbgrader_config.py", _CONFIG.encode())
    return list(texts)


def edition(source: Path, address: str = "") -> NotebookNode:
    """A lab's notebook without its solutions.  address: of the repository whose setup cell for Colab is in it.

    Hints and checks stay, and cells keep their ids, so that an edition made again differs only where the lab does.
    """
    notebook = pairing.notebook(source, address, links=False)
    notebook.cells = [cell for cell in notebook.cells if "solution" not in cell.metadata.get("tags", [])]
    return notebook


def _imports(cells: list[NotebookNode]) -> str:
    trees = [ast.parse(cell.source) for cell in cells if cell.cell_type == "code"]
    imports = [node for tree in trees for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(dict.fromkeys(map(ast.unparse, imports)))


def _marked(grade_id: str, **what: object) -> dict[str, object]:
    """nbgrader's metadata of a cell."""
    plain = dict(grade=False, solution=False, locked=False, task=False)
    return {"nbgrader": {"grade_id": grade_id, "schema_version": 3, **plain, **what}}
