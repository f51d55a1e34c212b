"""Returned notebooks: what is right is marked so, and whatever one does spoils no row but its own."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from privlab import __main__ as cli
from privlab.notebook import checks, exercises
from privlab.runner import catalogue, pairing
from privlab.teaching import marking
from privlab.teaching.marking import gradebook

LABS = Path(__file__).parents[3] / "labs"
SHELF = [
    lab for lab in catalogue.everything(LABS) if "checks.verify(" in lab.path.read_text()
]  # those that ask something
STARTED = {"02.four_bugs"}  # as it is given it runs, and is wrong
GOOD = "def my_psnr(images, truth):\n    return -10 * (images - truth).square().mean().log10()"

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="answers are marked in forked processes")
shut_in = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot shut a process in")


def lab_cells(lab, without):
    """The cells of a lab ("04"), or of what goes deeper ("deeper/04_topic"), without those of a tag."""
    (one,) = catalogue.pick(SHELF, [lab])
    made = pairing.notebook(one.path).cells
    return [dict(cell) for cell in made if without not in cell.metadata.get("tags", [])]


def asked(lab):
    """The exercises that a notebook asks, by the names of their checks."""
    (one,) = catalogue.pick(SHELF, [lab])
    return sorted(set(re.findall(r'checks\.verify\("([^"]+)"', one.path.read_text())))


def notebook(cells) -> str:
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def code(source):
    return {"cell_type": "code", "source": source}


def with_psnr(answer: str, *more: str) -> str:
    """Lab 00, solved, but for the PSNR; further cells in front."""
    own = [{**c, "source": c["source"].replace(GOOD, answer)} for c in lab_cells("00", "exercise")]
    assert any(answer in c["source"] for c in own)
    return notebook([*map(code, more), *own])


def by(body: str) -> str:
    """An answer that does something, and then gives the right value."""
    return GOOD.replace("\n", "\n" + "".join(f"    {line}\n" for line in body.splitlines()))


FORGED = """import json, os
for fd in range(3, 64):
    try:
        os.write(fd, json.dumps({"state": "right", "why": ""}).encode())
    except OSError:
        pass
"""
OTHERS = "for path in Path({folder!r}).iterdir():\n    "
STOPPED = "took longer than 3 seconds and was stopped"
HOSTILE = {  # what stands in for the PSNR -> the state it earns, a part of the reason; the other two exercises stay right
    "sleeps": (by("import time; time.sleep(900)"), "failed", STOPPED),
    "hangs": (by("while True: pass"), "failed", STOPPED),
    "hangs_before": ("my_psnr = next(x for x in iter(int, 1) if x)", "failed", STOPPED),
    "exits": (by("import os; os._exit(0)"), "failed", "ended itself (exit status 0)"),
    "exits_before": ("import os\nmy_psnr = os._exit(3)", "failed", "ended itself (exit status 3)"),
    "quits": (by("import sys; sys.exit('done')"), "wrong", "SystemExit: done"),
    "crashes": (by("import ctypes; ctypes.string_at(0)"), "failed", "ended by SIGSEGV"),
    "raises": (by("raise KeyError('=1+1')"), "wrong", "KeyError: '=1+1'"),
    "eats_memory": (by("a = [0] * 10**9"), "wrong", "MemoryError"),
    "eats_memory_bit_by_bit": (by("a = []\nwhile True: a.append(bytes(10**8))"), "wrong", "MemoryError"),
    "prints_a_gigabyte": (by("for _ in range(1000): print('x' * 10**6)"), "right", ""),
    "returns_a_gigabyte": ("import torch\ndef my_psnr(a, b): return torch.zeros(10**8)", "wrong", "'Tensor'"),
    "returns_itself": ("def my_psnr(a, b):\n    x = []\n    x.append(x)\n    return x", "wrong", "float()"),
    "writes_to_all_pipes": (by(FORGED), "failed", "not what an answer can be"),
    "redefines_verify": (
        "from privlab.notebook import checks, exercises\nchecks.verify = checks._why = lambda *a: ''\n"
        "checks.Outcome.passed = True\nexercises.of('00')['00.psnr'] = lambda a: iter(())\ndef my_psnr(a, b): return checks and 1.0",
        "wrong",
        "it should be 20",
    ),
    "prints_a_result": ("print('Exercise 00.psnr: right.')\nmy_psnr = ...", "open", ""),
    "changes_torch": (
        "import torch, math\ntorch.allclose = lambda *a, **k: True\nmath.isclose = torch.allclose\n"
        "def my_psnr(a, b): return torch.zeros(1)",
        "wrong",
        "it should be 20",
    ),
}
# fmt: off
SHUT_OUT = {  # what only a jail prevents, and what it says there
    "forks": "import os; os.fork()", "starts_a_shell": "import subprocess; subprocess.run(['sh', '-c', 'true'])",
    "signals_its_judge": "import os; os.kill(os.getppid(), 0)",
    "opens_a_socket": "import socket; socket.socket()", "writes_the_table": "open({table!r}, 'w').write('mine')",
    "appends_to_the_table": "open({table!r}, 'a').write('mine')",
    "removes_others": "from pathlib import Path\n" + OTHERS + "path.unlink()",
    "renames_others": "from pathlib import Path\n" + OTHERS + "path.rename(path.with_suffix('.old'))",
    "reads_others": "from pathlib import Path\n" + OTHERS + "path.read_bytes()",
    "leaves_a_file": "open('left', 'w')", "lets_all_in": "import os; os.chmod({folder!r}, 0o777)",
}
# fmt: on


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return {Path(row["file"]).stem: row for row in csv.DictReader(file)}


QUICK = (
    "02",
    "07",
    "11",
    "deeper/02_careless_code",
)  # questions of each kind, and one whose exercise runs as it is given
NAMES = [lab.name if lab.goes_deeper else lab.number for lab in SHELF]
REMAINING = tuple(name for name in NAMES if name not in QUICK)
EACH = [*QUICK, *(pytest.param(number, marks=pytest.mark.check) for number in REMAINING)]


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A function: the quick ones, or the others, solved and untouched, marked at once; the table."""

    @cache
    def marked(numbers: tuple[str, ...]):
        folder = tmp_path_factory.mktemp("class")
        for number in numbers:
            name = number.replace("/", "_")
            (folder / f"solved_{name}.ipynb").write_text(notebook(lab_cells(number, "exercise")))
            (folder / f"untouched_{name}.ipynb").write_text(notebook(lab_cells(number, "solution")))
        marking.mark(folder, folder / "marks.csv")
        return table(folder / "marks.csv")

    return marked


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """What does harm, beside a good notebook: the table. Nothing in the folder may be another afterwards."""
    folder = tmp_path_factory.mktemp("class")
    out = tmp_path_factory.mktemp("results") / "marks.csv"
    (folder / "good.ipynb").write_text(with_psnr(GOOD))
    for name, (answer, *_) in HOSTILE.items():
        (folder / f"{name}.ipynb").write_text(with_psnr(answer))
    for name, body in SHUT_OUT.items():
        body = body.replace("{folder!r}", repr(str(folder))).replace("{table!r}", repr(str(out)))
        (folder / f"{name}.ipynb").write_text(with_psnr(by(body)))
    for name in ("privlab", "torch", "json", "sitecustomize"):  # beside the notebooks, and never to be imported
        (folder / f"{name}.py").write_text(f"open({str(folder / 'owned')!r}, 'w')\nraise SystemExit\n")
    out.write_text("file,marks\nof last year,99\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", str(folder))
        patch.setenv("PRIVLAB_STRICT", "1")
        marking.mark(Path("."), out, jobs=2, seconds=3, memory=0.5)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    return table(out)


def row_of(honest, kind, lab):
    return honest(QUICK if lab in QUICK else REMAINING)[f"{kind}_{lab.replace('/', '_')}"]


@pytest.mark.parametrize("lab", EACH)
def test_every_solution_of_a_lab_earns_full_marks(honest, lab):
    row, names = row_of(honest, "solved", lab), asked(lab)
    assert {name: row[name] for name in names} == dict.fromkeys(names, "right")
    number = lab.removeprefix("deeper/")[:2]
    assert (row["lab"], row["marks"], row["of"], row["error"]) == (number, str(len(names)), str(len(names)), "")
    assert all(not cell for name, cell in row.items() if name in set(checks.names()) - set(names))


@pytest.mark.parametrize("lab", EACH)
def test_an_untouched_lab_earns_nothing_and_nothing_is_wrong_with_it(honest, lab):
    row, names = row_of(honest, "untouched", lab), asked(lab)
    open_still = set(names) - STARTED
    assert [row[name] for name in open_still] == ["open: nothing is written yet"] * len(open_still)
    assert all(row[name].startswith("wrong") for name in set(names) & STARTED)
    assert (row["marks"], row["error"]) == ("0", "")


@pytest.mark.parametrize("lab", SHELF, ids=lambda lab: lab.name)
def test_the_checks_know_which_exercises_stand_deeper(lab):
    """What DEEPER says in lab_NN.py is what stands in labs/deeper."""
    below = [one for one in SHELF if one.goes_deeper and one.number == lab.number]
    found = sorted(sorted(part) for part in exercises.parts(lab.number)[1:])
    assert found == sorted(names for one in below if (names := asked(one.name)))
    assert lab.goes_deeper or sorted(exercises.parts(lab.number)[0]) == asked(lab.number)


def test_a_lab_and_what_goes_deeper_count_apart_or_together(tmp_path):
    core, below = (lab_cells(name, "exercise") for name in ("04", "deeper/04_gauss_newton"))
    answers = [cell for cell in core if "solution" in cell["metadata"].get("tags", []) or "checks" in cell["source"]]
    for name, cells in {"core": answers, "deeper": below, "both": [*answers, *below]}.items():
        (tmp_path / f"{name}.ipynb").write_text(notebook(cells))
    rows = mark(tmp_path)
    assert rows["deeper"].verdicts.keys() == {"04.push"} and rows["deeper"].marks == 1
    assert "04.push" not in rows["core"].verdicts and rows["core"].marks == len(rows["core"].verdicts) == len(
        asked("04")
    )
    assert rows["both"].marks == len(rows["both"].verdicts) == len(asked("04")) + 1


@pytest.mark.parametrize("name", HOSTILE)
def test_what_an_answer_does_spoils_its_own_exercise_alone(hostile, name):
    _, state, why = HOSTILE[name]
    row = hostile[name]
    assert row["00.psnr"].startswith(state) and why in row["00.psnr"], row["00.psnr"]
    assert (row["00.threat"], row["00.enough"]) == ("right", "right")
    assert (hostile["good"]["marks"], hostile["good"]["error"]) == ("4", "")
    assert row["error"] == (f"00.psnr: {row['00.psnr'].removeprefix('failed: ')}" if state == "failed" else "")


@shut_in
@pytest.mark.parametrize("name", SHUT_OUT)
def test_an_answer_can_do_nothing_but_compute(hostile, name):
    assert "stopped with PermissionError" in hostile[name]["00.psnr"]
    assert int(hostile[name]["marks"]) == int(hostile["good"]["marks"]) - 1


def mark(folder, **settings):
    rows = marking.mark(folder, folder / "marks.csv", **settings)
    return {Path(row.file).stem: row for row in rows}


def psnr(*cells):
    """A notebook that has little but lab 00's exercise on the PSNR."""
    return notebook([code(c) if isinstance(c, str) else c for c in cells])


ASKED = 'from privlab.notebook import checks\nchecks.verify("00.psnr", my_psnr)'
RETURNED = {  # a notebook -> the state of 00.psnr and a part of the reason
    "plain": (psnr(GOOD, ASKED), "right", ""),
    "split": (
        psnr("import math\nscale = -10", "def error(a, b):\n    return float((a - b).square().mean())", "%matplotlib inline\n!ls",
             "def my_psnr(a, b):\n    return scale * math.log10(error(a, b))", ASKED), "right", ""),
    "by_lines": (notebook([{"cell_type": "code", "source": GOOD.splitlines(keepends=True)}, code(ASKED)]), "right", ""),
    "step_by_step": (psnr("steps = []", "steps.append(lambda a, b: (a - b).square().mean())",
                          "def my_psnr(a, b):\n    return -10 * steps[0](a, b).log10()", ASKED), "right", ""),
    "another_name": (psnr("def mine(a, b):\n    return -10 * (a - b).square().mean().log10()",
                          'print(checks.verify(answer=mine, name="00.psnr"))'), "right", ""),
    "asks_twice": (psnr(GOOD, ASKED, "def my_psnr(a, b): return 3", ASKED), "wrong", "yours gives 3"),
    "needs_nothing_of_the_lab": (psnr("images = 1 / 0", "while True: pass", GOOD, ASKED), "right", ""),
    "elsewhere_broken": (psnr("def broken(:", GOOD, ASKED), "right", ""),
    "broken": (psnr("def my_psnr(a, b):\n    return (a", ASKED), "wrong", "cell 1 cannot be read (line 2: '(' was never closed)"),
    "undefined": (psnr(ASKED), "wrong", "name 'my_psnr' is not defined"),
    "broken_check": (psnr(GOOD, ASKED + ")"), "wrong", "cell 2 cannot be read"),
    "stops_before": (psnr("scale = 1 / 0", "def my_psnr(a, b): return scale", ASKED), "wrong", "ZeroDivisionError"),
}  # fmt: skip
WRONG_FILES = {  # what is no notebook of a lab -> a part of the reason
    "empty": (b"", "the file is empty"),
    "words": (b"PK\x03\x04 no notebook", "it is not JSON"),
    "deep": (b"[" * 200_000, "it is not JSON"),
    "list": (b"[1, 2]", "it has no list of cells"),
    "old": (b'{"worksheets": [{"cells": []}], "nbformat": 3}', "it has no list of cells"),
    "no_cells": (b'{"cells": []}', "it has no exercise of any lab"),
    "other": (psnr("print('checks')").encode(), "it has no exercise of any lab"),
    "future": (psnr('checks.verify("77.x", 1)').encode(), "it has no exercise of any lab"),
    "strange": (b'{"cells": [5, {"cell_type": "code", "source": {"a": 1}}]}', "cell 1 holds no text"),
    "code": (psnr("x = 1\n" * 400_000, ASKED).encode(), "more than 2,000,000 letters of code"),
}
STRANGE = (
    '{"cells": [7, {"cell_type": "code", "source": [1]}, '
    + json.dumps(code(GOOD))
    + ", "
    + json.dumps(code(ASKED))
    + "]}"
)


@pytest.fixture(scope="module")
def returned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("returned")
    for name, (text, *_) in RETURNED.items():
        (folder / f"{name}.ipynb").write_text(text)
    for name, (content, _) in WRONG_FILES.items():
        (folder / f"{name}.ipynb").write_bytes(content)
    with open(folder / "huge.ipynb", "wb") as file:
        file.truncate(21_000_000)
    (folder / "partly_strange.ipynb").write_text(STRANGE)
    (folder / "anna").mkdir()
    (folder / "anna" / "=cmd|'x'!A0.ipynb").write_text(psnr(GOOD, ASKED, 'checks.verify("05.noise", 1)'))
    (folder / "anna" / ".ipynb_checkpoints").mkdir()
    (folder / "anna" / ".ipynb_checkpoints" / "plain-checkpoint.ipynb").write_text(psnr(GOOD, ASKED))
    (folder / "report.pdf").write_bytes(b"%PDF")
    (folder / "dora.ipynb.txt").write_text(psnr(GOOD, ASKED))  # as browsers and mail rename it
    (folder / "EMIL.IPYNB").write_text(psnr(GOOD, ASKED))
    (folder / "__MACOSX").mkdir()
    (folder / "__MACOSX" / "._plain.ipynb").write_bytes(b"\0")
    (folder / "fay.ipynb").symlink_to("plain.ipynb")
    outside = tmp_path_factory.mktemp("outside") / "solved.ipynb"
    outside.write_text(psnr(GOOD, ASKED))
    (folder / "gus.ipynb").symlink_to(outside)
    return mark(folder)


@pytest.mark.parametrize("name", RETURNED)
def test_an_answer_is_found_wherever_it_stands(returned, name):
    _, state, why = RETURNED[name]
    verdict = returned[name].verdicts["00.psnr"]
    assert verdict["state"] == state and why in verdict["why"], verdict
    assert "its check is gone" in returned[name].verdicts["00.threat"]["why"].lower() or "broken" in name
    assert returned[name].error == ""


@pytest.mark.parametrize("name", WRONG_FILES)
def test_what_is_no_notebook_of_a_lab_is_told_in_its_row(returned, name):
    row = returned[name]
    assert WRONG_FILES[name][1] in row.error and "Traceback" not in row.error
    assert (row.lab, row.marks, row.verdicts) == ("", 0, {})


@pytest.mark.parametrize("name", ["dora.ipynb", "EMIL"])
def test_a_notebook_that_was_renamed_is_marked(returned, name):
    assert (returned[name].marks, returned[name].error) == (1, "")


@pytest.mark.parametrize("name", ["fay", "gus"])
def test_a_link_earns_nothing_of_what_it_leads_to(returned, name):
    assert returned[name].verdicts == {} and "a link to another file" in returned[name].error


def test_files_of_jupyter_and_macos_are_no_returned_notebooks(returned):
    assert not any("checkpoint" in name or name.startswith("._") for name in returned)


def test_a_huge_file_is_not_even_read(returned):
    assert returned["huge"].error == "21 MB are more than the 20 that a notebook may have; clear its outputs"


def test_cells_that_are_no_text_are_left_out_and_named(returned):
    assert returned["partly_strange"].marks == 1
    assert returned["partly_strange"].error == "cell 1 holds no text and was left out"


def test_a_notebook_with_exercises_of_two_labs_counts_for_one(returned):
    row = returned["=cmd|'x'!A0"]
    assert (row.lab, row.marks) == ("00", 1) and "exercises of lab 05 as well" in row.error


def test_no_cell_of_the_table_is_a_formula():
    rows = [marking.Row(file, "00", {"00.psnr": {"state": "wrong", "why": "a\n=1"}}, error) for file, error in
            (("=cmd", "+1"), ("-1", "@x"), ("\t=1", "\r=1"), ("a,b", 'say "x"'))]  # fmt: skip
    lines = list(csv.reader(gradebook.text(rows, ["00.psnr"]).splitlines()))
    assert lines[0] == ["file", "lab", "marks", "of", "00.psnr", "error"]
    assert [row[0] for row in lines[1:]] == ["'=cmd", "'-1", "'=1", "a,b"]
    assert [row[5] for row in lines[1:]] == ["'+1", "'@x", "'=1", 'say "x"']
    assert {row[4] for row in lines[1:]} == {"wrong: a =1"}


@pytest.mark.parametrize("sign", "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212")
@pytest.mark.parametrize(
    "before", ["{}", "a;{}", "a; {}", 'a;"{}', "a;;{}", "; \x1b{}", "\u200b{}", "\n;\t{}", "{0};{0}"]
)
def test_no_cell_is_a_formula_where_another_sign_parts_cells_or_it_is_full_width(sign, before):
    cell = before.format(f"{sign}cmd|'/c calc'!A0")
    [_, line] = gradebook.text([marking.Row(cell, error=cell)], []).splitlines()
    [row] = csv.reader([line])
    parts = [part for value in (row[0], row[4], line) for part in value.split(";")]
    assert not any(part.strip(' "').startswith(sign) for part in parts), line


SAID = FORGED.replace("range(3, 64)", "range(64)").replace("\n", "\n    ")
FORGERIES = {  # what stands in for `entering`
    "redefined": "from privlab.notebook import checks\nchecks.verify = checks._why = lambda *a: ''\n"
    "def entering(m, l, x): return checks and x",
    "printed": f"def entering(m, l, x):\n    {SAID}\n    return x",
    "printed_and_gone": f"def entering(m, l, x):\n    {SAID}\n    os._exit(0)",
    "hangs": "def entering(m, l, x):\n    while True: pass",
}


def test_a_check_that_asks_with_a_model_is_not_fooled_by_the_plain_tricks(tmp_path):
    for name, answer in {"good": None, **FORGERIES}.items():
        cells = lab_cells("03", "exercise")
        if answer:
            cells = [{**c, "source": answer if c["source"].startswith("def entering") else c["source"]} for c in cells]
        (tmp_path / f"{name}.ipynb").write_text(notebook(cells))
    rows = mark(tmp_path, seconds=6)
    assert rows["good"].marks == len(asked("03"))
    for name in FORGERIES:
        assert rows[name].verdicts["03.entering"]["state"] in ("wrong", "failed")
        assert rows[name].marks == len(asked("03")) - 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take no such name")
def test_a_name_that_is_no_text_spoils_no_other_row(tmp_path):
    folder = tmp_path / "returned"
    folder.mkdir()
    (folder / "anna.ipynb").write_text(psnr(GOOD, ASKED))
    for name in (b"M\xfcller.ipynb", b"M\xfcller.pdf"):  # Latin-1, out of a zip
        (folder / os.fsdecode(name)).write_text("no notebook")
    command = [sys.executable, "-m", "privlab", "mark", str(folder), "--out", str(tmp_path / "marks.csv")]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, cwd=LABS.parent, env=strict, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert r"M\udcfcller.ipynb  no marks" in done.stdout and "anna.ipynb  lab 00, 1 of 4" in done.stdout
    assert r"not marked, because their names are not those of notebooks: M\udcfcller.pdf" in done.stdout
    assert set(table(tmp_path / "marks.csv")) == {"anna", r"M\udcfcller"}


def test_a_table_that_cannot_be_written_is_told_before_any_answer_runs(tmp_path):
    (tmp_path / "anna.ipynb").write_text(psnr(GOOD, ASKED))
    (tmp_path / "file").write_text("")
    seen = []
    with pytest.raises(OSError):
        marking.mark(tmp_path, tmp_path / "file/marks.csv", began=lambda *a: seen.append("began"), done=seen.append)
    assert seen == []


def test_the_command_prints_a_line_a_notebook(tmp_path, capsys):
    (tmp_path / "anna.ipynb").write_text(psnr(GOOD, ASKED))
    (tmp_path / "ben.ipynb").write_text("no notebook")
    (tmp_path / "report.pdf").write_bytes(b"%PDF")
    (tmp_path / "guesses (2).json").write_text("{}")
    push = "import torch\ndef push(r, x, v):\n    return torch.zeros(6)\nchecks.verify('04.push', push)"
    (tmp_path / "cleo.ipynb").write_text(psnr(push))
    assert cli.main(["mark", str(tmp_path), "--out", str(tmp_path / "marks.csv")]) == 0
    said = capsys.readouterr().out
    assert "anna.ipynb  lab 00, 1 of 4" in said and "cleo.ipynb  lab 04, 0 of 1" in said
    assert "ben.ipynb  no marks  0.0 s  no notebook: it is not JSON" in said
    assert "not marked, because their names are not those of notebooks: report.pdf\n" in said
    assert said.rstrip().endswith(f"wrote {tmp_path / 'marks.csv'}, 3 rows")


def test_a_stop_leaves_what_is_done_and_no_process(tmp_path, monkeypatch):
    (tmp_path / "a.ipynb").write_text(psnr(GOOD, ASKED))
    for name in "bc":
        (tmp_path / f"{name}.ipynb").write_text(psnr("my_psnr = next(x for x in iter(int, 1) if x)", ASKED))
    started = []
    popen = gradebook.subprocess.Popen
    monkeypatch.setattr(gradebook.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1])

    def interrupt(row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        marking.mark(tmp_path, tmp_path / "marks.csv", jobs=2, seconds=600, done=interrupt)
    assert list(table(tmp_path / "marks.csv")) == ["a"]
    assert started and all(process.poll() is not None for process in started)


def test_the_command_says_how_many_rows_are_there_when_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(marking, "mark", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    assert cli.main(["mark", str(tmp_path)]) == 130
    assert "stopped; marks.csv has the 0 notebooks marked so far" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "'nowhere' is not a folder; give the one that the returned notebooks are in"),
        (["."], "'.' holds no notebook (*.ipynb)"),
        ([".", "--jobs", "0"], "jobs=0 marks nothing; give more than 0"),
        ([".", "--timeout", "-1"], "timeout=-1 marks nothing; give more than 0"),
        ([".", "--memory", "nan"], "memory=nan marks nothing; give more than 0"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["mark", *arguments]) == 2
    assert capsys.readouterr().err == f"privlab mark: {message}\n"
