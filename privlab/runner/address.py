"""One command for the repository's address: the files that name it, and the notebooks with their buttons and their cell for Colab."""

from __future__ import annotations

import json
import re
from pathlib import Path

from privlab.compute.atomic import write_atomic
from privlab.runner import launch_buttons, pairing
from privlab.runner.launch_buttons import Repository

DOOR = "labs/00_start_here.ipynb"  # what the README's buttons open
ROW = "| Binder, Colab, Kaggle | "
NOWHERE = "buttons stand here once the repository has an address: `python -m privlab address https://...` |"


def settle(root: Path, place: Repository | None) -> list[Path]:
    """Write an address wherever it is named, or take it out again; the paths written, none where all says so already.

    root: the repository's folder.  place: where it lives from now on, or None.
    Sets `[tool.privlab]` in pyproject.toml, `repository-code` in CITATION.cff and the README's row of buttons, and pairs the notebooks.
    Raises ValueError for an address that git could not take, or for a file without the line that is to be set; nothing is written then.
    """
    if place:
        launch_buttons.checked(place.address)
        if not re.fullmatch(r"[\w./+-]+", place.branch):
            raise ValueError(f"branch={place.branch!r} is not a branch's name; try main")
    address, branch = (place.address, place.branch) if place else ("", "main")
    cited = f"\nrepository-code: {json.dumps(address)}" if address else ""
    wanted = (  # file, the line that is to be set, what stands there from now on
        (
            "pyproject.toml",
            r'(\n\[tool\.privlab\]\n)repository = ".*"\nbranch = ".*"',
            f'repository = "{address}"\nbranch = "{branch}"',
        ),
        ("CITATION.cff", r"(\nlicense: .*)(?:\nrepository-code: .*)?", cited),
        ("README.md", rf"(\n{re.escape(ROW)}).*", _buttons(place)),
    )
    texts = {}
    for name, line, new in wanted:
        old = (root / name).read_text(encoding="utf-8")
        match = re.search(line, old)
        if not match:
            raise ValueError(f"{root / name} has no line like {line!r}; restore it with git checkout {name}")
        text = old[: match.end(1)] + new + old[match.end() :]
        if text != old:
            texts[root / name] = text
    for path, text in texts.items():
        write_atomic(path, text.encode())
    return [*texts, *pairing.pair(root / "labs")]


def _buttons(place: Repository | None) -> str:
    if place is None:
        return NOWHERE
    links = (
        launch_buttons.badges(place, DOOR)
        or f"[the repository]({place.address}) is not on GitHub, from where these take notebooks"
    )
    return f"{links}. Binder has 2 GB: labs 00 to 05 at `smoke` |"
