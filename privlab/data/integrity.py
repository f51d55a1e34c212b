"""Whether a prepared file is still what was written: hashed when a process first loads it, whole, at some 2 GB a second.

What a list of ours knows is held against the list (`sources`). What you prepared from your own photographs or networks has its hash
beside it, in NAME.sha256, as `sha256sum` writes and checks it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from privlab.compute import reading
from privlab.compute.atomic import write_atomic
from privlab.data.downloads import sha256


@functools.cache
def _hashed(path: Path, size: int, mtime_ns: int, ctime_ns: int) -> str:
    return sha256(path)


def check(path: Path, expected: str, cure: str) -> None:
    """Raise ValueError, naming the file and the cure, where its SHA-256 is another; once a process for a file that nobody touches."""
    try:
        facts = path.stat()
        digest = _hashed(path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    except OSError as error:  # a folder, or a disk that cannot read what it holds
        raise ValueError(f"{path} cannot be read ({error.strerror}); {cure}") from error
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
        digest, _ = _beside(path).read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise ValueError(f"{_beside(path)} is no SHA-256 of {path.name} ({error}); {cure}") from error
    check(path, digest, cure)
    with reading.guarded(path, "cannot be read", cure):
        yield


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
