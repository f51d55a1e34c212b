"""Slides from a lab that was run: nbconvert's for reveal.js, one HTML file a lab, beside the scripts that it needs.

A heading begins a slide, and so does a picture, table or control after another one. A long paragraph is for the speaker (press S), but in
an exercise, which nobody could answer without it. Code, solutions, hints and long printouts are left out.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from privlab.compute.atomic import write_atomic
from privlab.runner import catalogue, static_pages

WORDS, LINES = 30, 12  # the longest paragraph, and the longest printout, that a slide shows

_STAYS = re.compile(r"^\s*([-*|>]\s|\|\S|\d+\.\s|\$\$|<|!\[)", re.MULTILINE)  # lists, tables, formulas, HTML
# nbconvert's own template loads jQuery, RequireJS, Mermaid, MathJax and a font from outside; this is all that slides need.
_TEMPLATE = """\
{% extends 'reveal/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}
<script>MathJax = {tex: {inlineMath: [['$', '$'], ['\\\\(', '\\\\)']]}, options: {enableMenu: false}};</script>
<script defer src="vendor/mathjax/tex-svg-full.js"></script>
{% endblock %}
{% block html_head_css %}<style>
.reveal { font: 20px/1.4 system-ui, sans-serif; color: #222; }
.reveal h1 { font-size: 2em; } .reveal h2 { font-size: 1.6em; } .reveal h3 { font-size: 1.3em; }
.reveal .slides { text-align: left; }
.reveal .slides > section:not(.stack), .reveal .slides > section > section { box-sizing: border-box; height: 720px; overflow-y: auto; }
.reveal img { max-height: 430px; object-fit: contain; object-position: left; }
.reveal pre { white-space: pre-wrap; word-break: normal; overflow-wrap: break-word; }
.reveal .jp-OutputArea-output > div { max-width: none !important; }
.reveal caption, .reveal th small, .reveal th details { display: none; } /* of the closing table the verdicts and claims stay */
.reveal table.dataframe :is(th, td) { text-align: left; }
.reveal .jp-InputPrompt, .reveal .jp-OutputPrompt { display: none; }
.reveal ul.privlab-stood { margin: 0; padding: 0; }
.privlab-stood li { display: inline; } .privlab-stood li + li::before { content: ' · '; }
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
// As large as fits, for the last row of the room; what does not fit at half its size scrolls.
function fit() {
  const slide = Reveal.getCurrentSlide();
  for (const size of [1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1, 0.9, 0.8, 0.7, 0.6, 0.5]) {
    for (const part of slide.children) part.style.zoom = size;
    if (slide.scrollHeight <= slide.clientHeight) break;
  }
}
for (const moment of ['ready', 'slidechanged']) Reveal.on(moment, fit);
addEventListener('load', () => MathJax.startup.promise.then(fit));
</script>
{% endblock %}
"""


def write_all(labs: Path, words: list[str], run: Path, out: Path) -> list[Path]:
    """Write the slides of the labs that a person names, what goes deeper among them, or of all labs; the paths.

    out: the folder for the files, and for the scripts that data_scripts/vendor.py fetched.
    Raises FileNotFoundError where the run has no green result of a lab's present source, or a script is missing.
    """
    vendor = labs.parent / "book/_static/vendor"
    chosen = catalogue.pick(catalogue.everything(labs), words) if words else catalogue.labs(labs)
    return [write(lab, run, vendor, out) for lab in chosen]


def write(lab: catalogue.Lab, run: Path, vendor: Path, out: Path) -> Path:
    """Write the slides of one lab as a run left it; the path of the file.  Raises as `write_all` does."""
    notebook = static_pages.executed(lab, run)
    if notebook is None:
        raise FileNotFoundError(
            f"run={str(run)!r} has no successful result of the present {lab.name}; try python -m privlab run {lab.path.stem} --out {run}"
        )
    for part in ("reveal", "mathjax"):
        if not (vendor / part).is_dir():
            raise FileNotFoundError(f"{vendor / part} is missing; python data_scripts/vendor.py fetches it")
        shutil.copytree(vendor / part, out / "vendor" / part, dirs_exist_ok=True)
    path = out / f"{lab.path.stem}.html"
    write_atomic(path, page(notebook, lab.path.stem).encode())
    return path


def page(notebook: NotebookNode, name: str) -> str:
    """The HTML of a lab's slides; the notebook is changed."""
    from nbconvert.exporters import SlidesExporter

    exporter = SlidesExporter(raw_template=_TEMPLATE, exclude_input=True)
    exporter.reveal_url_prefix, exporter.reveal_theme = "vendor/reveal", "none"
    html, _ = exporter.from_notebook_node(deck(notebook), {"metadata": {"name": name}})
    html = html.replace("vendor/reveal/dist/reveal.css", "vendor/reveal/reveal.css")
    return re.sub(r'<link [^>]*id="theme"[^>]*>\n?', "", html)


def deck(notebook: NotebookNode) -> NotebookNode:
    """A lab's notebook with the slide that each cell belongs to; changed in place."""
    static_pages.rest(notebook)
    cells: list[NotebookNode] = []
    taken = asked = False  # whether the slide has its picture, or a prediction: what comes out of that is on the next
    for cell in notebook.cells:
        if "solution" in cell.metadata.get("tags", []) or cell.source.startswith("checks."):
            continue
        if cell.cell_type == "markdown":
            for part in re.split(r"\n(?=#+ )", cell.source):
                text, notes = prose(part)
                heading = re.match(r"#+", text)
                taken = taken and heading is None
                kind = "-" if heading is None else "subslide" if len(heading[0]) > 2 else "slide"
                cells += [_as(new_markdown_cell(text), kind)] if text else []
                cells += [_as(new_markdown_cell(notes), "notes")] if notes else []
        elif outputs := [output for output in cell.get("outputs", []) if _worth(output)]:
            rich = any(map(_is_rich, outputs))
            cell.outputs = outputs
            cells.append(_as(cell, "subslide" if asked or (rich and taken) else "-"))
            taken = rich or (taken and not asked)
            asked = any("privlab-prediction" in o.get("data", {}).get("text/html", "") for o in outputs)
    for cell in cells:
        cell.pop("id", None)
    notebook.cells, notebook.nbformat_minor = cells, 4  # the last format whose cells have no ids
    return notebook


def prose(text: str) -> tuple[str, str]:
    """What of a cell's Markdown a slide shows, and what goes into the speaker's notes."""
    text = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]+)\]\([\w./]+\.ipynb\)", r"\1", text)  # no notebook lies beside the slides
    task = text.lstrip("# \n").startswith("Exercise ")
    slide: list[str] = []
    notes: list[str] = []
    for block in re.split(r"\n\s*\n", re.sub(r"^(#+ .*)$", r"\1\n", text, flags=re.MULTILINE)):
        aside = block.startswith(("| profile", "("))  # what a run costs, which no audience needs
        shown = task or block.startswith("#") or _STAYS.search(block) or len(block.split()) <= WORDS
        (slide if shown and not aside else notes).append(block.strip())
    return "\n\n".join(filter(None, slide)), "\n\n".join(filter(None, notes))


def _as(cell: NotebookNode, kind: str) -> NotebookNode:
    cell.metadata["slideshow"] = {"slide_type": kind}
    return cell


def _is_rich(output: NotebookNode) -> bool:
    return any(kind in output.get("data", {}) for kind in ("text/html", "image/png", "image/svg+xml"))


def _worth(output: NotebookNode) -> bool:
    """Pictures, tables and controls; of what is printed, the short, but not of a prediction or a game that nobody made in the run."""
    text = output.get("text") or output.get("data", {}).get("text/plain", "")
    short = 0 < len(text.splitlines()) <= LINES and output.get("name") != "stderr"
    return not text.startswith("This is not measured yet.") and (_is_rich(output) or short)
