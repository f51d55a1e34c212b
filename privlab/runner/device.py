"""The device that a run is asked for, looked at before any lab starts."""

from __future__ import annotations

import re
import subprocess
import sys

_CARDS = "import torch; print(torch.cuda.device_count())"  # in another process: torch must not stand beside the labs in memory


def checked(name: str) -> str:
    """The name of a device that the labs can compute on: auto, cpu, cuda, cuda:N.

    Raises ValueError for another, and for a GPU that torch does not see.
    """
    if name.startswith("mps"):
        raise ValueError(f"device={name!r} has no float64, which the labs need; try 'cpu'")
    if not (match := re.fullmatch(r"auto|cpu|(cuda)(?::([0-9]{1,4}))?", name)):
        raise ValueError(f"device={name!r} is not a device of the labs; try auto, cpu, cuda, or one of several: cuda:1")
    if match[1]:
        asked = subprocess.run([sys.executable, "-c", _CARDS], capture_output=True, text=True, errors="replace")
        cards = int(asked.stdout) if asked.stdout.strip().isdigit() else 0
        if int(match[2] or 0) >= cards:
            there = f"cuda:0 to cuda:{cards - 1}" if cards > 1 else "cuda:0 alone" if cards else "no GPU"
            raise ValueError(f"device={name!r} is not on this machine, where torch sees {there}; try auto or cpu")
    return name
