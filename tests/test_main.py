"""The command line: what it says, where it writes, and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from privlab import __main__ as cli
from privlab.ledger import evidence
from privlab.runner import catalogue, runner

PARAMETERS = '# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\n\n'


@pytest.fixture
def labs(tmp_path):
    folder = tmp_path / "labs"
    folder.mkdir()
    (folder / "00_start.py").write_text("# %% [markdown]\n# # 00 · start\n\n" + PARAMETERS + "# %%\nprint(profile)\n")
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(a) for a in arguments])


def test_run_writes_everything_and_shows_the_tables(labs, tmp_path, capsys):
    april = "# %% [markdown]\n# # 05 · april\n# | smoke | 0.1 | 0.2 GB |\n\n" + PARAMETERS
    (labs / "05_april.py").write_text(april + "# %%\n2\n")
    out = tmp_path / "run"
    assert run("run", "--labs", labs, "--out", out, "--jobs", 2) == 0
    said = capsys.readouterr().out
    assert "rough cost: 0.1 min, at most 0.2 GB of memory" in said
    assert "00_start  ok  " in said and "paper  " in said and "no lab measured a value at smoke" in said
    assert len(said.partition("rough cost")[2].splitlines()) < 60, "one screen"
    assert said.rstrip().endswith(f"all labs succeeded; see {out}")
    files = {path.name for path in out.iterdir()}
    assert files == {"00_start.ipynb", "00_start.json", "05_april.ipynb", "05_april.json", "index.html", ".run.lock"}

    # one lab again, failing now: and the status is 1
    (labs / "00_start.py").write_text(PARAMETERS + "# %%\n{}['missing']\n")
    assert run("run", "0", "--labs", labs, "--out", out) == 1
    said = capsys.readouterr().out
    assert "00_start: In [3], under 'no heading': KeyError: 'missing'" in said
    assert said.rstrip().endswith("1 of 1 labs failed: 00_start")


def test_what_goes_deeper_runs_if_asked_for_and_its_results_stand_as_its_source_does(labs, tmp_path, capsys):
    (labs / "05_april.py").write_text("# %% [markdown]\n# # 05 · april\n\n" + PARAMETERS)
    (labs / "deeper").mkdir()
    for name in ("00_more", "05_width"):  # reads what lies beside it, as in JupyterLab
        (labs / f"deeper/{name}.py").write_text(PARAMETERS + "# %%\nprint(open('note.txt').read())\n")
    (labs / "deeper/note.txt").write_text("beside it")
    out = tmp_path / "run"
    assert run("run", "--labs", labs, "--out", out) == 0
    assert "deeper/" not in capsys.readouterr().out and not (out / "deeper").exists()

    assert run("run", "0", "--deeper", "--labs", labs, "--out", out) == 0
    said = capsys.readouterr().out
    assert said.startswith("00_start, deeper/00_more at the profile smoke")
    table = [line.split()[0] for line in said.partition("\nlab ")[2].splitlines()[1:3]]
    assert table == ["00_start", "deeper/00_more"]
    assert {path.name for path in (out / "deeper").iterdir()} == {"00_more.ipynb", "00_more.json"}
    assert "beside it" in (out / "deeper/00_more.ipynb").read_text()
    page = (out / "index.html").read_text()
    below = '<h3><a href="deeper/00_more.ipynb">deeper/00_more</a></h3>'
    assert (
        page.index(">00_start</a></h2>") < page.index(below) < page.index(">05_april</a></h2>")
    )  # from the run before

    assert run("run", "deeper/00_more", "--resume", "--labs", labs, "--out", out) == 0
    assert f"deeper/00_more  not run again: it is complete in {out}" in capsys.readouterr().out


def test_other_parameters_reach_the_lab_and_stay_out_of_the_usual_run(labs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (labs / "00_start.py").write_text(
        PARAMETERS.rstrip() + '\nvictim = ""\nwidths = ()\n\n# %%\nprint(victim, widths)\n'
    )
    assert run("run", "--labs", labs, "-p", "victim", "vit_tiny_patch16_224", "-p", "widths", "[8, None, 2.5]") == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "smoke-victim-vit_tiny_patch16_224-widths-_8_None_2.5_"
    assert capsys.readouterr().out.rstrip().endswith(f"all labs succeeded; see runs/{folder.name}")
    kept = json.loads((folder / "00_start.json").read_text())
    assert kept["parameters"]["widths"] == [8, None, 2.5]
    assert "vit_tiny_patch16_224 [8, None, 2.5]" in (folder / "00_start.ipynb").read_text()
    given = {"victim": "vit_tiny_patch16_224", "widths": [8, None, 2.5]}
    chosen = tuple(catalogue.labs(labs))
    for extra, stands in ((given, True), ({"victim": "vit_tiny_patch16_224"}, False), ({}, False)):
        plan = runner.Plan(chosen, folder, extra=extra)
        assert (runner.saved(plan, chosen[0]) is not None) == stands


def test_a_lab_without_a_cell_of_parameters_is_told_before_any_lab_is_run(labs, tmp_path, capsys):
    (labs / "01_bare.py").write_text("# %%\nprint('never run')\n")
    assert run("run", "--labs", labs, "--out", tmp_path / "run") == 2
    assert "parameter='profile' is not one of lab 01_bare, which has none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "-p", "victm", "x"],
            "privlab run: parameter='victm' is not one of lab 00_start, which has profile, seed, device",
        ),
        (["run", "stat"], "privlab run: lab='stat' is not a lab; did you mean '00_start'? Known: 00_start"),
        (["run", "--profile", "smok"], "privlab run: profile='smok' is not a profile; did you mean 'smoke'?"),
        (["run", "--jobs", "0"], "privlab run: jobs=0 runs nothing; give 1 or more"),
        (["run", "--timeout", "0"], "privlab run: timeout=0 gives a cell no time"),
        (["run", "--device", "tpu"], "privlab run: device='tpu' is not a device of the labs; try auto, cpu, cuda"),
        (["run", "--out", "/dev/null"], "privlab run: out='/dev/null' cannot be a folder to write in: File exists"),
        (["student", "--out", "/dev/null/x"], "privlab student: out='/dev/null/x' cannot be a folder to write in: Not"),
        (["slides", "--out", "/dev/null"], "privlab slides: out='/dev/null' cannot be a folder to write in: File"),
    ],
)
def test_bad_input_is_one_line_and_status_2(labs, capsys, arguments, message):
    assert run(*arguments, "--labs", labs) == 2
    complained = capsys.readouterr().err
    assert complained.startswith(message) and complained.count("\n") == 1


def test_a_folder_without_labs(tmp_path, capsys):
    assert run("run", "--labs", tmp_path) == 2
    assert "holds no lab" in capsys.readouterr().err
    assert run("pair", "--labs", tmp_path / "nowhere") == 2
    assert "is not a folder" in capsys.readouterr().err


def test_pair_and_its_check(labs, capsys):
    assert run("pair", "--labs", labs, "--check") == 1
    assert (
        capsys.readouterr().out
        == f"{labs / '00_start.ipynb'} differs from what the sources of the labs make; python -m privlab pair writes it anew\n"
    )
    assert run("pair", "--labs", labs) == 0
    assert capsys.readouterr().out == f"wrote {labs / '00_start.ipynb'}\n"
    assert run("pair", "--labs", labs, "--check") == 0
    assert run("pair", "--labs", labs) == 0
    assert capsys.readouterr().out == ""


@pytest.fixture
def measured(tmp_path):
    """Two folders of evidence of one experiment of lab 05: in the second, an identity that had held does no longer."""
    name = "april_closed_form.theorems"
    for folder, error in (("before", 1e-12), ("now", 1e-3)):
        entry = evidence.Registration(name, "class", 1, "it", 0, 2, "invented numbers", False, "2026-11-24")
        evidence.register([entry], tmp_path / folder)
        for repeat in range(2):
            values = {"relative_residual[theorem_1, float64]": error}
            evidence.append(name, "class", evidence.Repeat(repeat, "it", values, 1.0, 0.0), tmp_path / folder)
    return tmp_path


def test_report_against_earlier_evidence(measured, capsys):
    both = ["report", "--lab", "05", "--evidence", measured / "now", "--before"]
    assert run(*both, measured / "now") == 0
    said = capsys.readouterr()
    assert "No verdict changed." in said.err and said.out.startswith("# The ledger")
    assert run(*both, measured / "before") == 1
    assert "linear\\_system | reproduced | not reproduced" in capsys.readouterr().err
    assert run(*both, measured / "before", "--out", measured / "page") == 1
    said = capsys.readouterr()
    assert "| worse |" in said.out and said.out.endswith(f"wrote {measured / 'page'}\n") and not said.err


@pytest.mark.parametrize(("form", "begins"), [("md", "# The ledger"), ("csv", "id,paper")])
def test_report_in_each_format(measured, capsys, form, begins):
    asked = ["report", "--evidence", measured / "now", "--format", form]
    assert run(*asked) == 0
    said = capsys.readouterr().out
    assert said.startswith(begins) and "theorem1" in said and "not reproduced" in said
    assert run(*asked, "--out", measured / "page") == 0
    assert (measured / "page").read_text() == said
    assert capsys.readouterr().out == f"wrote {measured / 'page'}\n"


def test_report_of_what_is_not_there(tmp_path, capsys):
    assert run("report", "--evidence", tmp_path / "none") == 2
    assert "none' is not a folder of evidence; try book/evidence" in capsys.readouterr().err
    assert run("report", "--lab", "77") == 2
    assert "lab='77' has no claim; give the two digits of a lab" in capsys.readouterr().err
    assert run("run", "--profile", "clas") == 2
    assert "privlab run: profile='clas' is not a profile; did you mean 'class'" in capsys.readouterr().err


def test_doctor_prints_its_findings(labs, capsys):
    status = run("doctor", "--labs", labs)
    said = capsys.readouterr().out
    assert status == int("BROKEN" in said)
    assert all(word in said for word in ("system", "torch", "data", "smoke", "paper"))


def test_every_command_has_a_help_that_says_what_it_does():
    for command in ("run", "pair", "report", "doctor"):
        text = subprocess.run(
            [sys.executable, "-m", "privlab", command, "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert "Exit status" in " ".join(text.split()) and "usage: python -m privlab" in text


def test_a_run_keeps_torch_out_of_its_own_process_while_labs_run():
    code = "import sys\nfrom privlab.runner import runner, execution, catalogue, pairing\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize("module", ["argparse", "privlab.ledger.judging", "yaml", "numpy"])
def test_an_interrupt_inside_an_import_leaves_no_traceback(tmp_path, module):
    """Ctrl-C as the command imports: the interrupt comes from within, so that the moment is always the same."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # also where these tests run in the background
        "class Now:\n"
        "    def find_spec(self, name, *_):\n"
        f"        name == {module!r} and os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Now())\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "privlab", "report"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "\nstopped\n")


def test_the_command_line_says_what_it_can_do_without_torch():
    code = "import sys\nfrom privlab import __main__\n__main__._parser()\nprint({'torch', 'jupytext'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_closed_pipe_ends_a_command_quietly():
    """As in `python -m privlab report | head -1`: with the status that a shell gives such a program, and no traceback."""
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run([sys.executable, "-m", "privlab", "report"], stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")
