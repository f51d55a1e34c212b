"""Opening a lab without installing anything: the repository's address, set in one place, and what follows from it.

`[tool.privlab]` in pyproject.toml names the address, and `python -m privlab address` sets it. While there is none, no page has a button
and no notebook a cell for Colab: a made-up address would send readers to strangers.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote


@dataclass(frozen=True)
class Repository:
    """A git repository: its address, such as https://github.com/OWNER/NAME, and the branch that readers get."""

    address: str
    branch: str = "main"

    @property
    def github(self) -> str | None:
        """OWNER/NAME on GitHub, from where Binder, Colab and Kaggle take notebooks; None for any other place."""
        match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?/?", self.address)
        return match[1] if match else None


def repository(root: Path) -> Repository | None:
    """What pyproject.toml in `root` names as the repository; None where it names none, or is not there."""
    file = root / "pyproject.toml"
    settings = tomllib.loads(file.read_text(encoding="utf-8-sig")) if file.exists() else {}
    table = settings.get("tool", {}).get("privlab", {})
    return Repository(table["repository"], table["branch"]) if table.get("repository") else None


def links(place: Repository | None, path: str) -> dict[str, str]:
    """Where a reader can open a file of the repository, such as labs/00_start_here.ipynb: name -> address.

    Empty without a repository, and for one that is not on GitHub.
    """
    if place is None or not place.github:
        return {}
    at, branch, path = place.github, quote(place.branch), quote(path)
    page = f"https://github.com/{at}/blob/{branch}/{path}"
    return {
        "Binder": f"https://mybinder.org/v2/gh/{at}/{quote(place.branch, safe='')}?urlpath=lab/tree/{path}",
        "Colab": f"https://colab.research.google.com/github/{at}/blob/{branch}/{path}",
        "Kaggle": f"https://www.kaggle.com/kernels/welcome?src={quote(page, safe=':/')}",
        "GitHub": page,
    }


def badges(place: Repository, path: str) -> str:
    """The line at the head of a notebook, in Markdown; words and no pictures, which would tell others who reads."""
    places = links(place, path).items()
    return "Open this lab in " + " · ".join(f"[{name}]({address})" for name, address in places) if places else ""


def setup(place: Repository) -> str:
    """The cell that makes a notebook run on Colab and Kaggle; what it does beyond one line is in `privlab.runner.colab`."""
    return f"""\
# On Colab or Kaggle: install privlab beside the torch that is there. Anywhere else this cell does nothing.
import importlib.util
import os
import subprocess
import sys

colab = importlib.util.find_spec("google") and importlib.util.find_spec("google.colab")
if (colab or "KAGGLE_KERNEL_RUN_TYPE" in os.environ) and not importlib.util.find_spec("privlab"):
    source = "git+{place.address}@{place.branch}"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", source]).returncode:
        raise SystemExit("privlab could not be installed; on Kaggle, turn Internet on in the notebook's settings")
    importlib.invalidate_caches()
    from privlab.runner.colab import complete

    complete()"""
