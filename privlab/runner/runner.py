"""Run labs headlessly, some at a time; keep what they made, and say what it is worth.

In the folder of a run: NN_topic.ipynb as executed, NN_topic.json (how it went), the same in deeper/ of what goes deeper,
index.html (pictures, and every claim of the papers). See `execution` for what happens to one lab.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import platform
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from privlab.compute import machine, tasks
from privlab.compute.atomic import write_atomic
from privlab.runner import catalogue
from privlab.runner.catalogue import Lab

# Seconds that a cell may take where --timeout says nothing: above a whole lab's budget, so that only a hang gets there.
TIMEOUTS = {"smoke": 600, "class": 1800, "night": None, "gpu": 3600, "paper": None}
SAYS = 30  # seconds between the lines that a lab prints on its way
Result = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What to run.  jobs: labs at a time, with cores // jobs threads each.  timeout: of a cell, in seconds.

    cluster: address of a Dask scheduler on which repeats of experiments are measured at night, gpu and paper (`experiments.run`); the labs
        themselves run here, with all that they compute at smoke and class.
    extra: parameters of the labs beside profile, seed and device, each of which every lab of the plan has.
    """

    labs: tuple[Lab, ...]
    out: Path
    profile: str = "smoke"
    seed: int = 0
    device: str = "auto"
    jobs: int = 1
    timeout: int | None = None
    resume: bool = False
    cluster: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"jobs={self.jobs} runs nothing; give 1 or more")
        if self.timeout is not None and self.timeout < 1:
            raise ValueError(f"timeout={self.timeout} gives a cell no time; give seconds, 1 or more")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed} is not one that every generator takes; give one from 0 to {2**32 - 1}")

    @property
    def parameters(self) -> dict[str, Any]:
        return {"profile": self.profile, "seed": self.seed, "device": self.device, **self.extra}

    @property
    def at_once(self) -> int:
        return min(self.jobs, len(self.labs))

    @property
    def threads(self) -> int:
        return max(1, machine.cores() // self.at_once)

    def key(self, lab: Lab) -> dict[str, Any]:
        """What a saved result must agree in to stand for this run of a lab."""
        packages = ("privlab", "torch", "torchvision", "timm", "numpy")
        return {
            "source": lab.digest,
            "package": catalogue.package(),
            "evidence": catalogue.evidence(),
            "versions": {"python": platform.python_version()} | {p: importlib.metadata.version(p) for p in packages},
            "parameters": self.parameters,
        }


def value(text: str) -> Any:
    """What was typed for a parameter of the labs: a Python literal where it is one, else text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def folder(profile: str, extra: Mapping[str, Any]) -> Path:
    """Where the results go if nothing is said; with other parameters elsewhere, as they must not stand in for the usual ones."""
    words = [profile, *(str(word) for pair in extra.items() for word in pair)]
    return Path("runs") / re.sub(r"[^\w.-]+", "_", "-".join(words))[:120]


def cost(plan: Plan) -> str:
    """The rough cost of a plan from the tables in its labs, with a warning where memory is short of it."""
    costs = [lab.costs[plan.profile] for lab in plan.labs if plan.profile in lab.costs]
    if not costs:
        return f"these labs state no cost for {plan.profile}"
    total, available = machine.memory()
    minutes = max(sum(c.minutes for c in costs) / plan.at_once, *(c.minutes for c in costs))
    gb = sum(sorted((c.gb for c in costs), reverse=True)[: plan.at_once])
    line = f"rough cost: {minutes:.1f} min, at most {gb:.1f} GB of memory ({available:.1f} of {total:.1f} GB are free)"
    return line if gb <= available else f"{line}\nwarning: that is more than is free; fewer --jobs need less"


def run(plan: Plan) -> dict[str, Result]:
    """Run a plan's labs; lab name -> result, in the order of the labs.

    With `resume`, labs whose saved result fits (see `Plan.key`) and is green are not run again.
    Raises ValueError, before any runs, for a lab without one of the plan's parameters; KeyboardInterrupt on Ctrl-C, after the labs that
    ran were stopped; what is complete by then stays.
    """
    for lab in plan.labs:
        if lacks := [name for name in plan.parameters if name not in lab.parameters]:
            its = ", ".join(lab.parameters) or "none"
            raise ValueError(f"parameter={lacks[0]!r} is not one of lab {lab.name}, which has {its}")
    there = {lab.name: saved(plan, lab) for lab in plan.labs} if plan.resume else {}
    kept = {name: result for name, result in there.items() if result and not result["error"]}
    for name in kept:
        print(f"{name}  not run again: it is complete in {plan.out}")
    todo = [lab for lab in plan.labs if lab.name not in kept]
    calls = (delayed(_one)(plan, lab) for lab in todo)
    about = dict(initializer=tasks.begin_worker, initargs=(os.getpid(), False))  # labs end with us, however we end
    with parallel_config("loky", inner_max_num_threads=plan.threads, **about):
        done = Parallel(n_jobs=plan.at_once, return_as="generator_unordered", batch_size=1)(calls)
        for result in tqdm(done, total=len(todo), unit="lab", disable=None):
            kept[result["lab"]] = result
            how = f"FAILED  {result['error']}" if result["error"] else "ok"
            tqdm.write(f"{result['lab']}  {how}  {result['seconds']:.1f} s  {result['peak_gb'] or 0:.2f} GB")
    return {lab.name: kept[lab.name] for lab in plan.labs}


def saved(plan: Plan, lab: Lab) -> Result | None:
    """A lab's result in the folder of the run, if it fits `Plan.key`."""
    try:
        result = json.loads((plan.out / f"{lab.name}.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return result if plan.key(lab).items() <= result.items() else None


def _one(plan: Plan, lab: Lab) -> Result:
    """Run one lab, and write its result."""
    from privlab.runner import execution  # in the worker

    key, note, notebook = plan.key(lab), plan.out / f"{lab.name}.json", plan.out / f"{lab.name}.ipynb"
    live = plan.out.absolute() / "live" / lab.name  # where experiments leave what they measure in this lab
    note.parent.mkdir(parents=True, exist_ok=True)
    for old in (note, notebook, *live.rglob("*.jsonl")):
        old.unlink(missing_ok=True)
    began = told = time.monotonic()

    def at(cell: int, cells: int, heading: str) -> None:
        nonlocal told
        if cell == 1 or time.monotonic() - told > SAYS:
            told = time.monotonic()
            print(f"{lab.name}  {told - began:.0f} s, cell {cell} of {cells}, {heading}", flush=True)

    outcome = execution.execute(
        lab.path.resolve(), notebook.resolve(), plan.parameters, plan.timeout, _environment(plan, live), at
    )
    if plan.profile not in ("smoke", "class"):
        key["evidence"] = catalogue.evidence()  # to which the lab has added itself, and so may others have by now
    about = {"status": "failed" if outcome["error"] else "ok", "seconds": round(time.monotonic() - began, 1)}
    result = {"lab": lab.name, **about, **outcome, **key, "threads": plan.threads}
    write_atomic(note, (json.dumps(result, indent=1) + "\n").encode())
    return result


def _environment(plan: Plan, live: Path) -> dict[str, str]:
    """What makes a run repeatable, and keeps parallel labs, and the processes of their fleets, off each other's cores."""
    # a lab runs in its own folder, from where a relative place would be another
    names = [name for name in ("PRIVLAB_DATA", "PRIVLAB_STORE", "PRIVLAB_EVIDENCE") if os.environ.get(name)]
    return {
        **{name: str(Path(os.environ[name]).expanduser().absolute()) for name in names},
        **({"PRIVLAB_CLUSTER": plan.cluster} if plan.cluster else {}),
        "OMP_NUM_THREADS": str(plan.threads),
        "PRIVLAB_JOBS": str(plan.threads),
        "PRIVLAB_LIVE": str(live),
        "PYTHONHASHSEED": "0",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures go into the notebook
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PRIVLAB_STRICT": "1",  # the solutions are in place: an exercise that fails its check is an error
    }
