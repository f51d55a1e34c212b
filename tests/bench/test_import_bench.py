"""What a reader waits for before anything happens: `import privlab`, a lab's first cells, and what follows them.

Each in a process of its own, in turn, beside what torch and the drawing library take alone, which is not ours to cut.
"and a first model" ends where a network is built: timm brings torchvision, and that `torch._dynamo`, which torch itself imports for the
first optimiser of a process, so a cell that trains or searches waits for it anyway.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def beginning(lab):
    """The lab's imports: its first cell of code."""
    (file,) = (ROOT / "labs").glob(f"{lab}_*.py")
    return file.read_text().split("\n# %%\n", 1)[1].split("\n# %%", 1)[0]


THEIRS = "import torch, ipywidgets, pandas, matplotlib.figure"
BEGINNINGS = {
    "python alone": "pass",
    "import privlab": "import privlab",
    THEIRS: THEIRS,
    **{f"lab {lab}, first cell": beginning(lab) for lab in ("04", "09", "14")},
    "lab 04, first cell and a first model": f"{beginning('04')}\nfrom privlab import models\nmodels.build('vit_cifar', seed=0)",
    f"{THEIRS}, timm, torch._dynamo": f"{THEIRS}, timm, torch._dynamo",
}


def a_round(turn):
    seconds = {}
    for what, code in list(BEGINNINGS.items())[:: 1 if turn % 2 else -1]:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        seconds[what] = time.perf_counter() - began
    return dict(seconds=seconds)


def test_seconds(table):
    runs = table.rounds(9, a_round)
    for what in BEGINNINGS:
        table.row(what, [1e3 * run["seconds"][what] for run in runs], "ms", runs=runs)
    for what, theirs in (
        ("lab 04, first cell", THEIRS),
        ("lab 04, first cell and a first model", f"{THEIRS}, timm, torch._dynamo"),
    ):
        ratios = [run["seconds"][what] / run["seconds"][theirs] for run in runs]
        table.row(f"{what}, over {theirs.removeprefix('import ')} alone", ratios, "×", runs=runs)
