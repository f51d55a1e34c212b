"""Files that appear whole or not at all, in folders that several people may share. Apart from `store`: who only writes text need not load
torch."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import FileLock

__all__ = ["make_folder", "share", "shared_folder", "shared_lock", "write_atomic"]


def share(path: Path) -> None:
    """Let whoever may write in its folder write to what was made there, so that several people can use one store."""
    with contextlib.suppress(OSError):  # it is another's, who has shared it
        path.chmod(path.stat().st_mode | _writers(path.parent))


def shared_folder(path: Path) -> None:
    """Make a folder, and those above it, where they are missing; each is shared with those who may write where it was made."""
    if path.is_dir():
        return
    if not path.parent.exists():
        shared_folder(path.parent)
    path.mkdir(exist_ok=True)
    share(path)


def shared_lock(path: Path) -> FileLock:
    """A lock that whoever may write in its folder can take, in turn."""
    from filelock import FileLock

    return FileLock(path, mode=0o644 | _writers(path.parent))


def _writers(folder: Path) -> int:
    """Who beside its owner may write in a folder, as bits of its mode; nobody in one that is everybody's, such as /tmp."""
    mode = folder.stat().st_mode
    return 0 if mode & stat.S_ISVTX else mode & (stat.S_IWGRP | stat.S_IWOTH)


def make_folder(path: Path) -> None:
    """A folder to write in, made where it is missing.  Raises OSError in one line: a file may stand there, or the disk be closed."""
    try:
        shared_folder(path)
    except OSError as error:
        why = "it is a file" if path.is_file() else error.strerror
        raise type(error)(f"out={str(path)!r} cannot be a folder to write in: {why}; give another") from None


def write_atomic(path: Path | str, content: bytes | Iterable[bytes], size: int | None = None) -> None:
    """Write a file whole or not at all, folders included: a reader sees the old content or the new, never a part.

    path: a link stays one, and what it points to is written.
    content: all of it, or its pieces in order, so that a large file need not be in memory; `size` is then its length, for the message.
    Raises OSError with one line that names the file, its size and what would do, when the disk is full or not writable.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}")  # beside it, as a rename must not cross disks
    try:
        shared_folder(target.parent)
        if path.exists() and not (
            path.is_file() or path.is_dir()
        ):  # a device or a pipe, such as /dev/null, stays what it is
            part = path
        with open(part, "wb" if part is path else "xb") as file:
            for piece in [content] if isinstance(content, bytes) else content:
                file.write(piece)
            file.flush()
            if part is not path:
                os.fsync(file.fileno())
        if part is not path:
            os.replace(part, target)
    except OSError as error:
        size = len(content) if isinstance(content, bytes) else size
        much = "" if size is None else f" ({size:,} bytes)"
        why = f"cannot write {path}{much}: {error.strerror}; make room or choose another folder"
        raise OSError(error.errno, why) from None
    finally:
        if part is not path:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
