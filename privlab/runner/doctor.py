"""Look over a machine: what it has and what is missing. What a profile takes stands in the head of each lab."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from privlab.compute import machine
from privlab.runner import colab

OK, NOTE, BROKEN = "ok", "note", "BROKEN"  # NOTE: worth knowing; BROKEN: labs will not run
LEAST_GB = 2  # of memory, for the labs at smoke
Finding = tuple[str, str, str]  # state, what, text


def examine() -> Iterator[Finding]:
    """Findings as they come in: system, packages, torch and its device, data sets.

    A check that fails becomes a finding, never an exception.
    """
    for what, check in {"system": _system, "packages": _packages, "torch": _torch, "data": _data}.items():
        try:
            yield from check()
        except Exception as error:  # a doctor that dies of what the patient has is no use
            yield BROKEN, what, f"{type(error).__name__}: {error}"


def _system() -> Iterator[Finding]:
    total, available = machine.memory()
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    has = f"{machine.cores()} cores, {total:.1f} GB of memory ({available:.1f} free), {free:.0f} GB of disk free here"
    yield OK, "system", f"{platform.system()} {platform.machine()}, {has}"
    if total < LEAST_GB:
        yield BROKEN, "system", f"labs need {LEAST_GB} GB of memory, even at smoke"


def _packages() -> Iterator[Finding]:
    needed = list(colab.needed())
    lacks = [(one, has) for one, has in needed if not (has and one.specifier.contains(has, prereleases=True))]
    for one, has in lacks:
        yield BROKEN, "packages", f"{one.name} is {has or 'missing'}; privlab needs {one}"
    if not lacks:
        about = f"privlab {metadata.version('privlab')} on Python {platform.python_version()}"
        yield OK, "packages", f"{about}, {len(needed)} packages needed"


def _torch() -> Iterator[Finding]:
    """Two releases that do not fit together say so as they are imported."""
    try:
        import torch
        import torchvision
    except Exception as error:
        raise RuntimeError(f"{error}; install torch and torchvision together, as in requirements.lock") from error
    yield OK, "torch", f"torch {torch.__version__} and torchvision {torchvision.__version__}"
    there = range(torch.cuda.device_count()) if machine.device() == "cuda" else ()
    cards = [torch.cuda.get_device_properties(card) for card in there]
    named = ", ".join(f"{card.name} with {card.total_memory / 1e9:.0f} GB" for card in cards)
    yield OK, "device", f"device='auto' uses {named or 'the CPU: there is no GPU that torch has kernels for'}"


def _data() -> Iterator[Finding]:
    from privlab.data import sources

    here = [name for name in sources.names() if sources.complete(name)]
    yield OK, "data", f"in {sources.folder()}: {', '.join(here) or 'nothing yet'}"
    absent = [f"{name} ({sources.describe(name).disk / 1e6:.0f} MB)" for name in sources.names() if name not in here]
    if absent:
        yield NOTE, "data", f"not there yet; each is fetched when a lab first needs it: {', '.join(absent)}"
