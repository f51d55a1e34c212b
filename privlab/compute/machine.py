"""What this machine gives a process: cores, memory, a device."""

import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

import psutil

_CGROUP, _CPUINFO = Path("/sys/fs/cgroup"), Path("/proc/cpuinfo")
# looks of a waiting thread before it sleeps, half a millisecond: libgomp's own 300,000 make a crowd slow, and 1,000 a quiet machine
SPINS = "20000"


def settle_threads() -> None:
    """Set OMP_NUM_THREADS and GOMP_SPINCOUNT of this process, before it imports torch; what a user has set stays.

    As many threads as cores that nobody uses just now: they wait by spinning, and two of which one has no core take far longer than one.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    if "OMP_NUM_THREADS" not in os.environ:
        idle = (psutil.cpu_count() or 1) * (1 - psutil.cpu_percent(interval=0.1) / 100)
        os.environ["OMP_NUM_THREADS"] = str(max(1, min(cores(), round(idle))))


def processor() -> str:
    """The kind of processor, such as "AVX512 of AuthenticAMD 26.2". On another sums may round otherwise, and a training end elsewhere."""
    import torch  # here and below, since who asks for cores need not wait for it

    found = re.search(r"vendor_id\t: (.*)\ncpu family\t: (.*)\nmodel\t\t: (.*)", _text(_CPUINFO))  # of several alike
    maker = "{} {}.{}".format(*found.groups()) if found else platform.processor() or platform.machine()
    return f"{torch.backends.cpu.get_cpu_capability()} of {maker}"


def cores() -> int:
    """Cores that this process may use: a container or a cluster often gives fewer than the machine has."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = re.match(r"(\d+) (\d+)", _text(_CGROUP / "cpu.max"))
    return min(allowed, max(1, int(limit[1]) // int(limit[2]))) if limit else allowed


def memory() -> tuple[float, float]:
    """(total, available) in GB, the limit of a container included (Binder gives 2 GB on a far larger machine)."""
    machine = psutil.virtual_memory()
    limit = _text(_CGROUP / "memory.max").strip()
    if not limit.isdigit() or int(limit) >= machine.total:
        return machine.total / 1e9, machine.available / 1e9
    files = re.search(r"inactive_file (\d+)", _text(_CGROUP / "memory.stat"))  # given up when memory is asked for
    free = int(limit) - int(_text(_CGROUP / "memory.current")) + int(files[1] if files else 0)
    return int(limit) / 1e9, min(machine.available, max(0, free)) / 1e9


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def peak_gb() -> float:
    """The most memory that this process has held, in GB; on Linux no less than the one that started it held then."""
    import resource  # of Unix

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


def device(name: str = "auto") -> str:
    """The torch device to compute on: "auto" is CUDA where torch has kernels for the card, else the CPU.  Errors: see `check_device`.

    From here on a GPU computes float32 as float32: left alone, cuDNN rounds what enters a convolution to TensorFloat-32's ten bits. A
    gradient is compared to better than that, and a difference of two of them magnifies it. Under autocast nothing changes.
    """
    import torch

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    check_device(name)
    if name != "auto":
        return name
    with suppress(RuntimeError):  # torch finds cards, too, that it was not built for
        return "cuda" if torch.cuda.is_available() and torch.ones(1, device="cuda") + 1 == 2 else "cpu"
    return "cpu"


def check_device(name: str, here: bool = True) -> None:
    """Raise ValueError for a name that is not auto, cpu, cuda or cuda:N (Apple's mps has no float64), or, if it computes `here`, no GPU."""
    if not (match := re.fullmatch(r"auto|cpu|cuda(?::([0-9]{1,4}))?", name)):
        raise ValueError(f"device={name!r} is not a device of the labs; try auto, cpu, cuda, or one of several: cuda:1")
    if here and name.startswith("cuda"):
        import torch

        if int(match[1] or 0) >= (count := torch.cuda.device_count()):
            raise ValueError(f"device={name!r} is not on this machine, where torch sees {count} GPUs; try auto or cpu")
