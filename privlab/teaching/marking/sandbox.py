"""Shut the process that runs somebody else's answer in: it may compute, and nothing else. Linux; other systems have less, see `close_in`.

The threat model. The attacker is whoever wrote a notebook. They choose every byte of it, know this code, and run any Python and any machine
code (ctypes) in the answer's process. They want marks for what is not right, other students' answers or marks, the teacher's files, the
network, or that nobody is marked at all. What stands between, each without any privilege and for good:

- another process (`grader`): the checks, the expected values and the verdict's pipe are not in the answer's, and never were;
- a process for each answer, forked from one that never reads a line of a notebook, and killed with its group: nothing is left for the next;
- limits of the kernel: memory and processor time, no core dump, and no byte into any file (a pipe is none);
- seccomp: a list of the system calls that computing takes. Left out are all that start a process or a thread, send a signal, open a
  socket, or write, make, rename, cut, or remove a file, look into another process, or change limits, groups and mounts. They fail with
  PermissionError;
- Landlock: of all files it can read those of Python, the system's libraries and this package, so neither other notebooks nor your papers;
  of /etc and /proc a handful that Python asks for.
  Also without seccomp it can signal nothing outside, and reach no TCP port or abstract socket, where Landlock is new enough (6.12);
- its environment: the few variables of `environment`, in a process that was started with no others, so no copy of yours is in its memory;
- no capability of root's, none that it could regain, and no other process of its user may look into it.

What is not held: it can read the clock and the computer's name, ask whether a file or process of a given name exists and how large it is,
use up what its limits leave it, and read this package, but for the checks. A kernel without seccomp or Landlock holds less:
`close_in` says what, and `mark` prints it and writes it beside each mark, as it does for marks made as root. Nor is it known to hold
against a fault of the kernel's own: who marks the work of enemies takes a virtual machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import os
import platform
import resource
import signal
import site
import struct
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import privlab

# The system calls of a process that computes: its number on x86-64, and on 64-bit ARM (None: it has none).
# fmt: off
CALLS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "lseek": (8, 62), "pread64": (17, 67), "readv": (19, 65), "writev": (20, 66),
    "stat": (4, None), "fstat": (5, 80), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43),
    "fstatfs": (138, 44), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "pipe": (22, None), "pipe2": (293, 59), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "memfd_create": (319, 279), "close_range": (436, 436), "mmap": (9, 222), "mprotect": (10, 226),
    "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216), "msync": (26, 227), "mincore": (27, 232), "madvise": (28, 233),
    "mbind": (237, 235), "get_mempolicy": (239, 236), "set_mempolicy": (238, 237), "membarrier": (324, 283), "futex": (202, 98),
    "set_robust_list": (273, 99), "rseq": (334, 293), "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getcpu": (309, 168),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "rt_sigpending": (127, 136),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "setitimer": (38, 103), "getitimer": (36, 102), "alarm": (37, None), "pause": (34, None), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "uname": (63, 160),
    "sysinfo": (99, 179), "getrusage": (98, 165), "getrlimit": (97, 163), "getrandom": (318, 278), "arch_prctl": (158, None),
    "exit": (60, 93), "exit_group": (231, 94),
}
# fmt: on
OPEN, OPENAT, FCNTL, IOCTL = (2, None), (257, 56), (72, 25), (16, 29)  # these only with some of their arguments
TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HARMLESS = (
    0,
    1,
    2,
    3,
    4,
    1030,
)  # of fcntl: copies of descriptors, and their flags; not: whom a descriptor sends a signal to
ASKING = (
    0x5401,
    0x5413,
    0x541B,
    0x5450,
    0x5451,
)  # of ioctl: whether it is a terminal, its size, what waits; (not) to close it
ARCHITECTURES = {
    "x86_64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
}  # the column above, and what the kernel calls it
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x80000000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # of the kernel's filter language (BPF)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = (
    1,
    4,
    22,
    24,
    38,
    47,
)
_CAPABILITIES = 0x20080522  # the version of their format
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # Landlock's version: how many rights on files it knows
_TCP, _OUTSIDE = 0b11, 0b11  # bind and connect; abstract Unix sockets and signals
_NEEDED = {"PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT"}
_NEEDED |= {
    f"LC_{kind}" for kind in ["ALL", "COLLATE", "CTYPE", "MESSAGES", "MONETARY", "NUMERIC", "TIME"]
}  # others carry secrets
CHECKS = Path("privlab", "notebook", "exercises")  # what holds the right answers
_OF_PROC = ("cpuinfo", "meminfo", "stat", "filesystems", "sys/vm/overcommit_memory")
_OF_ETC = ("ld.so.cache", "localtime", "nsswitch.conf", "mime.types", "fonts")
_OF_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/share", "/lib", "/lib64", "/sys/devices/system", "/dev/null",
              "/dev/urandom", "/nix/store")  # fmt: skip


def environment(home: str, inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a process needs in which answers will run, and no others: yours hold tokens.

    home: an empty folder.  inherited: where paths of libraries, the language and the time zone are taken from.
    """
    needed = {k: v for k, v in inherited.items() if k in _NEEDED}
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}  # what has threads cannot be forked
    own = {
        "HOME": home,
        "TMPDIR": home,
        "USER": "answer",
        "PYTHONUSERBASE": site.getuserbase(),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",  # a reason that prints a set prints it in the same order each time
    }
    return needed | threads | own


def close_in(seconds: float, memory: float) -> list[str]:
    """Shut this process in, for good, with whatever the system has for it.

    seconds: of processor time.  memory: GB beyond what it takes now.
    Returns what could not be held, in words: nothing, on a Linux of 2021 (5.13) or later.
    """
    die_with_parent()
    limit(seconds, memory)
    _forget_environment()
    unheld = []
    readable = _readable()
    if not _without_capabilities():
        unheld.append("use the rights of root")
    if not _landlock(readable):
        unheld.append("read other files, such as other notebooks")
    if not _seccomp():
        unheld += ["change or remove files", "start processes", "send signals", "use the network"]
        if os.getuid():
            _lower(resource.RLIMIT_NPROC, 0)
    return unheld


def warning(unheld: list[str], root: bool) -> str:
    """What a teacher has to know before they trust an answer to stay in; "" where nothing is amiss.

    unheld: of `close_in`.  root: whether answers run as its user.
    """
    parts = []
    if unheld:
        parts.append(
            f"this system cannot keep an answer from these: {', '.join(unheld)}; mark in a virtual machine, or on Linux 5.13 or later"
        )
    if root:
        parts.append(
            "marked as root: an answer has none of its capabilities, but runs as its user, whose files the sandbox alone keeps from it; "
            "mark as a user who owns nothing of worth"
        )
    return "; ".join(parts)


def _forget_environment() -> None:
    """Leave in the environment what `environment` lets in, and overwrite the block that the kernel filled, which /proc shows."""
    mine = environment(os.environ.get("HOME", os.sep))
    os.environ.clear()
    with contextlib.suppress(OSError, ValueError, IndexError):  # no /proc: not Linux
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[47]), int(fields[48])  # env_start and env_end of proc(5), 50 and 51 there
        if 0 < start < end:
            ctypes.memset(start, 0, end - start)
    os.environ.update(mine)
    tempfile.tempdir = mine["TMPDIR"]  # torch asks for the name of a folder that could be written


def _without_capabilities() -> bool:
    """Give up what root may do, so that it cannot come back; whether that is so. True for a user who has none."""
    if sys.platform != "linux":
        return os.getuid() != 0
    libc = _libc()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # nobody may trace it, or read its memory
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)  # clear all
    header = struct.pack("=Ii", _CAPABILITIES, 0)
    return libc.capset(header, bytes(24)) == 0  # none effective, permitted or inheritable


def die_with_parent() -> None:
    """Have the kernel end this process when the one that forked it ends (Linux)."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def limit(seconds: float, memory: float) -> None:
    """The limits of the kernel: processor time in seconds, and memory in GB beyond what this process takes now."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, 64)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 1))  # SIGXCPU, then SIGKILL
    with contextlib.suppress(OSError):  # no /proc: not Linux
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + int(memory * 1e9))


def _lower(what: int, to: int) -> None:
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (to, to))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _readable() -> dict[Path, int]:
    """What an answer may read, and how: Python and its packages, the system's libraries, and this package without its checks."""
    prefixes = {Path(p) / lib for p in (sys.prefix, sys.base_prefix) for lib in ("lib", "lib64")}
    packages = {Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages")}
    system = {Path(p) for p in _OF_SYSTEM} | {Path("/proc", p) for p in _OF_PROC} | {Path("/etc", p) for p in _OF_ETC}
    own = Path(privlab.__file__).parent
    shut = {(parent / CHECKS).resolve() for parent in (*packages, own.parent)}
    rights: dict[Path, int] = {}
    for path in prefixes | packages | system | {own}:
        rights |= _but(path.resolve(), shut) if path.exists() else {}
    return rights


def _but(path: Path, shut: set[Path]) -> dict[Path, int]:
    """The rights to read a path, without some folders below it, whose names alone it may read: Landlock only adds to what is above."""
    if path in shut:
        return {}
    if not any(folder.is_relative_to(path) and folder.exists() for folder in shut):
        return {path: _READ_FILE | (_READ_DIR if path.is_dir() else 0)}
    inside = [_but(child, shut) for child in path.iterdir() if not child.is_symlink()]
    return {path: _READ_DIR} | {path: right for each in inside for path, right in each.items()}


def _landlock(readable: dict[Path, int]) -> bool:
    """Nothing can be done with any file but to read these, and what is below them; whether the kernel has that."""
    if sys.platform != "linux":
        return False
    libc = _libc()
    version = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    if version < 1:
        return False
    files = (1 << _RIGHTS.get(version, 16)) - 1
    rules = struct.pack("QQQ", files, _TCP if version >= 4 else 0, _OUTSIDE if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = libc.syscall(_LANDLOCK_CREATE, rules, ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    for path, allowed in readable.items():
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", allowed, at), 0)
        os.close(at)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    restricted = libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    os.close(ruleset)
    return restricted


def _seccomp() -> bool:
    """Only the calls above, and files only to read; whether the kernel has that for this processor."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        return False
    program = b"".join(struct.pack("HBBI", *line) for line in _filter(*ARCHITECTURES[platform.machine()]))
    buffer = ctypes.create_string_buffer(program, len(program))
    libc = _libc()
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    return libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0) == 0


def _filter(column: int, architecture: int) -> list[tuple[int, int, int, int]]:
    """The program that the kernel runs before each call: (what, lines to skip if so, if not, number)."""
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    for numbers in CALLS.values():
        if (number := numbers[column]) is not None:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for numbers, argument in ((OPEN, 1), (OPENAT, 2)):
        if (number := numbers[column]) is not None:
            lines += [(_EQUAL, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * argument), (_ANY_BIT, 0, 1, TO_WRITE)]
            lines += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    for numbers, commands in ((FCNTL, HARMLESS), (IOCTL, ASKING)):
        each = [line for c in commands for line in ((_EQUAL, 0, 1, c), (_RETURN, 0, 0, _ALLOW))]
        lines += [
            (_EQUAL, 0, 2 + len(each), numbers[column] or 0),
            (_LOAD, 0, 0, 16 + 8),
            *each,
            (_RETURN, 0, 0, _REFUSE),
        ]
    return [*lines, (_RETURN, 0, 0, _REFUSE)]
