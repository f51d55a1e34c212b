"""A class's guesses on one page: counted once a student, and whatever a file holds it is only words."""

from __future__ import annotations

import json
import os
import re

import pytest
from markup import Page

from privlab import __main__ as cli
from privlab.course.lab_12.study import Answer, Played, schedule
from privlab.notebook import predict
from privlab.teaching import class_guesses

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


def entry(guess, **more):
    return {"question": "How near?", "guess": guess, "unit": "dB", "when": "now", **more}


def put(folder, student, content, name="guesses.json"):
    (folder / student).mkdir(parents=True, exist_ok=True)
    (folder / student / name).write_text(content if isinstance(content, str) else json.dumps(content))


def test_each_student_counts_once_a_question(tmp_path):
    put(tmp_path, "ada", {"04_gradient_inversion": {"near": entry(10.0), "which": entry(["Swin", "ViT"])}})
    put(tmp_path, "ada/again", {"mine": {"near": entry(20.0, right=22.5)}})
    put(tmp_path, "", {"04_gradient_inversion": {"which": entry(["Swin"])}}, "ben_17_guesses.json")
    read = class_guesses.read(tmp_path)
    assert read.questions["near"].said == {"ada": 20.0} and read.students == {"ada", "ben"}
    assert class_guesses.bars(read.questions["which"].said.values()) == [("Swin", 2), ("ViT", 1)]
    page = class_guesses.page(read)
    assert "<h2>Lab 04</h2>" in page and "How near? (dB), by number of students" in page
    assert re.search(r"<details><summary>What was right</summary><p>22.5 \(1\)</p>", page)


def test_files_that_name_nobody_are_each_somebodys(tmp_path):
    names = ["guesses.json", "guesses (2).json", "guesses_ben.json", "guesses_carl.json", "Guesses-7.json"]
    for k, name in enumerate(names):
        put(tmp_path, "", {"04_gradient_inversion": {"near": entry(float(k))}}, name)
    put(tmp_path, "dora", {"04_gradient_inversion": {"near": entry(9.0)}})
    read = class_guesses.read(tmp_path)
    assert len(read.students) == len(read.questions["near"].said) == 6


def test_a_title_has_no_colon_before_its_unit(tmp_path):
    put(tmp_path, "ada", {"00_start_here": {"near": {**entry(1.0), "question": "PSNR of the picture:"}}})
    page = class_guesses.page(class_guesses.read(tmp_path))
    assert "PSNR of the picture (dB), by" in page and "1 student returned" in page


def test_what_a_lab_writes_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predict, "_lab", lambda: "07_gradvit")
    which = predict.choose("Which?", ["one of them", "another"])
    which.boxes[0].value = "one of them"
    which.against("another")
    predict.predict("How many?", 0, 10).slider.value = 3
    questions = class_guesses.read(tmp_path).questions
    assert {name: list(one.said.values()) for name, one in questions.items()} == {
        "which": [("one of them",)],
        "how-many": [3.0],
    }
    assert questions["which"].right == {"another": 1}


def test_numbers_stand_in_steps_and_no_outlier_hides_the_others():
    rows = class_guesses.bars([*map(float, range(40)), 1e11, -1e11])
    assert rows[0] == ("below", 1) and rows[-1] == ("above", 1) and len(rows) <= 14
    assert sum(n for _, n in rows) == 42 and rows[1] == ("0 to 5", 5)
    assert class_guesses.bars([3.0, 3.0]) == [("3", 2)]
    assert sum(n for _, n in class_guesses.bars([0.1, 0.2, 0.3])) == 3
    words = [(f"w{k}",) for k in range(50)]
    assert class_guesses.bars(words)[-1] == ("other answers", 38)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[" * 100_000, "holds no guesses"),
        ("{", "holds no guesses"),
        ("[1]", "holds no guesses"),
        ({"04_x": 1}, "holds no guesses"),
        ({"04_x": {"a": {"question": "?"}}}, "has no guess"),
        ({"04_x": {"a": entry(True)}}, "is no word"),
        ({"04_x": {"a": entry(1e300)}}, "too large a number"),
        ('{"04_x": {"a": {"guess": NaN}}}', "holds no guesses"),
        ('{"04_x": {"a": {"guess": 1' + "0" * 5000 + "}}}", "holds no guesses"),
        ({"04_x": {"a": entry("x" * 301)}}, "is no word of at most 300"),
        ({"04_x": {"a": entry("x", question=["y"])}}, "is no word"),
        ({"04_x": {"a": entry(["x"] * 13)}}, "13 words"),
        ({"04_x": {str(k): entry(1) for k in range(201)}}, "201 questions"),
        (" " * 1_000_001, "no plain file of at most 1 MB"),
    ],
)
def test_a_file_that_no_lab_writes_is_left_out_and_named(tmp_path, content, why):
    put(tmp_path, "ada", {"04_x": {"near": entry(10)}})
    put(tmp_path, "eve", content)
    read = class_guesses.read(tmp_path)
    assert list(read.questions) == ["near"] and read.students == {"ada"}
    (line,) = read.left_out
    assert line.startswith("eve/guesses.json: ") and why in line and len(line) <= 300
    assert str(tmp_path) not in class_guesses.page(read)


def test_links_and_pipes_are_not_read(tmp_path):
    put(tmp_path / "class", "ada", {"04_x": {"near": entry(10)}})
    put(tmp_path, "outside", {"04_x": {"secret": entry(10)}})
    (tmp_path / "class/folder").symlink_to(tmp_path / "outside")
    (tmp_path / "class/guesses.json").symlink_to(tmp_path / "outside/guesses.json")
    os.mkfifo(tmp_path / "class/pipe_guesses.json")
    read = class_guesses.read(tmp_path / "class")
    assert list(read.questions) == ["near"]
    assert sorted(line.split(":")[0] for line in read.left_out) == ["guesses.json", "pipe_guesses.json"]


def test_no_word_of_a_student_is_html(tmp_path):
    words = {"guess": EVIL, "question": EVIL, "unit": EVIL, "right": EVIL}
    put(tmp_path, "eve", {EVIL: {EVIL: words}})
    put(tmp_path, "mallory", EVIL, f"{EVIL.replace('/', '')}guesses.json")
    page = class_guesses.page(class_guesses.read(tmp_path))
    tags = Page(page).tags
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
    assert not {name for name, _ in tags} & {"script", "img", "link", "iframe"}
    assert page.count("alert(1)") >= 4, "the words are shown"


def test_finished_games_of_the_user_study_are_a_histogram(tmp_path):
    def game(player, chosen, over=True):
        names, seed = ("full", EVIL), 7
        rounds = schedule(seed, 4)[: None if over else 2]
        answers = tuple(
            Answer(pair, names[0 if left else 1], names[0 if k < chosen else 1], 1.0)
            for k, (pair, left) in enumerate(rounds)
        )
        played = Played("ab" * 32, names, 4, 60, player, seed, answers)
        if answers[:-1]:
            before = Played("ab" * 32, names, 4, 60, player, seed, answers[:-1])
            last = answers[-1]
            before.answer("left" if last.choice == last.left else "right", 1.0, tmp_path / player)
        return played

    for player, chosen, over in (("0" * 16, 3, True), ("1" * 16, 3, True), ("2" * 16, 1, True), ("3" * 16, 2, False)):
        game(player, chosen, over)
    read = class_guesses.read(tmp_path)
    ((study, players),) = read.games.items()
    assert sorted(players.values()) == [1, 3, 3] and read.left_out == [] and study[2] == 4
    page = class_guesses.page(read)
    assert "<h2>Lab 12</h2>" in page and "by number of players" in page and not Page(page).all("script")


def test_the_command_writes_the_page(tmp_path, capsys):
    put(tmp_path / "class", "ada", {"04_x": {"near": entry(10)}})
    put(tmp_path / "class", "eve", "{")
    out = tmp_path / "page.html"
    assert cli.main(["guesses", str(tmp_path / "class"), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out == f"wrote {out}, 1 question\n" and "left out eve/guesses.json: " in told.err
    assert out.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(("folder", "message"), [("nowhere", "is not a folder"), (".", "holds no guesses.json")])
def test_bad_input_is_one_line_and_status_2(tmp_path, monkeypatch, capsys, folder, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["guesses", folder]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1
