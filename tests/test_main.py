"""The command line: what it says, where it writes, and its exit status."""

import os
import signal
import subprocess
import sys

import pytest

from privlab import __main__ as cli
from privlab.compute import machine
from privlab.ledger import evidence

PARAMETERS = '# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\nvictim = ""\nwidths = ()\n\n'
FIRST = """\
import os, pathlib, time
while not [*pathlib.Path("..").glob("runs/*/05_april.json")]:
    time.sleep(0.1)
told = "OMP_NUM_THREADS", "PRIVLAB_JOBS", "PYTHONHASHSEED", "PRIVLAB_STRICT", "PRIVLAB_STORE"
print(victim, widths, *map(os.environ.get, told))"""


@pytest.fixture
def labs(tmp_path):
    folder = tmp_path / "labs"
    (folder / "deeper").mkdir(parents=True)
    cells = {"00_start": FIRST, "05_april": "{}['missing']", "deeper/00_more": "print(open('note').read())"}
    for name, cell in cells.items():
        (folder / f"{name}.py").write_text(f"# %% [markdown]\n# # 00 · a lab\n\n{PARAMETERS}# %%\n{cell}\n")
    (folder / "deeper/note").write_text("it lies beside its notebook, which is run there, as in JupyterLab")
    return folder


def run(*arguments: object) -> int:
    return cli.main([str(a) for a in arguments])


def test_a_run_with_other_parameters_goes_on_in_a_folder_of_its_own(labs, tmp_path, monkeypatch, capsys):
    """Two labs at once, of which the first waits for the end of the second, which fails; then what is missing and what goes deeper."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVLAB_STORE", "models")  # a relative place is seen from where the run was started
    asked = ("run", "--jobs", 2, "-p", "victim", "vit_tiny_patch16_224", "-p", "widths", "[8, None, 2.5]")
    assert run(*asked) == 1
    (out,) = (tmp_path / "runs").iterdir()
    assert out.name == "smoke-victim-vit_tiny_patch16_224-widths-_8_None_2.5_"
    said = capsys.readouterr().out
    assert said.startswith("00_start, 05_april at the profile smoke, 2 at once") and "00_start  ok  " in said
    assert "05_april: In [3], under '00 · a lab': KeyError: 'missing'" in said and len(said.splitlines()) < 60
    assert said.rstrip().endswith("1 of 2 labs failed: 05_april")
    files = {path.name for path in out.iterdir()}
    assert files == {"00_start.ipynb", "00_start.json", "05_april.ipynb", "05_april.json", "index.html", ".run.lock"}
    threads = max(1, machine.cores() // 2)
    told = f"vit_tiny_patch16_224 [8, None, 2.5] {threads} {threads} 0 1 {tmp_path / 'models'}"
    assert told in (out / "00_start.ipynb").read_text()

    (labs / "05_april.py").write_text(f"# %% [markdown]\n# # 05 · april\n\n{PARAMETERS}")
    assert run(*asked, "--deeper", "--resume") == 0
    said = capsys.readouterr().out
    assert f"00_start  not run again: it is complete in runs/{out.name}" in said
    assert said.rstrip().endswith(f"all labs succeeded; see runs/{out.name}")
    assert "it lies beside its notebook" in (out / "deeper/00_more.ipynb").read_text()
    page = (out / "index.html").read_text()
    places = [page.index(f">{name}</a></h") for name in ("00_start", "deeper/00_more", "05_april")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("run -p victm x", "parameter='victm' is not one of lab 00_start, which has profile, seed, device, victim"),
        ("run --jobs 0", "jobs=0 runs nothing"),
        ("run -p device tpu", "device='tpu' is not a device of the labs; try auto, cpu, cuda"),
        ("run --out /dev/null", "out='/dev/null' cannot be a folder to write in: File exists"),
        ("pair --labs /nowhere", "labs='/nowhere' holds no lab (NN_topic.py); run from the repository"),
        ("report --before /nowhere", "before='/nowhere' is not a folder of evidence; try book/evidence"),
        ("report --lab 77", "lab='77' has no claim; give the two digits of a lab"),
        ("guesses labs", "'labs' holds no guesses.json"),
    ],
)
def test_bad_input_is_one_line_and_status_2(labs, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(labs.parent)
    assert run(*arguments.split()) == 2
    complained = capsys.readouterr().err
    assert complained.startswith(f"privlab {arguments.split()[0]}: {message}") and complained.count("\n") == 1


def test_report_against_earlier_evidence(tmp_path, monkeypatch, capsys):
    """Of lab 05 there is one experiment, in which an identity that had held does no longer."""
    name = "april_closed_form.theorems"
    for folder, error in (("before", 1e-12), ("now", 1e-3)):
        entry = evidence.Registration(name, "class", 1, "it", 0, 2, "invented numbers", False, "2026-11-24")
        evidence.register([entry], tmp_path / folder)
        for repeat in range(2):
            values = {"relative_residual[theorem_1, float64]": error}
            evidence.append(name, "class", evidence.Repeat(repeat, "it", values, 1.0, 0.0), tmp_path / folder)
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path / "now"))
    both = ["report", "--lab", "05", "--before"]
    assert run(*both, tmp_path / "now") == 0
    said = capsys.readouterr()
    assert "No verdict changed." in said.err and said.out.startswith("# The ledger")
    assert run(*both, tmp_path / "before", "--format", "csv") == 1
    said = capsys.readouterr()
    assert "| worse |" in said.err and "linear\\_system | reproduced | not reproduced" in said.err
    assert said.out.startswith("id,paper") and "theorem1" in said.out and "not reproduced" in said.out


def test_every_command_has_a_help():
    for name, parser in cli.COMMANDS.choices.items():
        assert parser.format_help().startswith(f"usage: python -m privlab {name}") and parser.description


def test_a_closed_pipe_ends_a_command_quietly():
    """As in `python -m privlab report | head -1`: with the status that a shell gives such a program, and no traceback."""
    reads, end = os.pipe()
    os.close(reads)
    done = subprocess.run([sys.executable, "-m", "privlab", "address"], stdout=end, stderr=subprocess.PIPE, text=True)
    os.close(end)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
