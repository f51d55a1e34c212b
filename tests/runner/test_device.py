"""A device is looked at before any lab starts: one line for one that is not here."""

import subprocess
from types import SimpleNamespace

import pytest
import torch

from privlab.runner import device


@pytest.mark.parametrize("name", ["auto", "cpu"])
def test_auto_and_the_cpu_need_no_look(name, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    assert device.checked(name) == name


@pytest.mark.parametrize(
    "name", ["", "tpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:١", "cuda:99999", "cpu:1", "meta", "auto "]
)
def test_a_word_that_is_no_device_is_told_with_those_that_are(name):
    with pytest.raises(
        ValueError, match=r"is not a device of the labs; try auto, cpu, cuda, or one of several: cuda:1"
    ) as caught:
        device.checked(name)
    assert str(caught.value).startswith(f"device={name!r}")


def test_a_mac_s_gpu_has_no_float64():
    with pytest.raises(ValueError, match=r"device='mps' has no float64, which the labs need; try 'cpu'"):
        device.checked("mps")


@pytest.mark.parametrize(("cards", "there"), [(0, "no GPU"), (1, "cuda:0 alone"), (4, "cuda:0 to cuda:3")])
def test_a_gpu_that_torch_does_not_see_is_told_at_once(cards, there, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stdout=f"{cards}\n"))
    with pytest.raises(
        ValueError, match=rf"device='cuda:9' is not on this machine, where torch sees {there}; try auto or cpu"
    ):
        device.checked("cuda:9")
    if cards:
        assert device.checked("cuda") == "cuda" and device.checked(f"cuda:{cards - 1}") == f"cuda:{cards - 1}"


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch sees a GPU here")
def test_what_torch_itself_sees_is_asked():
    with pytest.raises(ValueError, match="torch sees no GPU"):
        device.checked("cuda")
