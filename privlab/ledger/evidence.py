"""Evidence: what was measured of an experiment at one size, a JSON line a repeat; and what was registered before it was measured.

    book/evidence/registered.jsonl           which repeats are judged, and what they stand for
    book/evidence/night/MODULE.NAME.jsonl    a line a repeat, good or bad, in the order in which they were measured
    book/evidence/night/MODULE.NAME/         pictures that a reader should see

The file is the memory: it is committed, and whoever has it goes on from it. It is only ever appended to.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from privlab.compute import atomic
from privlab.data.sources import nearest
from privlab.ledger.comparison import NAME
from privlab.ledger.figures import EXACT_PSNR

__all__ = ["EXACT_PSNR", "FIRST", "LEVEL", "SIZES", "Registration", "Repeat", "append", "lines", "read", "register"]

SIZES = ("smoke", "class", "night", "gpu", "paper")  # from the cheapest up
# repeats of a size begin here; none has seen another's
FIRST = {"smoke": 0, "class": 0, "night": 1_000, "gpu": 2_000, "paper": 3_000}
LEVEL = 0.05  # of the first try of a claim; the k-th further try is judged at .05 / 2**k
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


def checked(size: str, argument: str = "size") -> str:
    """The name of a size, if it is one.  argument: what it was given as.  Raises ValueError with the nearest otherwise."""
    if size not in SIZES:
        raise ValueError(f"{argument}={size!r} is not a {argument}{nearest(size, list(SIZES))}")
    return size


def folder() -> Path:
    """The book's evidence: $PRIVLAB_EVIDENCE, that of a checkout, or that of an installed wheel."""
    if place := os.environ.get("PRIVLAB_EVIDENCE"):
        return Path(place).expanduser()
    package = Path(__file__).parents[1]
    checkout = package.parent / "book" / "evidence"
    return checkout if checkout.is_dir() else package / "evidence"


def path(experiment: str, size: str, root: Path | None = None) -> Path:
    """Where the lines of an experiment at one size lie.  Raises ValueError for a name or a size out of form."""
    if not _EXPERIMENT.fullmatch(experiment):
        example = "module.function, such as gradient_inversion.architectures"
        raise ValueError(f"experiment={experiment!r} is no name; give {example}")
    return (root or folder()) / checked(size) / f"{experiment}.jsonl"


def read(
    experiment: str, size: str, digest: str | None = None, root: Path | None = None, within: range | None = None
) -> tuple[Repeat, ...]:
    """The repeats that are there, in the order of their numbers. Of two lines for one repeat the earlier counts.

    digest: of what they depend on; any if not given.  within: their numbers; any if not given.
    """
    found = lines(experiment, size, digest, root)
    asked = sorted(n for n in found if within is None or n in within)
    return tuple(min(found[n], key=lambda row: row.when) for n in asked)


def lines(experiment: str, size: str, digest: str | None = None, root: Path | None = None) -> dict[int, list[Repeat]]:
    """Every line of this digest, by repeat: at smoke a repeat may have one for each kind of processor."""
    file, found = path(experiment, size, root), dict[int, list[Repeat]]()
    about = file.stat() if file.exists() else None
    for row in _rows(file, about.st_size, about.st_mtime_ns) if about else ():
        if digest in (None, row.digest):
            found.setdefault(row.repeat, []).append(row)
    return found


@lru_cache(maxsize=512)
def _rows(file: Path, size: int, changed: int) -> tuple[Repeat, ...]:
    """A file's lines: parsed once, as `measure` asks of every repeat each second whether it is there.

    What is no repeat is left out: a line torn by a kill, merged by hand, or written in another format. Its repeat is measured again.
    """
    rows = []
    for line in filter(None, file.read_bytes().split(b"\n")):
        with contextlib.suppress(*_UNREADABLE):
            rows.append(_checked(Repeat(**json.loads(line))))
    return tuple(rows)


def make_writable(root: Path) -> None:
    """A folder of evidence that can be added to, made where it is missing.  Raises OSError, in one line, for one that cannot."""
    try:
        atomic.shared_folder(root)
        tempfile.TemporaryFile(dir=root).close()
    except OSError as error:
        cure = "set PRIVLAB_EVIDENCE to a folder of your own"
        raise type(error)(f"evidence in {root} cannot be added to ({error.strerror}); {cure}") from None


def append(experiment: str, size: str, row: Repeat, root: Path | None = None) -> None:
    """Write one line, whole: under a lock, flushed to the disk, behind a line break where a kill cut the last line short.

    Raises ValueError for a value that is no number: find out why before it becomes evidence.
    """
    line = json.dumps(asdict(_checked(row)), allow_nan=False).encode() + b"\n"
    file = path(experiment, size, root)
    atomic.shared_folder(file.parent)
    with FileLock(file.with_name(f".{file.name}.lock"), mode=0o666), open(file, "ab+") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            line = line if out.read(1) == b"\n" else b"\n" + line
        out.write(line)  # in append mode, so at the end
        out.flush()
        os.fsync(out.fileno())


def _checked(row: Repeat) -> Repeat:
    """The row, if it is one.  Raises ValueError, TypeError."""
    if type(row.repeat) is not int or not isinstance(row.digest, str) or not row.values:
        raise ValueError(f"repeat={row.repeat!r}, digest={row.digest!r}, {len(row.values)} values: no repeat")
    for name, value in {**row.values, "seconds[cpu]": row.seconds, "when[utc]": row.when}.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a value; write metric[key, ...] in snake case")
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(
                f"{name}={value!r} of repeat {row.repeat} is no number; find out why before it is evidence"
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
    def range(self) -> range:
        return range(self.first, self.first + self.repeats)

    @property
    def level(self) -> float:
        return LEVEL / 2**self.attempt

    def __post_init__(self) -> None:
        path(self.experiment, self.size)
        low = FIRST[self.size]
        high = FIRST["night"] if low == 0 else low + 1_000
        if not low <= self.first < self.range.stop <= high:
            raise ValueError(
                f"{self.experiment} at {self.size}: repeats {self.first} to {self.range.stop - 1} leave the range of this "
                f"size, which is {low} to {high - 1}"
            )


def registrations(root: Path | None = None) -> tuple[Registration, ...]:
    """All that was registered, in its order.  Raises ValueError, with the file and the entry, for what is no registration."""
    file = (root or folder()) / "registered.jsonl"
    try:
        texts = file.read_text().splitlines() if file.exists() else []
        return tuple(Registration(**json.loads(text)) for text in dict.fromkeys(texts) if text)
    except _UNREADABLE as error:
        raise ValueError(f"{file} cannot be read ({error}); take it from the last commit that has it whole") from None


def register(entries: Iterable[Registration], root: Path | None = None) -> tuple[Registration, ...]:
    """Add registrations; what is registered already stays as it is. Returns those that are new.

    A further try, `attempt` being counted here, has to start behind every repeat that is registered or measured for this size.
    Raises ValueError for a range that another one of this experiment and size touches.
    """
    root = root or folder()
    atomic.shared_folder(root)
    with FileLock(root / ".registered.jsonl.lock", mode=0o666):
        kept, new = list(registrations(root)), []
        for entry in entries:
            earlier = [r for r in kept if (r.experiment, r.size) == (entry.experiment, entry.size)]
            if any((r.digest, r.first, r.repeats) == (entry.digest, entry.first, entry.repeats) for r in earlier):
                continue
            measured = lines(entry.experiment, entry.size, root=root) if earlier else ()
            taken = max([*measured, *(r.range[-1] for r in earlier)], default=-1)
            if entry.first <= taken:
                raise ValueError(
                    f"{entry.experiment} at {entry.size}: first={entry.first} begins among repeats that are registered or measured; "
                    f"a further try begins at {taken + 1} or behind it: Size(..., first={taken + 1})"
                )
            new.append(replace(entry, attempt=len(earlier)))
            kept.append(new[-1])
        if new:
            text = "".join(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in kept)
            atomic.write_atomic(root / "registered.jsonl", text.encode())
    return tuple(new)
