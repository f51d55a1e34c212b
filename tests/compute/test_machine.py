"""What a process is told about its machine: a container's limits count, and so does what torch has kernels for."""

import pytest
import torch

from privlab.compute import machine


def test_cores_and_memory_are_the_containers_where_it_has_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    allowed, free = machine.cores(), machine.memory()
    assert allowed >= 1 and 0 < free[1] <= free[0]
    for quota, cores in (("50000 100000", 1), ("max 100000", allowed)):  # half a core is one
        (tmp_path / "cpu.max").write_text(quota)
        assert machine.cores() == cores
    (tmp_path / "memory.current").write_text("1500000000\n")
    (tmp_path / "memory.stat").write_text("anon 7\ninactive_file 300000000\nactive_file 9\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.memory()[0] == free[0]
    (tmp_path / "memory.max").write_text("2000000000\n")
    assert machine.memory() == pytest.approx((2.0, 0.8))


def test_a_processor_is_named_by_its_kind_and_its_maker(tmp_path, monkeypatch):
    kind = torch.backends.cpu.get_cpu_capability()
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    one = "processor\t: {}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: any name\n"
    machine._CPUINFO.write_text(one.format(0) + "\n" + one.format(1).replace("143", "7"))
    assert machine.processor() == f"{kind} of GenuineIntel 6.143"


def test_a_card_is_chosen_where_torch_has_kernels_for_it(monkeypatch):
    def no_kernels(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    ones = torch.ones(1)
    for add, device in ((lambda *_, **__: ones, "cuda"), (no_kernels, "cpu")):
        monkeypatch.setattr(torch, "ones", add)
        assert machine.device("auto") == device


def test_a_device_is_chosen_or_refused():
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    assert machine.device("cpu") == "cpu" and machine.device("auto") in ("cpu", "cuda")
    assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
    with pytest.raises(ValueError, match="device='cpu:1' is not a device of the labs; try"):
        machine.device("cpu:1")
    with pytest.raises(ValueError, match="device='cuda:9999' is not on this machine"):
        machine.device("cuda:9999")
    assert machine.device("cuda:9999", here=False) == "cuda:9999"  # of a cluster's machine
