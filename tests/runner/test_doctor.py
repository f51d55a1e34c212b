"""The doctor reports what is there, explains what is not, and survives whatever it looks at."""

from __future__ import annotations

import importlib.metadata
import subprocess

import pytest

from privlab.compute import machine
from privlab.data import sources
from privlab.ledger import evidence
from privlab.runner import doctor

WORKS = '{"torch": "2.15.0", "cuda": [], "mps": false, "said": []}\n{"torchvision": "0.29.2"}\n'
CARD = WORKS.replace('"cuda": []', '"cuda": [["Some Card", 24.0, [8, 6]]], "built_for": ["sm_80"]')
NMS = '{"torch": "2.13.0", "cuda": [], "mps": false, "said": []}\n'


@pytest.fixture
def torch_says(monkeypatch):
    """Stands in for the process that imports torch."""

    def say(stdout: str, stderr: str = "", status: int = 0) -> None:
        done = subprocess.CompletedProcess([], status, stdout, stderr)
        monkeypatch.setattr(doctor.subprocess, "run", lambda *args, **kwargs: done)

    say(WORKS)
    return say


def found(tmp_path, what: str) -> list[doctor.Finding]:
    return [finding for finding in doctor.examine(tmp_path) if finding.what == what]


def test_this_machine_with_its_real_torch(tmp_path):
    findings = list(doctor.examine(tmp_path))
    assert {f.what for f in findings} >= {"system", "python", "packages", "torch", "device", "data", "smoke", "gpu"}
    assert not [str(f) for f in findings if f.what == "torch" and f.state != "ok"]
    assert "fit together" in next(f.text for f in findings if f.what == "torch")


def test_a_torchvision_of_another_torch_is_explained(torch_says, tmp_path):
    torch_says(NMS, "Traceback\nRuntimeError: operator torchvision::nms does not exist\n", 1)
    (torch,) = found(tmp_path, "torch")
    assert torch.state == "broken"
    assert "was built for another torch than 2.13.0: install both again, in one command" in torch.text


def test_a_torch_that_kills_its_process_is_survived(torch_says, tmp_path):
    torch_says("", "", -11)
    (torch,) = found(tmp_path, "torch")
    assert torch.state == "broken" and torch.text == "cannot be imported: it ended with status -11"
    torch_says("", "Traceback\nImportError: libcudart.so.13: cannot open shared object file\n", 1)
    assert "libcudart.so.13" in found(tmp_path, "torch")[0].text


def test_profiles_follow_memory_gpu_and_what_the_labs_say(torch_says, tmp_path, monkeypatch):
    def states():
        return [
            next(f.state for f in doctor.examine(tmp_path) if f.what == p) for p in ("smoke", "class", "gpu", "paper")
        ]

    monkeypatch.setattr(machine, "memory", lambda: (4.0, 3.0))
    assert states() == ["ok", "note", "note", "note"]
    monkeypatch.setattr(machine, "memory", lambda: (32.0, 30.0))
    assert states() == ["ok", "ok", "note", "note"]
    torch_says(CARD)
    assert states() == ["ok", "ok", "ok", "ok"]
    (device,) = found(tmp_path, "device")
    assert "Some Card with 24 GB" in device.text
    (tmp_path / "03_large.py").write_text("# %% [markdown]\n# | smoke | 1 | 40 GB |\n")
    assert states()[0] == "broken"
    assert (
        found(tmp_path, "smoke")[0].text
        == "needs 40.0 GB of memory (lab 03 needs the most): no, this machine has 32.0 GB of memory"
    )


def test_a_card_without_kernels_is_no_gpu_and_torchs_warnings_are_passed_on(torch_says, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "memory", lambda: (32.0, 30.0))
    torch_says(CARD.replace("[8, 6]", "[6, 0]").replace('"said": []', '"said": ["The driver is\\ntoo old"]'))
    device, warning = found(tmp_path, "device")
    assert device.text == "device='auto' uses the CPU: this torch has no kernels for Some Card"
    assert (warning.state, warning.text) == ("note", "torch says: The driver is too old")
    assert found(tmp_path, "gpu")[0].text.endswith("no, there is no GPU")


def test_packages_missing_or_too_old(torch_says, tmp_path, monkeypatch):
    asked = ["numpy>=999", "no-such-package>=1", "pytest>=8; extra == 'test'", "pandas>=2"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: asked)
    texts = [f.text for f in found(tmp_path, "packages")]
    assert texts[0].startswith("numpy is ") and texts[0].endswith("; privlab needs numpy>=999")
    assert texts[1] == "no-such-package is missing; privlab needs no-such-package>=1"
    assert texts[2].endswith("1 of 3 packages have the versions that it needs")


def test_privlab_not_installed(torch_says, tmp_path, monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    (packages,) = found(tmp_path, "packages")
    assert packages.state == "broken" and "pip install -e ." in packages.text


def test_data_sets_there_and_not(torch_says, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path / "data"))
    here, missing = found(tmp_path, "data")
    assert here.text == f"in {tmp_path / 'data'}: nothing yet"
    assert missing.state == "note" and all(name in missing.text for name in sources.names())


def test_evidence_is_counted(torch_says, tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_EVIDENCE", str(tmp_path))
    (finding,) = found(tmp_path, "evidence")
    assert finding.state == "note" and "nothing is registered" in finding.text
    entry = evidence.Registration("lab.one", "class", 1, "it", 0, 3, "small networks", False, "2026-11-24")
    evidence.register([entry], tmp_path)
    for number in (0, 1, 7):  # 7 is registered by nobody
        evidence.append("lab.one", "class", evidence.Repeat(number, "it", {"psnr[a]": 1.0}, 1.0, 1.0), tmp_path)
    (finding,) = found(tmp_path, "evidence")
    assert finding.state == "ok" and finding.text.endswith("2 of 3 registered repeats")


def test_a_check_that_raises_becomes_a_finding(torch_says, tmp_path, monkeypatch):
    def fails():
        raise OSError("the disk is on fire")

    monkeypatch.setattr(machine, "memory", fails)
    findings = list(doctor.examine(tmp_path))
    assert [f.text for f in findings if f.what == "system"] == ["could not be examined: OSError: the disk is on fire"]
    assert [f.what for f in findings].count("torch") == 1  # the others went on
