"""The student edition of a lab, and the sheets that hand out its solutions later.

The edition is the lab's notebook without the cells tagged `solution`; what is to be filled in, the hints and the checks stay, and cells
keep their ids, so that an edition made again differs only where the lab does. What goes deeper has its own in the folder deeper, where the
lab's links lead. Where the repository has an address, the cell that sets privlab up on Colab and Kaggle stands in it too.

A sheet, NN_topic_solutions.ipynb, has the text, the solution and the check of each exercise asked for, and of the lab's imports those that
they use. It stands beside the edition and replaces nothing: a student's own notebook, half filled in, stays as it is, the sheet runs in
seconds without the lab, and a teacher can give out one exercise today and the next one tomorrow.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Collection
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from privlab.compute.atomic import make_folder, write_atomic
from privlab.data.sources import nearest
from privlab.runner import launch_buttons, pairing
from privlab.runner.catalogue import Lab, pick, with_deeper
from privlab.teaching.marking import slicing

SHEET = "_solutions"  # ends the name of a sheet


def edition(source: Path, place: launch_buttons.Repository | None = None) -> tuple[NotebookNode, int]:
    """A lab's notebook without its solutions, with the setup cell of the repository where there is one; and how many were left out."""
    notebook = pairing.published(source, place, links=False)
    cells = [cell for cell in notebook.cells if not _tagged(cell, "solution")]
    left_out = len(notebook.cells) - len(cells)
    notebook.cells = cells
    return notebook, left_out


def exercises(source: Path) -> list[str]:
    """The names of a lab's exercises that have a solution, in the order of the lab."""
    return [name for name, _ in solved(pairing.notebook(source).cells)]


def sheet(source: Path, names: Collection[str], place: launch_buttons.Repository | None = None) -> NotebookNode:
    """A notebook with the solutions of the exercises named, such as {"05.noise"}, that runs by itself; on Colab too, given a place."""
    notebook = pairing.notebook(source)
    parts = [cells for name, cells in solved(notebook.cells) if name in names]
    title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
    code = [cell.source for cells in parts for cell in cells if cell.cell_type == "code"]
    sources = [*([launch_buttons.setup(place)] if place else []), _imports(notebook.cells, code)]
    front = [new_markdown_cell(f"# Solutions: {title}"), *map(new_code_cell, sources)]
    for cell in front:
        cell.id = hashlib.sha256(cell.source.encode()).hexdigest()[:12]
    notebook.cells = list({cell.id: cell for cell in [*front, *(cell for cells in parts for cell in cells)]}.values())
    return notebook


def write(
    shelf: list[Lab],
    labs: list[str],
    solutions: list[str],
    out: Path,
    keep: bool = False,
    overwrite: bool = False,
) -> list[tuple[Path, int]]:
    """Write the edition of labs, and sheets; the paths, with how many solutions were left out of an edition or are in a sheet.

    shelf: every lab there is, and what goes deeper.  labs: numbers or names, each with what goes deeper into it; all, where neither
    these nor solutions are given.  solutions: labs likewise, or exercises such as "05.noise".
    keep: whether files that are there stay as they are, as they may hold somebody's work; then they are not among the paths.
    overwrite: whether they are written anew.
    Raises ValueError for what is none, and for an `out` that holds the labs themselves; FileExistsError, before anything is written,
    where an edition's file is there that differs and neither is asked for. In a sheet nobody works: it is written anew.
    """
    if any(out.resolve() == lab.path.parent.resolve() for lab in shelf):
        raise ValueError(f"out={str(out)!r} holds the labs themselves; choose another folder")
    chosen = with_deeper(shelf, pick(shelf, labs)) if labs or not solutions else []
    sheets = _sheets(shelf, solutions)
    place = launch_buttons.repository(shelf[0].path.parents[1])
    makes = {out / f"{lab.name}.ipynb": functools.partial(edition, lab.path, place) for lab in chosen}
    makes |= {
        out / f"{lab.name}{SHEET}.ipynb": functools.partial(_counted_sheet, lab.path, names, place)
        for lab, names in sheets.items()
    }
    made = {path: make() for path, make in makes.items() if not (keep and path.exists())}
    texts = {path: _text(notebook) for path, (notebook, _) in made.items()}
    editions = [out / f"{lab.name}.ipynb" for lab in chosen]
    other = [path for path in editions if path in texts and path.exists() and path.read_bytes() != texts[path]]
    if other and not overwrite:
        more = f" and {len(other) - 1} more differ" if len(other) > 1 else " differs"
        raise FileExistsError(
            f"{other[0]}{more} from what would be written, so there may be somebody's work in it; nothing was written. "
            "--keep leaves what is there, --overwrite writes over it, --out chooses another folder"
        )
    for path, text in texts.items():
        make_folder(path.parent)
        write_atomic(path, text)
    return [(path, count) for path, (_, count) in made.items()]


def _counted_sheet(
    source: Path, names: Collection[str], place: launch_buttons.Repository | None
) -> tuple[NotebookNode, int]:
    return sheet(source, names, place), len(names)


def _sheets(shelf: list[Lab], solutions: list[str]) -> dict[Lab, list[str]]:
    """For each lab the exercises whose solutions are asked for, in the order of the labs."""
    lab_of = {name: lab for lab in shelf for name in exercises(lab.path)} if solutions else {}
    names = set()
    for word in solutions:
        if word in lab_of:
            names.add(word)
        elif "." in word:
            raise ValueError(f"solutions={word!r} is no exercise{nearest(word, list(lab_of))}")
        else:
            asked = with_deeper(shelf, pick(shelf, [word]))
            names |= {name for name, its in lab_of.items() if its in asked}
    return {
        lab: [n for n in lab_of if lab_of[n] == lab and n in names] for lab in shelf if lab in map(lab_of.get, names)
    }


def _tagged(cell: NotebookNode, tag: str) -> bool:
    return tag in cell.metadata.get("tags", [])


def solved(cells: list[NotebookNode]) -> list[tuple[str, list[NotebookNode]]]:
    """(exercise, its cells: text, solution and check) for each solution."""
    solved = []
    for k, cell in enumerate(cells):
        if not _tagged(cell, "solution"):
            continue
        check, name = next((c, name) for c in cells[k:] if c.cell_type == "code" for name in _checked(c.source))
        text: list[NotebookNode] = []
        for above in reversed(cells[:k]):
            if above.cell_type == "markdown":
                text.insert(0, above)
            if text and (above.cell_type == "code" or above.source.startswith("#")):
                break
        solved.append((name, [*text, cell, check]))
    return solved


def _checked(source: str) -> list[str]:
    return [name for name, _ in slicing.checked(ast.parse(source))]


def _imports(cells: list[NotebookNode], code: list[str]) -> str:
    """The lab's imports, and of each only the names that the code uses."""
    statements, _ = slicing.statements([(k, c.source) for k, c in enumerate(cells) if c.cell_type == "code"])
    imports = [s for s in statements if isinstance(s.node, slicing.IMPORTS)]
    own, _ = slicing.statements(list(enumerate(code)))
    names = {name for s in own for name in s.reads | s.later}
    return ast.unparse(slicing.needed(imports, names, len(imports)))


def _text(notebook: NotebookNode) -> bytes:
    nbformat.validate(notebook)
    return (nbformat.writes(notebook).rstrip("\n") + "\n").encode()
