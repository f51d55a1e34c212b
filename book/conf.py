"""The book: `sphinx-build -W -b html book book/_build/html`. Labs and ledger come from a run, where there is one.

A lab is shown as its largest run below runs executed it, green and of the source as it stands; PRIVLAB_RUN names the folder of one run that
is taken instead. The pages load nothing from outside: what they need lies in _static/vendor, where data_scripts/vendor.py puts it.
"""

import os
import re
import sys
from pathlib import Path

import nbformat
from sphinx.application import Sphinx
from sphinx.util import logging

BOOK = Path(__file__).parent
ROOT = BOOK.parent
sys.path[:0] = [str(ROOT), str(BOOK)]  # the package beside this book, and the modules beside this file

import benchmarks  # noqa: E402
import claim_pages  # noqa: E402
import docstrings  # noqa: E402
import equations  # noqa: E402
import findings_page  # noqa: E402
import gift  # noqa: E402
import ledger_pages  # noqa: E402
import pages  # noqa: E402

from privlab import __version__, ledger  # noqa: E402
from privlab.ledger.evidence import SIZES  # noqa: E402
from privlab.runner import catalogue, launch_buttons, pairing  # noqa: E402

project = "privlab"
author = copyright = "the privlab authors"
version = release = __version__
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinxcontrib.bibtex"]
exclude_patterns = ["_build", "_generated/parts", "baselines", "evidence", "**/.ipynb_checkpoints"]
html_theme = "sphinx_book_theme"
html_title = "privlab"
html_theme_options = {
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "navbar_persistent": [],
    "use_download_button": False,
}
html_copy_source = False
html_show_search_summary = False  # the summaries are fetched, which no browser allows for files on a disk
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = [("book.js", {"defer": "defer"})]
html_context = {"default_mode": "auto"}  # as the reader's system is; empty, the theme complains in the console
mathjax_path = "vendor/mathjax/tex-svg-full.js"
mathjax3_config = {"options": {"enableMenu": False}}  # its menu can load more scripts, from outside
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the runner executes labs, and judges what came out; the book runs own_results.md alone
nb_execution_raise_on_error, nb_execution_timeout = True, 300
nb_ipywidgets_js: dict = {}  # no page asks for a widget: each is HTML
bibtex_bibfiles = ["references.bib"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False  # what torch says of nn.Module.forward is not about ours
autosummary_ignore_module_all, autosummary_imported_members = False, True  # a door says itself what it offers
templates_path = ["_templates"]
default_role = "py:obj"  # of what a docstring has in backticks: a link where the book documents it, else code
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

log = logging.getLogger(__name__)


def write_pages(app: Sphinx) -> None:
    """Write book/_generated anew: the labs and what goes deeper, the ledger and what is told of it, tables of benchmarks."""
    generated = Path(app.srcdir) / "_generated"
    for left in generated.glob("**/*.*"):
        left.unlink()
    for folder in ("labs/deeper", "holds", "parts"):
        (generated / folder).mkdir(parents=True, exist_ok=True)
    address = launch_buttons.repository(ROOT)
    shelf = catalogue.everything(ROOT / "labs")
    named = os.environ.get("PRIVLAB_RUN")
    runs = [ROOT / named] if named else [ROOT / "runs" / size for size in reversed(SIZES)]
    for lab in shelf:
        below = catalogue.pick(shelf, [lab.path.stem], deeper=True)[1:]
        executed = next(filter(None, (pairing.executed(lab, run) for run in runs)), None)
        nbformat.write(pages.page(lab, executed, address, below), generated / "labs" / f"{lab.name}.ipynb")
    judged = ledger.judgements()
    texts = {
        "parts/findings": findings_page.page(judged, {lab.number: lab.name for lab in shelf if not lab.goes_deeper}),
        **dict(ledger_pages.pages(judged, [*equations.marks(shelf)])),
        **{f"parts/{name}": text for name, text in benchmarks.tables(BOOK / "baselines")},
    }
    for name, text in texts.items():
        (generated / f"{name}.md").write_text(text, encoding="utf-8")
    (generated / "questions.gift").write_text(gift.gift(BOOK / "teaching"), encoding="utf-8")


def finish_page(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """Warn, which under -W stops the build, of a picture that says nothing to who cannot see it; and mend a list without items."""
    body = context.get("body") or ""
    for tag in re.findall(r"<img\b[^>]*>", body):
        told = {"alt": "", "src": ""} | dict(re.findall(r"""\b(alt|src)="(.*?)\"""", tag))
        if not told["alt"].strip() or told["src"].endswith(told["alt"]):  # a file's name is no words
            log.warning("%s: %s has no alt text", page, told.get("src", tag)[:80])
    context["body"] = body.replace('role="doc-biblioentry"', 'role="listitem"')  # as a screen reader hears references


def setup(app: Sphinx) -> None:
    if not (BOOK / "_static" / mathjax_path).is_file():
        app.config.html_theme_options["announcement"] = "Built without MathJax: formulas stand here as TeX."
    app.connect("builder-inited", write_pages, priority=100)  # before autosummary looks for pages that list something
    app.connect("autodoc-process-docstring", docstrings.process)
    app.connect("autodoc-process-signature", docstrings.signature)
    app.connect("html-page-context", finish_page)
    app.connect("html-collect-pages", claim_pages.collect)
