"""Opening a lab without installing anything: the repository's address, set in one place, and what follows from it.

`[tool.privlab]` in pyproject.toml names the address, and `python -m privlab address` sets it. While there is none, no page has a button
and no notebook a cell for Colab: a made-up address would send readers to strangers.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from privlab.compute.atomic import write_atomic

DOOR = "labs/00_start_here.ipynb"  # what the README's buttons open
NOWHERE = "buttons stand here once the repository has an address: `python -m privlab address https://...`"


class Repository(NamedTuple):
    """A git repository: its address, such as https://github.com/OWNER/NAME, and the branch that readers get."""

    address: str
    branch: str = "main"


def repository(root: Path) -> Repository | None:
    """What pyproject.toml in `root` names as the repository; None where it names none, or is not there."""
    file = root / "pyproject.toml"
    settings = tomllib.loads(file.read_text(encoding="utf-8-sig")) if file.exists() else {}
    table = settings.get("tool", {}).get("privlab", {})
    return Repository(table["repository"], table["branch"]) if table.get("repository") else None


def links(place: Repository | None, path: str) -> dict[str, str]:
    """Where a reader can open a file of the repository, such as labs/00_start_here.ipynb: name -> address.

    Empty without a repository, and for one that is not on GitHub, from where Binder, Colab and Kaggle take notebooks.
    """
    at = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?/?", place.address) if place else None
    if not place or not at:
        return {}
    branch, path = quote(place.branch), quote(path)
    page = f"https://github.com/{at[1]}/blob/{branch}/{path}"
    return {
        "Binder": f"https://mybinder.org/v2/gh/{at[1]}/{quote(place.branch, safe='')}?urlpath=lab/tree/{path}",
        "Colab": f"https://colab.research.google.com/github/{at[1]}/blob/{branch}/{path}",
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


def settle(root: Path, place: Repository | None) -> list[Path]:
    """Write an address into the files of the repository in `root` that name it, or take it out where there is none; the paths.

    The notebooks follow with `pairing.pair`. Raises ValueError, before anything is written, for an address or a branch that would end
    a string in a notebook.
    """
    address, branch = place or ("", "main")
    if place and not re.fullmatch(r"https://[\w./~+-]+ [\w./+-]+", f"{address} {branch}"):
        raise ValueError(f"address={address!r} with branch={branch!r} is none; try https://github.com/OWNER/NAME")
    buttons = NOWHERE
    if place:
        buttons = f"{badges(place, DOOR) or f'[the repository]({address})'}. Binder has 2 GB: labs 00 to 05 at `smoke`"
    lines = {  # file -> (what stands before the line, the line, what it is from now on)
        "pyproject.toml": (r"\[tool\.privlab\]\n", r"repository = .*\nbranch = .*", f'repository = "{address}"\nbranch = "{branch}"'),
        "CITATION.cff": (r"\nlicense: .*\n", r"(repository-code: .*\n)?", f"repository-code: {address}\n" if place else ""),
        "README.md": (r"\n\| Binder, Colab, Kaggle \| ", r".*", f"{buttons} |"),
    }  # fmt: skip
    for name, (before, line, new) in lines.items():
        text = (root / name).read_text(encoding="utf-8")
        write_atomic(root / name, re.sub(f"({before}){line}", rf"\g<1>{new}", text, count=1).encode())
    return [root / name for name in lines]
