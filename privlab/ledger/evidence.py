"""Evidence: what was measured of an experiment at one size, a JSON line a repeat; and what was registered before it was measured.

    book/evidence/registered.jsonl           which repeats are judged, and what they stand for
    book/evidence/night/MODULE.NAME.jsonl    a line a repeat, good or bad; pictures that a reader should see lie in a folder of this name

The files are the memory: they are committed, and whoever has them goes on from them. They are only ever appended to.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from privlab.compute import atomic
from privlab.data.sources import nearest
from privlab.ledger.comparison import NAME

# from the cheapest up; smoke proves that the code runs, and judges nothing
SIZES = ("smoke", "class", "night", "gpu", "paper")
FIRST = dict(zip(SIZES, (0, 0, 1_000, 2_000, 3_000), strict=True))  # where repeats begin; no size has seen another's
LEVEL = 0.05  # of the first try of a claim; the k-th further try is judged at .05 / 2**k
EXACT_PSNR = 320.0  # dB, stands for the infinite PSNR of an image without any error; float64 reaches about 310


@dataclass(frozen=True)
class Repeat:
    """One repeat of an experiment; below 0 it is a pilot, which is never judged.

    digest: of what it depends on, see `experiments`.  values: name -> number, names as in psnr[cifar10, swin].
    seconds: CPU seconds that it took.  when: seconds since 1970, UTC.
    """

    repeat: int
    digest: str
    values: Mapping[str, float]
    seconds: float
    when: float
    device: str = "cpu"
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Registration:
    """Which repeats of an experiment are judged at a size: exactly these, when all are there; the range is never shortened or moved.

    protocol, digest: of the experiment when it was registered.  stands_for: what a reader must know to place the numbers.
    own: whether it is the paper's own setting.  when: the day, ISO 8601.
    attempt: 0 for the first try; a further one starts behind the last repeat that was measured, and is judged at 0.05 / 2**attempt.
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
    """Where the lines of an experiment at one size lie."""
    return (root or folder()) / size / f"{experiment}.jsonl"


def read(
    experiment: str, size: str, digest: str | None = None, root: Path | None = None, within: range | None = None
) -> list[Repeat]:
    """The repeats that are there, in the order of their numbers. Of two lines for one repeat the earlier counts.

    digest: of what they depend on; any if not given.  within: their numbers; any if not given.
    """
    found = sorted(lines(experiment, size, digest, root).items())
    return [min(rows, key=lambda row: row.when) for n, rows in found if within is None or n in within]


def lines(experiment: str, size: str, digest: str | None = None, root: Path | None = None) -> dict[int, list[Repeat]]:
    """Every line of this digest, by repeat: at smoke a repeat may have one for each kind of processor."""
    file, found = path(experiment, size, root), dict[int, list[Repeat]]()
    for row in _rows(file, file.stat().st_mtime_ns, file.stat().st_size) if file.exists() else ():
        if digest in (None, row.digest):
            found.setdefault(row.repeat, []).append(row)
    return found


@lru_cache(maxsize=512)  # as `measure` asks of every repeat each second whether it is there
def _rows(file: Path, changed: int, size: int) -> list[Repeat]:
    """A file's lines, without what a kill has torn, or a merge has left: such a repeat is measured again."""
    rows = []
    for line in file.read_bytes().splitlines():
        with contextlib.suppress(ValueError, TypeError):
            rows.append(Repeat(**json.loads(line)))
    return rows


def append(experiment: str, size: str, row: Repeat, root: Path | None = None) -> None:
    """Write one line, whole: under a lock, flushed to the disk, behind a line break where a kill cut the last line short.

    Raises ValueError for a value that is no number, or has no name.
    """
    for name, value in row.values.items():
        if not (NAME.fullmatch(name) and math.isfinite(value)):
            raise ValueError(f"{name}={value!r} of repeat {row.repeat}: give a finite number, named as in psnr[a, b]")
    line, file = json.dumps(asdict(row)).encode() + b"\n", path(experiment, size, root)
    atomic.shared_folder(file.parent)
    with FileLock(file.with_name(f".{file.name}.lock"), mode=0o666), open(file, "ab+") as out:
        if out.tell():
            out.seek(-1, os.SEEK_END)
            line = line if out.read(1) == b"\n" else b"\n" + line
        out.write(line)  # in append mode, so at the end
        out.flush()
        os.fsync(out.fileno())


def registrations(root: Path | None = None) -> list[Registration]:
    """All that was registered, in its order."""
    file = (root or folder()) / "registered.jsonl"
    texts = file.read_text().splitlines() if file.exists() else []
    return [Registration(**json.loads(text)) for text in dict.fromkeys(texts) if text]


def register(entries: Iterable[Registration], root: Path | None = None) -> list[Registration]:
    """Add registrations, and count their `attempt`; what is registered stays as it is. Returns those that are new.

    Raises ValueError for a further try that does not start behind every repeat that is registered or measured for its size.
    """
    root = root or folder()
    atomic.shared_folder(root)
    with FileLock(root / ".registered.jsonl.lock", mode=0o666):
        kept = registrations(root)
        known = len(kept)
        for entry in entries:
            earlier = [r for r in kept if (r.experiment, r.size) == (entry.experiment, entry.size)]
            if any((r.digest, r.range) == (entry.digest, entry.range) for r in earlier):
                continue
            taken = [*lines(entry.experiment, entry.size, root=root), *(r.range[-1] for r in earlier)]
            if earlier and entry.first <= max(taken):
                raise ValueError(
                    f"{entry.experiment} at {entry.size}: first={entry.first} begins among repeats that are registered or measured; "
                    f"a further try begins at {max(taken) + 1} or behind it: Size(..., first={max(taken) + 1})"
                )
            kept.append(replace(entry, attempt=len(earlier)))
        if kept[known:]:
            text = "".join(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in kept)
            atomic.write_atomic(root / "registered.jsonl", text.encode())
    return kept[known:]
