"""What a process is told about its machine: a container's limits count, and the peak is the process's own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import torch

from privlab.compute import machine

PEAK = "from privlab.compute import machine\nbefore = machine.peak_gb()\n{}\nprint(before, machine.peak_gb())"


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    return tmp_path


def test_memory_without_a_container(cgroup):
    total, available = machine.memory()
    assert 0 < available <= total


@pytest.mark.parametrize("cache", [0, 300_000_000])
def test_memory_is_the_containers_limit(cgroup, cache):
    (cgroup / "memory.max").write_text("2000000000\n")
    (cgroup / "memory.current").write_text("1500000000\n")
    (cgroup / "memory.stat").write_text(f"anon 7\ninactive_file {cache}\nactive_file 9\n")
    total, available = machine.memory()
    assert total == 2.0
    assert available == pytest.approx(0.5 + cache / 1e9)


def test_memory_of_an_older_container(cgroup):
    (cgroup / "memory").mkdir()
    (cgroup / "memory/memory.limit_in_bytes").write_text("3000000000")
    (cgroup / "memory/memory.usage_in_bytes").write_text("1000000000")
    assert machine.memory()[0] == 3.0


def test_no_limit_is_no_limit(cgroup):
    free = machine.memory()[0]
    (cgroup / "memory.max").write_text("max\n")
    (cgroup / "memory.current").write_text("1500000000\n")
    assert machine.memory()[0] == free


def test_cores_follow_the_quota(cgroup):
    allowed = machine.cores()
    assert allowed >= 1
    (cgroup / "cpu.max").write_text("100000 100000")
    assert machine.cores() == 1
    (cgroup / "cpu.max").write_text("50000 100000")  # half a core is still one
    assert machine.cores() == 1
    (cgroup / "cpu.max").write_text("max 100000")
    assert machine.cores() == allowed


def in_a_process(code: str) -> list[float]:
    run = subprocess.run([sys.executable, "-c", PEAK.format(code)], capture_output=True, text=True, check=True)
    return [float(word) for word in run.stdout.split()]


def test_a_processor_is_named_by_its_kind_and_its_maker(tmp_path, monkeypatch):
    kind = torch.backends.cpu.get_cpu_capability()
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    one = "processor\t: {}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: any name\n"
    machine._CPUINFO.write_text(one.format(0) + "\n" + one.format(1).replace("143", "7"))
    assert machine.processor() == f"{kind} of GenuineIntel 6.143"
    assert machine.Machine.here().device_name == machine.processor()
    machine._CPUINFO.unlink()  # macOS and Windows have none
    assert machine.processor() == f"{kind} of {platform.processor() or platform.machine()}"


def test_peak_counts_what_was_given_back():
    before, after = in_a_process("held = bytearray(200_000_000)\nheld[::4096] = b'x' * len(held[::4096])\ndel held")
    assert after - before == pytest.approx(0.2, abs=0.02)


def test_peak_is_not_inherited_from_the_parent():
    held = bytearray(300_000_000)
    held[::4096] = b"x" * len(held[::4096])
    before, _ = in_a_process("pass")
    assert before < machine.peak_gb() - 0.3


def test_the_workers_of_a_fleet_are_counted_at_their_peak():
    code = """
import subprocess, sys
from privlab.compute import machine
before = machine.peak_gb()
hold = "held = bytearray(300_000_000); print(flush=True); input()"
worker = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
worker.stdout.readline()
machine.count_workers([worker.pid])
with_one = machine.peak_gb()
worker.communicate(b"\\n")
machine.count_workers([worker.pid])  # it is gone, and what it held is not forgotten
print(before, with_one, machine.peak_gb())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, with_one, after = map(float, done.stdout.split())
    assert 0.3 < with_one - before < 0.4
    assert after == pytest.approx(with_one, abs=0.02)


@pytest.mark.parametrize(
    ("capability", "built_for", "chosen"),
    [
        ((6, 0), ["sm_75", "sm_80"], "cpu"),  # a P100
        ((7, 5), ["sm_75", "sm_80"], "cuda"),
        ((8, 9), ["sm_75", "sm_80"], "cuda"),
        ((9, 0), ["sm_75", "sm_80"], "cpu"),
        ((12, 1), ["sm_75", "compute_90"], "cuda"),
        ((8, 0), ["sm_75", "sm_86", "compute_90"], "cpu"),
        ((9, 0), ["gfx90a"], "cuda"),
    ],
)
def test_a_card_is_chosen_where_torch_has_kernels_for_it(monkeypatch, capability, built_for, chosen):
    for name, value in dict(is_available=True, get_device_capability=capability, get_arch_list=built_for).items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    assert machine.device("auto") == chosen


def test_a_device_is_chosen_or_refused():
    assert machine.device("cpu") == "cpu" and machine.device("auto") in ("cpu", "cuda")
    with pytest.raises(ValueError, match="device='mps' has no float64"):
        machine.device("mps")
    for name in ("banana", "cpu:1", ""):
        with pytest.raises(ValueError, match=f"device={name!r} is not a device of the labs"):
            machine.device(name)
    with pytest.raises(ValueError, match="device='cuda:9999' is not on this machine"):
        machine.device("cuda:9999")
    assert machine.device("cuda:9999", here=False) == "cuda:9999"  # of a cluster's machine
