"""A run of labs: what is kept, stopping, and going on; tests/test_main.py has what it prints."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from privlab.ledger import evidence
from privlab.runner import catalogue, runner
from privlab.runner.runner import Plan

LONG = "import os, pathlib, time\npathlib.Path('pid').write_text(str(os.getpid()))\ntime.sleep(600)"  # it says where it is, and stays
HEAD = '# %% [markdown]\n# # {name}\n\n# %% tags=["parameters"]\nprofile = "class"\nseed = 0\ndevice = "auto"\n\n# %%\n'


def write(folder: Path, name: str, cell: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(f"{HEAD.format(name=name)}{cell}\n")


def plan(folder: Path, out: Path, **other) -> Plan:
    return Plan(tuple(catalogue.everything(folder)), out, **other)


def test_a_result_stands_for_the_same_source_package_evidence_and_parameters(monkeypatch, tmp_path):
    labs, out = tmp_path / "labs", tmp_path / "run"
    write(labs, "00_lab", "1")
    made = plan(labs, out, extra={"seed": 7})
    (lab,) = made.labs
    assert made.saved(lab) is None
    out.mkdir()
    (out / "00_lab.json").write_text(json.dumps({"lab": "00_lab", "error": None, **made.key(lab)}))
    assert made.saved(lab)["lab"] == "00_lab"
    others = [dict(extra={"seed": 8}), dict(extra={"seed": 7, "device": "cpu"}), dict(extra={"seed": 7}, profile="gpu")]
    assert [plan(labs, out, **other).saved(lab) for other in others] == [None] * 3
    with monkeypatch.context() as patch:
        patch.setattr(runner, "package", lambda: "another")
        assert made.saved(lab) is None
    with monkeypatch.context() as patch:
        patch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
        evidence.append("walks.short", "class", evidence.Repeat(0, "d", {"psnr[a]": 1.0}, 1.0, 1.0))
        assert made.saved(lab) is None
    write(labs, "00_lab", "2")
    assert made.saved(catalogue.Lab(lab.path)) is None
    (out / "00_lab.json").write_bytes(b'{"lab": "0')  # of a full disk, or a kill
    assert made.saved(lab) is None


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
