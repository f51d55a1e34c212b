"""A lab's source (labs/NN_topic.py, labs/deeper/NN_topic.py; py:percent) and the notebook made from it, with cell ids that stay put.

jupytext draws new random ids at each conversion, so a notebook that did not change would show up in every diff. Here an
id is a hash of the cell's kind, its source, and how many equal cells stand before it: editing one cell changes one id.

The notebook of a repository that has an address also gets two cells that its source lacks, and that no headless run sees:
where it can be opened, and what sets it up on Colab and Kaggle (see `privlab.runner.launch_buttons`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from privlab.compute import reading
from privlab.compute.atomic import write_atomic
from privlab.runner import launch_buttons

DEEPER = "deeper"  # the folder, inside that of the labs, for what does not fit into them
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def within(source: Path) -> str:
    """Where a source stands in the folder of the labs, without its suffix: "04_topic", or "deeper/04_topic"."""
    return f"{DEEPER}/{source.stem}" if source.parent.name == DEEPER else source.stem


def notebook(source: Path) -> NotebookNode:
    """The notebook of a lab's source: no outputs, tags kept, ids from content, the same metadata everywhere.

    Raises ValueError, naming the file, where the source is not a py:percent lab.
    """
    text = source.read_text(encoding="utf-8-sig")
    if "# %%" not in text:
        raise ValueError(f"{source} has no cell; a lab is py:percent, its cells begin with '# %%'")
    lab = jupytext.reads(text, fmt="py:percent")
    lab.metadata = nbformat.from_dict(_METADATA)
    lab.nbformat, lab.nbformat_minor = 4, 5
    _number(lab)
    return lab


def published(source: Path, place: launch_buttons.Repository | None, links: bool = True) -> NotebookNode:
    """`notebook`, with the links and the setup cell of the repository that it is opened from, where there is one.

    links: False leaves the links out; they lead to the notebook that has the solutions.
    """
    lab = notebook(source)
    if place is None:
        return lab
    line = launch_buttons.badges(place, f"labs/{within(source)}.ipynb") if links else ""
    head = [new_markdown_cell(line)] if line else []
    code = next((i for i, cell in enumerate(lab.cells) if cell.cell_type == "code"), len(lab.cells))
    setup = new_code_cell(launch_buttons.setup(place), metadata={"tags": ["setup"]})
    lab.cells = [*head, *lab.cells[:code], setup, *lab.cells[code:]]
    _number(lab)
    return lab


def _number(lab: NotebookNode) -> None:
    count: Counter[str] = Counter()
    for cell in lab.cells:
        content = f"{cell.cell_type}\n{cell.source}"
        cell.id = hashlib.sha256(f"{count[content]}\n{content}".encode()).hexdigest()[:12]
        count[content] += 1


def text(source: Path, place: launch_buttons.Repository | None = None) -> str:
    """What the .ipynb beside a lab's source has to hold, byte for byte."""
    return as_bytes(published(source, place)).decode()


def as_bytes(notebook: NotebookNode) -> bytes:
    """A notebook as its file holds it, with one line break at the end."""
    return (nbformat.writes(notebook).rstrip("\n") + "\n").encode()


def _found(folder: Path, suffix: str) -> list[Path]:
    """The files of a suffix among the labs, and among what goes deeper."""
    return [path for here in (folder, folder / DEEPER) for path in reading.visible(here, f"*{suffix}")]


def stale(folder: Path) -> list[Path]:
    """The notebooks of a folder that are not what their source makes: missing, changed, run, or without a source.

    What goes deeper counts, in the folder inside. The address in them may be the one that pyproject.toml beside the folder sets, or
    the environment's: a fork that builds its book with PRIVLAB_REPOSITORY has not changed a lab.
    """
    places = {launch_buttons.repository(folder.parent), launch_buttons.repository(folder.parent, {})}
    sources = {path.with_suffix(".ipynb"): path for path in _found(folder, ".py")}
    without = [path for path in _found(folder, ".ipynb") if path not in sources]
    return without + [
        path for path, source in sources.items() if not any(_same(path, text(source, place)) for place in places)
    ]


def pair(folder: Path) -> list[Path]:
    """Write the notebook of every source in a folder, and in the one inside that goes deeper, where it is stale; the paths written."""
    place = launch_buttons.repository(folder.parent)
    contents = {source.with_suffix(".ipynb"): text(source, place) for source in _found(folder, ".py")}
    changed = [path for path, content in contents.items() if not _same(path, content)]
    for path in changed:
        write_atomic(path, contents[path].encode())
    return changed


def _same(path: Path, content: str) -> bool:
    try:
        return path.read_bytes() == content.encode()
    except FileNotFoundError:
        return False
