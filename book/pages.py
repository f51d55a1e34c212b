"""The labs as pages: from a run where there is one, with links to open and to download each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from privlab.notebook import frames
from privlab.runner import catalogue, launch_buttons, pairing, static_pages

_FOLD = re.compile(r"(<details><summary>.*?</summary>)(.*?)(</details>)", re.DOTALL)
_PAGE = re.compile(r"<code>((?:claims/[\w.]+|ledger_guide)\.html)</code> in the book")


def page(
    lab: catalogue.Lab,
    run: Path,
    place: launch_buttons.Repository | None,
    manager: bool,
    deeper: Sequence[catalogue.Lab] = (),
) -> NotebookNode:
    """A lab, or what goes deeper, for readers: solutions folded away, controls at rest, no traces of the runner.

    place: the repository, for the buttons.  manager: whether the page may ask for the widget manager.
    deeper: what goes deeper into this lab; it is listed at the end of the page, and so below the lab in the table of contents.
    """
    made = static_pages.executed(lab, run)
    was_run, made = made is not None, made or pairing.notebook(lab.path)
    kept = static_pages.rest(made)
    _for_a_page(made, "../" * (2 + lab.name.count("/")))
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = _FOLD.sub(_typeset, cell.source)
        if "solution" in cell.metadata.get("tags", []):
            cell.metadata.tags = [*cell.metadata.tags, "hide-cell"]
            cell.metadata.mystnb = {"code_prompt_show": "Show the solution", "code_prompt_hide": "Hide the solution"}
    if kept and manager:
        made.metadata.widgets = {static_pages.STATE: {"version_major": 2, "version_minor": 0, "state": kept}}
    made.cells[:1] = _head(made.cells[0], lab, place)
    if not was_run:
        note = "> The lab as it is before it runs: open it in Jupyter, or `make run` and build the book again."
        made.cells.insert(2, new_markdown_cell(note, id="not-run"))
    if deeper:
        listed = "\n".join(one.name for one in deeper)
        made.cells.append(
            new_markdown_cell(f"```{{toctree}}\n:caption: Goes deeper\n:maxdepth: 1\n\n{listed}\n```", id="deeper")
        )
    return made


def _typeset(fold: re.Match[str]) -> str:
    """A fold with formulas in it as Markdown between two tags, since a page takes what stands right behind a tag as it is."""
    return "\n\n".join(fold.groups()) if "$" in fold[2] else fold[0]


def _for_a_page(notebook: NotebookNode, root: str) -> None:
    """Pictures become WebP, where that is shorter; where a panel of the ledger names a page of the book, a link leads there.

    root: of the book, as seen from the lab's page.
    """
    for output in (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs):
        if "text/html" in (data := output.get("data", {})):
            linked = _PAGE.sub(rf'<a href="{root}\1"><code>\1</code></a>', data["text/html"])
            data["text/html"] = frames.smaller(linked)


def _head(first: NotebookNode, lab: catalogue.Lab, place: launch_buttons.Repository | None) -> list[NotebookNode]:
    """The first cell, with the links between its title and the rest."""
    title, _, rest = first.source.partition("\n")
    found = launch_buttons.links(place, f"labs/{lab.name}.ipynb")
    links = [f"[{'See on' if name == 'GitHub' else 'Open in'} {name}]({address})" for name, address in found.items()]
    for path, what in ((lab.path.with_suffix(".ipynb"), "notebook"), (lab.path, "source")):
        if path.exists():
            top = "../" * (3 + lab.name.count("/"))
            links.append(f"{{download}}`Download the {what} <{top}labs/{lab.name}{path.suffix}>`")
    bar = ":::{container} privlab-open\n" + "\n".join(f"- {link}" for link in links) + "\n:::"
    return [new_markdown_cell(f"{title}\n\n{bar}", id="head"), new_markdown_cell(rest.strip() or "&nbsp;", id="about")]
