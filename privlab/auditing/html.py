"""A report made of sections, as lines for a terminal and as HTML that stands alone: no script, no link, pictures inside."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
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
    """A title, paragraphs, a table with its head (or none), pictures for HTML, and paragraphs after them."""

    title: str
    said: Sequence[str]
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    after: Sequence[str] = ()
    pictures: Sequence[Picture] = ()


def text(title: str, headline: str, sections: Sequence[Section]) -> str:
    """The report in lines of `LINE` letters; those of a table are as long as it is wide."""
    lines = [title, "", *textwrap.wrap(headline, LINE)]
    for section in sections:
        lines += ["", section.title.upper(), *_wrapped(section.said)]
        lines += _columns([section.head, *section.rows]) if section.rows else []
        lines += _wrapped(section.after)
    return "\n".join(lines)


def _wrapped(paragraphs: Sequence[str]) -> list[str]:
    return [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, LINE)]


def page(title: str, headline: str, sections: Sequence[Section]) -> str:
    """The report as one HTML file."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body(title, headline, sections, 1)}\n</main>\n</body>\n</html>\n"
    )


def body(title: str, headline: str, sections: Sequence[Section], level: int) -> str:
    """The report as HTML without the page around it, for a notebook.  level: of its highest heading, 1 to 5."""
    out = [f"<h{level}>{html.escape(title)}</h{level}>", f'<p class="headline">{html.escape(headline)}</p>']
    for section in sections:
        out.append(f"<h{level + 1}>{html.escape(section.title)}</h{level + 1}>")
        out += _paragraphs(section.said)
        if section.rows:
            head = "".join(f'<th scope="col">{html.escape(word)}</th>' for word in section.head)
            rows = "".join(map(_row, section.rows))
            out.append(f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>')
        out += [picture.tag() for picture in section.pictures]
        out += _paragraphs(section.after)
    return "\n".join(out)


def _paragraphs(lines: Sequence[str]) -> list[str]:
    return [f"<p>{html.escape(line)}</p>" for line in lines]


def _row(cells: Sequence[str]) -> str:
    rest = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{html.escape(cells[0])}</th>{rest}</tr>'


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
