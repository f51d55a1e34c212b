"""How one lab went in a run: the file NN_topic.json that the runner leaves beside the notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privlab.compute import reading

_FIELDS = {
    "status": str, "seconds": float, "error": str | None, "peak_gb": float | None, "threads": int | None
}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """What a lab's file says: status, seconds, error (one line, or None), peak memory, and what the run was of.

    Raises FileNotFoundError, another OSError, or ValueError where it is no such file.
    """
    with reading.guarded(path, "is no result of a lab that can be read here", "run the lab again"):
        return reading.typed(_FIELDS, reading.json_file(path))
