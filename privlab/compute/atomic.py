"""Files that appear whole or not at all. Apart from `store`: who only writes text need not load torch."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

__all__ = ["write_atomic"]


def write_atomic(path: Path | str, content: bytes | Iterable[bytes], size: int | None = None) -> None:
    """Write a file whole or not at all, folders included: a reader sees the old content or the new, never a part.

    content: all of it, or its pieces in order, so that a large file need not be in memory; `size` is then its length, for the message.
    Raises OSError with one line that names the file, its size and what would do, when the disk is full or not writable.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")  # beside it, as a rename must not cross disks
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "xb") as file:
            for piece in [content] if isinstance(content, bytes) else content:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        size = len(content) if isinstance(content, bytes) else size
        why = f"cannot write {path} ({size:,} bytes): {error.strerror}; make room or choose another folder"
        raise OSError(error.errno, why) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
