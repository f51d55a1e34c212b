"""A notebook on a machine that others set up, such as Colab or Kaggle: install what is missing, replace nothing.

Torch there fits the machine's driver and its neighbours, and takes minutes and gigabytes to install again. So pip gets a
constraint for every package that is there, and torch itself is never asked for.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

# What only headless runs and JupyterLab itself need: a hosted notebook has its own, often older ones that must stay
ELSEWHERE = {"jupyterlab", "jupytext", "papermill", "nbclient", "nbformat", "ipykernel", "jupyter-client"}
THEIRS = {"torch", "torchvision"}


def complete() -> None:
    """Install the packages that the labs need and that are not here yet, in versions that fit those that are.

    Prints one line for what does not fit. Raises RuntimeError where there is no torch: this is not the place to install it.
    """
    needed = {canonicalize_name(r.name): r for r in _requirements()}
    here = {name: version for name in needed if (version := _version(name))}
    if without := sorted(THEIRS - here.keys()):
        raise RuntimeError(f"{' and '.join(without)} is not installed here; follow the README's two commands instead")
    missing = [str(r) for name, r in needed.items() if name not in here]
    if missing and (problem := _install(missing)):
        print(f"privlab: {', '.join(missing)} could not be installed beside what is here: {problem}")
    old = [
        f"{name} {here[name]} (wanted: {r.specifier})"
        for name, r in needed.items()
        if name in here and not r.specifier.contains(Version(here[name]).base_version)
    ]
    if old:
        print(f"privlab: left as they are, and perhaps too old for some cells: {', '.join(old)}")
    importlib.invalidate_caches()


def _requirements() -> list[Requirement]:
    requirements = [Requirement(line) for line in metadata.requires("privlab") or []]
    at_all = [
        r for r in requirements if r.marker is None or r.marker.evaluate({"extra": "dp"})
    ]  # two labs train with DP-SGD
    return [Requirement(f"{r.name}{r.specifier}") for r in at_all if canonicalize_name(r.name) not in ELSEWHERE]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _install(missing: list[str]) -> str | None:
    """What pip complained of, or None."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        pins = {f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions() if d.metadata["Name"]}
        constraints.write_text("\n".join(sorted(pins)), encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "-q", "--constraint", str(constraints), *missing]
        done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
    return lines[0].removeprefix("ERROR: ") if done.returncode else None
