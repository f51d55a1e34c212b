"""The command line: what it says, where it writes, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from nbformat.v4 import new_output

from privlab import __main__ as cli
from privlab import ledger
from privlab.records import MIME, Record, record

PARAMETERS = '# %% tags=["parameters"]\nprofile = "laptop"\nseed = 0\ndevice = "auto"\n\n'


@pytest.fixture
def labs(tmp_path):
    folder = tmp_path / "labs"
    folder.mkdir()
    (folder / "00_start.py").write_text("# %% [markdown]\n# # 00 · start\n\n" + PARAMETERS + "# %%\nprint(profile)\n")
    return folder


def bundle(*values: float) -> dict:
    made = record(
        "relative_residual",
        ["theorem_1", "float64"],
        values,
        lab="05",
        profile="smoke",
        seed=0,
        device="cpu",
        mode="eval",
        victim="fresh",
    )
    return json.loads(json.dumps(made.bundle()))


def run(*arguments: object) -> int:
    return cli.main([str(a) for a in arguments])


def test_run_writes_everything_and_shows_the_tables(labs, tmp_path, capsys):
    measured = new_output("display_data", bundle(1e-14, 2e-14)).data
    (labs / "05_april.py").write_text(
        "# %% [markdown]\n# # 05 · april\n# | smoke | 0.1 | 0.2 GB |\n\n"
        + PARAMETERS
        + f"# %%\nfrom IPython.display import publish_display_data\npublish_display_data({measured!r})\n"
    )
    out = tmp_path / "run"
    assert run("run", "--labs", labs, "--out", out, "--jobs", 2) == 0
    said = capsys.readouterr().out
    assert "rough cost: 6 s, 0.2 GB at most" in said and "no cost given for smoke: 00_start" in said
    assert "lu2022.theorem1.linear_system" in said and "REPRODUCED: " in said
    assert said.rstrip().endswith(f"all green; see {out}")
    files = {path.name for path in out.iterdir()}
    assert files == {"00_start.ipynb", "00_start.json", "05_april.ipynb", "05_april.json", "ledger.json"}

    # one lab again, failing now: the other's result still counts in the ledger, and the status is 1
    (labs / "00_start.py").write_text(PARAMETERS + "# %%\n{}['missing']\n")
    assert run("run", "0", "--labs", labs, "--out", out) == 1
    said = capsys.readouterr().out
    assert "00_start: In [3], under 'no heading': KeyError: 'missing'" in said
    assert said.rstrip().endswith("1 of 1 labs failed: 00_start")
    verdicts = {j.claim.id: j.verdict for j in ledger.read(out / "ledger.json").judgements}
    assert verdicts["lu2022.theorem1.linear_system"] == "reproduced"

    # the lab of one claim only, and nothing to do for it
    assert run("run", "--claim", "lu2022.theorem1.linear_system", "--labs", labs, "--out", out, "--resume") == 0
    said = capsys.readouterr().out
    assert "05_april  kept" in said and "00_start  started" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "stat"], "privlab run: lab='stat' is not a lab; did you mean '00_start'? Known: 00_start"),
        (["run", "--profile", "smok"], "privlab run: profile='smok' is not a profile; did you mean 'smoke'?"),
        (["run", "--claim", "nothing"], "privlab run: claim='nothing' is not a claim; Known: "),
        (["run", "0", "--claim", "x.y"], "privlab run: claim='x.y' and lab='0' both say what to run; give one of them"),
        (["run", "--jobs", "0"], "privlab run: jobs=0 runs nothing; give 1 or more"),
        (["run", "--timeout", "0"], "privlab run: timeout=0 gives a cell no time"),
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
        == f"{labs / '00_start.ipynb'} is not what 00_start.py makes; python -m privlab pair writes it\n"
    )
    assert run("pair", "--labs", labs) == 0
    assert capsys.readouterr().out == f"wrote {labs / '00_start.ipynb'}\n"
    assert run("pair", "--labs", labs, "--check") == 0
    assert run("pair", "--labs", labs) == 0
    assert capsys.readouterr().out == ""


@pytest.fixture
def runs(tmp_path):
    """Two runs of lab 05: the second lost what the first had reproduced."""
    for name, values in (("good", (1e-14, 2e-14)), ("worse", (1.0, 2.0))):
        (tmp_path / name).mkdir()
        records = [Record.read(bundle(*values)[MIME])]
        ledger.write(tmp_path / name / "ledger.json", ledger.summarise(records, "smoke"))
    return tmp_path


def test_report_against_a_baseline(runs, capsys):
    assert run("report", runs / "good", "--baseline", runs / "good") == 0
    said = capsys.readouterr()
    assert said.err == "no verdict moved\n" and said.out.startswith("# The ledger")
    assert run("report", runs / "worse", "--baseline", runs / "good" / "ledger.json") == 1
    assert "worse: lu2022.theorem1.linear_system: was reproduced, now not reproduced" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "begins"),
    [("md", "# The ledger"), ("json", "[{"), ("csv", "run,profile,id"), ("latex", r"\begin{tabular}")],
)
def test_report_in_each_format(runs, capsys, form, begins):
    assert run("report", runs / "good", runs / "worse", "--format", form) == 0
    said = capsys.readouterr().out
    assert said.startswith(begins)
    assert run("report", runs / "good", runs / "worse", "--format", form, "--out", runs / "page") == 0
    assert (runs / "page").read_text() == said
    assert capsys.readouterr().out == f"wrote {runs / 'page'}\n"


def test_report_of_what_is_not_there(tmp_path, runs, capsys):
    assert run("report", tmp_path / "none") == 2
    assert "does not exist; a run of the labs writes it" in capsys.readouterr().err
    later = ledger.summarise([], "laptop")
    ledger.write(tmp_path / "laptop.json", later)
    assert run("report", tmp_path / "laptop.json", "--baseline", runs / "good") == 2
    assert "is a run at smoke; none of the runs given is" in capsys.readouterr().err


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
    code = "import sys\nfrom privlab import runner, execution, catalogue, pairing\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
