"""An HTML page that stands alone: no script but those of formulas where they are at hand, light and dark, narrow and wide."""

from __future__ import annotations

import html
import re

_STYLE = """
:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:0 auto;padding:1rem}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.15rem .5rem .15rem 0;vertical-align:top;overflow-wrap:anywhere}
thead th{overflow-wrap:normal}th[scope=row]{font-weight:normal;width:45%}td.n{width:3em;text-align:right}.scroll{overflow-x:auto}
.bar{background:#0072b2;height:1.2em;min-width:1px}caption{text-align:left;font-weight:600;padding:.8rem 0 .3rem}
summary{cursor:pointer}section{margin-bottom:2rem}img,svg{max-width:100%}
pre{overflow-x:auto;border-left:.25em solid #0072b2;padding:.3rem .8rem}
:focus-visible{outline:3px solid #0072b2;outline-offset:2px}
"""
_FORMULAS = """<script>MathJax = {tex: {inlineMath: [['$', '$']]}, options: {enableMenu: false}};</script>
<script defer src="vendor/mathjax/tex-svg-full.js"></script>
"""


def page(title: str, body: str, formulas: bool = False) -> str:
    """A page around HTML.  title: words.  formulas: whether vendor/mathjax lies beside the page; else they stay as TeX."""
    words = html.escape(title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{words}</title>\n<style>{_STYLE}</style>\n{_FORMULAS if formulas else ''}</head>\n"
        f"<body>\n<main>\n<h1>{words}</h1>\n{body}\n</main>\n</body>\n</html>\n"
    )


def markdown(text: str) -> str:
    """The HTML of Markdown that is ours, for it may hold HTML; tables can be scrolled."""
    from nbconvert.filters import markdown2html

    made: str = re.sub(r'<a class="anchor-link"[^>]*>&#182;</a>', "", markdown2html(text))
    return made.replace("<table", '<div class="scroll"><table').replace("</table>", "</table></div>")
