"""A report made of sections, as lines for a terminal and as HTML that stands alone: no script, no link, pictures inside."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privlab.notebook.plots import Picture

LINE = 110
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0}
main{max-width:54rem;margin:0 auto;padding:1.5rem}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.2rem;margin-top:2.2rem}
.headline{font-size:1.1rem;border-left:.4em solid #D55E00;padding-left:.8em}
.table{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;font-size:.94rem}
th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid #ccc;vertical-align:top}
th[scope=row]{font-weight:normal}img{display:block;margin:1rem 0}
"""


@dataclass(frozen=True)
class Section:
    """A title, paragraphs, a table with its head (or none), pictures, which only HTML has drawn, and paragraphs after them."""

    title: str
    before: Sequence[str]
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    after: Sequence[str] = ()
    pictures: Callable[[], Sequence[Picture]] = tuple


@dataclass(frozen=True)
class Report:
    """A title, the first thing to know, and sections."""

    title: str
    headline: str
    sections: Sequence[Section]

    def text(self) -> str:
        """The report in lines of `LINE` letters; those of a table are as long as it is wide."""
        lines = [self.title, "", *textwrap.wrap(self.headline, LINE)]
        for section in self.sections:
            lines += ["", section.title.upper(), *_wrapped(section.before)]
            lines += _columns([section.head, *section.rows]) if section.rows else []
            lines += _wrapped(section.after)
        return "\n".join(lines)

    def page(self) -> str:
        """The report as one HTML file."""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{html.escape(self.title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
            f"<body>\n<main>\n{self.body(1)}\n</main>\n</body>\n</html>\n"
        )

    def body(self, level: int) -> str:
        """The report as HTML without the page around it, for a notebook.  level: of its highest heading, 1 to 5."""
        lines = [_tag(f"h{level}", self.title), _tag("p", self.headline, ' class="headline"')]
        for section in self.sections:
            lines += [_tag(f"h{level + 1}", section.title), *(_tag("p", line) for line in section.before)]
            lines += [_table(section)] if section.rows else []
            lines += [picture.html for picture in section.pictures()]
            lines += [_tag("p", line) for line in section.after]
        return "\n".join(lines)


def _tag(name: str, text: str, attributes: str = "") -> str:
    return f"<{name}{attributes}>{html.escape(text)}</{name}>"


def _table(section: Section) -> str:
    head = "".join(_tag("th", cell, ' scope="col"') for cell in section.head)
    rows = [
        _tag("th", first, ' scope="row"') + "".join(_tag("td", cell) for cell in rest) for first, *rest in section.rows
    ]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _wrapped(paragraphs: Sequence[str]) -> list[str]:
    return [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, LINE)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
