"""What this machine gives a process: cores, memory, and the most memory that the process has held so far."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_CPUINFO = Path("/proc/cpuinfo")
_DEVICE = re.compile(r"auto|cpu|(cuda)(?::([0-9]{1,4}))?")


@dataclass(frozen=True)
class Machine:
    """Where a number was measured.  cpus: those this process may use; threads: those torch uses."""

    python: str
    torch: str
    timm: str
    privlab: str
    platform: str
    cpus: int
    threads: int
    device_name: str

    @classmethod
    def here(cls, device: str = "cpu") -> Machine:
        """This machine, with the name of the device that computes."""
        import torch

        from privlab import __version__

        kind = torch.device(device).type
        name = f"{kind} of {platform.machine()}"
        if kind == "cuda":
            name = torch.cuda.get_device_name(device)
        elif kind == "cpu":
            name = processor()
        timm = importlib.metadata.version("timm")
        system = f"{platform.system()} {platform.release()}"
        python = platform.python_version()
        return cls(python, str(torch.__version__), timm, __version__, system, cores(), torch.get_num_threads(), name)


def processor() -> str:
    """The kind of processor, such as "AVX512 of AuthenticAMD 26.2". On another sums may round otherwise, and a training end elsewhere."""
    import torch

    first = _text(_CPUINFO).partition("\n\n")[0]  # of several alike
    about = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    maker = platform.processor() or platform.machine()
    if "vendor_id" in about:
        maker = f"{about['vendor_id']} {about.get('cpu family')}.{about.get('model')}"
    return f"{torch.backends.cpu.get_cpu_capability()} of {maker}"


def cores() -> int:
    """Cores that this process may use: a container or a cluster often gives fewer than the machine has."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, period = _words(_CGROUP / "cpu.max") or ("max", "")
    if quota.isdigit():
        allowed = min(allowed, max(1, int(quota) // int(period)))
    return allowed


def has_kernels(capability: tuple[int, int], built_for: Sequence[str]) -> bool:
    """Whether a torch computes on a card of this capability, such as (7, 5).

    built_for: torch.cuda.get_arch_list(). Code for sm_80 runs on 8.0 to 8.9, and compute_80 is compiled for any later card.
    """
    named = [match for match in map(re.compile(r"(sm|compute)_(\d+)(\d)").match, built_for) if match]
    built = [(match[1], (int(match[2]), int(match[3]))) for match in named]
    if not built:  # AMD's have other names
        return True
    return any(own <= capability and (kind == "compute" or own[0] == capability[0]) for kind, own in built)


def device(name: str = "auto", here: bool = True) -> str:
    """The torch device to compute on: "auto" is CUDA where there is a card that torch has kernels for, and the CPU elsewhere.

    See `exact_float32`, which it calls.

    here: whether this machine computes, and not others, whose cards it does not see.
    Raises ValueError as `checked_device` does.
    """
    import torch  # here, since who asks for cores need not wait for it

    checked_device(name, torch.cuda.device_count if here else None)
    if name == "auto":
        cuda = torch.cuda
        fits = cuda.is_available() and has_kernels(cuda.get_device_capability(), cuda.get_arch_list())
        name = "cuda" if fits else "cpu"
    exact_float32()
    return name


def checked_device(name: str, cards: Callable[[], int] | None) -> str:
    """The name of a device that the labs can compute on: auto, cpu, cuda, cuda:N.

    cards: says how many GPUs there are; asked for a GPU alone.
    Raises ValueError for another name, for a GPU that is not there, and for Apple's MPS, which has no float64, and the proofs need it.
    """
    if name.startswith("mps"):
        raise ValueError(f"device={name!r} has no float64, which the labs need; try 'cpu'")
    if not (match := _DEVICE.fullmatch(name)):
        raise ValueError(f"device={name!r} is not a device of the labs; try auto, cpu, cuda, or one of several: cuda:1")
    if match[1] and cards and int(match[2] or 0) >= (count := cards()):
        there = f"cuda:0 to cuda:{count - 1}" if count > 1 else "cuda:0 alone" if count else "no GPU"
        raise ValueError(f"device={name!r} is not on this machine, where torch sees {there}; try auto or cpu")
    return name


def exact_float32() -> None:
    """Have a GPU compute float32 as float32: left alone, cuDNN rounds what enters a convolution to TensorFloat-32's ten bits.

    A gradient is compared to better than that, and a difference of two of them magnifies it. Under autocast nothing changes.
    """
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def memory() -> tuple[float, float]:
    """(total, available) in GB, the limit of a container included (Binder gives 2 GB on a far larger machine)."""
    machine = psutil.virtual_memory()
    total, available = machine.total, machine.available
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        words = _words(_CGROUP / limit) + _words(_CGROUP / used)
        if len(words) == 2 and all(w.isdigit() for w in words) and int(words[0]) < machine.total:
            total = int(words[0])
            available = min(available, max(0, total - int(words[1]) + _file_cache()))
    return total / 1e9, available / 1e9


def _file_cache() -> int:
    """Bytes of files that the container keeps in memory and gives up when memory is asked for."""
    for stat in (_CGROUP / "memory.stat", _CGROUP / "memory/memory.stat"):
        words = _words(stat)
        if "inactive_file" in words:
            return int(words[words.index("inactive_file") + 1])
    return 0


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


_workers_gb = 0.0  # the most that the workers of a fleet have held between them


def count_workers(pids: Sequence[int]) -> None:
    """Look what these processes hold just now, for `peak_gb`; a page that they share counts once."""
    global _workers_gb
    used = 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):  # it has just ended
            used += _used(pid)
    _workers_gb = max(_workers_gb, used / 1e9)


def _used(pid: int) -> int:
    """Bytes of its own, and its part of those that it shares with the process it was forked from: libraries are in this process's count."""
    words = _words(Path(f"/proc/{pid}/smaps_rollup"))
    if "Pss_Anon:" in words:
        return int(words[words.index("Pss_Anon:") + 1]) * 1024
    return psutil.Process(pid).memory_full_info().uss


def peak_gb() -> float:
    """The most memory that this process has held, in GB, and beside it the most that the workers of its fleets have (`count_workers`).

    As the limit of a container has it, where each page counts once; and no less than that, since the two need not have come at one time.
    """
    return _own_peak_gb() + _workers_gb


def _own_peak_gb() -> float:
    """Linux: VmHWM, because ru_maxrss there is inherited."""
    words = _words(Path("/proc/self/status"))
    if "VmHWM:" in words:
        return int(words[words.index("VmHWM:") + 1]) * 1024 / 1e9
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e9
    info = psutil.Process().memory_info()
    return getattr(info, "peak_wset", info.rss) / 1e9


def children_peak_gb() -> float | None:
    """The most memory that one process started and ended by this one has held, in GB; None if unknown.

    Linux counts this process's own peak in, so it is an upper bound for a small child.
    """
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
