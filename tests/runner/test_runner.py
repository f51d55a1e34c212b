"""Several labs at once in processes of their own: what is kept, what follows a failure, stopping and going on."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from privlab.compute import machine
from privlab.ledger import evidence
from privlab.runner import catalogue, runner
from privlab.runner.runner import Plan

LONG = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)"  # it says where it is, and stays
HEAD = """\
# %% [markdown]
# # {name}

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

"""


def write(folder: Path, name: str, *cells: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(HEAD.format(name=name) + "".join(f"# %%\n{cell}\n\n" for cell in cells))


def plan(folder: Path, out: Path, **other) -> Plan:
    return Plan(tuple(catalogue.labs(folder)), out, **other)


def kept(made: Plan, name: str):
    return nbformat.read(made.out / f"{name}.ipynb", as_version=4)


ENVIRONMENT = ["OMP_NUM_THREADS", "PYTHONHASHSEED", "PRIVLAB_JOBS", "PRIVLAB_STRICT", "PRIVLAB_STORE"]


@pytest.fixture(scope="module")
def two_at_once(tmp_path_factory):
    """Three labs, two at a time: the first waits for the end of the second, which fails."""
    folder = tmp_path_factory.mktemp("book")
    labs, out = folder / "labs", folder / "run"
    wait = f"import os, time\nwhile not os.path.exists({str(out / '01_bad.json')!r}):\n    time.sleep(0.1)"
    write(labs, "00_slow", wait)
    write(labs, "01_bad", "1 / 0")
    write(labs, "02_env", f"import os\nfor name in {ENVIRONMENT}:\n    print(os.environ[name])")
    made = plan(labs, out, jobs=2, extra={"seed": 7})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRIVLAB_STORE", "models")
        patch.chdir(folder)
        return made, runner.executed(made)


def test_a_failed_lab_leaves_the_others_alone_and_each_gets_its_share_of_cores(two_at_once):
    made, results = two_at_once
    assert results == {name: json.loads((made.out / f"{name}.json").read_text()) for name in results}
    assert [(name, result["status"]) for name, result in results.items()] == [
        ("00_slow", "ok"), ("01_bad", "failed"), ("02_env", "ok"),
    ]  # fmt: skip
    assert results["01_bad"]["error"] == "In [3], under '01_bad': ZeroDivisionError: division by zero"
    assert results["00_slow"]["peak_gb"] > 0
    threads, hashed, jobs, strict, store = kept(made, "02_env").cells[-1].outputs[0].text.split()
    assert int(threads) == int(jobs) == max(1, machine.cores() // 2) == made.threads
    assert (hashed, strict) == ("0", "1")
    assert store == str(made.out.parent / "models")  # a relative place is seen from where the run was started


def test_resume_runs_what_failed_and_what_changed(two_at_once, capsys, monkeypatch, tmp_path):
    made, before = two_at_once
    labs = made.labs[0].path.parent
    monkeypatch.setattr(runner, "package", lambda: "another")
    assert made.saved(made.labs[0]) is None
    monkeypatch.undo()
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    evidence.append("walks.short", "class", evidence.Repeat(0, "d", {"psnr[a]": 1.0}, 1.0, 1.0))
    assert made.saved(made.labs[0]) is None
    monkeypatch.undo()
    assert made.saved(made.labs[0]) == before["00_slow"]
    for changed in ({"seed": 8}, {"seed": 7, "device": "cpu"}):
        assert plan(labs, made.out, extra=changed).saved(made.labs[0]) is None
    assert plan(labs, made.out, extra={"seed": 7}, profile="gpu").saved(made.labs[0]) is None
    write(labs, "01_bad", "1 / 1")
    write(labs, "02_env", "'changed'")
    after = runner.executed(plan(labs, made.out, jobs=2, extra={"seed": 7}, resume=True))
    assert capsys.readouterr().out.count("not run again") == 1 and after["00_slow"] == before["00_slow"]
    assert after["01_bad"]["status"] == after["02_env"]["status"] == "ok"
    assert kept(made, "02_env").cells[-1].source == "'changed'"
    (made.out / "00_slow.json").write_bytes(b'{"status": "o')
    assert made.saved(made.labs[0]) is None


def run_long(tmp_path, **options):
    """A run of a lab that does not end by itself, and the process of its kernel."""
    labs, out = tmp_path / "labs", tmp_path / "run"
    write(labs, "00_quick", "1")
    write(labs, "01_long", LONG)
    hears = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # also where these tests run in the background
    command = [sys.executable, "-c", hears + "from privlab.__main__ import main; raise SystemExit(main())"]
    command += ["run", "--labs", str(labs), "--out", str(out), "--jobs", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(900):
        if (labs / "pid").exists() and (labs / "pid").read_text() and (out / "00_quick.json").exists():
            break
        time.sleep(0.1)
    kernel = psutil.Process(int((labs / "pid").read_text()))
    return process, kernel, out


def test_a_run_has_its_folder_alone_and_ctrl_c_stops_the_kernels_and_keeps_what_is_complete(tmp_path):
    process, kernel, out = run_long(tmp_path)
    second = [sys.executable, "-m", "privlab", "run", "--labs", str(tmp_path / "labs"), "--out", str(out)]
    told = subprocess.run(second, capture_output=True, text=True)
    assert told.returncode == 2 and "is in use by another run" in told.stderr
    process.send_signal(signal.SIGINT)
    _, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command with --resume continues" in complained and "Traceback" not in complained
    assert psutil.wait_procs([kernel], timeout=30)[1] == []
    assert (out / "00_quick.json").exists() and not (out / "01_long.json").exists()


@pytest.mark.check
def test_labs_do_not_outlive_a_runner_that_was_killed(tmp_path):
    process, kernel, _ = run_long(tmp_path)
    family = [kernel, *kernel.parents()[:1]]
    process.kill()
    process.wait()
    assert psutil.wait_procs(family, timeout=60)[1] == []
