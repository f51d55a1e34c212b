"""Plans and questions of book/teaching: one page a lab, with its exercises, its minutes, and four questions that give nothing away."""

import re
from collections import Counter
from pathlib import Path

import gift
import pytest

from privlab.runner import catalogue, pairing
from privlab.teaching import assignment

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "book/teaching"
QUESTION = re.compile(r"^::(.+?)::\[markdown\](.+?) \{\n(.+?)\n\}$", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^\t([=~])(.+?)(?<!\\)#(.+)$", re.MULTILINE)
QUESTIONS = {name: ANSWER.findall(answers) for name, _, answers in QUESTION.findall(gift.gift(FOLDER))}


@pytest.mark.parametrize("lab", catalogue.pick(catalogue.everything(ROOT / "labs")), ids=lambda lab: lab.name)
def test_a_plan_has_the_exercises_and_the_minutes_of_its_lab(lab):
    page = (FOLDER / f"lab_{lab.number}.md").read_text(encoding="utf-8")
    (minutes,) = map(int, re.findall(r"^## A plan for (\d+) minutes$", page, re.MULTILINE))
    assert minutes == sum(map(int, re.findall(r"^\| (\d+) \|", page, re.MULTILINE)))
    names = [one.name[3:] for one in assignment.exercises(pairing.notebook(lab.path).cells)]
    assert [name for name in names if f"`{name}`" not in page] == []
    assert [name[:2] for name in QUESTIONS].count(lab.number) == page.count("<details>") == 4


def test_each_question_has_one_right_answer_and_a_reason_for_each():
    for name, answers in QUESTIONS.items():
        assert sorted(kind for kind, _, _ in answers) == ["=", "~", "~", "~"], name
        assert len({text for _, text, _ in answers}) == 4, name
        assert all(why.endswith(".") and len(why.split()) >= 4 for _, _, why in answers), name


def test_neither_place_nor_length_gives_the_answer_away():
    places = Counter([kind for kind, _, _ in answers].index("=") for answers in QUESTIONS.values())
    assert all(0.13 <= places[k] / len(QUESTIONS) <= 0.37 for k in range(4)), places
    lengths = [([len(text) for _, text, _ in answers], answers) for answers in QUESTIONS.values()]
    ranks = Counter(sorted(sizes).index(len(next(t for k, t, _ in answers if k == "="))) for sizes, answers in lengths)
    assert max(ranks[0], ranks[3]) <= 0.4 * len(QUESTIONS), f"the shortest, or longest, is right too often: {ranks}"


def test_signs_of_gift_stand_for_themselves(tmp_path):
    sign = "x = {1: 2} ~ #3, C:\\n"
    answers = "\n".join(f"- **{letter}** {sign}" for letter in "AB")
    reasons = f"- **A** is right. {sign}\n- **B** is wrong. {sign}"
    page = f"(00.x)=\n**1.** {sign}\n\n{answers}\n\n<details><summary>Answer</summary>\n\n{reasons}\n\n</details>\n"
    (tmp_path / "lab_00.md").write_text(page)
    escaped = "x \\= \\{1\\: 2\\} \\~ \\#3, C\\:\\\\n"
    lines = f"\t={escaped}#{escaped}\n\t~{escaped}#{escaped}\n"
    assert gift.gift(tmp_path).endswith(f"::00.x::[markdown]{escaped} {{\n{lines}}}\n")
