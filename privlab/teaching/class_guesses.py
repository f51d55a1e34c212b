"""A page of a class's guesses: a histogram for each question that the labs ask before a result, and for the user study of lab 12.

What it reads was handed in, so every byte of it may be anything: a file that is too large, no plain file or not what `notebook.guesses` and
`user_study` write is left out and named on the page, a link is not followed, one student counts once a question however many files they
return, and every word is escaped.
"""

from __future__ import annotations

import html
import json
import math
import re
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privlab.compute import reading
from privlab.course.lab_12 import user_study
from privlab.teaching import web_page
from privlab.teaching.marking.gradebook import shown
from privlab.teaching.marking.students import by_file

LARGEST = 1_000_000  # bytes of a file
FILES, QUESTIONS, BARS, LETTERS = 20_000, 200, 12, 300  # in a folder, in a file, in a histogram, in a word
_GUESSES = re.compile(r"guesses.*\.json\Z", re.IGNORECASE)  # ada_123_guesses.json, guesses (1).json too
_GAME = re.compile(r"[0-9a-f]{8}_[0-9a-f]{16}.*\.json\Z")


@dataclass
class Question:
    """What a class said to one question. said: student -> a number, a word, or words; the others: how often students' files have each."""

    said: dict[str, float | tuple[str, ...]] = field(default_factory=dict)
    words: Counter[str] = field(default_factory=Counter)
    labs: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)


@dataclass
class Class:
    """The guesses and the finished games in a folder. left_out: a line for each file that cannot be read as such."""

    questions: dict[str, Question] = field(default_factory=lambda: defaultdict(Question))
    games: dict[tuple[str, tuple[str, str], int], dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    left_out: list[str] = field(default_factory=list)
    students: set[str] = field(default_factory=set)


def read(folder: Path) -> Class:
    """All guesses and games in a folder of hand-ins and the folders in it.

    Raises NotADirectoryError where it is none, FileNotFoundError where it holds neither.
    """
    if not folder.is_dir():
        raise NotADirectoryError(f"{str(folder)!r} is not a folder; give the one that the returned files are in")
    all_ = Class()
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        try:
            if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size > LARGEST:
                raise ValueError(f"it is no plain file of at most {LARGEST // 1_000_000} MB")
            if _GAME.match(path.name):
                _add_game(all_, user_study.read(path))
            else:
                with reading.guarded(name, "holds no guesses that can be read", "left out"):
                    content = list(_checked(json.loads(path.read_bytes())))
                _add(all_, _student(name), content)
        except (OSError, ValueError) as error:
            why = str(error).removeprefix(f"{name} ").removesuffix("; left out")
            all_.left_out.append(shown(f"{name}: {why}")[:LETTERS])
    if not (all_.questions or all_.games or all_.left_out):
        raise FileNotFoundError(f"{str(folder)!r} holds no guesses.json and no game of the user study")
    return all_


def is_one(name: str) -> bool:
    """Whether a file of this name holds guesses, or a finished game of the user study."""
    return bool(_GUESSES.search(name) or _GAME.match(name))


def _student(name: str) -> str:
    """Whose guesses a path within the folder holds; guesses_ben.json and "guesses (2).json" name nobody, and are each somebody's."""
    return name if _GUESSES.match(name) else by_file(name).casefold() or name


def _files(folder: Path) -> list[Path]:
    found = [path for path in reading.visible(folder, "**/*") if is_one(path.name)]
    files = sorted(found, key=lambda path: (path.parent, path.name))  # what lies deeper comes later, and counts
    if len(files) > FILES:
        raise ValueError(f"{str(folder)!r} holds more than {FILES:,} files of guesses; give a smaller folder")
    return files


def _checked(content: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(lab, name of the question, entry) of a file's content.  Raises ValueError for what a lab does not write."""
    pairs = [(lab, name, entry) for lab, asked in content.items() for name, entry in asked.items()]
    if len(pairs) > QUESTIONS:
        raise ValueError(f"it has {len(pairs)} questions, the labs have less than {QUESTIONS}")
    for lab, name, entry in pairs:
        if not isinstance(entry, dict) or "guess" not in entry:
            raise ValueError(f"question {name!r:.40} has no guess")
        _words(name, lab, entry.get("question", ""), entry.get("unit", ""))
        entry = {**entry, "guess": _value(entry["guess"])}
        if entry.get("right") is not None:
            entry["right"] = _value(entry["right"])
        yield lab, name, entry


def _words(*words: object) -> tuple[str, ...]:
    for word in words:
        if not isinstance(word, str) or len(word) > LETTERS:
            raise ValueError(f"{word!r:.40} is no word of at most {LETTERS} letters")
    return tuple(shown(str(word)) for word in words)


def _value(value: object) -> float | tuple[str, ...]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) < 1e12:
            raise ValueError(f"{value!r:.40} is too large a number for a guess")
        return float(value)
    words = value if isinstance(value, list) else [value]
    if len(words) > BARS:
        raise ValueError(f"a guess has {len(words)} words, of at most {BARS}")
    return _words(*words)


def _add(all_: Class, student: str, content: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
    for lab, name, entry in content:
        question = all_.questions[name]
        all_.students.add(student)
        question.said[student] = entry["guess"]
        question.words[shown(entry.get("question", "")) or shown(name)] += 1
        question.units[shown(entry.get("unit", ""))] += 1
        question.labs[lab[:2] if re.match(r"\d\d_", lab, re.ASCII) else "other notebooks"] += 1
        if (right := entry.get("right")) is not None:
            question.right[f"{right:.4g}" if isinstance(right, float) else ", ".join(right)] += 1


def _add_game(all_: Class, game: user_study.Played) -> None:
    if game.over:
        chosen = sum(answer.choice == game.names[0] for answer in game.answers)
        all_.games[game.study, game.names, game.pairs][game.player] = chosen


# -- the page -------------------------------------------------------------------------------------------------------------------


def bars(said: Iterable[float | tuple[str, ...]]) -> list[tuple[str, int]]:
    """(what stands beside a bar, how many students): numbers in ten equal steps, words by how many chose them.

    Numbers far outside, below or above the middle nine tenths by more than its width, are counted at the ends.
    """
    answers = list(said)
    numbers = sorted(one for one in answers if isinstance(one, float))
    words = Counter(word for one in answers if not isinstance(one, float) for word in dict.fromkeys(one))
    rows = words.most_common(BARS)
    if rest := sum(words.values()) - sum(n for _, n in rows):
        rows.append(("other answers", rest))
    return [*_steps(numbers), *rows]


def _steps(numbers: list[float]) -> list[tuple[str, int]]:
    if not numbers:
        return []
    inner = numbers[len(numbers) // 20 : len(numbers) - len(numbers) // 20]
    width = inner[-1] - inner[0]
    near = [one for one in numbers if inner[0] - width <= one <= inner[-1] + width]
    low, high = near[0], near[-1]
    if low == high:
        rows = [(f"{low:.4g}", len(near))]
    else:
        step = _round_up((high - low) / 9)
        first = math.floor(low / step)
        counts = Counter(math.floor(one / step) - first for one in near)
        rows = [
            (f"{(first + k) * step:.6g} to {(first + k + 1) * step:.6g}", counts[k]) for k in range(max(counts) + 1)
        ]
    ends = (("below", sum(one < low for one in numbers)), ("above", sum(one > high for one in numbers)))
    below, above = [[(word, n)] if n else [] for word, n in ends]
    return [*below, *rows, *above]


def _round_up(step: float) -> float:
    """The next of 1, 2, 5, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(k * power for k in (1, 2, 5, 10) if k * power >= step * (1 - 1e-9))


def page(all_: Class) -> str:
    """The HTML of the page; it stands alone, without scripts."""
    ordered = sorted(all_.questions.items(), key=lambda item: (_first(item[1].labs), item[0]))
    labs: dict[str, list[str]] = defaultdict(list)
    for _, question in ordered:
        labs[_first(question.labs)].append(_question(question))
    for (study, names, pairs), players in sorted(all_.games.items(), key=lambda item: -len(item[1])):
        title = f"In how many of {pairs} pairs was {names[0]} found closer than {names[1]}? (study {study[:8]})"
        counts = Counter(players.values())
        rows = [(str(k), counts[k]) for k in range(min(counts), max(counts) + 1)]
        labs["12"].append(_table(shown(title)[:LETTERS], rows[:200], "players"))
    sections = [f"<section><h2>{_heading(lab)}</h2>{''.join(tables)}</section>" for lab, tables in sorted(labs.items())]
    left_out = "".join(f"<li>{html.escape(line)}</li>" for line in all_.left_out[:200])
    sections += [f"<section><h2>Left out</h2><ul>{left_out}</ul></section>"] if left_out else []
    who = "student" if len(all_.students) == 1 else "students"
    intro = f"<p>{len(all_.students)} {who} returned guesses. Open the line below a histogram to see what was measured.</p>\n"
    return web_page.page("What the class guessed", intro + "\n".join(sections))


def _heading(lab: str) -> str:
    return html.escape(f"Lab {lab}" if lab.isdigit() else lab.capitalize())


def _first(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else ""


def _question(question: Question) -> str:
    unit = _first(question.units)
    title = _first(question.words).rstrip(": ") + (f" ({unit})" if unit else "")
    measured = ", ".join(f"{right} ({n})" for right, n in question.right.most_common(3))
    answer = f"<details><summary>What was right</summary><p>{html.escape(measured)}</p></details>" if measured else ""
    return _table(title, bars(question.said.values()), "students") + answer


def _table(title: str, rows: list[tuple[str, int]], who: str) -> str:
    most = max((n for _, n in rows), default=1) or 1
    lines = "".join(
        f'<tr><th scope="row">{html.escape(word)}</th><td><div class="bar" style="width:{100 * n / most:.0f}%"></div></td>'
        f'<td class="n">{n}</td></tr>'
        for word, n in rows
    )
    return f"<table><caption>{html.escape(title)}, by number of {who}</caption>{lines}</table>"
