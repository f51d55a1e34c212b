"""Look over a machine: what it has, what is missing, which profiles it can run. Nothing here needs the rest to work."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from privlab.compute import machine

OK, NOTE, BROKEN = "ok", "note", "broken"
# GB of memory and of GPU memory that a profile is made for; the labs' own tables say more precisely what each takes.
_NEEDS = {"smoke": (2.0, 0.0), "class": (8.0, 0.0), "night": (8.0, 0.0), "gpu": (12.0, 15.0), "paper": (12.0, 15.0)}
_TORCH = """
import json, torch, warnings
found = {"torch": str(torch.__version__), "cuda": [], "mps": torch.backends.mps.is_available()}
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    if torch.cuda.is_available():
        cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        found["cuda"] = [[card.name, card.total_memory / 1e9, [card.major, card.minor]] for card in cards]
        found["built_for"] = torch.cuda.get_arch_list()
found["said"] = [str(each.message) for each in said]
print(json.dumps(found), flush=True)
import torchvision
torchvision.ops.nms
print(json.dumps({"torchvision": str(torchvision.__version__)}), flush=True)
"""


@dataclass(frozen=True)
class Finding:
    """One line of the report.  state: "ok", "note" (worth knowing) or "broken" (labs will not run)."""

    what: str
    state: str
    text: str

    def __str__(self) -> str:
        mark = {OK: "ok    ", NOTE: "note  ", BROKEN: "BROKEN"}[self.state]
        return f"{mark}  {self.what:<9} {self.text}"


def examine(labs: Path = Path("labs")) -> Iterator[Finding]:
    """Findings as they come in: system, Python, packages, torch and its device, data sets, profiles.

    labs: the folder whose labs say what each profile costs; it may be missing.
    A check that fails becomes a finding, never an exception.
    """
    torch: dict = {}
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("system", _system),
        ("python", _python),
        ("packages", _packages),
        ("torch", lambda: _torch(torch)),
        ("data", _data),
        ("evidence", _evidence),
        ("profiles", lambda: _profiles(labs, torch)),
    ]
    for what, check in checks:
        try:
            yield from check()
        except Exception as error:  # a doctor that dies of what the patient has is no use
            yield Finding(what, NOTE, f"could not be examined: {type(error).__name__}: {error}")


def _system() -> Iterator[Finding]:
    total, available = machine.memory()
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    memory = f"{total:.1f} GB of memory ({available:.1f} free)"
    text = (
        f"{platform.system()} {platform.machine()}, {machine.cores()} cores, {memory}, {free:.0f} GB of disk free here"
    )
    yield Finding("system", OK, text)


def _python() -> Iterator[Finding]:
    fits = sys.version_info >= (3, 11)
    yield Finding(
        "python", OK if fits else BROKEN, platform.python_version() + ("" if fits else "; privlab needs 3.11 or later")
    )


def _packages() -> Iterator[Finding]:
    from packaging.requirements import Requirement

    try:
        asked = [Requirement(line) for line in importlib.metadata.requires("privlab") or []]
    except importlib.metadata.PackageNotFoundError:
        yield Finding("packages", BROKEN, "privlab is not installed in this Python: pip install -e . in the repository")
        return
    fits, needed = 0, 0
    for one in asked:
        if one.marker and not one.marker.evaluate({"extra": ""}):
            continue
        needed += 1
        try:
            version = importlib.metadata.version(one.name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding("packages", BROKEN, f"{one.name} is missing; privlab needs {one}")
            continue
        if one.specifier.contains(version, prereleases=True):
            fits += 1
        else:
            yield Finding("packages", BROKEN, f"{one.name} is {version}; privlab needs {one}")
    yield Finding(
        "packages", OK, f"privlab {_version('privlab')}; {fits} of {needed} packages have the versions that it needs"
    )


def _torch(versions: dict) -> Iterator[Finding]:
    """Import torch and torchvision in another process: a build that does not fit may end the one that tries."""
    tried = subprocess.run(
        [sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=300, errors="replace"
    )
    for line in tried.stdout.splitlines():
        versions |= json.loads(line)
    lines = [line.strip() for line in tried.stderr.splitlines() if line.strip()] or [
        f"it ended with status {tried.returncode}"
    ]
    if "torch" not in versions:
        yield Finding("torch", BROKEN, f"cannot be imported: {lines[-1]}")
        return
    if "torchvision" in versions:
        yield Finding("torch", OK, f"torch {versions['torch']} and torchvision {versions['torchvision']} fit together")
    elif re.search(r"torchvision::\w+ does not exist", tried.stderr):
        yield Finding(
            "torch",
            BROKEN,
            f"torchvision {_version('torchvision')} was built for another torch than {versions['torch']}: install both "
            "again, in one command and from the same place, at the versions of requirements.lock",
        )
    else:
        yield Finding("torch", BROKEN, f"torch {versions['torch']} works, torchvision does not: {lines[-1]}")
    cards = versions["cuda"]
    versions["cuda"] = [card for card in cards if machine.has_kernels(tuple(card[2]), versions["built_for"])]
    devices = [f"{name} with {gb:.0f} GB" for name, gb, _ in versions["cuda"]]
    why = "a Mac's GPU has no float64, which the proofs need" if versions["mps"] else "torch sees no GPU"
    if cards:
        why = f"this torch has no kernels for {', '.join(name for name, *_ in cards)}"
    yield Finding("device", OK, f"device='auto' uses {', '.join(devices) or f'the CPU: {why}'}")
    for warning in versions["said"]:
        yield Finding("device", NOTE, f"torch says: {' '.join(warning.split())}")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _data() -> Iterator[Finding]:
    from privlab.data import sources

    place = sources.folder()
    here = [name for name in sources.names() if sources.complete(name)]
    absent = [f"{name} ({sources.describe(name).disk / 1e6:.0f} MB)" for name in sources.names() if name not in here]
    yield Finding("data", OK, f"in {place}: {', '.join(here) or 'nothing yet'}")
    if absent:
        yield Finding("data", NOTE, f"not there yet; each is fetched when a lab first needs it: {', '.join(absent)}")
    root = next(p for p in (place, *place.parents) if p.exists())
    if absent and not os.access(root, os.W_OK):
        yield Finding("data", NOTE, f"{root} is not writable; to fetch more, set PRIVLAB_DATA to a folder of your own")


def _evidence() -> Iterator[Finding]:
    """How many registered repeats are there."""
    from privlab.ledger import evidence

    root, cure = evidence.folder(), "unset PRIVLAB_EVIDENCE, or copy book/evidence there"
    entries = evidence.registrations()
    there = sum(len(evidence.read(e.experiment, e.size, e.digest, within=e.range)) for e in entries)
    if entries:
        asked = sum(entry.repeats for entry in entries)
        yield Finding("evidence", OK, f"in {root}: {there:,} of {asked:,} registered repeats")
    else:
        yield Finding("evidence", NOTE, f"in {root} nothing is registered, so labs have nothing to show: {cure}")


def _profiles(labs: Path, torch: dict) -> Iterator[Finding]:
    total, _ = machine.memory()
    gpu = max((gb for _, gb, _ in torch.get("cuda", [])), default=0.0)
    for profile, (gb, gpu_gb) in _NEEDS.items():
        costs = _costs(labs, profile)
        gb = max(costs.values(), default=gb)
        largest = f" (lab {max(costs, key=lambda lab: costs[lab])} needs the most)" if costs else ""
        needs = f"{gb:.1f} GB of memory" + (f" and a GPU with {gpu_gb:.0f} GB" if gpu_gb else "")
        lacks = [f"this machine has {total:.1f} GB of memory"] if total < gb else []
        if gpu < gpu_gb:
            lacks.append(f"the GPU has {gpu:.0f} GB" if gpu else "there is no GPU")
        state = OK if not lacks else BROKEN if profile == "smoke" else NOTE
        yield Finding(profile, state, f"needs {needs}{largest}: {'no, ' + ' and '.join(lacks) if lacks else 'yes'}")


def _costs(labs: Path, profile: str) -> dict[str, float]:
    from privlab.runner import catalogue

    try:
        return {lab.number: lab.costs[profile].gb for lab in catalogue.labs(labs) if profile in lab.costs}
    except (OSError, ValueError):
        return {}
