"""Whether a prepared file is still what was written: hashed when a process first loads it, whole, at some 2 GB a second.

What a list of ours knows is held against the list (`sources`). What you prepared from your own photographs or networks has its hash
beside it, in NAME.sha256, as `sha256sum` writes and checks it. No hash is believed from an earlier process: a disk that loses a bit
changes no date.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from privlab.compute.atomic import write_atomic
from privlab.data.downloads import sha256

_RACY = 1_000_000_000  # ns; a file changed twice within them may bear one date
_hashes: dict[tuple[int, ...], str] = {}  # what the file system says of a file that this process has hashed -> SHA-256


def check(path: Path, expected: str, cure: str) -> None:
    """Raise ValueError, naming the file and the cure, where its SHA-256 is another; once a process for a file that nobody touches."""
    try:
        facts = path.stat()
        state = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        digest = _hashes.get(state) or sha256(path)
    except OSError as error:  # a folder, or a disk that cannot read what it holds
        raise ValueError(f"{path} cannot be read ({error.strerror}); {cure}") from error
    if time.time_ns() - facts.st_ctime_ns > _RACY:
        _hashes[state] = digest
    if digest != expected:
        raise ValueError(f"{path} cannot be read (it has changed: SHA-256 is {digest}, expected {expected}); {cure}")


def write(path: Path, content: bytes | Iterable[bytes]) -> None:
    """`write_atomic`, and beside it the SHA-256 of what was written."""
    write_atomic(path, content)
    write_atomic(_beside(path), f"{sha256(path)}  {path.name}\n".encode())


@contextlib.contextmanager
def checked(path: Path, cure: str) -> Iterator[None]:
    """Read a file of `write` inside: it is checked first, and what goes wrong in the reading is told with the cure.  Raises ValueError."""
    try:
        digest, name = _beside(path).read_text(encoding="utf-8").split()
        if len(digest) != 64 or name != path.name:
            raise ValueError(f"it says {name!r}")
    except (OSError, ValueError) as error:
        raise ValueError(f"{_beside(path)} is no SHA-256 of {path.name} ({error}); {cure}") from error
    check(path, digest, cure)
    try:
        yield
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read ({error}); {cure}") from error


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
