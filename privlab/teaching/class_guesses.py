"""A page of a class's guesses: a histogram for each question that the labs ask before a result, and for the user study of lab 12.

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
from privlab.course.lab_12 import study

LARGEST, QUESTIONS, WORDS, LETTERS = 1_000_000, 200, 12, 300  # bytes of a file; in a file; in a guess; in a word
BARS = 12
_GUESSES = re.compile(r"guesses.*\.json\Z", re.IGNORECASE)
_GAME = re.compile(r"[0-9a-f]{8}_[0-9a-f]{16}.*\.json\Z")
_COLUMNS = ["lab", "question", "student", "words", "guess", "right"]


def read(folder: Path) -> tuple[pd.DataFrame, list[str]]:
    """All guesses and finished games in a folder of hand-ins, and a line for each file that is left out.

    A row has lab, question, student, words (of the question, with its unit), guess, right; a student has one a question.
    Raises NotADirectoryError where the folder is none, FileNotFoundError where it holds neither.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder; give the one that the returned files are in")
    rows: list[dict[str, Any]] = []
    left_out = []
    for path in sorted(reading.visible(folder, "**/*"), key=lambda one: len(one.parts)):  # what lies deeper counts
        name = path.relative_to(folder).as_posix()
        if not (_GUESSES.search(path.name) or _GAME.match(path.name)):
            continue
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
                raise ValueError("it is no plain file of at most 1 MB")
            rows += _game(path) if _GAME.match(path.name) else _guesses(path, student=name.partition("/")[0])
        except (OSError, ValueError) as error:
            left_out.append(f"{name}: {str(error).removeprefix(f'{path} ')[:LETTERS]}")
    if not rows and not left_out:
        raise FileNotFoundError(f"{str(folder)!r} holds no guesses.json and no game of the user study")
    return pd.DataFrame(rows, columns=_COLUMNS).drop_duplicates(["question", "student"], keep="last"), left_out


def page(table: pd.DataFrame) -> str:
    """The HTML of the page; it stands alone, without scripts.  table: as `read` gives it."""
    histograms = [
        (group.lab.mode()[0], f"{_histogram(group)}\n{_right(group)}")
        for _, group in table.groupby("question", sort=False)
    ]
    parts = []
    for lab in sorted({lab for lab, _ in histograms}):
        parts += [f"<h2>{html.escape(lab)}</h2>", *(drawn for its, drawn in histograms if its == lab)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>What the class guessed</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:48rem;margin:auto;padding:1rem}"
        "table{width:100%}caption{text-align:left;font-weight:600}th{text-align:left;font-weight:normal;width:45%}</style></head>\n"
        f"<body><main><h1>What the class guessed</h1><p>{table.student.nunique()} students returned guesses.</p>\n"
        + "\n".join(parts)
        + "</main></body></html>\n"
    )


def _histogram(group: pd.DataFrame) -> str:
    """A table with a bar for each range of numbers, or each word."""
    guesses = group.guess.explode()
    numbers = pd.to_numeric(guesses, errors="coerce").dropna()
    if len(numbers) and numbers.nunique() > 1:
        low, high = numbers.quantile([0.05, 0.95])
        near = numbers.clip(low - (high - low), high + (high - low))  # no outlier hides the others
        counts = near.value_counts(bins=10, sort=False)
        counts.index = [f"{step.left:.3g} to {step.right:.3g}" for step in counts.index]
    else:
        counts = guesses.map(lambda one: f"{one:g}" if isinstance(one, float) else one).value_counts().head(BARS)
    counts.index = counts.index.map(html.escape)
    style = counts.to_frame("students").style.bar(color="#56b4e9", vmin=0)
    return style.set_caption(html.escape(group.words.mode()[0])).to_html()


def _right(group: pd.DataFrame) -> str:
    said = ", ".join(f"{right} ({count})" for right, count in group.right.dropna().value_counts().head(3).items())
    return f"<details><summary>What was right</summary><p>{html.escape(said)}</p></details>" if said else ""


def _guesses(path: Path, student: str) -> Iterator[dict[str, Any]]:
    """The rows of a guesses.json.  Raises ValueError for what no lab writes."""
    with reading.guarded(path, "holds no guesses that can be read", "left out"):
        content = [(lab, *item) for lab, asked in json.loads(path.read_bytes()).items() for item in asked.items()]
        if len(content) > QUESTIONS:
            raise ValueError(f"{len(content)} questions are too many")
        rows = []
        for lab, name, entry in content:
            unit = f" ({_word(entry['unit'])})" if entry.get("unit") else ""
            words = _word(entry.get("question") or name).rstrip(": ") + unit
            right = None if entry.get("right") is None else ", ".join(f"{one}" for one in _values(entry["right"]))
            lab = f"Lab {lab[:2]}" if re.match(r"\d\d_", lab, re.ASCII) else "Other notebooks"
            row: dict[str, Any] = dict(lab=lab, question=_word(name), student=student, words=words)
            rows.append(row | dict(guess=_values(entry["guess"]), right=right))
    return iter(rows)


def _values(content: Any) -> list[float | str]:
    """A number, a word or several words, as a list."""
    if isinstance(content, int | float) and not isinstance(content, bool) and abs(content) < 1e12:
        return [float(content)]
    words = content if isinstance(content, list) else [content]
    if len(words) > WORDS:
        raise ValueError(f"a guess has {len(words)} words, of at most {WORDS}")
    return [_word(word) for word in words]


def _word(content: Any) -> str:
    if not isinstance(content, str) or len(content) > LETTERS:
        raise ValueError(f"{content!r:.40} is no word of at most {LETTERS} letters")
    return content


def _game(path: Path) -> Iterator[dict[str, Any]]:
    """The row of a finished game of the user study: how often the first of the two was chosen."""
    game = study.read(path)
    if game.over:
        one, other = game.names
        words = f"In how many of {game.pairs} pairs was {one} found closer than {other}? (study {game.study[:8]})"
        chosen = float(sum(answer.choice == one for answer in game.answers))
        yield dict(lab="Lab 12", question=words, student=game.player, words=words, guess=[chosen], right=None)
