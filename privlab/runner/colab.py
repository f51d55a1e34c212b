"""A notebook on a machine that others set up, such as Colab or Kaggle: install what is missing, replace nothing.

Torch there fits the machine's driver and its neighbours, and takes minutes and gigabytes to install again. So pip gets a
constraint for every package that is there, and torch itself is never asked for.
"""

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

# What only headless runs and JupyterLab itself need: a hosted notebook has its own, often older ones that must stay
ELSEWHERE = {"jupyterlab", "jupytext", "papermill", "nbclient", "nbformat", "ipykernel", "jupyter-client"}


def needed(extra: str = "") -> Iterator[tuple[Requirement, str]]:
    """What privlab needs, with one of its extras where it is given, each with the version that is here: "" for none."""
    for one in map(Requirement, metadata.requires("privlab") or []):
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield one, metadata.version(one.name) if any(metadata.distributions(name=one.name)) else ""


def complete() -> None:
    """Install the packages that the labs need and that are not here yet, in versions that fit those that are; say what does not fit.

    `python -m privlab doctor` says what is too old. Raises RuntimeError where there is no torch: this is not the place to install it.
    """
    missing = [one for one, version in needed("dp") if not version and one.name not in ELSEWHERE]  # with DP-SGD's
    if {"torch", "torchvision"} & {one.name for one in missing}:
        raise RuntimeError("torch or torchvision is not installed here; follow the README's two commands instead")
    asked = [f"{one.name}{one.specifier}" for one in missing]
    if asked and (complaint := _install(asked)):
        print(f"privlab: {', '.join(asked)} could not be installed beside what is here: {complaint}")
    importlib.invalidate_caches()


def _install(asked: list[str]) -> str:
    """Install these beside what is here; what pip complained of."""
    here = {one.name: one.version for one in metadata.distributions() if one.name}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={version}\n" for name, version in here.items())
        constraints.flush()
        command = [sys.executable, "-m", "pip", "install", "-q", "--constraint", constraints.name, *asked]
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() or "pip failed" if done.returncode else ""
