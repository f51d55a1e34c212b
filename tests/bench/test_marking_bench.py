"""A class of thirty, marked: five notebooks each, with answers that are right, wrong, missing or hostile. Two rounds give the same table.

Run by `make bench`. The class is the same each time, to the byte. Rounds are kept in runs/bench/bench_marking.json.
"""

import csv
import hashlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from privlab.runner import catalogue, pairing

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
LABS = ["00", "02", "05", "08", "11"]
STUDENTS, MINUTES, ROUNDS = 30, 6, 2
CANARY = "a-secret-of-the-teacher"
HOSTILE = {  # each is the habit of one student, in one exercise of each notebook; FOLDER: where all notebooks are
    "loops": "while True: pass",
    "takes memory": "x = [bytes(10**8) for _ in range(10**4)]",
    "forks": "import os\n    while True: os.fork()",
    "exits": "import sys; sys.exit()",
    "kills": "import os; os.kill(os.getppid(), 9)",
    "overwrites": "import pathlib\n    for p in pathlib.Path('FOLDER').glob('*/*'): p.write_text('mine')",
    "removes": "import shutil; shutil.rmtree('FOLDER')",
    "reads the environment": "import os; raise KeyError(os.environ['TOKEN'])",
    "reads its parent's": "import glob; raise KeyError([open(p).read() for p in glob.glob('/proc/[0-9]*/environ')])",
    "prints 100 MB": "for _ in range(100): print('x' * 10**6)",
}


def returned(cells, habit, chance):
    """A solved lab as a student returns it: before each check, the answer is replaced or left."""
    asked = [k for k, cell in enumerate(cells) if "checks.verify(" in cell["source"]]
    spoilt = chance.choice(asked) if habit else None
    done = []
    for k, cell in enumerate(cells):
        if k in asked:
            name = re.search(r"checks\.verify\([^,]+, (\w+)", cell["source"])[1]
            wrong, open_ = f"{name} = lambda *given: 0.0", f"{name} = ..."
            source = chance.choices(["", wrong, open_], [6, 3, 1])[0]
            if k == spoilt:
                plain = not any(f"def {name}(" in c["source"] for c in cells)
                source = f"def {name}(*given):\n    {HOSTILE[habit]}\n" + f"{name} = {name}()" * plain
            done.append({"cell_type": "code", "source": source})
        done.append(cell)
    return json.dumps({"cells": done, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def build(folder):
    """The class: a folder for each student. One in fifteen notebooks is cut in half, and one has another name."""
    chance = random.Random(0)
    habits = list(HOSTILE) + [None] * (STUDENTS - len(HOSTILE))
    labs = [(lab, [dict(cell) for cell in pairing.notebook(lab.path).cells]) for lab in
            catalogue.pick(catalogue.labs(ROOT / "labs"), LABS)]  # fmt: skip
    for number, habit in enumerate(habits):
        (folder / f"s{number:02}").mkdir()
        for lab, cells in labs:
            text = returned(cells, habit, chance).replace("FOLDER", str(folder))
            luck = chance.randrange(15)
            name = f"mine ({lab.number}).ipynb.txt" if luck == 1 else f"{lab.name}.ipynb"
            (folder / f"s{number:02}" / name).write_text(text[: len(text) // 2] if luck == 0 else text)


def state(folder):
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*.ip*"))
    }


def marked(folder, out, jobs):
    before, busy, began = state(folder), resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "privlab", "mark", folder, "--out", out, "--jobs", jobs]
    done = subprocess.run(
        [*map(str, command)], env=os.environ | {"TOKEN": CANARY}, cwd=ROOT, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    assert done.returncode == 0, done.stderr
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert state(folder) == before and CANARY not in done.stdout + done.stderr + out.read_text()
    rows = list(csv.DictReader(out.read_text().splitlines()))
    answers = [
        cell.split(":")[0] for row in rows for name, cell in row.items() if re.fullmatch(r"\d\d\.\w+", name) and cell
    ]
    return dict(
        seconds=seconds,
        processor=now.ru_utime + now.ru_stime - busy.ru_utime - busy.ru_stime,
        table=hashlib.sha256(out.read_bytes()).hexdigest(),
        answers={kind: answers.count(kind) for kind in ("right", "wrong", "open", "failed")},
        notebooks=len(rows),
    )


def test_a_class_of_thirty(table, tmp_path):
    folder = tmp_path / "class"
    folder.mkdir()
    build(folder)
    runs = [
        table.kept(dict(round=turn, jobs=2), partial(marked, folder, tmp_path / f"marks_{turn}.csv", 2))
        for turn in range(ROUNDS)
    ]
    assert len({run["table"] for run in runs}) == 1, "the second table is another"
    assert all(run["notebooks"] == STUDENTS * len(LABS) for run in runs)
    seconds, limit = [run["seconds"] for run in runs], 60 * MINUTES
    holds = True if max(seconds) <= limit else False if table.quiet(runs) else None
    what = f"{STUDENTS} students, {len(LABS)} notebooks each, two at a time"
    told = ", ".join(f"{count} {kind}" for kind, count in runs[0]["answers"].items())
    table.row(what, seconds, "s", f"≤ {limit} s", holds, f"answers: {told}; the tables are equal", runs=runs)
    table.row(f"{what}: of a processor", [run["processor"] for run in runs], "s", runs=runs)
