"""Opening a lab without installing anything: the repository's address, which `[tool.privlab]` of pyproject.toml names, and what follows.

While there is none, no page has a button and no notebook a cell for Colab: a made-up address would send readers to strangers.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from privlab.compute.files import write_atomic

DOOR = "labs/00_start_here.ipynb"  # what the README's buttons open
NOWHERE = "buttons stand here once the repository has an address: `python -m privlab address https://...`"


class Repository(NamedTuple):
    """On GitHub, from where Binder, Colab and Kaggle take notebooks: https://github.com/OWNER/NAME."""

    address: str
    branch: str = "main"


def repository(root: Path) -> Repository | None:
    """What pyproject.toml in `root` names as the repository; None where it names none, or is not there."""
    file = root / "pyproject.toml"
    settings = tomllib.loads(file.read_text(encoding="utf-8-sig")) if file.exists() else {}
    table = settings.get("tool", {}).get("privlab", {"repository": ""})
    return Repository(table["repository"], table["branch"]) if table["repository"] else None


def links(place: Repository | None, path: str) -> dict[str, str]:
    """Where a reader can open a file of the repository, such as labs/00_start_here.ipynb: name -> address; empty without a repository."""
    if not place:
        return {}
    owner_name = place.address.removeprefix("https://github.com/")
    branch, path = quote(place.branch), quote(path)
    page = f"{place.address}/blob/{branch}/{path}"
    return {
        "Binder": f"https://mybinder.org/v2/gh/{owner_name}/{quote(place.branch, safe='')}?urlpath=lab/tree/{path}",
        "Colab": f"https://colab.research.google.com/github/{owner_name}/blob/{branch}/{path}",
        "Kaggle": f"https://www.kaggle.com/kernels/welcome?src={quote(page, safe=':/')}",
        "GitHub": page,
    }


def badges(place: Repository, path: str) -> str:
    """The line at the head of a notebook, in Markdown; words and no pictures, which would tell others who reads."""
    return "Open this lab in " + " · ".join(f"[{name}]({address})" for name, address in links(place, path).items())


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

    The notebooks follow with `pairing.pair`. Raises ValueError, before anything is written, for an address that is not one of GitHub, or
    a branch that would end a string in a notebook.
    """
    address, branch = place or ("", "main")
    form = r"https://github\.com/[\w.-]+/[\w.-]+(?<!\.git) [\w./+-]+"
    if place and not re.fullmatch(form, f"{address} {branch}"):
        raise ValueError(f"address={address!r} with branch={branch!r} is none; try https://github.com/OWNER/NAME")
    buttons = f"{badges(place, DOOR)}. Binder has 2 GB: labs 00 to 05 at `smoke`" if place else NOWHERE
    lines = {  # file -> (what stands before the line, the line, what it is from now on)
        "pyproject.toml": (r"\[tool\.privlab\]\n", r"repository = .*\nbranch = .*", f'repository = "{address}"\nbranch = "{branch}"'),
        "CITATION.cff": (r"\nlicense: .*\n", r"(repository-code: .*\n)?", f"repository-code: {address}\n" if place else ""),
        "README.md": (r"\n\| Binder, Colab, Kaggle \| ", r".*", f"{buttons} |"),
    }  # fmt: skip
    for name, (before, line, new) in lines.items():
        text = (root / name).read_text(encoding="utf-8")
        write_atomic(root / name, re.sub(f"({before}){line}", rf"\g<1>{new}", text, count=1).encode())
    return [root / name for name in lines]
