"""Folders of this user: the one that a variable of the environment names, or one in the user's cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

__all__ = ["cached", "named"]


def named(variable: str) -> Path | None:
    """The folder that a variable names, from home where it begins with ~; None where it names none.  Raises OSError for no home."""
    place = os.environ.get(variable)
    return _from_home(place, variable) if place else None


def cached(variable: str, name: str) -> Path:
    """The folder that a variable names, or ~/.cache/privlab/NAME.  Raises OSError where this user has no home."""
    return named(variable) or _from_home(f"~/.cache/privlab/{name}", variable)


def _from_home(place: str, variable: str) -> Path:
    try:
        return Path(place).expanduser()
    except RuntimeError:  # an account without an entry, as containers have, and no HOME
        why = "HOME is not set" if re.match(r"~(/|$)", place) else "there is no such user"
        raise FileNotFoundError(f"{place} is in no home: {why}; set {variable} to the whole path of a folder") from None
