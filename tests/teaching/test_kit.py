"""The instructor's kit: complete, honest about what it lacks, and its plans are those of the labs and of the guide."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from pathlib import Path

import nbformat
import pytest
from markup import Page

from privlab import __main__ as cli
from privlab.notebook import exercises
from privlab.runner import catalogue, pairing
from privlab.teaching import answer_key, kit, lesson_plans, marking, student_edition

ROOT = Path(__file__).parents[2]
LABS = ROOT / "labs"
SHELF = catalogue.everything(LABS)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The kit of all labs, with a run of lab 00 at two sizes, of which the larger one is of an older source."""
    place = tmp_path_factory.mktemp("kit")
    lab = SHELF[0]
    for size, source in (("smoke", lab.digest), ("class", "of another source")):
        run = place / "runs" / size
        run.mkdir(parents=True)
        nbformat.write(pairing.notebook(lab.path), run / f"{lab.name}.ipynb")
        note = {
            "lab": lab.number,
            "status": "ok",
            "source": source,
            "profile": size,
            "seconds": 1.0,
            "error": None,
            "peak_gb": 1.0,
        }
        (run / f"{lab.name}.json").write_text(json.dumps(note))
    return place / "out", kit.write(LABS, place / "runs", place / "out")


def linked(path):
    """Where the links of a page lead."""
    return [link["href"] for link in Page(path.read_text()).all("a")]


def test_the_kit_has_all_its_parts_and_the_index_leads_to_each(made):
    out, written = made
    links = linked(out / "index.html")
    assert {
        "lesson_plans.html",
        "questions.html",
        "questions.gift",
        "rubric.html",
        "marks.toml",
        "gradebook.csv",
    } <= set(links)
    assert [link for link in links if not (out / link).is_file()] == []
    assert sum(link.startswith("key/") for link in links) == 15
    assert {path for path, _ in written.parts} == {*links, "index.html"}


def test_a_notebook_comes_from_the_largest_run_of_the_present_source(made):
    out, written = made
    assert [path.name for path in (out / "notebooks").iterdir()] == ["00_start_here.ipynb"]
    assert ("notebooks/00_start_here.ipynb", "lab 00, executed at smoke") in written.parts
    (lacking,) = [line for line in written.missing if "notebooks" in line]
    assert f"of labs {', '.join(f'{k:02}' for k in range(1, 15))}: " in lacking
    assert "Not in this kit" in Page((out / "index.html").read_text()).text


def test_the_pages_are_whole_and_load_nothing_from_outside(made):
    out, _ = made
    for path in out.rglob("*.html"):
        if "slides" not in path.parts:
            loads = [has["src"] for _, has in Page(path.read_text()).tags if "src" in has]
            assert not [load for load in loads if not (path.parent / load).is_file()], path.name


def test_the_empty_gradebook_and_its_scheme_fit_each_other(made):
    out, _ = made
    scheme = marking.scheme(out / "marks.toml")
    assert scheme.weights == dict.fromkeys(exercises.labs(), 1.0)
    (header,) = csv.reader((out / "gradebook.csv").read_text().splitlines())
    assert header == ["student", *(f"lab {lab}" for lab in exercises.labs()), "total", "of", "note"]


@pytest.mark.parametrize("lab", [lab for lab in SHELF if not lab.goes_deeper], ids=lambda lab: lab.number)
def test_the_key_to_a_lab_has_every_exercise_with_its_solution(lab):
    below = [one for one in catalogue.with_deeper(SHELF, [lab]) if one != lab]
    words = Page(answer_key.page(lab, below)).text
    for one in (lab, *below):
        for name, cells in student_edition.solved(pairing.notebook(one.path).cells):
            assert name in words and cells[-2].source in words
    assert set(exercises.of(lab.number)) <= set(re.findall(r"\d\d\.\w+", words))


def test_the_key_has_what_a_check_replies():
    replies = answer_key.replies_of("04.cosine")
    assert any(line.startswith("That is the cosine itself") for line in replies)
    assert any("yours goes from ... to ..." in line for line in replies), "what is filled in stands as dots"
    some = [name for lab in exercises.labs() for name in exercises.of(lab) if answer_key.replies_of(name)]
    assert len(some) >= 45


@pytest.mark.parametrize(
    ("solution", "words"),
    [
        ("def f(x):\n    return x", "calls the function"),
        ("answer = {'a'}", "exactly this set"),
        ("answer = 'D'", "this value"),
        ("answer = 1 / 2", "numbers up to rounding"),
        ("answer = {'a': 'b'}", "this value"),
    ],
)
def test_the_key_says_what_kind_of_answer_is_accepted(solution, words):
    assert words in answer_key.accepts(solution)


# -- lesson plans -------------------------------------------------------------------------------------------------------------

GUIDE = (ROOT / "book/teaching.md").read_text()


def test_each_lab_has_a_plan_whose_minutes_are_those_of_the_guide():
    minutes = {lab: int(number) for lab, number in re.findall(r"^\| (\d\d) [^|]*\| (\d+) \|", GUIDE, re.MULTILINE)}
    assert {plan.lab: plan.minutes for plan in lesson_plans.plans()} == minutes
    assert list(minutes) == exercises.labs()


def test_git_ignores_what_the_commands_of_the_guide_write():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    code = "\n".join(re.findall(r"^```bash\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL))
    written = set(re.findall(r"--(?:out|students|feedback|scheme) ([\w.]+)", code))
    assert {"kit", "handout", "marks.csv", "marks.toml", "gradebook.csv", "told", "sheets", "guesses.html"} <= written
    assert [name for name in written if not {f"/{name}", f"/{name}/"} & set(ignored)] == []


@pytest.mark.parametrize("plan", lesson_plans.plans(), ids=lambda plan: plan.lab)
def test_each_exercise_of_a_lab_stands_in_its_plan_or_is_left_for_home(plan):
    own = exercises.parts(plan.lab)[0]
    text = " ".join(show for _, show, _ in plan.steps)
    named = {f"{plan.lab}.{word}" for word in re.findall(r"`(\w+)`", text)} & set(exercises.of(plan.lab))
    assert named | set(plan.home) == set(own) and not named & set(plan.home)
    assert len(plan.wrong) >= 2 and all(ask.endswith("?") for _, _, ask in plan.steps)


def test_plans_and_rubric_have_the_words_of_the_field():
    spec = importlib.util.spec_from_file_location("english", ROOT / "tests/labs/test_english.py")
    english = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(english)
    for text in (lesson_plans.page(), kit.rubric()):
        assert english.found(english.prose(text)) == []


@pytest.mark.parametrize(
    "change",
    [{"steps": ["5 | show"]}, {"steps": ["x | show | ask?"]}, {"wrong": ["what"]}, {"steps": 3}, {"aim": None}],
)
def test_a_plan_that_is_none_is_named(change):
    whole = {"lab": "00", "aim": "a", "steps": ["5 | s | a?"], "wrong": ["w | c"], "home": []}
    assert lesson_plans._plan(whole).minutes == 5
    with pytest.raises(ValueError, match=r"lesson_plans\.yaml"):
        lesson_plans._plan(whole | change)


def test_the_command_says_what_it_wrote_and_what_is_missing(tmp_path, capsys):
    command = ["teacher", "--labs", str(LABS), "--runs", str(tmp_path / "none"), "--out", str(tmp_path / "kit")]
    assert cli.main(command) == 0
    told = capsys.readouterr()
    assert told.out.endswith(f"begin with {tmp_path / 'kit/index.html'}\n")
    assert (
        told.err.count("not in the kit: notebooks and slides of labs 00, 01, ") == 1
        and str(tmp_path) not in (tmp_path / "kit/index.html").read_text()
    )


def test_what_a_teacher_wrote_stays_when_the_kit_is_made_again(tmp_path, capsys):
    out = tmp_path / "kit"
    command = ["teacher", "--labs", str(LABS), "--runs", str(tmp_path / "none"), "--out", str(out)]
    out.mkdir()
    (out / "marks.toml").write_text("total = 10\n")
    assert cli.main(command) == 0
    assert (out / "marks.toml").read_text() == "total = 10\n"
    assert f"{out / 'marks.toml'} stays as it is" in capsys.readouterr().out
    assert {"marks.toml", "gradebook.csv"} <= set(linked(out / "index.html"))


def test_the_index_names_each_lab_and_how_a_notebook_is_opened(made):
    out, _ = made
    words = Page((out / "index.html").read_text()).text
    assert "00 · What does a gradient carry?key to lab 00 · lab 00, executed at smoke" in words
    assert ".venv/bin/jupyter lab out" in words


def test_no_column_of_a_plan_is_named_in_two_lines(made):
    """A word is broken where it has no room, as a long name has none, but a narrow column has its heading whole."""
    out, _ = made
    text = (out / "lesson_plans.html").read_text()
    assert "<th>show</th>" in text and "thead th{overflow-wrap:normal}" in text


def test_a_folder_that_holds_the_labs_is_refused(tmp_path, capsys):
    assert cli.main(["teacher", "--labs", str(LABS), "--out", str(LABS)]) == 2
    assert "holds the labs or their runs; choose another folder" in capsys.readouterr().err


@pytest.mark.parametrize("lab", exercises.labs())
def test_the_guide_lists_the_exercises_of_a_lab_and_those_that_go_deeper(lab):
    table = GUIDE[GUIDE.index("| exercises and minutes") :]
    row = re.search(rf"^\| {lab} \| (.*) \|$", table, re.MULTILINE)[1]
    own, _, below = ({f"{lab}.{word}" for word in re.findall(r"`(\w+)`", part)} for part in row.partition("deeper:"))
    first, *rest = exercises.parts(lab)
    assert (own, below) == (set(first), {name for part in rest for name in part})
