"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def shared_folder(path: Path) -> None:
    """A folder, made where it is missing: whoever may write in the one around it may write in it, so that two people share a store."""
    if not path.is_dir():
        shared_folder(path.parent)
        path.mkdir(exist_ok=True)
        with suppress(OSError):  # another has made it meanwhile
            path.chmod(path.stat().st_mode | path.parent.stat().st_mode & 0o022)


def make_folder(path: Path) -> None:
    """A folder to write in, made where it is missing.  Raises OSError in one line: a file may stand there, or the disk be closed."""
    try:
        shared_folder(path)
    except OSError as error:
        why = f"out={str(path)!r} cannot be a folder to write in: {error.strerror}; give another"
        raise type(error)(why) from None


def write_atomic(path: Path | str, content: bytes | Iterable[bytes]) -> None:
    """Write a file whole or not at all, folders included: a reader sees the old content or the new, never a part.

    content: all of it, or its pieces in order.  Raises OSError in one line, for a full disk or a closed one.
    """
    pieces = [content] if isinstance(content, bytes) else content
    target = Path(os.path.realpath(path))  # a link stays one
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}")  # beside it, as a rename must not cross disks
    try:
        shared_folder(target.parent)
        if target.is_char_device():  # /dev/null is written to, and not replaced
            target.write_bytes(b"".join(pieces))
            return
        with open(part, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        why = f"cannot write {path}: {error.strerror}; make room or choose another place"
        raise type(error)(error.errno, why) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
