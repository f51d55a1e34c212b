"""The doctor reports what is there, explains what is not, and survives whatever it looks at."""

import sys
from importlib import metadata
from types import SimpleNamespace

import torch

from privlab.__main__ import main
from privlab.compute import machine
from privlab.data import sources
from privlab.runner import doctor


def found(wanted):
    return [(state, text) for state, what, text in doctor.examine() if what == wanted]


def test_this_machine_with_its_real_torch_and_no_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PRIVLAB_DATA", str(tmp_path / "data"))
    assert main(["doctor"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*["ok"] * 5, "note"]
    states, kinds, texts = zip(*doctor.examine(), strict=True)
    assert kinds == ("system", "packages", "torch", "device", "data", "data") and states == (*["ok"] * 5, "note")
    assert texts[4] == f"in {tmp_path / 'data'}: nothing yet" and all(name in texts[5] for name in sources.names())


def test_what_cannot_be_imported_is_told_with_a_cure_and_the_others_go_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    ((state, text),) = found("torch")
    assert state == "BROKEN" and "install torch and torchvision together" in text and found("data")


def test_a_card_is_named_and_what_is_too_small_too_old_or_missing_is_broken(monkeypatch):
    monkeypatch.setattr(machine, "device", lambda: "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    about = SimpleNamespace(name="Some Card", total_memory=24e9)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda card: about)
    assert "Some Card with 24 GB" in found("device")[0][1]
    monkeypatch.setattr(machine, "memory", lambda: (1.0, 0.5))
    assert found("system")[-1] == ("BROKEN", "labs need 2 GB of memory, even at smoke")
    asked = ["numpy>=999", "no-such-package>=1", "pytest>=8; extra == 'test'", "pandas>=2"]
    monkeypatch.setattr(metadata, "requires", lambda name: asked)
    (_, old), missing = found("packages")
    assert old.startswith("numpy is ") and old.endswith("; privlab needs numpy>=999")
    assert missing == ("BROKEN", "no-such-package is missing; privlab needs no-such-package>=1")
