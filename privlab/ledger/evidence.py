"""Evidence: what was measured of an experiment at one size, a JSON line a repeat; and what was registered before it was measured.

    book/evidence/registered.jsonl           which repeats are judged, and what they stand for
    book/evidence/night/MODULE.NAME.jsonl    a line a repeat, good or bad, in the order in which they were measured
    book/evidence/night/MODULE.NAME/         pictures that a reader should see

The file is the memory: it is committed, and whoever has it goes on from it. It is only ever appended to. What it holds beside whole lines
of the asked digest is never mixed in and always told (`Rows.aside`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from privlab.compute import atomic, places
from privlab.data.sources import nearest

__all__ = [
    "SIZES",
    "Registration",
    "Repeat",
    "Rows",
    "append",
    "checked",
    "digest",
    "folder",
    "lines",
    "read",
    "register",
    "registrations",
]

SIZES = ("smoke", "class", "night", "gpu", "paper")  # from the cheapest up
FIRST = {
    "smoke": 0,
    "class": 0,
    "night": 1_000,
    "gpu": 2_000,
    "paper": 3_000,
}  # repeats of a size begin here; none has seen another's
EXACT_PSNR = 320.0  # dB, stands for the infinite PSNR of an image without any error; float64 reaches about 310
LEVEL = 0.05  # of the first try of a claim; the k-th further try is judged at .05 / 2**k

_NAME = re.compile(r"[a-z][a-z0-9_]*\[[a-z][a-z0-9_]*(, [a-z][a-z0-9_]*)*\]")
_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)  # a corrupt line's
_EXPERIMENT = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Repeat:
    """One repeat of an experiment.

    repeat: its number; below 0 for a pilot, which is never judged.  digest: of what it depends on, see `experiments`.
    values: name -> number, names as in psnr[cifar10, swin].  seconds: CPU seconds that it took.  when: seconds since 1970, UTC.
    """

    repeat: int
    digest: str
    values: Mapping[str, float]
    seconds: float
    when: float
    device: str = "cpu"
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """What a file holds for one digest.  repeats: in the order of their numbers.  aside: what was left out and why -> how often."""

    repeats: tuple[Repeat, ...]
    aside: Mapping[str, int]

    def of(self, first: int, count: int) -> tuple[Repeat, ...]:
        """The repeats that a registration asks for, as far as they are there."""
        return tuple(r for r in self.repeats if first <= r.repeat < first + count)


def checked(size: str) -> str:
    """The size, if it is one.  Raises ValueError otherwise."""
    if size not in SIZES:
        raise ValueError(f"size={size!r}; try one of {', '.join(SIZES)}")
    return size


def profile(name: str) -> str:
    """The name of a profile, by which a lab chooses sizes, checked.  Raises ValueError with the nearest for an unknown one."""
    if name not in SIZES:
        raise ValueError(f"profile={name!r} is not a profile{nearest(name, list(SIZES))}")
    return name


def folder() -> Path:
    """The book's evidence: $PRIVLAB_EVIDENCE, that of a checkout, or that of an installed wheel."""
    if place := places.named("PRIVLAB_EVIDENCE"):
        return place
    package = Path(__file__).parents[1]
    checkout = package.parent / "book" / "evidence"
    return checkout if checkout.is_dir() else package / "evidence"


def path(experiment: str, size: str, root: Path | None = None) -> Path:
    """Where the lines of an experiment at one size lie.  Raises ValueError for a name or a size out of form."""
    if not _EXPERIMENT.fullmatch(experiment):
        raise ValueError(
            f"experiment={experiment!r} is no name; give module.function, such as gradient_inversion.architectures"
        )
    return (root or folder()) / checked(size) / f"{experiment}.jsonl"


def read(experiment: str, size: str, digest: str | None, root: Path | None = None) -> Rows:
    """The repeats that are there for this digest, or for any where it is None. Of two lines for one repeat the earlier counts."""
    found, aside = _sorted_out(path(experiment, size, root), digest)
    if again := sum(map(len, found.values())) - len(found):
        aside["second lines for a repeat"] = again
    return Rows(tuple(min(found[n], key=lambda r: r.when) for n in sorted(found)), dict(aside))


def lines(experiment: str, size: str, digest: str, root: Path | None = None) -> dict[int, list[Repeat]]:
    """Every line of this digest, by repeat: at smoke a repeat may have one for each kind of processor."""
    return _sorted_out(path(experiment, size, root), digest)[0]


def _sorted_out(file: Path, digest: str | None) -> tuple[dict[int, list[Repeat]], Counter[str]]:
    """The lines of a file for a digest, by repeat; and why others were left out -> how often."""
    found, aside = dict[int, list[Repeat]](), Counter[str]()
    for row in _rows(file, _state(file)):
        if row is None:
            aside["lines that cannot be read"] += 1
        elif digest is not None and row.digest != digest:
            aside[f"lines of another protocol ({row.digest})"] += 1
        else:
            found.setdefault(row.repeat, []).append(row)
    return found, aside


def _state(file: Path) -> tuple[int, int, int] | None:
    """What is another once a file has changed; None where there is none."""
    try:
        about = file.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


@lru_cache(maxsize=512)
def _rows(file: Path, state: tuple[int, int, int] | None) -> tuple[Repeat | None, ...]:
    """A file's lines, None for one that is no repeat: parsed once, as `measure` asks of every repeat each second whether it is there."""
    rows: list[Repeat | None] = []
    for line in filter(None, file.read_bytes().split(b"\n") if state else ()):
        try:
            rows.append(_checked(Repeat(**json.loads(line))))
        except _UNREADABLE:  # torn by a kill, merged by hand, or written by another format
            rows.append(None)
    return tuple(rows)


def make_writable(root: Path) -> None:
    """A folder of evidence that can be added to, made where it is missing.  Raises OSError, in one line, for one that cannot."""
    try:
        atomic.shared_folder(root)
        tempfile.TemporaryFile(dir=root).close()
    except OSError as error:
        raise type(error)(
            f"evidence in {root} cannot be added to ({error.strerror}); set PRIVLAB_EVIDENCE to a folder of your own"
        ) from None


def digest(of: Callable[[str], bool], root: Path | None = None) -> str:
    """SHA-256 over what is registered and measured now, of the experiments that `of` says yes to."""
    root, whole = root or folder(), hashlib.sha256()
    for file in sorted(root.glob("*/*.jsonl")):
        if of(file.stem):
            whole.update(f"{file.relative_to(root)}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    registered = root / "registered.jsonl"
    for line in registered.read_bytes().splitlines() if registered.exists() else ():
        named = re.search(rb'"experiment": "([\w.]+)"', line)
        if named is None or of(named[1].decode()):
            whole.update(line + b"\n")
    return whole.hexdigest()


def append(experiment: str, size: str, row: Repeat, root: Path | None = None) -> None:
    """Write one line, whole: under a lock, flushed to the disk, behind a line break where a kill cut the last line short.

    Raises ValueError for a value that is no number: find out why before it becomes evidence.
    """
    line = json.dumps(asdict(_checked(row)), allow_nan=False).encode() + b"\n"
    file = path(experiment, size, root)
    atomic.shared_folder(file.parent)
    with atomic.shared_lock(file.with_name(f".{file.name}.lock")), open(file, "ab+") as out:
        atomic.share(file)
        if out.tell():
            out.seek(-1, os.SEEK_END)
            if out.read(1) != b"\n":
                line = b"\n" + line
        out.write(line)  # in append mode, so at the end
        out.flush()
        os.fsync(out.fileno())


def _checked(row: Repeat) -> Repeat:
    """The row, if it is one.  Raises ValueError, TypeError."""
    if isinstance(row.repeat, bool) or not isinstance(row.repeat, int) or not isinstance(row.digest, str):
        raise ValueError(f"repeat={row.repeat!r}, digest={row.digest!r}; give a whole number and a text")
    if not row.values:
        raise ValueError(f"repeat {row.repeat} measured nothing")
    for name, value in {**row.values, "seconds[cpu]": row.seconds, "when[utc]": row.when}.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a value; write metric[key, ...] in snake case")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(
                f"{name}={value!r} of repeat {row.repeat} is no number; find out why before it becomes evidence"
            )
    return row


# -- registered before it was measured ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Registration:
    """Which repeats of an experiment are judged at a size: exactly these, when all are there.

    protocol, digest: of the experiment when it was registered.  first, repeats: the range, which is never shortened or moved.
    stands_for: what a reader must know to place the numbers.  own: whether it is the paper's own setting.
    attempt: 0 for the first try; a further one starts behind the last repeat that was measured, and is judged at 0.05 / 2**attempt.
    when: the day, ISO 8601.
    """

    experiment: str
    size: str
    protocol: int
    digest: str
    first: int
    repeats: int
    stands_for: str
    own: bool
    when: str
    attempt: int = 0

    @property
    def level(self) -> float:
        return LEVEL / 2**self.attempt

    def __post_init__(self) -> None:
        path(self.experiment, self.size)
        low = FIRST[self.size]
        high = min((n for n in FIRST.values() if n > low), default=low + 1_000) if low else FIRST["night"]
        if not (low <= self.first and self.repeats >= 1 and self.first + self.repeats <= high):
            raise ValueError(
                f"{self.experiment} at {self.size}: repeats {self.first} to {self.first + self.repeats - 1} leave the range of this "
                f"size, which is {low} to {high - 1}"
            )


def registrations(root: Path | None = None) -> tuple[Registration, ...]:
    """All that was registered, in its order.  Raises ValueError, with the file and the entry, for what is no registration."""
    file = (root or folder()) / "registered.jsonl"
    try:
        lines = file.read_text().splitlines() if file.exists() else []
        return tuple(Registration(**json.loads(line)) for line in dict.fromkeys(lines) if line)
    except _UNREADABLE as error:
        raise ValueError(f"{file} cannot be read ({error}); take it from the last commit that has it whole") from None


def register(entries: Iterable[Registration], root: Path | None = None) -> tuple[Registration, ...]:
    """Add registrations; what is registered already stays as it is. Returns those that are new.

    A further try, `attempt` being counted here, has to start behind every repeat that is registered or measured for this size.
    Raises ValueError for a range that another one of this experiment and size touches.
    """
    root = root or folder()
    file = root / "registered.jsonl"
    atomic.shared_folder(root)
    with atomic.shared_lock(root / ".registered.jsonl.lock"):
        kept, new = list(registrations(root)), []
        for entry in entries:
            earlier = [r for r in kept if (r.experiment, r.size) == (entry.experiment, entry.size)]
            if any((r.digest, r.first, r.repeats) == (entry.digest, entry.first, entry.repeats) for r in earlier):
                continue
            measured = [row.repeat for row in read(entry.experiment, entry.size, None, root).repeats] if earlier else []
            taken = max([*measured, *(r.first + r.repeats - 1 for r in earlier)], default=-1)
            if entry.first <= taken:
                raise ValueError(
                    f"{entry.experiment} at {entry.size}: first={entry.first} begins among repeats that are registered or measured; "
                    f"a further try begins at {taken + 1} or behind it: Size(..., first={taken + 1})"
                )
            new.append(Registration(**{**asdict(entry), "attempt": len(earlier)}))
            kept.append(new[-1])
        if new:
            text = "".join(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in kept)
            atomic.write_atomic(file, text.encode())
    return tuple(new)
