"""Opening a lab without installing anything: the repository's address, which `[tool.privlab]` of pyproject.toml names, and what follows.

It is one of GitHub, https://github.com/OWNER/NAME, from whose branch main Binder and Colab take notebooks. While there is none
(""), no page has a button and no notebook a cell for Colab: a made-up address would send readers to strangers.
"""

import re
import tomllib
from pathlib import Path

from privlab.compute.files import write_atomic


def repository(root: Path) -> str:
    """The address that pyproject.toml in `root` names; "" where it names none, or is not there."""
    file = root / "pyproject.toml"
    settings = tomllib.loads(file.read_text(encoding="utf-8-sig")) if file.exists() else {}
    return settings.get("tool", {}).get("privlab", {}).get("repository", "")


def links(address: str, path: str) -> dict[str, str]:
    """Where a reader can open a file of the repository, such as labs/00_start_here.ipynb: name -> address; empty without a repository."""
    owner_name, page = address.removeprefix("https://github.com/"), f"{address}/blob/main/{path}"
    found = {
        "Binder": f"https://mybinder.org/v2/gh/{owner_name}/main?urlpath=lab/tree/{path}",
        "Colab": f"https://colab.research.google.com/github/{owner_name}/blob/main/{path}",
        "GitHub": page,
    }
    return found if address else {}


def badges(address: str, path: str) -> str:
    """The line at the head of a notebook, in Markdown; words and no pictures, which would tell others who reads."""
    return "Open this lab in " + " · ".join(f"[{name}]({to})" for name, to in links(address, path).items())


def setup(address: str) -> str:
    """The cell that makes a notebook run on Colab; what it does beyond one line is in `privlab.runner.doctor`."""
    return f"""\
# On Colab: install privlab beside the torch that is there. Anywhere else this cell does nothing.
import importlib.util
import subprocess
import sys

colab = importlib.util.find_spec("google") and importlib.util.find_spec("google.colab")
if colab and not importlib.util.find_spec("privlab"):
    source = "git+{address}@main"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", source]).returncode:
        raise SystemExit("privlab could not be installed; see what pip says above")
    importlib.invalidate_caches()
    from privlab.runner.doctor import complete

    complete()"""


def settle(root: Path, address: str) -> list[Path]:
    """Write an address into the files of the repository in `root` that name it, or take it out where it is ""; the paths.

    The notebooks follow with `pairing.pair`. Raises ValueError, before anything is written, for an address that is not one of GitHub.
    """
    if address and not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+(?<!\.git)", address):
        raise ValueError(f"address={address!r} is none; try https://github.com/OWNER/NAME")
    buttons = "buttons stand here once the repository has an address: `python -m privlab address https://...`"
    if address:
        buttons = f"{badges(address, 'labs/00_start_here.ipynb')}. Binder has 2 GB: labs 00 to 05 at `smoke`"
    lines = {  # file -> (a line, what it is from now on)
        "pyproject.toml": (r"^repository = .*$", f'repository = "{address}"'),
        "CITATION.cff": (r"^(license: .*\n)(?:repository-code: .*\n)?", r"\1" + f"repository-code: {address}\n" * bool(address)),
        "README.md": (r"^(\| Binder, Colab \| ).*$", rf"\1{buttons} |"),
    }  # fmt: skip
    for name, (line, new) in lines.items():
        text = (root / name).read_text(encoding="utf-8")
        write_atomic(root / name, re.sub(line, new, text, count=1, flags=re.MULTILINE).encode())
    return [root / name for name in lines]
