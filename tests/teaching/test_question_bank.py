"""The question bank: a GIFT file that reads back as what was meant, no pattern that gives answers away, and plain words."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

from privlab.notebook import exercises
from privlab.teaching import question_bank
from privlab.teaching.question_bank import Answer, Question

QUESTIONS = question_bank.questions()
SPECIAL = "~=#{}:\\"


def parsed(text):
    """A GIFT file of multiple-choice questions, read letter by letter: (category, title, format, question, [(right?, answer, reason)])."""
    items, category = [], ""
    for block in re.split(r"\n\s*\n", text):
        block = "\n".join(line for line in block.splitlines() if not line.startswith("//")).strip()
        if block.startswith("$CATEGORY:"):
            category = block.removeprefix("$CATEGORY:").strip()
        elif block:
            items.append((category, *item(block)))
    return items


def item(block):
    marks, k = [], 0  # (letter, whether it is escaped)
    while k < len(block):
        escaped = block[k] == "\\"
        k += escaped
        assert not escaped or block[k] in SPECIAL, block[k - 1 : k + 1]
        marks.append((block[k], escaped))
        k += 1
    title, rest = split(marks[2:], "::")
    assert [letter for letter, _ in marks[:2]] == [":", ":"]
    question, rest = split(rest, "{")
    body, after = split(rest, "}")
    assert text_of(after) == ""
    form = re.match(r"\[(\w+)\]", text_of(question))
    answers, current = [], None
    for letter, escaped in body:
        if letter in "=~" and not escaped:
            current = [letter == "=", "", None]
            answers.append(current)
        elif letter == "#" and not escaped:
            current[2] = ""
        elif current:
            current[1 if current[2] is None else 2] += letter
    return text_of(title), form[1], text_of(question)[form.end() :], [(r, a.strip(), w.strip()) for r, a, w in answers]


def split(marks, sign):
    for k in range(len(marks)):
        if [(letter, False) for letter in sign] == marks[k : k + len(sign)]:
            return marks[:k], marks[k + len(sign) :]
    raise AssertionError(f"no {sign}")


def text_of(marks):
    return "".join(letter for letter, _ in marks).strip()


def test_moodle_reads_what_was_meant():
    read = parsed(question_bank.gift())
    meant = [
        (f"privlab/Lab {q.lab}", q.id, "markdown", q.ask, [(a.right, a.text, a.why) for a in q.answers])
        for q in QUESTIONS
    ]
    assert read == meant


def test_signs_of_gift_stand_for_themselves(monkeypatch):
    evil = "x = {1: 2} ~ #3, C:\\n"
    asked = Question("00.x", evil, tuple(Answer(f"{evil} {k}", evil, k == 0) for k in range(4)))
    monkeypatch.setattr(question_bank, "questions", lambda: (asked,))
    ((_, _, _, ask, answers),) = parsed(question_bank.gift())
    assert ask == evil and answers == [(k == 0, f"{evil} {k}", evil) for k in range(4)]


def test_each_lab_has_four_and_each_question_one_right_answer():
    assert Counter(q.lab for q in QUESTIONS) == dict.fromkeys(exercises.labs(), 4) and len(QUESTIONS) == 60
    assert len({q.id for q in QUESTIONS}) == len({q.ask for q in QUESTIONS}) == 60
    for q in QUESTIONS:
        assert [a.right for a in q.answers].count(True) == 1 and len({a.text for a in q.answers}) == 4, q.id
        assert all(a.why.endswith(".") and len(a.why.split()) >= 4 for a in q.answers), q.id


def test_neither_place_nor_length_gives_the_answer_away():
    places = Counter([a.right for a in q.answers].index(True) for q in QUESTIONS)
    assert all(8 <= places[k] <= 22 for k in range(4)), places
    ranks = Counter(
        sorted(q.answers, key=lambda a: len(a.text)).index(next(a for a in q.answers if a.right)) for q in QUESTIONS
    )
    assert all(ranks[k] <= 24 for k in (0, 3)), f"the right one is the shortest or the longest too often: {ranks}"
    for q in QUESTIONS:
        assert max(len(a.text) for a in q.answers) <= 130, q.id


def english():
    spec = importlib.util.spec_from_file_location("english", Path(__file__).parents[1] / "labs/test_english.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_words_are_those_of_the_field():
    module = english()
    texts = [text for q in QUESTIONS for text in (q.ask, *(a.text for a in q.answers), *(a.why for a in q.answers))]
    assert [one for text in texts for one in module.found(text)] == []


def test_the_page_has_every_question_and_folds_what_is_right():
    page = question_bank.page()
    assert page.count("<details>") == page.count("</details>") == 60
    open_parts = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    for q in QUESTIONS:
        assert q.ask in open_parts and all(a.text in open_parts and a.why not in open_parts for a in q.answers)
    assert "** is right" not in open_parts


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "00.x", "ask": "?", "right": "a", "why": "b", "wrong": {"c": "d", "e": "f"}},
        {"id": "0.x", "ask": "?", "right": "a", "why": "b", "wrong": {"c": "d", "e": "f", "g": "h"}},
        {"id": "00.x", "ask": "?", "right": "a", "why": "b", "wrong": {"a": "d", "e": "f", "g": "h"}},
        {"id": "00.x", "ask": "?", "right": "a", "wrong": {"c": "d", "e": "f", "g": "h"}},
    ],
)
def test_an_entry_that_is_no_question_is_named(entry):
    with pytest.raises(ValueError, match=r"questions\.yaml"):
        question_bank._question(entry)
