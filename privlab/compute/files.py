"""Files that appear whole or not at all, and files read back: one line names the path, what is wrong, and what would do."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
        raise type(error)(f"out='{path}' cannot be a folder to write in: {error.strerror}; give another") from None


def write_atomic(path: Path | str, content: bytes) -> None:
    """Write a file whole or not at all, folders included.  Raises OSError in one line, for a full disk or a closed one."""
    target = Path(os.path.realpath(path))  # a link stays one
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}")  # beside it, as a rename must not cross disks
    try:
        shared_folder(target.parent)
        if target.is_char_device():  # /dev/null is written to, and not replaced
            target.write_bytes(content)
            return
        with open(part, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        raise type(error)(error.errno, f"cannot write {path}: {error.strerror}; make room or try elsewhere") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def visible(folder: Path | str, pattern: str = "*") -> list[Path]:
    """What a person has put into a folder, sorted: nothing in or behind a hidden name, or __MACOSX.  pattern: of pathlib's `glob`."""
    found = {path: path.relative_to(folder).parts for path in Path(folder).glob(pattern)}
    return sorted(path for path, parts in found.items() if not any(p[0] == "." or p == "__MACOSX" for p in parts))


@contextmanager
def guarded(path: Path | str, wrong: str, cure: str) -> Iterator[None]:
    """Around all that reads one file and looks at what it holds.  wrong: "is no ledger that can be read here".  cure: "run the labs again".

    Raises the OSError of a file that cannot be opened, and ValueError for whatever else its content led to, in one line each.
    """
    try:
        yield
    except OSError as error:
        raise type(error)(f"{path} cannot be read ({error.strerror or error}); {cure}") from error
    except Exception as error:  # what a parser raises for bytes that anyone may have written is no fixed list
        why = f"it has no field {error}" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise ValueError(f"{path} {wrong} ({why or type(error).__name__}); {cure}") from error
