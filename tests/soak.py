"""The whole book at smoke, again and again: does any lab ever fail, or give another number than before?  `make soak`.

Each round runs every lab once, controls moved to their ends, two labs at a time. The first rounds begin with an empty store and train
everything; the others find it trained. Each round is a line of runs/soak/soak.jsonl as soon as it is done; stopped, it goes on with the
next round. Exit status 1 where a lab failed, an experiment differed from the first round's with the same seed on the same machine, or a
round that began with an empty store trained nothing, and so had another.

SOAK_ROUNDS (20) and SOAK_COLD (3) make it shorter; SOAK_OUT is another folder.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from props import measured_on

from privlab.compute.files import write_atomic
from privlab.runner import canaries, catalogue

ROUNDS, COLD = (int(os.environ.get(f"SOAK_{name}", default)) for name, default in (("ROUNDS", 20), ("COLD", 3)))
OUT = Path(os.environ.get("SOAK_OUT", "runs/soak"))


def kept(stored: Path) -> int:
    """How many finished models and searches a store holds."""
    return sum(1 for _ in stored.rglob("complete.json"))


def one(number: int) -> dict:
    """Round `number`, counted from 1: seconds, peak memory and error of each lab, and the experiments that differ from round 1."""
    here, stored = OUT / f"{number:02d}", OUT / "store"
    if number <= COLD:
        shutil.rmtree(stored, ignore_errors=True)
    before = kept(stored)
    command = [sys.executable, "-m", "privlab", "run", "--profile", "smoke", "--jobs", "2", "--resume", "--out", here]
    done = subprocess.run(command, env=os.environ | {"PRIVLAB_STORE": str(stored)}, capture_output=True, text=True)
    labs = catalogue.pick(catalogue.everything(Path("labs")))
    results = [json.loads((here / f"{lab.name}.json").read_text()) for lab in labs]
    lives = (canaries.live(of).items() for of in (here, OUT / "01"))
    now, first = ({name: [row.values for row in rows] for name, rows in live} for live in lives)
    return {
        "round": number,
        "store": "kept" if before else "empty",
        "trained": kept(stored) - before,
        "status": done.returncode,
        "labs": {r["lab"]: {k: r[k] for k in ("seconds", "peak_gb", "error")} for r in results},
        "controls": sum(len(r["controls"]) for r in results),
        "differ": [name for name, values in first.items() if now.get(name) != values],
    }


def main() -> int:
    log = OUT / "soak.jsonl"
    rounds = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    OUT.mkdir(parents=True, exist_ok=True)
    for number in range(len(rounds) + 1, ROUNDS + 1):
        rounds.append(one(number))
        with log.open("a") as file:
            file.write(json.dumps(rounds[-1]) + "\n")
        failed = [name for name, lab in rounds[-1]["labs"].items() if lab["error"]]
        about = {name: rounds[-1][name] for name in ("store", "trained", "controls", "differ")}
        print(f"round {number}: failed {failed or 'none'}; {about}", flush=True)
    errors = {name: [r["labs"][name]["error"] for r in rounds if name in r["labs"]] for name in rounds[0]["labs"]}
    table = {name: {"runs": len(each), "failed": sum(map(bool, each))} for name, each in errors.items()}
    differ = sorted({text for r in rounds for text in r["differ"]})
    trained = [r["trained"] for r in rounds if r["store"] == "empty"]
    about = {"machine": measured_on.about(), "rounds": len(rounds), "trained": trained}
    result = about | {"labs": table, "differ": differ}
    write_atomic(OUT / "soak.json", (json.dumps(result, indent=1) + "\n").encode())
    flakes = sum(lab["failed"] for lab in table.values())
    print(f"{len(rounds)} rounds: {flakes} failures, {len(differ)} experiments that differed; see {OUT / 'soak.json'}")
    return int(bool(flakes or differ or any(r["status"] for r in rounds) or not all(trained)))


if __name__ == "__main__":
    sys.exit(main())
