"""Files read back: which of a folder, and one line that names the path, what is wrong, and what would do."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
