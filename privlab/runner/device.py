"""The device that a run is asked for, looked at before any lab starts."""

from __future__ import annotations

import subprocess
import sys

from privlab.compute import machine

_CARDS = "import torch; print(torch.cuda.device_count())"  # in another process: torch must not stand beside the labs in memory


def checked(name: str) -> str:
    """The name of a device that the labs can compute on.  Raises ValueError as `machine.checked_device` does."""
    return machine.checked_device(name, _cards)


def _cards() -> int:
    asked = subprocess.run([sys.executable, "-c", _CARDS], capture_output=True, text=True, errors="replace")
    return int(asked.stdout) if asked.stdout.strip().isdigit() else 0
