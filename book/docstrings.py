"""Docstrings of the package as reStructuredText: plain prose, arguments as `name: text.`, formulas indented by four."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator

Link = Callable[[str], str | None]  # what stands in backticks -> the name under which the book documents it

_WORD = r"\*{0,2}[A-Za-z_]\w*"
_NAMES = re.compile(rf"({_WORD}(?:, {_WORD})*): ")
_OPENS = re.compile(r"(Returns?|Raises|Warns|Source:|Yields)\b")
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w[^*]*?)(?<=\w)\*(?![\w*])")
_LIKE_A_LIST = re.compile(r"(\(?\w+[.)]|[-+•:])(\s|$)|\.\.|>>>|:")


def rst(text: str, parameters: Collection[str] = (), link: Link = lambda name: None) -> list[str]:
    """The lines of a docstring for Sphinx. parameters: what counts as an argument where a line begins with it and a colon."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        rows = block.splitlines()
        if rows and all(row.startswith("    ") for row in rows):
            lines += [f".. code-block:: {_language(rows)}", "", *rows, ""]
            continue
        listed = False
        for kind, words in _parts(rows, parameters):
            if kind == "text":
                lines += ["\\" * bool(_LIKE_A_LIST.match(words)) + inline(words, link), ""]
            else:
                lines += [] if listed else [".. rst-class:: privlab-arguments", ""]
                name = kind.replace("*", "\\*")
                head = "" if kind == "item" else f"**{name}**: "
                lines += [f"* {head}{inline(words, link)}", ""]
            listed = kind != "text"
    return lines


def _language(rows: list[str]) -> str:
    try:
        ast.parse(textwrap.dedent("\n".join(rows)))
    except SyntaxError:
        return "text"
    return "python"


def _parts(rows: list[str], parameters: Collection[str]) -> Iterator[tuple[str, str]]:
    """What a block consists of: ("text", words), ("item", words), or (names of arguments, words)."""
    parts: list[list[str]] = []
    arguments = False
    for row in rows:
        if re.match(r'(  +")|- ', row):
            parts.append(["item", row.strip().removeprefix("- ")])
            continue
        for i, piece in enumerate(re.split(r"(?<=\S)  +(?=\S)", row.rstrip())):
            named = _NAMES.match(piece)
            if named and all(name.strip("*") in parameters for name in named[1].split(", ")):
                parts.append([named[1], piece[named.end() :]])
                arguments = True
                continue
            begins = i == 0 and not row.startswith(" ") and bool(parts)
            sentence = begins and parts[-1][1].endswith((".", ":")) and piece[:1].isupper()
            if not parts or _OPENS.match(piece) or (sentence and (arguments or parts[-1][0] != "text")):
                parts.append(["text", piece.strip()])
            else:
                parts[-1][1] += " " + piece.strip()
    yield from ((kind, words) for kind, words in parts)


def inline(text: str, link: Link = lambda name: None) -> str:
    """A paragraph: backticks as links or code, single quoted words as code, *emphasis*; nothing else means anything."""
    out = ""
    for i, piece in enumerate(re.split(r'`([^`]+)`|("[\w.-]+")', text)):
        if piece is None:
            continue
        if i % 3 == 0:
            out += ("\\ " if out and piece[:1].isalnum() else "") + _plain(piece)
            continue
        target = link(piece) if i % 3 == 1 else None
        before = "\\ " if out and not (out[-1].isspace() or out[-1] in "([{-/:'\"") else ""
        out += before + (f":py:obj:`{piece} <{target}>`" if target else f"``{piece}``")
    return out


def _plain(text: str) -> str:
    pieces = _EMPHASIS.split(text)
    return "".join(
        f"*{p}*" if i % 2 else re.sub(r"([\\*_|`])", r"\\\1", p).replace("::", ":\\:") for i, p in enumerate(pieces)
    )


def summary(text: str, link: Link = lambda name: None) -> str:
    """The first sentence of a docstring, as a paragraph."""
    first = " ".join(re.split(r"\n\s*\n", inspect.cleandoc(text or ""))[0].split())
    return inline(re.split(r"(?<=[.!?])\s+(?=[A-Z`])", first)[0], link)
