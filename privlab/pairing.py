"""A lab's source (labs/NN_topic.py, py:percent) and the notebook made from it, with cell ids that stay put.

jupytext draws new random ids at each conversion, so a notebook that did not change would show up in every diff. Here an
id is a hash of the cell's kind, its source, and how many equal cells stand before it: editing one cell changes one id.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from privlab.atomic import write_atomic

_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook(source: Path) -> NotebookNode:
    """The notebook of a lab's source: no outputs, tags kept, ids from content, the same metadata everywhere.

    Raises ValueError, naming the file, where the source is not a py:percent lab.
    """
    text = source.read_text(encoding="utf-8")
    if "# %%" not in text:
        raise ValueError(f"{source} has no cell; a lab is py:percent, its cells begin with '# %%'")
    made = jupytext.reads(text, fmt="py:percent")
    made.metadata = nbformat.from_dict(_METADATA)
    made.nbformat, made.nbformat_minor = 4, 5
    seen: Counter[str] = Counter()
    for cell in made.cells:
        content = f"{cell.cell_type}\n{cell.source}"
        cell.id = hashlib.sha256(f"{seen[content]}\n{content}".encode()).hexdigest()[:12]
        seen[content] += 1
    return made


def text(source: Path) -> str:
    """What the .ipynb beside a lab's source has to hold, byte for byte."""
    return nbformat.writes(notebook(source)).rstrip("\n") + "\n"


def stale(folder: Path) -> list[Path]:
    """The notebooks of a folder that are not what their source makes: missing, changed, run, or without a source."""
    sources = {path.with_suffix(".ipynb"): path for path in sorted(folder.glob("*.py"))}
    without = [path for path in sorted(folder.glob("*.ipynb")) if path not in sources]
    return without + [path for path, source in sources.items() if not _same(path, text(source))]


def pair(folder: Path) -> list[Path]:
    """Write the notebook of every source in a folder where it is stale; the paths written."""
    changed = [path for path in stale(folder) if path.with_suffix(".py").exists()]
    for path in changed:
        write_atomic(path, text(path.with_suffix(".py")).encode())
    return changed


def _same(path: Path, content: str) -> bool:
    try:
        return path.read_bytes() == content.encode()
    except FileNotFoundError:
        return False
