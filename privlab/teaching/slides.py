"""Slides from a lab that was run: nbconvert's for reveal.js, one HTML file a lab, beside the scripts that it needs.

A heading begins a slide, and so does what a cell shows after another one, so that no result is beside its prediction. A long paragraph is
for the speaker (press S), but in an exercise, which nobody could answer without it. Code, solutions, hints and long printouts are left out.
"""

import re
import shutil
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from privlab.compute.files import make_folder, write_atomic
from privlab.runner import catalogue, pairing

WORDS, LINES = 30, 12  # the longest paragraph, and the longest printout, that a slide shows

_STAYS = re.compile(r"^\s*([-*|>]\s|\|\S|\d+\.\s|\$\$|<|!\[)", re.MULTILINE)  # lists, tables, formulas, HTML
# nbconvert's own template loads jQuery, RequireJS, Mermaid, MathJax and a font from outside; this is all that slides need.
_TEMPLATE = """\
{% extends 'reveal/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}
<script>MathJax = {tex: {inlineMath: [['$', '$'], ['\\\\(', '\\\\)']]}, options: {enableMenu: false}};</script>
<script defer src="vendor/mathjax/tex-svg-full.js"></script>
{% endblock %}
{% block html_head_css %}<style>
.reveal { font: 26px/1.4 system-ui, sans-serif; color: #222; }
.reveal h1 { font-size: 2em; } .reveal h2 { font-size: 1.6em; } .reveal h3 { font-size: 1.3em; }
.reveal .slides { text-align: left; }
.reveal .slides > section:not(.stack), .reveal .slides > section > section { box-sizing: border-box; height: 720px; overflow-y: auto; }
.reveal img { max-height: 430px; object-fit: contain; object-position: left; }
.reveal pre { white-space: pre-wrap; word-break: normal; overflow-wrap: break-word; }
.reveal .jp-OutputArea-output > div { max-width: none !important; }
.reveal caption { display: none; } /* of the closing table the verdicts and claims stay */
.reveal table.dataframe :is(th, td) { text-align: left; }
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt { display: none; }
.privlab-live { color: #595959; font-size: .8em; margin: 0; }
:focus-visible { outline: 3px solid #0072b2; outline-offset: 2px; }
</style>{% endblock %}
{% block footer_js %}
<script src="vendor/reveal/reveal.js"></script>
<script src="vendor/reveal/notes.js"></script>
<script>
Reveal.initialize({
  hash: true, slideNumber: 'c/t', plugins: [RevealNotes], width: 1120, height: 720, center: false, navigationMode: 'linear'
});
</script>
{% endblock %}
"""


def write_all(labs: Path, words: list[str], run: Path, out: Path) -> list[Path]:
    """Write the slides of the labs that a person names, or of all labs, as a run left them; the paths.

    out: the folder for the files, and for the scripts that data_scripts/vendor.py fetched.
    Raises FileNotFoundError where the run has no green result of a lab's present source, or a script is missing.
    """
    make_folder(out)
    for part in (labs.parent / "book/_static/vendor" / name for name in ("reveal", "mathjax")):
        if not part.is_dir():
            raise FileNotFoundError(f"{part} is missing; python data_scripts/vendor.py fetches it")
        shutil.copytree(part, out / "vendor" / part.name, dirs_exist_ok=True)
    paths = []
    for lab in catalogue.pick(catalogue.everything(labs), words):
        if (notebook := pairing.executed(lab, run)) is None:
            cure = f"python -m privlab run {lab.path.stem} --out {run}"
            raise FileNotFoundError(f"run={str(run)!r} has no successful result of the present {lab.name}; try {cure}")
        paths.append(out / f"{lab.path.stem}.html")
        write_atomic(paths[-1], page(notebook, lab.path.stem).encode())
    return paths


def page(notebook: NotebookNode, name: str) -> str:
    """The HTML of a lab's slides; the notebook is changed."""
    from nbconvert.exporters import SlidesExporter

    exporter = SlidesExporter(raw_template=_TEMPLATE, exclude_input=True)
    exporter.reveal_url_prefix = "vendor/reveal"
    html, _ = exporter.from_notebook_node(deck(notebook), {"metadata": {"name": name}})
    html = html.replace("vendor/reveal/dist/reveal.css", "vendor/reveal/reveal.css")
    return re.sub(r'<link [^>]*id="theme"[^>]*>\n?', "", html)


def deck(notebook: NotebookNode) -> NotebookNode:
    """A lab's notebook with the slide that each cell belongs to; changed in place."""
    cells: list[tuple[str, NotebookNode]] = []
    taken = False  # whether something is shown on this slide already
    for cell in notebook.cells:
        if "solution" in cell.metadata.get("tags", []) or cell.source.startswith("checks."):
            continue
        if cell.cell_type == "markdown":
            for part in re.split(r"\n(?=#+ )", cell.source):
                text, notes = prose(part)
                depth = len(part) - len(part.lstrip("#"))
                taken = taken and not depth
                kind = "subslide" if depth > 2 else "slide" if depth else "-"
                cells += [(kind, new_markdown_cell(text)), ("notes", new_markdown_cell(notes))]
        elif outputs := [output for output in cell.get("outputs", []) if _worth(output)]:
            cell.outputs = outputs
            cells.append(("subslide" if taken else "-", cell))
            taken = True
    for kind, cell in cells:
        cell.pop("id", None)
        cell.metadata["slideshow"] = {"slide_type": kind}
    notebook.cells, notebook.nbformat_minor = [cell for _, cell in cells if cell.source], 4  # the last without ids
    return notebook


def prose(text: str) -> tuple[str, str]:
    """What of a cell's Markdown a slide shows, and what goes into the speaker's notes."""
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]+)\]\([\w./]+\.ipynb\)", r"\1", text)  # no notebook lies beside the slides
    task = text.lstrip("# \n").startswith("Exercise ")
    parts: tuple[list[str], list[str]] = [], []
    for block in re.split(r"\n\s*\n", re.sub(r"^(#+ .*)$", r"\1\n", text, flags=re.MULTILINE)):
        aside = block.startswith(("| profile", "("))  # what a run costs, which no audience needs
        shown = task or block.startswith("#") or _STAYS.search(block) or len(block.split()) <= WORDS
        parts[aside or not shown].append(block.strip())
    return "\n\n".join(filter(None, parts[0])), "\n\n".join(filter(None, parts[1]))


def _worth(output: NotebookNode) -> bool:
    """Pictures, tables and controls; of what is printed, the short, but not of a prediction or a game that nobody made in the run."""
    data = output.get("data", {})
    text = output.get("text") or data.get("text/plain", "")
    short = 0 < len(text.splitlines()) <= LINES and output.get("name") != "stderr"
    shown = short or data.keys() & {"text/html", "image/png", "image/svg+xml"}
    return bool(shown) and not text.startswith("This is not measured yet.")
