"""What a machine has and what is missing, here and on one that others set up, such as Colab.

What a profile takes stands in the head of each lab.
"""

import importlib
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

from privlab.compute import machine

LEAST_GB = 2  # of memory, for the labs at smoke
# What only headless runs and JupyterLab itself need: a hosted notebook has its own, often older ones that must stay
ELSEWHERE = {"jupyterlab", "jupytext", "papermill", "nbclient", "nbformat", "ipykernel", "jupyter-client"}
# state ("ok"; "note", which is worth knowing; "BROKEN": labs will not run), what, text
Finding = tuple[str, str, str]


def examine() -> Iterator[Finding]:
    """Findings as they come in: system, packages, torch and its device, data sets.

    A check that fails becomes a finding, never an exception.
    """
    for what, check in {"system": _system, "packages": _packages, "torch": _torch, "data": _data}.items():
        try:
            yield from check()
        except Exception as error:  # a doctor that dies of what the patient has is no use
            yield "BROKEN", what, f"{type(error).__name__}: {error}"


def _system() -> Iterator[Finding]:
    total, available = machine.memory()
    free = shutil.disk_usage(".").free / 1e9
    has = f"{machine.cores()} cores, {total:.1f} GB of memory ({available:.1f} free), {free:.0f} GB of disk free here"
    yield "ok", "system", f"{platform.system()} {platform.machine()}, {has}"
    if total < LEAST_GB:
        yield "BROKEN", "system", f"labs need {LEAST_GB} GB of memory, even at smoke"


def _packages() -> Iterator[Finding]:
    needs = list(needed())
    lacks = [(one, has) for one, has in needs if not (has and one.specifier.contains(has, prereleases=True))]
    for one, has in lacks:
        yield "BROKEN", "packages", f"{one.name} is {has or 'missing'}; privlab needs {one}"
    if not lacks:
        about = f"privlab {metadata.version('privlab')} on Python {platform.python_version()}"
        yield "ok", "packages", f"{about}, {len(needs)} packages needed"


def _torch() -> Iterator[Finding]:
    """Two releases that do not fit together say so as they are imported."""
    try:
        import torch
        import torchvision
    except Exception as error:
        raise RuntimeError(f"{error}; install torch and torchvision together, as in requirements.lock") from error
    yield "ok", "torch", f"torch {torch.__version__} and torchvision {torchvision.__version__}"
    there = range(torch.cuda.device_count()) if machine.device() == "cuda" else ()
    cards = [torch.cuda.get_device_properties(card) for card in there]
    named = ", ".join(f"{card.name} with {card.total_memory / 1e9:.0f} GB" for card in cards)
    yield "ok", "device", f"device='auto' uses {named or 'the CPU: there is no GPU that torch has kernels for'}"


def _data() -> Iterator[Finding]:
    from privlab.data import sources

    here = [name for name in sources.names() if sources.complete(name)]
    yield "ok", "data", f"in {sources.folder()}: {', '.join(here) or 'nothing yet'}"
    absent = [f"{name} ({sources.describe(name).disk / 1e6:.0f} MB)" for name in sources.names() if name not in here]
    if absent:
        yield "note", "data", f"not there yet; each is fetched when a lab first needs it: {', '.join(absent)}"


def needed(extra: str = "") -> Iterator[tuple[Requirement, str]]:
    """What privlab needs, with one of its extras where it is given, each with the version that is here: "" for none."""
    for one in map(Requirement, metadata.requires("privlab") or []):
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield one, metadata.version(one.name) if any(metadata.distributions(name=one.name)) else ""


def complete() -> None:
    """On Colab: install what the labs need and is not here yet, replace nothing, and say what does not fit.

    Torch there fits the machine's driver and its neighbours, and takes minutes and gigabytes to install again. So pip gets a constraint
    for every package that is there, and torch is never asked for. Raises RuntimeError where there is none.
    """
    missing = [one for one, version in needed("dp") if not version and one.name not in ELSEWHERE]  # with DP-SGD's
    if {"torch", "torchvision"} & {one.name for one in missing}:
        raise RuntimeError("torch or torchvision is not installed here; follow the README's two commands instead")
    if not (asked := [f"{one.name}{one.specifier}" for one in missing]):
        return
    here = {one.name: one.version for one in metadata.distributions() if one.name}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={version}\n" for name, version in here.items())
        constraints.flush()
        command = [sys.executable, "-m", "pip", "install", "-q", "--constraint", constraints.name, *asked]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"privlab: {', '.join(asked)} could not be installed beside what is here: {done.stderr.strip()}")
    importlib.invalidate_caches()
