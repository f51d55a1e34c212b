"""The doctor reports what is there, explains what is not, and survives whatever it looks at."""

from importlib import metadata
from types import SimpleNamespace

import torch

from privlab.compute import machine
from privlab.data import sources
from privlab.runner import doctor


def found(what: str) -> list[doctor.Finding]:
    return [finding for finding in doctor.examine() if finding.what == what]


def test_this_machine_with_its_real_torch():
    findings = list(doctor.examine())
    assert {f.what for f in findings} >= {"system", "packages", "torch", "device", "data"}
    assert [f.state for f in findings if f.what in ("system", "packages", "torch")] == ["ok"] * 3
    assert not [f.text for f in findings if "Error" in f.text]


def test_what_cannot_be_imported_is_told_with_a_cure_and_the_others_go_on(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torchvision", None)
    (finding,) = found("torch")
    assert finding.state == "BROKEN" and "install torch and torchvision together" in finding.text
    assert found("data")


def test_a_card_is_named_with_its_memory(monkeypatch):
    monkeypatch.setattr(machine, "device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    card = SimpleNamespace(name="Some Card", total_memory=24e9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda n: card)
    assert "Some Card with 24 GB" in found("device")[0].text


def test_a_machine_too_small_for_any_lab_is_broken(monkeypatch):
    monkeypatch.setattr(machine, "memory", lambda: (2.0, 1.5))  # Binder
    assert [finding.state for finding in found("system")] == ["ok"]
    monkeypatch.setattr(machine, "memory", lambda: (1.0, 0.5))
    assert str(found("system")[-1]) == "BROKEN  system    labs need 2 GB of memory, even at smoke"


def test_packages_missing_or_too_old(monkeypatch):
    asked = ["numpy>=999", "no-such-package>=1", "pytest>=8; extra == 'test'", "pandas>=2"]
    monkeypatch.setattr(metadata, "requires", lambda name: asked)
    old, missing = found("packages")
    assert old.text.startswith("numpy is ") and old.text.endswith("; privlab needs numpy>=999")
    assert str(missing) == "BROKEN  packages  no-such-package is missing; privlab needs no-such-package>=1"


def test_data_sets_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path / "data"))
    here, missing = found("data")
    assert here.text == f"in {tmp_path / 'data'}: nothing yet"
    assert missing.state == "note" and all(name in missing.text for name in sources.names())
