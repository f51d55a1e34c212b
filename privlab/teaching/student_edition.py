"""The edition of a lab for self-study: its notebook without the cells tagged `solution`.

Hints and checks stay, and cells keep their ids, so that an edition made again differs only where the lab does.
"""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode

from privlab.runner import launch_buttons, pairing
from privlab.runner.catalogue import Lab, pick, with_deeper
from privlab.teaching.assignment import write_new


def edition(source: Path, place: launch_buttons.Repository | None = None) -> tuple[NotebookNode, int]:
    """A lab's notebook without its solutions, and how many were left out.  place: whose setup cell for Colab and Kaggle stands in it."""
    notebook = pairing.published(source, place, links=False)
    cells = [cell for cell in notebook.cells if "solution" not in cell.metadata.get("tags", [])]
    left_out = len(notebook.cells) - len(cells)
    notebook.cells = cells
    return notebook, left_out


def write(shelf: list[Lab], words: list[str], out: Path, keep: bool = False) -> list[tuple[Path, int]]:
    """Write the editions of labs, each with what goes deeper into it; the paths, and how many solutions each lacks.

    words: numbers or names of labs; all where there is none.  keep: whether a notebook that is there and differs stays as it is.
    Raises FileExistsError, before anything is written, where one differs and is not kept.
    """
    place = launch_buttons.repository(shelf[0].path.parents[1])
    paths = {out / f"{lab.name}.ipynb": lab for lab in with_deeper(shelf, pick(shelf, words))}
    made = {path: edition(lab.path, place) for path, lab in paths.items() if not (keep and path.exists())}
    texts = {path: pairing.as_bytes(notebook) for path, (notebook, _) in made.items()}
    write_new(texts, "--keep leaves what is there, --out chooses another folder")
    return [(path, left_out) for path, (_, left_out) in made.items()]
