"""A page of a class's guesses: a histogram for each question that the labs ask before a result.

What it reads was handed in: a file that is large, a link, or not what a lab writes is left out and named, and every word is escaped.
"""

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from privlab.compute.files import guarded, visible
from privlab.teaching.collect import GUESSES, content

QUESTIONS, LETTERS, BARS = 200, 300, 12  # in a file; in a word; in a histogram
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>What the class guessed</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:auto;padding:1rem}
table{width:100%}caption{text-align:left;font-weight:600}th{text-align:left;font-weight:normal;width:45%}</style></head>
<body><main><h1>What the class guessed</h1>"""


def read(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """All guesses in a folder of hand-ins, and a line for each file that is left out.

    A row has lab, question, student, words (of the question, with its unit), guess, right; a student has one a question.
    Raises FileNotFoundError where the folder holds no guesses, or is none.
    """
    rows, left_out = [], []
    for path in sorted(visible(folder, "**/*"), key=lambda one: len(one.parts)):  # what lies deeper counts
        if GUESSES.search(path.name):
            name = path.relative_to(folder)
            try:
                with guarded(name, "holds no guesses that can be read", "ask for the file again"):
                    rows += list(_rows(json.loads(content(path)), student=name.parts[0]))
            except (OSError, ValueError) as error:
                left_out.append(str(error))
    if not rows and not left_out:
        raise FileNotFoundError(f"{str(folder)!r} holds no guesses.json")
    table = pd.DataFrame(rows, columns=["lab", "question", "student", "words", "guess", "right"])
    return table.drop_duplicates(["question", "student"], keep="last"), left_out


def _rows(labs: dict[str, Any], student: str) -> Iterator[tuple[object, ...]]:
    """The rows of a file: of a lab, and of a question there, what was guessed and what was right.  Raises for what no lab writes."""
    if sum(map(len, labs.values())) > QUESTIONS:
        raise ValueError(f"more than {QUESTIONS} questions")
    for notebook, asked in labs.items():
        lab = f"Lab {notebook[:2]}" if re.match(r"\d\d_", notebook, re.ASCII) else "Other notebooks"
        for name, entry in asked.items():
            unit = f" ({entry['unit']})" if entry.get("unit") else ""
            words = f"{str(entry.get('question') or name).rstrip(': ')}{unit}"[:LETTERS]
            yield lab, name[:LETTERS], student, words, _words(entry["guess"]), ", ".join(_words(entry.get("right")))


def _words(guess: object) -> list[str]:
    """A number, a word or several words, as a list that is no longer than a page can show."""
    several = guess if isinstance(guess, list) else [] if guess is None else [guess]
    return [(f"{one:g}" if isinstance(one, float) else str(one))[:LETTERS] for one in several[:BARS]]


def page(table: pd.DataFrame) -> str:
    """The HTML of the page; it stands alone, without scripts.  table: as `read` gives it."""
    parts = [_HEAD, f"<p>{table.student.nunique()} students returned guesses.</p>"]
    most = table.groupby("question").lab.transform(lambda labs: labs.mode()[0])  # some may have renamed the notebook
    for lab, guesses in table.groupby(most):
        parts.append(f"<h2>{html.escape(lab)}</h2>")
        parts += [_histogram(group) for _, group in guesses.groupby("question", sort=False)]
    return "\n".join([*parts, "</main></body></html>\n"])


def _histogram(group: pd.DataFrame) -> str:
    """A table with a bar for each range of numbers, or each word, and what was right."""
    guesses = group.guess.explode()
    numbers = pd.to_numeric(guesses, errors="coerce").dropna()
    if numbers.nunique() > 1:
        low, high = numbers.quantile([0.05, 0.95])
        near = numbers.clip(low - (high - low), high + (high - low))  # no outlier hides the others
        counts = near.value_counts(bins=10, sort=False).rename(lambda step: f"{step.left:.3g} to {step.right:.3g}")
    else:
        counts = guesses.value_counts().head(BARS).rename(html.escape)
    bars = counts.to_frame("students").style.bar(color="#56b4e9", vmin=0)
    shown = bars.set_caption(html.escape(group.words.mode()[0])).to_html()
    right = html.escape(", ".join(filter(None, group.right.unique()[:3])))
    return shown + f"<details><summary>What was right</summary><p>{right}</p></details>" * bool(right)
