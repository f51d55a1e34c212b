"""The doctor reports what is there, explains what is not, and survives whatever it looks at."""

from importlib import metadata
from types import SimpleNamespace

import torch

from privlab.compute import machine
from privlab.data import sources
from privlab.runner import doctor


def found(tmp_path, what: str) -> list[doctor.Finding]:
    return [finding for finding in doctor.examine(tmp_path) if finding.what == what]


def test_this_machine_with_its_real_torch(tmp_path):
    findings = list(doctor.examine(tmp_path))
    assert {f.what for f in findings} >= {"system", "packages", "torch", "device", "data", "smoke", "gpu"}
    assert [f.state for f in findings if f.what in ("system", "packages", "torch")] == ["ok"] * 3
    assert not [f.text for f in findings if "Error" in f.text]


def test_what_cannot_be_imported_is_told_with_a_cure_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torchvision", None)
    (finding,) = found(tmp_path, "torch")
    assert finding.state == "BROKEN" and "install torch and torchvision together" in finding.text
    assert found(tmp_path, "data")


def test_profiles_follow_memory_gpu_and_what_the_labs_say(tmp_path, monkeypatch):
    def states():
        findings = {finding.what: finding.state for finding in doctor.examine(tmp_path)}
        return [findings[profile] for profile in ("smoke", "class", "gpu", "paper")]

    monkeypatch.setattr(machine, "memory", lambda: (4.0, 3.0))
    assert states() == ["ok", "note", "note", "note"]
    monkeypatch.setattr(machine, "memory", lambda: (32.0, 30.0))
    monkeypatch.setattr(machine, "device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    card = SimpleNamespace(name="Some Card", total_memory=24e9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: card)
    assert states() == ["ok", "ok", "ok", "ok"] and "Some Card with 24 GB" in found(tmp_path, "device")[0].text
    (tmp_path / "03_large.py").write_text("# %% [markdown]\n# | smoke | 1 | 40 GB |\n")
    (smoke,) = found(tmp_path, "smoke")
    assert str(smoke) == "BROKEN  smoke     needs 40.0 GB of memory: no, it has 32.0 and 24 GB"


def test_packages_missing_or_too_old(tmp_path, monkeypatch):
    asked = ["numpy>=999", "no-such-package>=1", "pytest>=8; extra == 'test'", "pandas>=2"]
    monkeypatch.setattr(metadata, "requires", lambda name: asked)
    old, missing = found(tmp_path, "packages")
    assert old.text.startswith("numpy is ") and old.text.endswith("; privlab needs numpy>=999")
    assert str(missing) == "BROKEN  packages  no-such-package is missing; privlab needs no-such-package>=1"


def test_data_sets_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path / "data"))
    here, missing = found(tmp_path, "data")
    assert here.text == f"in {tmp_path / 'data'}: nothing yet"
    assert missing.state == "note" and all(name in missing.text for name in sources.names())
