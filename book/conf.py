"""The book: `sphinx-build -W -b html book book/_build/html`. Labs and ledger come from a run, where there is one.

A lab is shown as its largest run below runs executed it, green and of the source as it stands, and without outputs where there is
none; PRIVLAB_RUN names the folder of one run that is taken instead. The pages load nothing from outside: what they need
lies in _static/vendor, where data_scripts/vendor.py puts it; without it they show TeX and text.
"""

from __future__ import annotations

import html
import os
import re
import sys
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging

BOOK = Path(__file__).parent
ROOT = BOOK.parent
RUNS, RUN = ROOT / "runs", os.environ.get("PRIVLAB_RUN")
sys.path[:0] = [
    str(ROOT),
    str(BOOK),
]  # the package beside this book, installed or not, and the modules beside this file

import benchmarks  # noqa: E402
import claim_pages  # noqa: E402
import coverage_page  # noqa: E402
import drawings  # noqa: E402
import findings_page  # noqa: E402
import front_page  # noqa: E402
import gift  # noqa: E402
import ledger_page  # noqa: E402
import own_results  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402
import what_holds  # noqa: E402

from privlab import __version__, ledger  # noqa: E402
from privlab.ledger import evidence, papers  # noqa: E402
from privlab.runner import catalogue, launch_buttons, static_pages  # noqa: E402

MATHJAX = "vendor/mathjax/tex-svg-full.js"
HAVE_MATHJAX = (BOOK / "_static" / MATHJAX).is_file()

project = "privlab"
author = copyright = "the privlab authors"
version = release = __version__
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinxcontrib.bibtex"]
exclude_patterns = [
    "_build",
    "_generated/findings.md",
    "_generated/front",
    "_generated/second_order.md",
    "_generated/rooms.md",
    "baselines",
    "evidence",
    "**/.ipynb_checkpoints",
]
html_theme = "sphinx_book_theme"
html_title = "privlab"
html_theme_options = {
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "navbar_persistent": [],
    "use_download_button": False,  # it offers the page; each lab has links to the notebook and its source
}
html_copy_source = False
html_show_search_summary = False  # the summaries are fetched, which no browser allows for files on a disk
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = [("book.js", {"defer": "defer"})]
html_context = {
    "default_mode": "auto"
}  # light or dark, as the reader's system is; empty, the theme complains in the console
html_math_renderer = "mathjax" if HAVE_MATHJAX else "tex"
mathjax_path = MATHJAX
mathjax3_config = {"options": {"enableMenu": False}}  # its menu can load more scripts, from outside
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the runner executes, and judges what came out; the book only shows it
nb_ipywidgets_js: dict = {}  # no page asks for a widget: each is HTML
bibtex_bibfiles = ["references.bib"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False  # what torch says of nn.Module.forward is not about ours
python_maximum_signature_line_length = 72
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

log = logging.getLogger(__name__)
_WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"


def _best_run(lab: catalogue.Lab) -> Path | None:
    """The folder of the largest size in which the lab's present source ran to its end."""
    sizes = [RUNS / size for size in reversed(evidence.SIZES)]
    return next((run for run in sizes if static_pages.executed(lab, run) is not None), None)


def write_pages(app: Sphinx) -> None:
    """Write book/_generated anew: the labs and what goes deeper, the ledger, benchmarks, the reference, the house's drawings."""
    generated = Path(app.srcdir) / "_generated"
    for left in generated.glob("**/*.*"):
        left.unlink()
    (generated / "labs/deeper").mkdir(parents=True, exist_ok=True)
    floors, apart = reference.contracts(ROOT / "pyproject.toml")
    place = launch_buttons.repository(ROOT)
    shelf = catalogue.everything(ROOT / "labs")
    for lab in shelf:
        below = [one for one in catalogue.with_deeper(shelf, [lab]) if one != lab]
        run = ROOT / RUN if RUN else _best_run(lab) or RUNS
        nbformat.write(pages.page(lab, run, place, below), generated / "labs" / f"{lab.name}.ipynb")
    front_page.write(generated / "front", shelf)
    judged = ledger.judgements()
    for name, text in (
        ("ledger", _WIDE + ledger_page.page(judged)),
        ("coverage", _WIDE + coverage_page.page(papers.places(), judged)),
        ("own_results", _WIDE + own_results.page()),
        ("benchmarks", _WIDE + benchmarks.page(BOOK / "baselines")),
        ("findings", findings_page.page(judged, shelf)),
        ("second_order", benchmarks.second_order(BOOK / "baselines")),
        ("rooms", drawings.table(floors)),
    ):
        (generated / f"{name}.md").write_text(text, encoding="utf-8")
    (generated / "holds").mkdir(exist_ok=True)
    for name, text in what_holds.pages(judged):
        (generated / "holds" / f"{name}.md").write_text(text, encoding="utf-8")
    (generated / "questions.gift").write_text(gift.gift(BOOK / "teaching"), encoding="utf-8")
    (generated / "rooms.svg").write_text(drawings.rooms(floors, apart), encoding="utf-8")
    (generated / "gradient.svg").write_text(drawings.gradient(), encoding="utf-8")
    if app.config.privlab_reference:
        _write_reference(app, generated / "api", reference.Reference(floors, apart))


def _write_reference(app: Sphinx, folder: Path, api: reference.Reference) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in api.pages():
        (folder / f"{name}.rst").write_text(text, encoding="utf-8")
    app.connect("autodoc-process-docstring", api.process)
    app.connect("autodoc-process-signature", reference.arguments)
    app.connect("autodoc-skip-member", reference.skip)


def _tex(writer: nodes.NodeVisitor, node: nodes.Element) -> None:
    """A formula as its authors typed it, for a book built without MathJax."""
    tag = "code" if isinstance(node, nodes.math) else "pre"
    writer.body.append(f'<{tag} class="privlab-tex">{writer.encode(node.astext())}</{tag}>')
    raise nodes.SkipNode


def check_pictures(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Warn, which under -W stops the build, of a picture that says nothing to who cannot see it."""
    for tag in re.findall(r"<img\b[^>]*>", context.get("body") or ""):
        told = {name: html.unescape(text) for name, _, text in re.findall(r"""\b(alt|src)=(["'])(.*?)\2""", tag)}
        if not told.get("alt", "").strip() or told.get("src", "").endswith(told["alt"]):  # a file's name is no words
            log.warning("%s: %s has no alt text", page, told.get("src", tag)[:80])


_LINES = re.compile(r'<dl>\s*((?:<dd><em class="sig-param">.*?</dd>\s*)+)</dl>')


def mend_markup(app: Sphinx, page: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """What Sphinx writes and a screen reader stumbles over: a list without terms in long signatures, and a list without items."""

    def lines(found: re.Match[str]) -> str:
        return '<div class="privlab-lines">' + re.sub("(</?)dd>", r"\1div>", found[1]) + "</div>"

    if body := context.get("body"):
        context["body"] = _LINES.sub(lines, body).replace('role="doc-biblioentry"', 'role="listitem"')


def setup(app: Sphinx) -> None:
    if not HAVE_MATHJAX:
        says = "Built without the script that the pages need: formulas stand here as TeX."
        app.config.html_theme_options["announcement"] = says
        log.info("%s For them: python data_scripts/vendor.py", says)
    app.add_config_value("privlab_reference", True, "env", bool)  # 0 for a book without it, half a minute sooner
    app.add_html_math_renderer("tex", inline_renderers=(_tex, None), block_renderers=(_tex, None))
    app.connect("builder-inited", write_pages)
    app.connect("html-page-context", check_pictures)
    app.connect("html-page-context", mend_markup)
    app.connect("html-collect-pages", claim_pages.collect)
