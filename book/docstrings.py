"""Docstrings of the package as reStructuredText, for autodoc: plain prose, arguments as `name: text.`, code indented by four."""

import inspect
import re

_NAMES = r"\*{0,2}\w+(?:, \*{0,2}\w+)*(?=: )"
_OPENS = r"(?:Returns?|Raises|Warns|Yields|Source:)\b"
_BREAKS = re.compile(rf"(?:\n|  +)(?={_NAMES}|- |{_OPENS})|(?<=\.)\n(?=[A-Z`])")
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w[^*]*?)(?<=\w)\*(?![\w*])")


def process(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Sphinx's autodoc-process-docstring: a docstring as autodoc read it -> as the book shows it."""
    lines[:] = rst("\n".join(lines))


def signature(app: object, what: str, name: str, value: object, options: object, shown: str, returned: str) -> object:
    """Sphinx's autodoc-process-signature: of a class, a default that is no code, such as <factory>, is shown as three dots."""
    short = re.sub(r"<[^<>]*>", "...", (shown or "").replace("~", ""))
    return (short, returned) if what == "class" and shown else None


def rst(text: str) -> list[str]:
    """The lines for Sphinx. A line, or what follows two spaces, is an argument where it begins with a name and a colon."""
    lines: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if all(row.startswith("    ") for row in block.splitlines()):
            lines += ["::", "", *block.splitlines(), ""]
            continue
        pieces = [["", ""]]  # what an item of a list is about ("-" if nothing), nothing for a paragraph; and its words
        for piece in _BREAKS.split(re.sub(r"\n +", " ", block)):
            named = re.match(f"{_NAMES}|-(?= )", piece)
            if re.match(_OPENS, piece) or (pieces[-1][0] and piece[:1].isupper() and not named):
                pieces.append(["", piece])
            elif named:
                pieces.append([named[0], piece[named.end() + 1 :]])
            else:
                pieces[-1][1] += f" {piece}"
        for name, words in pieces:
            head = f"* **{_escaped(name)}**:" if name.strip("-") else "*" * bool(name)
            lines += [f"{head} \\ {_inline(' '.join(words.split()))}".lstrip(), ""] if words.strip(" :") else []
    return lines


def _inline(text: str) -> str:
    """A paragraph: backticks as links or code, *emphasis*; nothing else means anything."""
    pieces = text.split("`")
    pieces[::2] = map(_escaped, pieces[::2])
    pieces[1::2] = [rf"\ `{p}`\ " if re.fullmatch(r"[\w.]+", p) else rf"\ ``{p}``\ " for p in pieces[1::2]]
    return "".join(pieces)


def _escaped(text: str) -> str:
    pieces = _EMPHASIS.split(text)
    return "".join(f"*{p}*" if i % 2 else re.sub(r"[\\*_|]", r"\\\g<0>", p) for i, p in enumerate(pieces))
