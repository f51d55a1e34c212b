"""What each lab takes at smoke and at class: one at a time, with its data fetched and nothing trained before. An hour or two.

The figures go into book/baselines/labs.json, and from there into the heads of the labs and the tables of README and of the teacher's
guide. A lab that runs/bench has at its present source is not run again; remove runs/bench/labs_* to begin anew.
"""

import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import measured_on
import pytest

from privlab.compute.files import write_atomic
from privlab.runner import catalogue, pairing

ROOT = Path(__file__).parents[2]


def put(path, line, end):
    """Give the line of a file that begins so another end."""
    text = path.read_text()
    path.write_text(re.sub(rf"^({line}).*$", lambda found: found[1] + end, text, count=1, flags=re.MULTILINE))


@pytest.mark.parametrize("deeper", [False, True], ids=["labs", "deeper"])
def test_minutes_and_memory(deeper):
    shelf = [lab for lab in catalogue.everything(ROOT / "labs") if lab.goes_deeper == deeper]
    table, took = ROOT / "book/baselines/labs.json", {}
    run = [sys.executable, "-m", "privlab", "run", "--resume", *(["--deeper"] if deeper else [])]
    subprocess.run(run, cwd=ROOT, check=True)  # as `make run` leaves it: what they need is fetched
    for profile in ("smoke", "class"):
        out = ROOT / f"runs/bench/labs_{profile}"
        own = os.environ | {"PRIVLAB_STORE": str(out / "store")}
        subprocess.run([*run, "--profile", profile, "--out", out], cwd=ROOT, env=own, check=True)
        for lab in shelf:
            found = json.loads((out / f"{lab.name}.json").read_text())
            took.setdefault(lab.name, {})[profile] = [round(found["seconds"] / 60, 1), round(found["peak_gb"], 1)]
    here = {"date": date.today().isoformat(), "machine": measured_on.about()}
    content = json.loads(table.read_text()) | {name: here | figures for name, figures in took.items()}
    write_atomic(table, (json.dumps(content, indent=1) + "\n").encode())
    for lab in shelf:
        (m, g), (more, most) = took[lab.name]["smoke"], took[lab.name]["class"]
        put(lab.path, r"# \| smoke \| ", f"{m:g} | {g:.1f} GB |")
        put(lab.path, r"# \| class \| ", f"{more:g} | {most:.1f} GB |")
    pairing.pair(ROOT / "labs")
