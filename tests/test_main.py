"""The command line: what it says, where it writes, and its exit status."""

import os
import signal
import subprocess
import sys

import pytest

from privlab import __main__ as cli
from privlab.ledger import evidence
from privlab.runner import catalogue
from privlab.runner.runner import Plan

PARAMETERS = '# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\nvictim = ""\nwidths = ()\n\n'


@pytest.fixture
def labs(tmp_path):
    folder = tmp_path / "labs"
    folder.mkdir()
    show = "# %%\nprint(victim, widths)\n"
    (folder / "00_start.py").write_text("# %% [markdown]\n# # 00 · start\n\n" + PARAMETERS + show)
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(a) for a in arguments])


def test_run_writes_everything_and_what_goes_deeper_stands_behind_its_lab(labs, tmp_path, capsys):
    (labs / "05_april.py").write_text("# %% [markdown]\n# # 05 · april\n\n" + PARAMETERS)
    (labs / "deeper").mkdir()
    beside = PARAMETERS + "# %%\nprint(open('note.txt').read())\n"  # reads what lies beside it, as in JupyterLab
    (labs / "deeper/00_more.py").write_text(beside)
    (labs / "deeper/note.txt").write_text("beside it")
    out = tmp_path / "run"
    assert run("run", "--labs", labs, "--out", out, "--jobs", 2) == 0
    said = capsys.readouterr().out
    assert "deeper/" not in said and "00_start  ok  " in said and "paper  " in said
    assert len(said.splitlines()) < 60, "one screen"
    assert said.rstrip().endswith(f"all labs succeeded; see {out}")
    files = {path.name for path in out.iterdir()}
    assert files == {"00_start.ipynb", "00_start.json", "05_april.ipynb", "05_april.json", "index.html", ".run.lock"}

    assert run("run", "0", "--deeper", "--resume", "--labs", labs, "--out", out) == 0
    said = capsys.readouterr().out
    assert said.startswith("00_start, deeper/00_more at the profile smoke")
    assert f"00_start  not run again: it is complete in {out}" in said
    assert "beside it" in (out / "deeper/00_more.ipynb").read_text()
    page = (out / "index.html").read_text()
    places = [page.index(f">{name}</a></h") for name in ("00_start", "deeper/00_more", "05_april")]  # that of before
    assert places == sorted(places)


def test_other_parameters_stay_out_of_the_usual_run_and_a_failed_lab_is_status_1(labs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ("run", "--labs", labs, "-p", "victim", "vit_tiny_patch16_224", "-p", "widths", "[8, None, 2.5]")
    assert run(*asked) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "smoke-victim-vit_tiny_patch16_224-widths-_8_None_2.5_"
    assert capsys.readouterr().out.rstrip().endswith(f"all labs succeeded; see runs/{folder.name}")
    assert "vit_tiny_patch16_224 [8, None, 2.5]" in (folder / "00_start.ipynb").read_text()
    lab, given = catalogue.labs(labs)[0], {"victim": "vit_tiny_patch16_224", "widths": [8, None, 2.5]}
    assert Plan((lab,), folder, extra=given).saved(lab) and not Plan((lab,), folder).saved(lab)
    lab.path.write_text(PARAMETERS + "# %%\n{}['missing']\n")
    assert run(*asked) == 1
    said = capsys.readouterr().out
    assert "00_start: In [3], under 'no heading': KeyError: 'missing'" in said
    assert said.rstrip().endswith("1 of 1 labs failed: 00_start")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run -p victm x", "parameter='victm' is not one of lab 00_start, which has profile, seed, device, victim"),
        ("run --jobs 0", "jobs=0 runs nothing"),
        ("run -p device tpu", "device='tpu' is not a device of the labs; try auto, cpu, cuda"),
        ("run --out /dev/null", "out='/dev/null' cannot be a folder to write in: File exists"),
        ("pair --labs /nowhere", "labs='/nowhere' holds no lab (NN_topic.py); run from the repository"),
        ("report --evidence /nowhere", "evidence='/nowhere' is not a folder of evidence; try book/evidence"),
        ("report --lab 77", "lab='77' has no claim; give the two digits of a lab"),
        ("guesses labs", "'labs' holds no guesses.json"),
        ("address https://x.org/y", "address='https://x.org/y' is none; try https://github.com/OWNER/NAME"),
    ],
)
def test_bad_input_is_one_line_and_status_2(labs, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(labs.parent)
    assert run(*arguments.split()) == 2
    complained = capsys.readouterr().err
    assert complained.startswith(f"privlab {arguments.split()[0]}: {message}") and complained.count("\n") == 1


def test_pair_and_its_check(labs, capsys):
    notebook = labs / "00_start.ipynb"
    differs = f"{notebook} differs from what the sources of the labs make; python -m privlab pair writes it anew\n"
    for asked, status, said in (["--check"], 1, differs), ([], 0, f"wrote {notebook}\n"), (["--check"], 0, ""):
        assert run("pair", "--labs", labs, *asked) == status
        assert capsys.readouterr().out == said


def test_report_against_earlier_evidence(tmp_path, capsys):
    """Of lab 05 there is one experiment, in which an identity that had held does no longer."""
    name = "april_closed_form.theorems"
    for folder, error in (("before", 1e-12), ("now", 1e-3)):
        entry = evidence.Registration(name, "class", 1, "it", 0, 2, "invented numbers", False, "2026-11-24")
        evidence.register([entry], tmp_path / folder)
        for repeat in range(2):
            values = {"relative_residual[theorem_1, float64]": error}
            evidence.append(name, "class", evidence.Repeat(repeat, "it", values, 1.0, 0.0), tmp_path / folder)
    both = ["report", "--lab", "05", "--evidence", tmp_path / "now", "--before"]
    assert run(*both, tmp_path / "now") == 0
    said = capsys.readouterr()
    assert "No verdict changed." in said.err and said.out.startswith("# The ledger")
    assert run(*both, tmp_path / "before", "--format", "csv") == 1
    said = capsys.readouterr()
    assert "| worse |" in said.err and "linear\\_system | reproduced | not reproduced" in said.err
    assert said.out.startswith("id,paper") and "theorem1" in said.out and "not reproduced" in said.out


def test_every_command_has_a_help_and_neither_it_nor_a_run_waits_for_torch():
    for name, parser in cli.COMMANDS.choices.items():
        assert parser.format_help().startswith(f"usage: python -m privlab {name}") and parser.description
    heavy = "print({'torch', 'jupytext', 'pandas'} & sys.modules.keys())"
    code = f"import sys, privlab.__main__; {heavy}; import privlab.runner.runner; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\nFalse\n"


def test_a_closed_pipe_ends_a_command_quietly():
    """As in `python -m privlab report | head -1`: with the status that a shell gives such a program, and no traceback."""
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run([sys.executable, "-m", "privlab", "report"], stdout=writes, stderr=subprocess.PIPE, text=True)
    os.close(writes)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
