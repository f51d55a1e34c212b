"""Evidence: a JSON line a repeat of an experiment at one size, and which repeats were registered before they were measured.

    book/evidence/registered.jsonl           which repeats are judged, and what they stand for
    book/evidence/night/MODULE.NAME.jsonl    a line a repeat, good or bad; pictures that a reader should see lie in a folder of this name

The files are committed, and whoever has them goes on from them. They are only ever appended to.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from privlab.compute.files import shared_folder, write_atomic
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

    digest: of what it depends on, see `experiments`.  values: name -> number.  seconds: of CPU.  when: seconds since 1970, UTC.
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

    stands_for: what a reader must know to place the numbers.  own: whether it is the paper's own setting.  when: the day, ISO 8601.
    attempt: 0 for the first try; a further one starts behind the last repeat that was measured.
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
    """The name of a size.  argument: what it was given as.  Raises ValueError with the nearest for what is none."""
    if size not in SIZES:
        raise ValueError(f"{argument}={size!r} is not a {argument}{nearest(size, list(SIZES))}")
    return size


def folder() -> Path:
    """The book's evidence: $PRIVLAB_EVIDENCE, that of a checkout, or that of an installed wheel."""
    package = Path(__file__).parents[1]
    checkout = package.parent / "book" / "evidence"
    named = os.environ.get("PRIVLAB_EVIDENCE")
    return Path(named or (checkout if checkout.is_dir() else package / "evidence")).expanduser()


def path(experiment: str, size: str, root: Path | None = None) -> Path:
    """Where the lines of an experiment at one size lie."""
    return (root or folder()) / size / f"{experiment}.jsonl"


def lines(experiment: str, size: str, digest: str | None = None, root: Path | None = None) -> dict[int, list[Repeat]]:
    """Every line of a digest (any if not given), by repeat: at smoke a repeat may have one for each kind of processor."""
    found: dict[int, list[Repeat]] = {}
    for line in _lines(path(experiment, size, root)):
        with suppress(ValueError, TypeError):  # what a merge or a kill has left: such a repeat is measured again
            row = Repeat(**json.loads(line))
            if digest in (None, row.digest):
                found.setdefault(row.repeat, []).append(row)
    return found


def read(experiment: str, size: str, digest: str | None = None, root: Path | None = None) -> list[Repeat]:
    """The repeats that are there, in the order of their numbers. Of two lines for one the earlier counts."""
    found = lines(experiment, size, digest, root)
    return [min(found[number], key=lambda row: row.when) for number in sorted(found)]


def append(experiment: str, size: str, row: Repeat, root: Path | None = None) -> None:
    """Add one line, whole or not at all.  Raises ValueError for a value that is no number, or has no name."""
    for name, value in row.values.items():
        if not (NAME.fullmatch(name) and math.isfinite(value)):
            raise ValueError(f"{name}={value!r} of repeat {row.repeat}: give a finite number, named as in psnr[a, b]")
    with _locked(file := path(experiment, size, root)):
        _append(file, [row])


def registrations(root: Path | None = None) -> list[Registration]:
    """All that was registered, in its order."""
    found = dict.fromkeys(_lines((root or folder()) / "registered.jsonl"))
    return [Registration(**json.loads(line)) for line in found if line]


def register(entries: Iterable[Registration], root: Path | None = None) -> list[Registration]:
    """Add registrations, and count their `attempt`; what is registered stays as it is. Returns those that are new.

    Raises ValueError for a further try that does not start behind every repeat that is registered or measured for its size.
    """
    file = (root or folder()) / "registered.jsonl"
    with _locked(file):  # two at once would count one attempt for two tries
        kept, new = registrations(root), list[Registration]()
        for entry in entries:
            about = (entry.experiment, entry.size)
            earlier = [r for r in kept + new if (r.experiment, r.size) == about]
            if (entry.digest, entry.range) in ((r.digest, r.range) for r in earlier):
                continue
            behind = 1 + max([*lines(*about, root=root), *(r.range[-1] for r in earlier)], default=-1)
            if earlier and entry.first < behind:
                where = f"{entry.experiment} at {entry.size}: first={entry.first} begins among repeats that are registered or measured"
                raise ValueError(f"{where}; a further try begins at {behind} or behind it: Size(..., first={behind})")
            new.append(replace(entry, attempt=len(earlier)))
        if new:
            _append(file, new)
    return new


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines() if file.exists() else []


def _locked(file: Path) -> FileLock:
    shared_folder(file.parent)
    return FileLock(file.with_name(f".{file.name}.lock"), mode=0o666)


def _append(file: Path, rows: Iterable[Repeat | Registration]) -> None:
    """Behind the lines that are there, of which a merge or a kill may have torn the last; with the file `_locked`."""
    added = [json.dumps(asdict(row), ensure_ascii=False).encode() for row in rows]
    write_atomic(file, b"\n".join([*_lines(file), *added, b""]))
