"""Files read back: which of a folder, what lies in them in its type, or one line that names the path, what is wrong, and what would do.

A file may have been cut, edited, swapped for another or closed to us since it was written. Without torch, as `atomic`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, NoReturn, get_args, get_origin, get_type_hints

__all__ = ["guarded", "json_file", "typed", "visible"]


def visible(folder: Path | str, pattern: str = "*") -> list[Path]:
    """What a person has put into a folder, sorted: nothing in or behind a hidden name, such as Jupyter's .ipynb_checkpoints.

    pattern: of pathlib's `glob`.  __MACOSX, which macOS adds to an archive, counts as hidden.
    """
    folder = Path(folder)
    inside = {path: path.relative_to(folder).parts for path in folder.glob(pattern)}
    return sorted(
        path for path, parts in inside.items() if not any(p.startswith(".") or p == "__MACOSX" for p in parts)
    )


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


def json_file(path: Path | str) -> Any:
    """The content of a JSON file, in which NaN and infinities are errors."""
    return json.loads(Path(path).read_bytes(), parse_constant=_no_number)


def typed(kind: Any, content: Any, at: str = "it") -> Any:
    """Content of a JSON file as an annotation has it: dataclasses from objects, tuples from lists, numbers finite, all else as it is.

    kind: a dataclass, `tuple[X, ...]`, `Mapping[str, X]`, `X | None`, str, int, float, bool or Any; or a dict, name -> kind, of
    fields that an object has, those that may be None perhaps not; its others are left alone.  at: where the content stands, for messages.
    Raises ValueError for content of another kind, saying where.
    """
    inside = get_args(kind)
    if kind is Any or (content is None and NoneType in inside):
        return content
    if NoneType in inside:
        return typed(next(each for each in inside if each is not NoneType), content, at)
    if isinstance(kind, dict) or is_dataclass(kind):
        return _object(kind, _of(dict, content, at), at)
    if get_origin(kind) is tuple:
        return tuple(typed(inside[0], each, f"{at}[{i}]") for i, each in enumerate(_of(list, content, at)))
    if get_origin(kind) is not None:
        return {name: typed(inside[1], each, f"{at}[{name!r}]") for name, each in _of(dict, content, at).items()}
    if kind is float and isinstance(content, int) and abs(content) > 2**53:
        raise ValueError(f"{at} is {str(content)[:20]}..., too large a number")
    return _of(kind, content, at)


def _object(kind: Any, content: dict[str, Any], at: str) -> Any:
    loose = isinstance(kind, dict)
    kinds, needed = (kind, [k for k in kind if NoneType not in get_args(kind[k])]) if loose else _fields(kind)
    if missing := [name for name in needed if name not in content]:
        raise ValueError(f"{at} has no field {missing[0]!r}")
    if not loose and (odd := content.keys() - kinds.keys()):
        raise ValueError(f"{at} has a field {min(odd)!r} that this privlab does not know")
    there = kinds if loose else [name for name in kinds if name in content]
    values = {name: typed(kinds[name], content.get(name), f"{at}.{name}") for name in there}
    return {**content, **values} if loose else kind(**values)


@cache
def _fields(kind: Any) -> tuple[Mapping[str, Any], list[str]]:
    """The types of a dataclass's fields, and the names of those without a default."""
    every = fields(kind)
    return get_type_hints(kind), [f.name for f in every if f.default is MISSING and f.default_factory is MISSING]


def _of(kind: type, content: Any, at: str) -> Any:
    fits = isinstance(content, (int, float) if kind is float else kind) and (
        kind is bool or not isinstance(content, bool)
    )
    if not fits:
        raise ValueError(f"{at} is {_word(content)}, not {_word(kind())}")
    if isinstance(content, float) and not math.isfinite(content):
        raise ValueError(f"{at} is {content}, no finite number")
    return content


def _word(content: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", NoneType: "null", bool: "a truth value"}
    return names.get(type(content), "a whole number" if isinstance(content, int) else "a number")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is no number of JSON")
