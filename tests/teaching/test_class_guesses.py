"""A class's guesses on one page: counted once a student, and whatever a file holds it is only words."""

import json
import os
import re

import pytest
from markup import Page

from privlab import __main__ as cli
from privlab.notebook import predict
from privlab.teaching import class_guesses

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


def entry(guess, **more):
    return {"question": "How near?", "guess": guess, "unit": "dB", "when": "now", **more}


def put(folder, student, content, name="guesses.json"):
    (folder / student).mkdir(parents=True, exist_ok=True)
    (folder / student / name).write_text(content if isinstance(content, str) else json.dumps(content))


def counts(page):
    """What stands beside the bars of all histograms, and how many students."""
    return [(word, int(n)) for word, n in re.findall(r"row_heading[^>]*>([^<]*)</th>\s*<td[^>]*>(\d+)</td>", page)]


def test_each_student_counts_once_a_question(tmp_path):
    put(tmp_path, "ada", {"04_gradient_inversion": {"near": entry(10.0), "which": entry(["Swin", "ViT"])}})
    put(tmp_path, "ada/again", {"mine": {"near": entry(20.0, right=22.5)}})
    guesses = [*map(float, range(20)), 1e11, -1e11]  # two outliers, which do not hide the others
    for k, guess in enumerate(guesses):
        put(
            tmp_path,
            "",
            {"04_gradient_inversion": {"near": entry(guess), "which": entry("Swin")}},
            f"guesses ({k}).json",
        )
    table, left_out = class_guesses.read(tmp_path)
    near = table[table.question == "near"].set_index("student").guess
    assert near.to_dict() == {"ada": ["20"]} | {f"guesses ({k}).json": [f"{g:g}"] for k, g in enumerate(guesses)}
    page = class_guesses.page(table)
    assert "<h2>Lab 04</h2>" in page and "<caption>How near? (dB)</caption>" in page and "23 students" in page
    assert "<summary>What was right</summary><p>22.5</p>" in page
    *bars, swin, vit = counts(page)
    assert (swin, vit) == (("Swin", 23), ("ViT", 1)) and left_out == []
    assert sum(n for _, n in bars) == 23 and max(n for _, n in bars) < 11


def test_what_a_lab_writes_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predict, "_lab", lambda: "07_gradvit")
    which = predict.choose("Which?", ["one of them", "another"])
    which.controls[0].value = "one of them"
    which.against("another")
    table, _ = class_guesses.read(tmp_path)
    assert [*table.loc[0, ["lab", "words", "guess", "right"]]] == ["Lab 07", "Which?", ["one of them"], "another"]


def test_a_file_that_no_lab_writes_is_left_out_and_named(tmp_path, capsys):
    put(tmp_path / "class", "ada", {"04_x": {"near": entry(10)}})
    wrong = {
        "it has no field 'guess'": {"04_x": {"a": {"question": "?"}}},
        "more than 200 questions": {"04_x": {str(k): entry(1) for k in range(201)}},
        "it has more than 20 MB": " " * 20_000_001,
    }
    for k, content in enumerate(wrong.values()):
        put(tmp_path / "class", f"eve{k}", content)
    put(tmp_path, "", {"04_x": {"secret": entry(10)}}, "outside.json")
    (tmp_path / "class/guesses.json").symlink_to(tmp_path / "outside.json")
    os.mkfifo(tmp_path / "class/pipe_guesses.json")
    out = tmp_path / "page.html"
    assert cli.main(["guesses", str(tmp_path / "class"), "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert told.out == f"wrote {out}, 1 questions\n"
    link, pipe, *others = told.err.splitlines()
    assert link.startswith("left out guesses.json ") and pipe.startswith("left out pipe_guesses.json ")
    for k, (line, why) in enumerate(zip(others, wrong, strict=True)):
        assert line.startswith(f"left out eve{k}/guesses.json holds no guesses that can be read (") and why in line
    assert str(tmp_path) not in told.err


@pytest.mark.parametrize("guess", [EVIL, float("nan")])
def test_no_word_of_a_student_is_html_and_none_breaks_the_page(tmp_path, guess):
    put(tmp_path, "eve", {EVIL: {EVIL: {"guess": guess, "question": EVIL, "unit": EVIL, "right": EVIL}}})
    put(tmp_path, "ada", {EVIL: {EVIL: {"guess": 3}}})
    page = class_guesses.page(class_guesses.read(tmp_path)[0])
    tags = Page(page).tags
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
    assert not {name for name, _ in tags} & {"script", "img", "link", "iframe"}
    assert page.count("alert(1)") >= 3, "the words are shown"
