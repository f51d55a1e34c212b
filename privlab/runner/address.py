"""One command for the repository's address: the files that name it, and the notebooks with their buttons and their cell for Colab."""

import re
from pathlib import Path

from privlab.compute.atomic import write_atomic
from privlab.runner import launch_buttons, pairing

DOOR = "labs/00_start_here.ipynb"  # what the README's buttons open
NOWHERE = "buttons stand here once the repository has an address: `python -m privlab address https://...`"


def settle(root: Path, place: launch_buttons.Repository | None) -> list[Path]:
    """Write an address wherever the repository in `root` names it, or take it out again where there is none; the paths written.

    Raises ValueError, before anything is written, for an address or a branch that would end a string in a notebook.
    """
    address, branch = (place.address, place.branch) if place else ("", "main")
    if place and not re.fullmatch(r"https://[\w./~+-]+ [\w./+-]+", f"{address} {branch}"):
        raise ValueError(f"address={address!r} with branch={branch!r} is none; try https://github.com/OWNER/NAME")
    buttons = NOWHERE
    if place:
        buttons = launch_buttons.badges(place, DOOR) or f"[the repository]({address})"
        buttons += ". Binder has 2 GB: labs 00 to 05 at `smoke`"
    lines = {  # file -> (what stands before the line, the line, what it is from now on)
        "pyproject.toml": (r"\[tool\.privlab\]\n", r"repository = .*\nbranch = .*", f'repository = "{address}"\nbranch = "{branch}"'),
        "CITATION.cff": (r"\nlicense: .*\n", r"(repository-code: .*\n)?", f"repository-code: {address}\n" if place else ""),
        "README.md": (r"\n\| Binder, Colab, Kaggle \| ", r".*", f"{buttons} |"),
    }  # fmt: skip
    for name, (before, line, new) in lines.items():
        text = (root / name).read_text(encoding="utf-8")
        write_atomic(root / name, re.sub(f"({before}){line}", rf"\g<1>{new}", text, count=1).encode())
    return [*(root / name for name in lines), *pairing.pair(root / "labs")]
