"""The questions of book/teaching/lab_NN.md as one GIFT file, which Moodle imports: a category for each lab, a reason for each answer."""

import re
from pathlib import Path

_QUESTION = re.compile(
    r"^\((\d\d\.\w+)\)=\n\*\*\d+\.\*\* (.+)\n\n((?:- \*\*\w\*\* .+\n)+)\n<details>.*\n\n((?:- .+\n)+)", re.MULTILINE
)
_ANSWER = re.compile(r"- \*\*\w\*\* (.+)")
_REASON = re.compile(r"- \*\*\w\*\* is (right|wrong)\. (.+)")


def gift(folder: Path) -> str:
    """The file.  folder: with the pages lab_NN.md."""
    parts = ["// Questions of privlab; import them into Moodle as GIFT.\n"]
    for page in sorted(folder.glob("lab_*.md")):
        parts.append(f"$CATEGORY: privlab/Lab {page.stem[4:]}\n")
        for name, ask, answers, reasons in _QUESTION.findall(page.read_text(encoding="utf-8")):
            pairs = zip(_ANSWER.findall(answers), _REASON.findall(reasons), strict=True)
            lines = "".join(
                f"\t{'=' if kind == 'right' else '~'}{_plain(a)}#{_plain(why)}\n" for a, (kind, why) in pairs
            )
            parts.append(f"::{_plain(name)}::[markdown]{_plain(ask)} {{\n{lines}}}\n")
    return "\n".join(parts)


def _plain(text: str) -> str:
    r"""Text in which ~ = # { } : and \ stand for themselves."""
    return re.sub(r"([~=#{}:\\])", r"\\\1", text)
