"""The labs as pages: from a run where there is one, with links to open and to download each."""

import re
from collections.abc import Sequence

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from privlab.runner import catalogue, launch_buttons, pairing

_FOLD = re.compile(r"(<details><summary>.*?</summary>)(.*?)(</details>)", re.DOTALL)
# Cells that are setup, a form, a drawing, or what fetches evidence and puts it into a chart or a sentence: their result is what one reads
_BOOKKEEPING = re.compile(
    r"experiments\.(load|run)\(|widgets\.(choose|predict|verdicts)\(|^text\(|^drawings\.|^\w+\.against\(",
    re.MULTILINE,
)
_FETCHED = re.compile(r"(\w+: (trying|ready in|trained on) .*\n?)+")  # news for who runs a lab, not for who reads it
_PAGE = re.compile(r"<code>((?:claims/\w+|ledger_guide)\.html(?:#[\w.]+)?)</code> in the book")


def page(
    lab: catalogue.Lab, executed: NotebookNode | None, address: str, deeper: Sequence[catalogue.Lab] = ()
) -> NotebookNode:
    """A lab, or what goes deeper, for readers: solutions and bookkeeping folded away, no traces of the runner.

    executed: as a run left it, and is changed; None where no run has.  address: of the repository, for the buttons.
    deeper: what goes deeper into this lab, listed at the end of the page.
    """
    made = executed or pairing.notebook(lab.path)
    _for_a_page(made, "../" * (2 + lab.name.count("/")))
    begun = False
    for cell in made.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            # a fold with formulas is Markdown between two tags, as a page takes what stands right behind a tag as it is
            cell.source = _FOLD.sub(lambda fold: "\n\n".join(fold.groups()) if "$" in fold[2] else fold[0], cell.source)
            begun |= bool(re.search("^## ", cell.source, re.MULTILINE))
        elif "solution" in tags:
            _fold(cell, "hide-cell", "the solution")
        elif "exercise" not in tags and (not begun or _BOOKKEEPING.search(cell.source)):
            _fold(cell, "hide-input", "the code")
    made.cells[:1] = _head(made.cells[0], lab, address)
    if not executed:
        note = "> The lab as it is before it runs: open it in Jupyter, or `make run` and build the book again."
        made.cells.insert(2, new_markdown_cell(note, id="not-run"))
    if deeper:
        listed = "\n".join([":caption: Goes deeper", ":maxdepth: 1", "", *(one.name for one in deeper)])
        made.cells.append(new_markdown_cell(f"```{{toctree}}\n{listed}\n```", id="deeper"))
    return made


def _fold(cell: NotebookNode, tag: str, what: str) -> None:
    """What it says is shown at a click; without scripts too, as it is an element that folds."""
    cell.metadata.tags = [*cell.metadata.get("tags", []), tag]
    cell.metadata.mystnb = {f"code_prompt_{verb.lower()}": f"{verb} {what}" for verb in ("Show", "Hide")}


def _for_a_page(notebook: NotebookNode, root: str) -> None:
    """A page that a table of verdicts names gets a link.  root: of the book, from here."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        cell.outputs = [output for output in cell.outputs if not _FETCHED.fullmatch(output.get("text", ""))]
    for output in (output for cell in cells for output in cell.outputs):
        if "text/html" in (data := output.get("data", {})):
            data["text/html"] = _PAGE.sub(rf'<a href="{root}\1"><code>\1</code></a>', data["text/html"])


def _head(first: NotebookNode, lab: catalogue.Lab, address: str) -> list[NotebookNode]:
    """The first cell, with the links between its title and the rest."""
    title, _, rest = first.source.partition("\n")
    found = launch_buttons.links(address, f"labs/{lab.name}.ipynb")
    links = [f"[{'See on' if name == 'GitHub' else 'Open in'} {name}]({to})" for name, to in found.items()]
    for path, what in ((lab.path.with_suffix(".ipynb"), "notebook"), (lab.path, "source")):
        if path.exists():
            top = "../" * (3 + lab.name.count("/"))
            links.append(f"{{download}}`Download the {what} <{top}labs/{lab.name}{path.suffix}>`")
    bar = ":::{container} privlab-open\n" + "\n".join(f"- {link}" for link in links) + "\n:::"
    return [new_markdown_cell(f"{title}\n\n{bar}", id="head"), new_markdown_cell(rest.strip() or "&nbsp;", id="about")]
