"""Whether a prepared file is still what was written: hashed when a process first loads it, whole, at some 2 GB a second.

What a list of ours knows is held against the list (`sources`). What you prepared from your own photographs or networks has its hash
beside it, in NAME.sha256, as `sha256sum` writes and checks it. No hash is believed from an earlier process: a disk that loses a bit
changes no date.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from safetensors import SafetensorError

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
    """`write_atomic`, and beside it the SHA-256 of what was to be written."""
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for piece in [content] if isinstance(content, bytes) else content:
            digest.update(piece)
            yield piece

    write_atomic(path, pieces())
    write_atomic(_beside(path), f"{digest.hexdigest()}  {path.name}\n".encode())


@contextlib.contextmanager
def checked(path: Path, cure: str, adopt: bool = True) -> Iterator[None]:
    """Read a file of `write` inside: it is checked first, and what goes wrong in the reading is told with the cure.

    A file without a recorded hash (prepared by an older version) is taken as it is, if it can be read. With `adopt` its hash is recorded
    then, which is printed; where nothing can be written, it warns. Raises ValueError.
    """
    beside = _beside(path)
    recorded = beside.exists()
    if recorded:
        try:
            digest, name = beside.read_text(encoding="utf-8-sig").split()
            if len(digest) != 64 or name != path.name:
                raise ValueError(f"it says {name!r}")
        except (OSError, ValueError) as error:
            raise ValueError(f"{beside} is no SHA-256 of {path.name} ({error}); {cure}") from error
        check(path, digest, cure)
    try:
        yield
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} cannot be read ({error}); {cure}") from error
    if adopt and not recorded:
        try:
            write_atomic(beside, f"{sha256(path)}  {path.name}\n".encode())
            print(f"{path} had no SHA-256; it is in {beside.name} now, and later changes of the file will be told")
        except OSError:
            warnings.warn(f"{path} has no SHA-256 beside it, so whether it has changed cannot be told", stacklevel=4)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
