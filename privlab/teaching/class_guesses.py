"""A page of a class's guesses: a histogram for each question that the labs ask before a result.

What it reads was handed in: a file that is large, a link, or not what a lab writes is left out and named, and every word is escaped.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from privlab.compute import reading

LARGEST, QUESTIONS, LETTERS, BARS = 1_000_000, 200, 300, 12  # bytes of a file; in a file; in a word; in a histogram
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>What the class guessed</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:auto;padding:1rem}
table{width:100%}caption{text-align:left;font-weight:600}th{text-align:left;font-weight:normal;width:45%}</style></head>
<body><main><h1>What the class guessed</h1>"""


def read(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """All guesses in a folder of hand-ins, and a line for each file that is left out.

    A row has lab, question, student, words (of the question, with its unit), guess, right; a student has one a question.
    Raises NotADirectoryError where the folder is none, FileNotFoundError where it holds no guesses.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder; give the one that the returned files are in")
    rows, left_out = [], []
    for path in sorted(reading.visible(folder, "**/*"), key=lambda one: len(one.parts)):  # what lies deeper counts
        name = path.relative_to(folder).as_posix()
        if not re.search(r"guesses.*\.json\Z", path.name, re.IGNORECASE):
            continue
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
                raise ValueError("it is no plain file of at most 1 MB")
            rows += list(_guesses(path, student=name.partition("/")[0]))
        except (OSError, ValueError) as error:
            left_out.append(f"{name}: {str(error).removeprefix(f'{path} ')[:LETTERS]}")
    if not rows and not left_out:
        raise FileNotFoundError(f"{str(folder)!r} holds no guesses.json")
    table = pd.DataFrame(rows, columns=["lab", "question", "student", "words", "guess", "right"])
    return table.drop_duplicates(["question", "student"], keep="last"), left_out


def page(table: pd.DataFrame) -> str:
    """The HTML of the page; it stands alone, without scripts.  table: as `read` gives it."""
    drawn: dict[str, list[str]] = {}
    for _, group in table.groupby("question", sort=False):
        drawn.setdefault(group.lab.mode()[0], []).append(_histogram(group))
    parts = [_HEAD, f"<p>{table.student.nunique()} students returned guesses.</p>"]
    for lab, histograms in sorted(drawn.items()):
        parts += [f"<h2>{html.escape(lab)}</h2>", *histograms]
    return "\n".join([*parts, "</main></body></html>\n"])


def _histogram(group: pd.DataFrame) -> str:
    """A table with a bar for each range of numbers, or each word, and what was right."""
    guesses = group.guess.explode()
    numbers = pd.to_numeric(guesses, errors="coerce").dropna()
    if numbers.nunique() > 1:
        low, high = numbers.quantile([0.05, 0.95])
        near = numbers.clip(low - (high - low), high + (high - low))  # no outlier hides the others
        counts = near.value_counts(bins=10, sort=False)
        counts.index = [f"{step.left:.3g} to {step.right:.3g}" for step in counts.index]
    else:
        counts = guesses.map(lambda one: f"{one:g}" if isinstance(one, float) else one).value_counts().head(BARS)
    counts.index = counts.index.map(html.escape)
    style = counts.to_frame("students").style.bar(color="#56b4e9", vmin=0)
    bars = style.set_caption(html.escape(group.words.mode()[0])).to_html()
    right = ", ".join(f"{words} ({count})" for words, count in group.right.dropna().value_counts().head(3).items())
    answer = f"<details><summary>What was right</summary><p>{html.escape(right)}</p></details>"
    return bars + answer if right else bars


def _guesses(path: Path, student: str) -> Iterator[dict[str, Any]]:
    """The rows of a guesses.json.  Raises ValueError for what no lab writes."""
    with reading.guarded(path, "holds no guesses that can be read", "left out"):
        content = [(lab, *item) for lab, asked in json.loads(path.read_bytes()).items() for item in asked.items()]
        if len(content) > QUESTIONS:
            raise ValueError(f"{len(content)} questions are too many")
        for lab, name, entry in content:
            lab = f"Lab {lab[:2]}" if re.match(r"\d\d_", lab, re.ASCII) else "Other notebooks"
            words = str(entry.get("question") or name)[:LETTERS].rstrip(": ")
            words += f" ({str(entry['unit'])[:LETTERS]})" if entry.get("unit") else ""
            right = None if entry.get("right") is None else ", ".join(map(str, _values(entry["right"])))
            guess = _values(entry["guess"])
            yield dict(lab=lab, question=name[:LETTERS], student=student, words=words, guess=guess, right=right)


def _values(content: Any) -> list[float | str]:
    """A number, a word or several words, as a list that is no longer than a page can show."""
    several = content if isinstance(content, list) else [content]
    numbers = [isinstance(one, int | float) and not isinstance(one, bool) and abs(one) < 1e12 for one in several]
    return [float(one) if n else str(one)[:LETTERS] for one, n in zip(several[:BARS], numbers, strict=False)]
