"""What a process is told about its machine: a container's limits count, what torch has kernels for, and a user's own threads."""

import os
import subprocess
import sys
from unittest.mock import Mock

import psutil
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
    for limit, total in (("max\n", free[0]), ("2000000000\n", 2.0)):
        (tmp_path / "memory.max").write_text(limit)
        assert machine.memory()[0] == total
    assert machine.memory()[1] == pytest.approx(0.8)


def test_a_processor_is_named_by_its_kind_and_its_maker(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    one = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: any name\n"
    machine._CPUINFO.write_text(one + "\n" + one.replace("143", "7"))
    assert machine.processor() == f"{torch.backends.cpu.get_cpu_capability()} of GenuineIntel 6.143"


def test_a_device_is_chosen_or_refused(monkeypatch):
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    assert machine.device("cpu") == "cpu"
    assert not torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
    for name, why in (("cpu:1", "is not a device of the labs; try"), ("cuda:9999", "is not on this machine")):
        with pytest.raises(ValueError, match=f"device='{name}' {why}"):
            machine.device(name)
    machine.check_device("cuda:9999", here=False)  # of a cluster's machine
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    ones, no_kernels = torch.ones(1), Mock(side_effect=RuntimeError("CUDA error: no kernel image is available"))
    for make, device in ((lambda *_, **__: ones, "cuda"), (no_kernels, "cpu")):
        monkeypatch.setattr(torch, "ones", make)
        assert machine.device("auto") == device


def test_libgomp_hears_how_long_a_thread_waits():
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    ask = "import privlab, torch, os; print(os.environ['OMP_NUM_THREADS'], torch.get_num_threads())"
    environment = inherited | {"OMP_DISPLAY_ENV": "verbose"}  # libgomp then says what it has
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    asked, has = map(int, done.stdout.split())
    assert f"GOMP_SPINCOUNT = '{machine.SPINS}'" in done.stderr and 1 <= asked == has <= machine.cores()


def test_as_many_threads_as_cores_that_nobody_uses_and_a_users_own_setting_wins(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(machine, "cores", lambda: 8)
    for mine, busy, threads in (("", 0, "4"), ("", 60, "2"), ("", 100, "1"), ("3", 100, "3")):
        monkeypatch.setattr(psutil, "cpu_percent", lambda interval, busy=busy: busy)
        monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": mine, "GOMP_SPINCOUNT": "77"} if mine else {})
        machine.settle_threads()
        assert os.environ == {"OMP_NUM_THREADS": threads, "GOMP_SPINCOUNT": "77" if mine else machine.SPINS}
