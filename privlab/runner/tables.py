"""The tables of labs in README.md and in the teacher's guide: a row for each lab, from its head, its exercises and its plan."""

from __future__ import annotations

import re
from pathlib import Path

from privlab.runner import catalogue
from privlab.runner.catalogue import Lab

_HEAD = re.compile(r"^# # \d\d · ([^\n]+)$.*?^# After this lab you can\n# - ([^\n]+?)[;.]$", re.MULTILINE | re.DOTALL)
_PLAN = re.compile(r"^## A plan for (\d+) minutes$", re.MULTILINE)
_EXERCISE = re.compile(r', (\d+) minutes\)\*$.*?checks\.verify\("\d\d\.(\w+)"', re.MULTILINE | re.DOTALL)


def _head(lab: Lab) -> tuple[str, str]:
    """Its question, and the first of what its reader can do after it."""
    if found := _HEAD.search(lab.text):
        return found[1], found[2]
    cure = "begin it with '# NN · question', 'After this lab you can' and a list"
    raise ValueError(f"{lab.path} has no head; {cure}")


def _in_readme(lab: Lab) -> list[str]:
    question, gain = _head(lab)
    costs = [f"{minutes:g} min, {gb:.1f} GB" for minutes, gb in (lab.costs["smoke"], lab.costs["class"])]
    return [lab.number, f"[{question}](labs/{lab.name}.ipynb)", gain, *costs]


def _to_teach(lab: Lab) -> list[str]:
    plan = lab.path.parents[1] / f"book/teaching/lab_{lab.number}.md"
    (minutes,) = _PLAN.findall(plan.read_text(encoding="utf-8"))
    smoke, class_ = lab.costs["smoke"], lab.costs["class"]
    took, needs = f"{smoke.minutes:g}, {class_.minutes:g}", f"{smoke.gb:g}, {class_.gb:g}"
    return [f"{lab.number} {_head(lab)[0]}", minutes, took, needs]


def _exercises(lab: Lab) -> list[str]:
    shelf = catalogue.pick(catalogue.everything(lab.path.parent), [lab.number], deeper=True)
    here, *below = (", ".join(f"`{name}` {minutes}" for minutes, name in _EXERCISE.findall(one.text)) for one in shelf)
    deeper = ", ".join(filter(None, below))
    return [lab.number, f"{here}; deeper: {deeper}" if deeper else here]


TABLES = (  # file, the first line of a table in it, and what the row of a lab says
    ("README.md", "| | lab | after it you can | `smoke` | `class` |", _in_readme),
    ("book/teaching.md", "| lab | to teach, est. | minutes at `smoke`, `class` | GB at `smoke`, `class` |", _to_teach),
    ("book/teaching.md", "| lab | exercises and minutes, all est. |", _exercises),
)


def filled(labs: Path) -> dict[Path, str]:
    """The files beside a folder of labs that have such tables, with the rows that its labs make."""
    texts: dict[Path, str] = {}
    for name, first, row in TABLES:
        path = labs.resolve().parent / name
        if path.is_file():
            rows = "".join(f"| {' | '.join(row(lab))} |\n" for lab in catalogue.labs(labs.resolve()))
            table = rf"^({re.escape(first)}\n\|[-:| ]+\|\n)(?:\|.*\n)*"  # its head, the line that aligns it, and rows
            text = texts.get(path) or path.read_text(encoding="utf-8")
            texts[path] = re.sub(table, r"\g<1>" + rows.replace("\\", r"\\"), text, flags=re.MULTILINE)
    return texts
