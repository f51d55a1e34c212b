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
HEAD = '# %% [markdown]\n# # {name}\n\n# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\n\n# %%\n'
ENVIRONMENT = ["OMP_NUM_THREADS", "PYTHONHASHSEED", "PRIVLAB_JOBS", "PRIVLAB_STRICT", "PRIVLAB_STORE"]


def write(folder: Path, name: str, cell: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(f"{HEAD.format(name=name)}{cell}\n")


def plan(folder: Path, out: Path, **other) -> Plan:
    return Plan(tuple(catalogue.everything(folder)), out, **other)


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
    states = {name: result["status"] for name, result in results.items()}
    assert states == {"00_slow": "ok", "01_bad": "failed", "02_env": "ok"} and [*states] == sorted(states)
    assert results["01_bad"]["error"] == "In [3], under '01_bad': ZeroDivisionError: division by zero"
    (printed,) = nbformat.read(made.out / "02_env.ipynb", as_version=4).cells[-1].outputs
    threads, hashed, jobs, strict, store = printed.text.split()
    assert int(threads) == int(jobs) == max(1, machine.cores() // 2) == made.threads
    assert (hashed, strict) == ("0", "1")
    assert store == str(made.out.parent / "models")  # a relative place is seen from where the run was started


def test_a_result_stands_for_the_same_source_package_evidence_and_parameters(two_at_once, monkeypatch, tmp_path):
    made, results = two_at_once
    slow, labs = made.labs[0], made.labs[0].path.parent
    assert made.saved(slow) == results["00_slow"]
    with monkeypatch.context() as patch:
        patch.setattr(runner, "package", lambda: "another")
        assert made.saved(slow) is None
    with monkeypatch.context() as patch:
        patch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
        evidence.append("walks.short", "class", evidence.Repeat(0, "d", {"psnr[a]": 1.0}, 1.0, 1.0))
        assert made.saved(slow) is None
    for other in ({"seed": 8}, {"seed": 7, "device": "cpu"}):
        assert plan(labs, made.out, extra=other).saved(slow) is None
    assert plan(labs, made.out, extra={"seed": 7}, profile="gpu").saved(slow) is None
    write(labs, "02_env", "'changed'")
    assert made.saved(catalogue.Lab(labs / "02_env.py")) is None


@pytest.fixture
def long_run(tmp_path):
    """A run of a lab that does not end by itself, the process of its kernel, and its folder."""
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
    return process, psutil.Process(int((labs / "pid").read_text())), out


def test_a_run_has_its_folder_alone_and_ctrl_c_stops_the_kernels_and_keeps_what_is_complete(long_run):
    process, kernel, out = long_run
    with pytest.raises(ValueError, match="is in use by another run"):
        runner.run(plan(out.parent / "labs", out), [])
    process.send_signal(signal.SIGINT)
    _, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command with --resume continues" in complained and "Traceback" not in complained
    assert psutil.wait_procs([kernel], timeout=30)[1] == []
    assert (out / "00_quick.json").exists() and not (out / "01_long.json").exists()


@pytest.mark.check
def test_labs_do_not_outlive_a_runner_that_was_killed(long_run):
    process, kernel, _ = long_run
    family = [kernel, *kernel.parents()[:1]]
    process.kill()
    process.wait()
    assert psutil.wait_procs(family, timeout=60)[1] == []
