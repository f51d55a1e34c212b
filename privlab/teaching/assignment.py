"""A lab's exercises as an nbgrader assignment: the text of each, a cell for the answer, and a cell that checks it.

    course/source/04_gradient_inversion/04_gradient_inversion.ipynb
    course/nbgrader_config.py

nbgrader takes what stands between BEGIN SOLUTION and END SOLUTION out of what students get. Points can be changed in `source`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from privlab.compute.atomic import make_folder, write_atomic
from privlab.runner import pairing
from privlab.runner.catalogue import Lab

HEADING = re.compile(r"^#+ Exercise \d", re.MULTILINE)
VERIFY = re.compile(r"""\bverify\(\s*["'](\d\d\.\w+)["']""")
ANSWER, SENTENCE = "-answer", "-sentence"  # end the ids of the cells that a student fills in

_WHY = """\
**Why?** One to three sentences in your own words: why is this right, and what would have been wrong?

0 points: none, or only that the check passed. 1: names the right idea. 2: follows the idea for one step, such as an equation or a
drawing. 3: follows it to the end, and says where it would fail."""

_CONFIG = '''\
"""nbgrader's settings for this course."""
from nbconvert.preprocessors.sanitize import SanitizeHTML

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "privlab"
c.ClearSolutions.code_stub = {"python": ""}  # the lab's own dots say where to write
# Students' code runs in the kernel that `python -m privlab grade` shuts in. Without that command there is none of this name.
c.Execute.kernel_name = "privlab-alone"
# What a student's code shows is seen in your browser: no script of theirs gets there.
c.SanitizeHTML.enabled = True
c.SanitizeHTML.tags = [*SanitizeHTML.tags.default(), "details", "summary"]
c.SanitizeHTML.sanitized_output_types = set()  # of outputs only text and pictures
c.Autograde.autograde_preprocessors = [
    "nbgrader.preprocessors.Execute",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbconvert.preprocessors.sanitize.SanitizeHTML",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
'''


@dataclass(frozen=True)
class Exercise:
    """The cells of an exercise of a lab. name: as its check is called, such as "04.cosine".  text: from its heading to the stub."""

    name: str
    text: list[NotebookNode]
    stub: NotebookNode
    solution: NotebookNode
    check: NotebookNode


def exercises(cells: list[NotebookNode]) -> list[Exercise]:
    """The exercises of a lab, in order.  cells: of its notebook, solutions included."""
    found = []
    for k, stub in enumerate(cells):
        if "exercise" in stub.metadata.get("tags", []):
            solution = next(cell for cell in cells[k:] if "solution" in cell.metadata.get("tags", []))
            check = next(cell for cell in cells[k:] if cell.cell_type == "code" and VERIFY.search(cell.source))
            name = VERIFY.findall(check.source)[0]
            start = next(
                i for i in range(k - 1, -1, -1) if cells[i].cell_type == "markdown" and HEADING.search(cells[i].source)
            )
            found.append(Exercise(name, cells[start:k], stub, solution, check))
    return found


def sheet(source: Path, sentences: bool = False) -> NotebookNode:
    """The assignment of a lab, with its solutions, as it stands in nbgrader's `source`.

    sentences: whether an exercise that is answered by reading also asks for sentences, which a person marks with 0 to 3 points.
    """
    notebook = pairing.notebook(source)
    cells = [
        notebook.cells[0].copy(),
        new_code_cell(_imports(notebook.cells), metadata=_marked("imports", locked=True)),
    ]
    for one in exercises(notebook.cells):
        grade_id = one.name.replace(".", "-")
        answer = f"{one.stub.source}\n### BEGIN SOLUTION\n{one.solution.source}\n### END SOLUTION"
        cells += [new_code_cell(c.source) if c.cell_type == "code" else new_markdown_cell(c.source) for c in one.text]
        cells.append(new_code_cell(answer, metadata=_marked(grade_id + ANSWER, solution=True)))
        cells.append(new_code_cell(one.check.source, metadata=_marked(grade_id, grade=True, locked=True, points=1)))
        if sentences and "reading" in one.stub.metadata.tags:
            by_hand = _marked(grade_id + SENTENCE, grade=True, solution=True, points=3)
            cells += [new_markdown_cell(_WHY), new_markdown_cell("Nothing yet.", metadata=by_hand)]
    cells[0].source = cells[0].source.splitlines()[0]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    notebook.cells = cells
    nbformat.validate(notebook)
    return notebook


def write(labs: list[Lab], course: Path, sentences: bool = False) -> list[Path]:
    """Write the assignments of labs into a course's `source`; their paths.

    Raises FileExistsError, before anything is written, where another sheet stands: a teacher may have changed its points.
    """
    texts = {course / "source" / lab.path.stem / f"{lab.path.stem}.ipynb": _text(lab, sentences) for lab in labs}
    if other := [path for path, text in texts.items() if path.exists() and path.read_bytes() != text]:
        raise FileExistsError(f"{other[0]} is another there; move it away for a new one")
    if not (course / "nbgrader_config.py").exists():
        write_atomic(course / "nbgrader_config.py", _CONFIG.encode())
    for path, text in texts.items():
        make_folder(path.parent)
        write_atomic(path, text)
    return list(texts)


def _text(lab: Lab, sentences: bool) -> bytes:
    return pairing.as_bytes(sheet(lab.path, sentences))


def _imports(cells: list[NotebookNode]) -> str:
    trees = [ast.parse(cell.source) for cell in cells if cell.cell_type == "code"]
    imports = [node for tree in trees for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(dict.fromkeys(map(ast.unparse, imports)))


def _marked(grade_id: str, **what: object) -> dict[str, object]:
    """nbgrader's metadata of a cell."""
    plain = dict(grade=False, solution=False, locked=False, task=False)
    return {"nbgrader": {"grade_id": grade_id, "schema_version": 3, **plain, **what}}
