"""Look over a machine: what it has, what is missing, which profiles it can run. Nothing here needs the rest to work."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from privlab.compute import machine
from privlab.runner import colab

OK, NOTE, BROKEN = "ok", "note", "BROKEN"
# GB of memory and of GPU memory that a profile is made for; the labs' own tables say more precisely what each takes.
_NEEDS = {"smoke": (2.0, 0.0), "class": (8.0, 0.0), "night": (8.0, 0.0), "gpu": (12.0, 15.0), "paper": (12.0, 15.0)}


@dataclass(frozen=True)
class Finding:
    """One line of the report.  state: "ok", "note" (worth knowing) or "BROKEN" (labs will not run)."""

    what: str
    state: str
    text: str

    def __str__(self) -> str:
        return f"{self.state:<6}  {self.what:<9} {self.text}"


def examine(labs: Path = Path("labs")) -> Iterator[Finding]:
    """Findings as they come in: system, packages, torch and its device, data sets, profiles.

    labs: the folder whose labs say what each profile costs; it may be missing.
    A check that fails becomes a finding, never an exception.
    """
    checks = {"system": _system, "packages": _packages, "torch": _torch, "data": _data}
    for what, check in {**checks, "profiles": lambda: _profiles(labs)}.items():
        try:
            yield from check()
        except Exception as error:  # a doctor that dies of what the patient has is no use
            yield Finding(what, BROKEN, f"{type(error).__name__}: {error}")


def _system() -> Iterator[Finding]:
    total, available = machine.memory()
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    has = f"{machine.cores()} cores, {total:.1f} GB of memory ({available:.1f} free), {free:.0f} GB of disk free here"
    yield Finding("system", OK, f"{platform.system()} {platform.machine()}, {has}")


def _packages() -> Iterator[Finding]:
    needed = list(colab.needed())
    lacks = [(one, has) for one, has in needed if not (has and one.specifier.contains(has, prereleases=True))]
    for one, has in lacks:
        yield Finding("packages", BROKEN, f"{one.name} is {has or 'missing'}; privlab needs {one}")
    if not lacks:
        about = f"privlab {metadata.version('privlab')} on Python {platform.python_version()}"
        yield Finding("packages", OK, f"{about}, {len(needed)} packages needed")


def _torch() -> Iterator[Finding]:
    """Two releases that do not fit together say so as they are imported."""
    try:
        import torch
        import torchvision
    except Exception as error:
        raise RuntimeError(f"{error}; install torch and torchvision together, as in requirements.lock") from error
    yield Finding("torch", OK, f"torch {torch.__version__} and torchvision {torchvision.__version__}")
    cards = ", ".join(f"{card.name} with {card.total_memory / 1e9:.0f} GB" for card in _cards())
    yield Finding("device", OK, f"device='auto' uses {cards or 'the CPU: there is no GPU that torch has kernels for'}")


def _cards() -> list:
    """The GPUs that device='auto' uses."""
    from torch import cuda

    return [cuda.get_device_properties(i) for i in range(cuda.device_count())] if machine.device() == "cuda" else []


def _data() -> Iterator[Finding]:
    from privlab.data import sources

    here = [name for name in sources.names() if sources.complete(name)]
    yield Finding("data", OK, f"in {sources.folder()}: {', '.join(here) or 'nothing yet'}")
    absent = [f"{name} ({sources.describe(name).disk / 1e6:.0f} MB)" for name in sources.names() if name not in here]
    if absent:
        yield Finding("data", NOTE, f"not there yet; each is fetched when a lab first needs it: {', '.join(absent)}")


def _profiles(labs: Path) -> Iterator[Finding]:
    from privlab.runner import catalogue

    total, _ = machine.memory()
    gpu = max((card.total_memory / 1e9 for card in _cards()), default=0.0)
    shelf = [catalogue.Lab(path) for path in labs.glob(catalogue.FILES)]
    for profile, (gb, gpu_gb) in _NEEDS.items():
        gb = max((lab.costs[profile].gb for lab in shelf if profile in lab.costs), default=gb)
        needs = f"{gb:.1f} GB of memory" + f" and a GPU with {gpu_gb:.0f} GB" * (gpu_gb > 0)
        fits = total >= gb and gpu >= gpu_gb
        state = OK if fits else BROKEN if profile == "smoke" else NOTE
        yield Finding(profile, state, f"needs {needs}: {'yes' if fits else f'no, it has {total:.1f} and {gpu:.0f} GB'}")
