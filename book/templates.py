"""The book's own templates, book/_templates: pages in Markdown and pieces in HTML, and what all of them may call."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from privlab.ledger import papers, report
from privlab.ledger.judging import SCOPES, VERDICTS, Judgement
from privlab.notebook.verdicts import plain

_ID = re.compile(r"\w+(\.\w+){2,}")


def link(j: Judgement, root: str = "../", shown: str = "") -> Markup:
    """A link to a claim.  root: of the book, as seen from the page with the link.  shown: the claim's statement if not given."""
    return Markup(f'<a href="{root}claims/{j.claim.paper}.html#{j.claim.id}">{escape(shown or j.claim.statement)}</a>')


def names(text: str, ids: Mapping[str, Judgement] = {}) -> Markup:
    """A text with each name of a measured value as code, and each id of a claim as a link, for a page beside those of claims."""
    escaped = re.sub(r"[a-z][a-z0-9_]*\[[^\]]*\]", r"<code>\g<0></code>", str(escape(text)))
    code = Markup("<code>{}</code>").format
    return Markup(_ID.sub(lambda m: link(ids[m[0]], shown=code(m[0])) if m[0] in ids else m[0], escaped))


@cache
def _every() -> jinja2.Environment:
    place, in_html = jinja2.FileSystemLoader(Path(__file__).parent / "_templates"), jinja2.select_autoescape(["html"])
    made = jinja2.Environment(
        loader=place, autoescape=in_html, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    made.filters |= {"names": names, "plain": plain, "md": report.in_markdown, "verdict": report.verdict}
    made.filters["short"] = lambda paper: paper.partition(", ")[0]
    made.globals |= {"verdicts": VERDICTS, "scopes": SCOPES, "icons": report.ICONS, "edges": report.EDGES, "link": link}
    made.globals |= {"printed": report.printed, "papers": papers.PAPERS, "fill": fill}
    made.globals |= {"count": report.answered, "holm": report.holm}
    return made


def fill(name: str, **values: Any) -> Markup:
    """A template with these values in it; where it is HTML they are escaped, and it becomes one line, which no Markdown can break off."""
    made = _every().get_template(name).render(values)
    return Markup(" ".join(made.split()) if name.endswith(".html") else made)
