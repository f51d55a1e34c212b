"""A lab's source (labs/NN_topic.py, labs/deeper/NN_topic.py; py:percent), the notebook made from it, and that which a run left of it.

jupytext draws new random ids at each conversion. Here an id is a hash of the cell's kind, its source, and how many equal cells stand
before it: editing one cell changes one id. Where the repository has an address, its notebooks get two cells that no headless run sees.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from privlab.compute.files import visible, write_atomic
from privlab.runner import catalogue, launch_buttons
from privlab.runner.catalogue import Lab

VIEW = "application/vnd.jupyter.widget-view+json"
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
_HEAD = re.compile(r"^# # \d\d · (.+)$", re.MULTILINE)
_PLAN = re.compile(r"^## A plan for (\d+) minutes$", re.MULTILINE)
_TABLE = {"README.md": r"\| \| lab \|", "teaching.md": r"\| lab \| to teach"}  # how the tables of labs begin


def notebook(source: Path, address: str = "", links: bool = True) -> NotebookNode:
    """The notebook of a lab's source: no outputs, tags kept, ids from content, the same metadata everywhere.

    address: of the repository that it is opened from, whose setup cell it then has, and whose links (`launch_buttons`).
    links: False leaves the links out, which lead to the solutions.
    """
    lab = jupytext.reads(source.read_text(encoding="utf-8-sig"), fmt="py:percent")
    lab.metadata = nbformat.from_dict(_METADATA)
    lab.nbformat, lab.nbformat_minor = 4, 5
    if address:
        code = next(i for i, cell in enumerate(lab.cells) if cell.cell_type == "code")
        lab.cells.insert(code, new_code_cell(launch_buttons.setup(address), metadata={"tags": ["setup"]}))
        if links:
            lab.cells.insert(0, new_markdown_cell(launch_buttons.badges(address, f"labs/{Lab(source).name}.ipynb")))
    count: Counter[str] = Counter()
    for cell in lab.cells:
        content = f"{cell.cell_type}\n{cell.source}"
        cell.id = hashlib.sha256(f"{count[content]}\n{content}".encode()).hexdigest()[:12]
        count[content] += 1
    return lab


def executed(lab: Lab, run: Path) -> NotebookNode | None:
    """The notebook that a run left of a lab, for a page without a kernel; None if it is not green, or not of the source as it stands.

    A widget is the HTML that the run left beside it (`notebook.live`); one without, such as a bar of progress, goes.
    """
    note = run / f"{lab.name}.json"
    result = json.loads(note.read_text()) if note.exists() else {}
    if result.get("status") != "ok" or result.get("source") != lab.digest:
        return None
    made = nbformat.read(run / f"{lab.name}.ipynb", as_version=4)
    for name in ("widgets", "papermill"):
        made.metadata.pop(name, None)
    made.cells = [cell for cell in made.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    for cell in (cell for cell in made.cells if cell.cell_type == "code"):
        cell.outputs = [o for o in cell.outputs if VIEW not in o.get("data", {}) or "text/html" in o.data]
        for output in cell.outputs:
            output.get("data", {}).pop(VIEW, None)
    return made


def as_bytes(notebook: NotebookNode) -> bytes:
    """A notebook as its file holds it, with one line break at the end."""
    return (nbformat.writes(notebook) + "\n").encode()


def pair(folder: Path, check: bool = False) -> list[Path]:
    """Write what the sources of a folder of labs make, where it is something else: their notebooks and the tables beside them.

    check: write nothing, and tell also of notebooks without a source.  Returns the paths of what is, or was, something else.
    """
    address = launch_buttons.repository(folder.parent)
    shelf = catalogue.everything(folder)
    made = {lab.path.with_suffix(".ipynb"): as_bytes(notebook(lab.path, address)) for lab in shelf}
    made |= {path: text.encode() for path, text in _tables(folder.resolve().parent, shelf)}
    changed = sorted(path for path, content in made.items() if not path.exists() or path.read_bytes() != content)
    if check:
        found = [*visible(folder, "*.ipynb"), *visible(folder, "deeper/*.ipynb")]
        return [*changed, *(path for path in found if path not in made)]
    for path in changed:
        write_atomic(path, made[path])
    return changed


def _tables(root: Path, shelf: list[Lab]) -> Iterator[tuple[Path, str]]:
    """README.md and the teacher's guide, where a repository has them, with a row for each lab: from its head, its costs and its plan."""
    readme, guide = root / "README.md", root / "book/teaching.md"
    for page in filter(Path.is_file, (readme, guide)):
        rows = ""
        for lab in (lab for lab in shelf if not lab.goes_deeper):
            if not (found := _HEAD.search(lab.text)):
                raise ValueError(f"{lab.path} has no head; begin it with '# NN · question'")
            question = found[1]
            minutes, gb = lab.costs["class"]
            row = [lab.number, f"[{question}](labs/{lab.name}.ipynb)", f"{minutes:g} min, {gb:.1f} GB"]
            if page == guide:
                (teach,) = _PLAN.findall((root / f"book/teaching/lab_{lab.number}.md").read_text(encoding="utf-8"))
                costs = zip(lab.costs["smoke"], lab.costs["class"], strict=True)
                row = [f"{lab.number} {question}", teach, *(f"{smoke:g}, {class_:g}" for smoke, class_ in costs)]
            rows += f"| {' | '.join(row)} |\n"
        table = rf"^({_TABLE[page.name]}.*\n\|[-:| ]+\|\n)(?:\|.*\n)*"  # its head, the line that aligns it, and rows
        text = page.read_text(encoding="utf-8")
        yield page, re.sub(table, r"\g<1>" + rows.replace("\\", r"\\"), text, flags=re.MULTILINE)
