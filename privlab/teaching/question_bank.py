"""The bank of multiple-choice questions: four a lab, each answer with its reason; as a page, and as GIFT, which Moodle imports."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

import yaml

FILE = "questions.yaml"


@dataclass(frozen=True)
class Answer:
    """What can be ticked, and why it is right or wrong."""

    text: str
    why: str
    right: bool


@dataclass(frozen=True)
class Question:
    """id: the number of the lab and a word, such as "04.failed".  answers: in the order in which they are shown, one of them right."""

    id: str
    ask: str
    answers: tuple[Answer, ...]

    @property
    def lab(self) -> str:
        """The two digits of its lab."""
        return self.id[:2]


@cache
def questions() -> tuple[Question, ...]:
    """All questions in the order of the labs.  Raises ValueError for an entry of the file that is none."""
    file = resources.files("privlab.teaching") / FILE
    return tuple(_question(entry) for entry in yaml.safe_load(file.read_text(encoding="utf-8")))


def _question(one: dict[str, Any]) -> Question:
    wrong = one["wrong"]
    if not re.fullmatch(r"\d\d\.[a-z]+", one["id"]) or len(wrong) != 3 or len(one) != 5 or one["right"] in wrong:
        raise ValueError(f"{FILE}: {one['id']!r} is no question; give id (04.word), ask, right, why, and three wrong")
    answers = [Answer(one["right"], one["why"], True), *(Answer(text, why, False) for text, why in wrong.items())]
    answers.sort(key=lambda answer: hashlib.sha256(f"{one['id']} {answer.text}".encode()).digest())
    return Question(one["id"], one["ask"], tuple(answers))


def gift() -> str:
    """The bank as a GIFT file: a category for each lab, a reason for each answer."""
    parts = ["// Questions of privlab; import them into Moodle as GIFT.\n"]
    for lab, asked in groupby(questions(), key=lambda question: question.lab):
        parts.append(f"$CATEGORY: privlab/Lab {lab}\n")
        for question in asked:
            answers = "".join(f"\t{'=' if a.right else '~'}{_gift(a.text)}#{_gift(a.why)}\n" for a in question.answers)
            parts.append(f"::{_gift(question.id)}::[markdown]{_gift(question.ask)} {{\n{answers}}}\n")
    return "\n".join(parts)


def _gift(text: str) -> str:
    r"""Text in which ~ = # { } : and \ stand for themselves."""
    return re.sub(r"([~=#{}:\\])", r"\\\1", text)


def page() -> str:
    """The bank in Markdown, a section for each lab, the right answer and the reasons folded."""
    parts = [
        "# Questions",
        f"{len(questions())} multiple-choice questions, four for each lab. They ask for a judgement: read a situation, find the flaw, "
        "predict, choose a defence. Numbers in them are made up. Each question has one right answer. "
        "Open the line below it to see which one, and why.",
    ]
    for lab, asked in groupby(questions(), key=lambda question: question.lab):
        parts.append(f"## Lab {lab}")
        for number, question in enumerate(asked, 1):
            lettered = [*zip("ABCD", question.answers, strict=True)]
            shown = "\n".join(f"- **{letter}** {a.text}" for letter, a in lettered)
            reasons = "\n".join(
                f"- **{letter}** is {'right' if a.right else 'wrong'}. {a.why}" for letter, a in lettered
            )
            parts += [f"**{number}.** {question.ask}", shown]
            parts.append(
                f"<details><summary>Answer to question {number} of lab {lab}</summary>\n\n{reasons}\n\n</details>"
            )
    return "\n\n".join(parts) + "\n"
