"""The instructor's key: for each lab a page with the exercises, their solutions, and what a check accepts and replies."""

from __future__ import annotations

import ast
import functools
import html
import inspect
import re
import textwrap

from nbformat import NotebookNode

from privlab.notebook import exercises
from privlab.runner import catalogue, pairing
from privlab.teaching import student_edition, web_page

SHORTEST = 5  # words of a reply that is worth printing


def page(lab: catalogue.Lab, deeper: list[catalogue.Lab], formulas: bool = False) -> str:
    """The key to a lab and to what goes deeper into it, as HTML.  formulas: see `web_page.page`."""
    sections = []
    for one in (lab, *deeper):
        cells = pairing.notebook(one.path).cells
        solved = student_edition.solved(cells)
        sections += [f"<h2>{html.escape(title(one))}</h2>"] if solved else []
        sections += [_exercise(name, parts) for name, parts in solved]
    return web_page.page(f"Key to lab {lab.number}", "\n".join(sections), formulas)


def title(lab: catalogue.Lab) -> str:
    """The lab's first heading, such as "00 · What does a gradient carry?"."""
    first: str = pairing.notebook(lab.path).cells[0].source.splitlines()[0]
    return first.removeprefix("# ")


def _exercise(name: str, cells: list[NotebookNode]) -> str:
    *text, solution, _ = cells
    prose = re.sub(r"^#+ ", "#### ", "\n\n".join(cell.source for cell in text), flags=re.MULTILINE)
    replies = "".join(f"<li>{html.escape(line)}</li>" for line in replies_of(name))
    told = f"<p>What it may reply, with dots for what it fills in:</p><ul>{replies}</ul>" if replies else ""
    return (
        f'<section>\n<h3 id="{name}"><code>{name}</code></h3>\n{web_page.markdown(prose)}\n'
        f"<p><strong>A solution.</strong></p>\n<pre><code>{html.escape(solution.source)}</code></pre>\n"
        f"<p><strong>The check</strong> {html.escape(accepts(solution.source))}</p>\n{told}\n</section>"
    )


def accepts(solution: str) -> str:
    """What the check of an exercise takes, by the kind of its solution."""
    body = ast.parse(solution).body
    if any(isinstance(node, ast.FunctionDef) for node in body):
        return "calls the function with inputs of its own, and accepts every function that does what is asked, whatever its code is."
    value = body[-1].value if isinstance(body[-1], ast.Assign) else None
    if isinstance(value, ast.Set):
        return "accepts exactly this set; the order does not matter."
    if isinstance(value, ast.Constant | ast.Tuple | ast.Dict):
        return "accepts this value, however it was written."
    return "computes what the value does, and accepts every value that does the same (numbers up to rounding)."


def replies_of(name: str) -> list[str]:
    """What the check of an exercise may reply, in the order of its code; what it fills in stands as dots."""
    check = exercises.of(name[:2])[name]
    while isinstance(check, functools.partial):
        check = check.func
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(check)))
    except (OSError, TypeError, SyntaxError):  # no plain function
        return []
    inside = {
        part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part != node
    }
    texts: dict[int, str] = {}
    for node in ast.walk(tree):
        if node in inside:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(p.value) if isinstance(p, ast.Constant) else "..." for p in node.values]
            texts[node.lineno * 1000 + node.col_offset] = "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts[node.lineno * 1000 + node.col_offset] = node.value
    doc = ast.get_docstring(tree.body[0], clean=False) if isinstance(tree.body[0], ast.FunctionDef) else None
    lines = [" ".join(text.split()) for _, text in sorted(texts.items()) if text != doc]
    return [line for line in dict.fromkeys(lines) if len(line.split()) >= SHORTEST]
