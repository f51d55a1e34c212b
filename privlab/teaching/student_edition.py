"""The edition of a lab for self-study: its notebook without the cells tagged `solution`.

Hints and checks stay, and cells keep their ids, so that an edition made again differs only where the lab does.
"""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode

from privlab.runner import launch_buttons, pairing
from privlab.runner.catalogue import Lab
from privlab.teaching.assignment import write_new


def edition(source: Path, place: launch_buttons.Repository | None = None) -> tuple[NotebookNode, int]:
    """A lab's notebook without its solutions, and how many were left out.  place: whose setup cell for Colab and Kaggle stands in it."""
    notebook = pairing.published(source, place, links=False)
    whole = notebook.cells
    notebook.cells = [cell for cell in whole if "solution" not in cell.metadata.get("tags", [])]
    return notebook, len(whole) - len(notebook.cells)


def write(labs: list[Lab], place: launch_buttons.Repository | None, out: Path, keep: bool = False) -> list[int]:
    """Write the editions of labs; how many solutions each lacks.  keep: whether a notebook that is there stays as it is.

    Raises FileExistsError, before anything is written, where one differs and is not kept.
    """
    paths = {out / f"{lab.name}.ipynb": lab for lab in labs}
    made = {path: edition(lab.path, place) for path, lab in paths.items() if not (keep and path.exists())}
    texts = {path: pairing.as_bytes(notebook) for path, (notebook, _) in made.items()}
    write_new(texts, "--keep leaves what is there, --out chooses another folder")
    return [left_out for _, left_out in made.values()]
