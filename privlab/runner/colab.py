"""A notebook on a machine that others set up, such as Colab or Kaggle: install what is missing, replace nothing.

Torch there fits the machine's driver and its neighbours, and takes minutes and gigabytes to install again. So pip gets a
constraint for every package that is there, and torch itself is never asked for.
"""

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# What only headless runs and JupyterLab itself need: a hosted notebook has its own, often older ones that must stay
ELSEWHERE = {"jupyterlab", "jupytext", "papermill", "nbclient", "nbformat", "ipykernel", "jupyter-client"}


def complete() -> None:
    """Install the packages that the labs need and that are not here yet, in versions that fit those that are; say what does not fit.

    `python -m privlab doctor` says what is too old. Raises RuntimeError where there is no torch: this is not the place to install it.
    """
    here = {canonicalize_name(d.name): d.version for d in metadata.distributions() if d.name}
    if not {"torch", "torchvision"} <= here.keys():
        raise RuntimeError("torch or torchvision is not installed here; follow the README's two commands instead")
    asked = [Requirement(line) for line in metadata.requires("privlab") or []]
    needed = {  # two labs train with DP-SGD
        canonicalize_name(r.name): r for r in asked if r.marker is None or r.marker.evaluate({"extra": "dp"})
    }
    missing = [f"{r.name}{r.specifier}" for name, r in needed.items() if name not in here and name not in ELSEWHERE]
    if missing and (complaint := _install(missing, here)):
        print(f"privlab: {', '.join(missing)} could not be installed beside what is here: {complaint}")
    importlib.invalidate_caches()


def _install(missing: list[str], here: Mapping[Any, str]) -> str:
    """Install these beside what is here; what pip complained of."""
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("\n".join(f"{name}=={version}" for name, version in here.items()))
        command = [sys.executable, "-m", "pip", "install", "-q", "--constraint", str(constraints), *missing]
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() or "pip failed" if done.returncode else ""
