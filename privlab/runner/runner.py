"""Run labs headlessly, some at a time; keep what they made, and say what it is worth.

In the folder of a run: NN_topic.ipynb as executed, NN_topic.json (how it went), the same in deeper/ of what goes deeper,
index.html (pictures, and every claim of the papers). See `execution` for what happens to one lab.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import joblib
from filelock import FileLock, Timeout
from tqdm import tqdm

from privlab.compute import machine, tasks
from privlab.compute.files import make_folder, write_atomic
from privlab.ledger import evidence
from privlab.runner import catalogue
from privlab.runner.catalogue import Lab

# Seconds that a cell may take: above a whole lab's budget, so that only a hang gets there.
TIMEOUTS = {"smoke": 600, "class": 1800, "night": None, "gpu": 3600, "paper": None}
Result = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What to run.  jobs: labs at a time, no more than there are, with cores // jobs threads each.

    extra: parameters beside the profile that each lab of the plan has, such as seed (0) and device ("auto").
    Raises ValueError for what cannot be run.
    """

    labs: tuple[Lab, ...]
    out: Path
    profile: str = "smoke"
    jobs: int = 1
    resume: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        evidence.checked(self.profile, "profile")
        machine.check_device(str(self.parameters["device"]))
        if self.jobs < 1:
            raise ValueError(f"jobs={self.jobs} runs nothing; give 1 or more")
        for lab in self.labs:
            if lacks := [name for name in self.parameters if name not in lab.parameters]:
                its = ", ".join(lab.parameters) or "none"
                raise ValueError(f"parameter={lacks[0]!r} is not one of lab {lab.name}, which has {its}")

    @property
    def parameters(self) -> dict[str, Any]:
        return {"profile": self.profile, "seed": 0, "device": "auto", **self.extra}

    @property
    def threads(self) -> int:
        return max(1, machine.cores() // self.jobs)

    def key(self, lab: Lab) -> dict[str, Any]:
        """What a saved result must agree in to stand for this run of a lab."""
        return dict(source=lab.digest, package=package(), evidence=measured(), parameters=self.parameters)

    def saved(self, lab: Lab) -> Result | None:
        """A lab's result in the folder of the run, if it fits the key."""
        try:
            result = json.loads((self.out / f"{lab.name}.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return result if self.key(lab).items() <= result.items() else None


@cache
def package() -> str:
    """A digest of the releases and the package, with the tables, claims and drawings that lie with its modules."""
    releases = map(metadata.version, ("privlab", "torch", "torchvision", "timm", "numpy"))
    kinds = (".py", ".csv", ".toml", ".yaml", ".svg")
    files = sorted(path for path in catalogue.HOUSE.rglob("*") if path.suffix in kinds)
    return joblib.hash([sys.version, *releases, *((file.name, file.read_bytes()) for file in files)])


def measured() -> str:
    """A digest of what is registered and measured now."""
    return joblib.hash([(file.name, file.read_bytes()) for file in sorted(evidence.folder().rglob("*.jsonl"))])


def folder(profile: str, extra: Mapping[str, Any]) -> Path:
    """Where the results go if nothing is said; with other parameters elsewhere, as they must not stand in for the usual ones."""
    words = [profile, *(str(word) for pair in extra.items() for word in pair)]
    return Path("runs") / re.sub(r"[^\w.-]+", "_", "-".join(words))[:120]


def run(plan: Plan, shelf: Sequence[Lab]) -> list[str]:
    """Run a plan alone in its folder, print how it goes, and end with one screen; the labs that failed.

    shelf: all labs, for the page of what the folder holds.
    With `resume`, labs whose saved result fits (see `Plan.key`) and is green are not run again.
    Raises ValueError for a folder in use; KeyboardInterrupt, and OSError for a lab's process that died, which say what was kept.
    """
    make_folder(plan.out)
    kept = f"what is complete stays in {plan.out}; the same command with --resume continues"
    try:
        with FileLock(plan.out / ".run.lock", timeout=0):
            results = executed(plan)
    except Timeout:
        raise ValueError(f"out={str(plan.out)!r} is in use by another run; wait for its end, or give another") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept) from None
    except BrokenProcessPool as death:
        raise OSError(f"a lab's process died (no memory left?); try fewer --jobs. {kept.capitalize()}") from death
    from privlab.runner import screen  # not beside the labs in memory

    held = {lab.name: results.get(lab.name) or plan.saved(lab) for lab in shelf}
    print("", screen.finish(plan.out, results, {name: result for name, result in held.items() if result}), sep="\n")
    failed = [name for name, result in results.items() if result["error"]]
    said = f"{len(failed)} of {len(results)} labs failed: {', '.join(failed)}"
    print(said if failed else f"all labs succeeded; see {plan.out}")
    return failed


def executed(plan: Plan) -> dict[str, Result]:
    """Run a plan's labs, but what stands for them; lab name -> result, in the order of the labs."""
    names, each = ", ".join(lab.name for lab in plan.labs), f"{plan.threads} thread{'s' * (plan.threads != 1)} each"
    print(f"{names} at the profile {plan.profile}, {plan.jobs} at once, {each}", flush=True)
    there = {lab.name: plan.saved(lab) for lab in plan.labs} if plan.resume else {}
    kept = {name: result for name, result in there.items() if result and not result["error"]}
    for name in kept:
        print(f"{name}  not run again: it is complete in {plan.out}")
    todo = [lab for lab in plan.labs if lab.name not in kept]
    done = tasks.in_processes(plan.jobs, plan.threads, (joblib.delayed(_one)(plan, lab) for lab in todo))
    for result in tqdm(done, total=len(todo), unit="lab", disable=None):
        kept[result["lab"]] = result
        how = f"FAILED  {result['error']}" if result["error"] else "ok"
        tqdm.write(f"{result['lab']}  {how}  {result['seconds']:.1f} s  {result['peak_gb'] or 0:.2f} GB")
    return {lab.name: kept[lab.name] for lab in plan.labs}


def _one(plan: Plan, lab: Lab) -> Result:
    """Run one lab, and write its result."""
    from privlab.runner import execution  # in the worker

    key, note, notebook = plan.key(lab), plan.out / f"{lab.name}.json", plan.out / f"{lab.name}.ipynb"
    live = plan.out.absolute() / "live" / lab.name  # where experiments leave what they measure in this lab
    note.parent.mkdir(parents=True, exist_ok=True)
    for old in (note, notebook, *live.rglob("*.jsonl")):
        old.unlink(missing_ok=True)
    limit, around = TIMEOUTS[plan.profile], _environment(plan.threads, live)
    outcome = execution.execute(lab.path.resolve(), notebook.resolve(), plan.parameters, limit, **around)
    if plan.profile not in ("smoke", "class"):
        key["evidence"] = measured()  # to which the lab has added itself, and so may others have by now
    result = {"lab": lab.name, **outcome, **key, "threads": plan.threads}
    write_atomic(note, (json.dumps(result, indent=1) + "\n").encode())
    return result


def _environment(threads: int, live: Path) -> dict[str, str]:
    """What makes a run repeatable, and keeps parallel labs, and the processes of their fleets, off each other's cores."""
    # a lab runs in its own folder, from where a relative place would be another
    names = [name for name in ("PRIVLAB_DATA", "PRIVLAB_STORE", "PRIVLAB_EVIDENCE") if os.environ.get(name)]
    return {
        **{name: str(Path(os.environ[name]).expanduser().absolute()) for name in names},
        "OMP_NUM_THREADS": str(threads),
        "PRIVLAB_JOBS": str(threads),
        "PRIVLAB_LIVE": str(live),
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures go into the notebook
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PRIVLAB_STRICT": "1",  # the solutions are in place: an exercise that fails its check is an error
    }
