"""Run labs headlessly, each in its own process, some at a time; keep what they made, and say what it is worth.

In the folder of a run: NN_topic.ipynb as executed, NN_topic.json (how it went), the same in deeper/ of what goes deeper,
index.html (pictures, and every claim of the papers). See `execution` for what happens inside the process of a lab.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from privlab.compute import machine, places
from privlab.compute.atomic import write_atomic
from privlab.ledger import lab_notes
from privlab.runner.catalogue import Lab
from privlab.runner.progress import Board

# Seconds that a cell may take where --timeout says nothing: above a whole lab's budget, so that only a hang gets there.
TIMEOUTS = {"smoke": 600, "class": 1800, "night": None, "gpu": 3600, "paper": None}
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
            raise ValueError(
                f"seed={self.seed} is not a seed that every generator takes; give one from 0 to {2**32 - 1}"
            )
        for name in self.extra:
            if name in ("profile", "seed", "device"):
                raise ValueError(f"parameter={name!r} has an option of its own; give --{name}")
            for lab in self.labs:
                if lab.parameters and name not in lab.parameters:
                    its = ", ".join(lab.parameters)
                    raise ValueError(f"parameter={name!r} is not one of lab {lab.name}, which has {its}")

    @property
    def at_once(self) -> int:
        return min(self.jobs, len(self.labs))

    @property
    def threads(self) -> int:
        return max(1, machine.cores() // self.at_once)

    def parameters(self) -> dict[str, Any]:
        return {"profile": self.profile, "seed": self.seed, "device": self.device, **self.extra}

    def key(self, lab: Lab) -> dict[str, Any]:
        """What a saved result must agree in to stand for this run of a lab."""
        return {
            "source": lab.digest,
            "package": lab.package,
            "evidence": lab.evidence(),
            "versions": _versions(),
            "profile": self.profile,
            "seed": self.seed,
            "device": self.device,
            "parameters": dict(self.extra),
        }


def value(name: str, text: str) -> Any:
    """What was typed for a parameter of the labs: a Python literal where it is one, else text.

    Raises ValueError for a literal that the process of a lab cannot be sent, such as a set or an infinity.
    """
    try:
        literal = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    try:
        return json.loads(json.dumps(literal, allow_nan=False))
    except (TypeError, ValueError):
        raise ValueError(
            f"parameter={name!r}: {text} is not a finite number, text, list, dict, None or truth value"
        ) from None


def _looks_typed(word: Any) -> bool:
    """Whether this is text that looks like something else: "8"."""
    with contextlib.suppress(ValueError):
        return isinstance(word, str) and value("", word) != word
    return True


def folder(profile: str, extra: Mapping[str, Any]) -> Path:
    """Where the results go if nothing is said; with other parameters elsewhere, as they must not stand in for the usual ones."""
    words = [profile, *(str(word) for pair in extra.items() for word in pair)]
    plain = [re.sub(r"[^\w.]+", "_", word) for word in words]
    name = "-".join(plain)[:120]
    changed = plain != words or name != "-".join(plain)
    if changed or any(map(_looks_typed, extra.values())):  # others would have the same
        name += f"-{hashlib.sha256(json.dumps([profile, *extra.items()]).encode()).hexdigest()[:8]}"
    return Path("runs") / name


def cost(plan: Plan) -> str:
    """The rough cost of a plan from the tables in its labs, with a warning where memory is short of it."""
    costs = [lab.costs[plan.profile] for lab in plan.labs if plan.profile in lab.costs]
    silent = [lab.name for lab in plan.labs if plan.profile not in lab.costs]
    total, available = machine.memory()
    minutes = max([sum(c.minutes for c in costs) / plan.at_once, *(c.minutes for c in costs)])
    gb = sum(sorted((c.gb for c in costs), reverse=True)[: plan.at_once])
    lines = (
        [f"rough cost: {_minutes(minutes)}, at most {gb:.1f} GB of memory ({available:.1f} of {total:.1f} GB are free)"]
        if costs
        else []
    )
    if silent:
        lines.append(f"these labs state no cost for {plan.profile}: {', '.join(silent)}")
    if gb > available:
        fewer = (
            "; fewer --jobs need less"
            if plan.at_once > 1
            else "; close other programs, or use a machine with more memory"
        )
        lines.append(f"warning: the labs may need {gb:.1f} GB, but {available:.1f} GB are free{fewer}")
    return "\n".join(lines)


def run(plan: Plan, board: Board | None = None) -> dict[str, Result]:
    """Run a plan's labs; lab name -> result, in the order of the labs.

    With `resume`, labs whose saved result fits (see `Plan.key`) and is green are not run again.
    Raises KeyboardInterrupt on Ctrl-C, after the labs that ran were stopped; what is complete by then stays.
    """
    board = board or Board()
    results: dict[str, Result | None] = {
        lab.name: None for lab in plan.labs
    }  # in the order of the labs, whoever ends first
    for lab in plan.labs if plan.resume else ():
        results[lab.name] = saved(plan, lab, "ok")
        if results[lab.name]:
            board.say(f"{lab.name}  not run again: it is complete in {plan.out}")
        elif wrong := damage(plan, lab):
            board.say(f"{lab.name}  is run again: {wrong.rpartition(';')[0]}")
    todo = [lab for lab in plan.labs if not results[lab.name]]
    workers: dict[str, subprocess.Popen[str]] = {}
    stop = threading.Event()

    def one(lab: Lab) -> None:
        if not stop.is_set():
            results[lab.name] = _one(plan, lab, workers, board, stop)

    with ThreadPoolExecutor(plan.at_once) as pool:
        futures = [pool.submit(one, lab) for lab in todo]
        try:
            while wait(futures, timeout=1, return_when="FIRST_EXCEPTION").not_done and not _broken(futures):
                board.tick()
        finally:
            stop.set()
            for future in futures:
                future.cancel()
            _end(list(workers.values()))
            board.close()
    for future in futures:
        future.result()
    return {name: result for name, result in results.items() if result}


def _broken(futures: list[Any]) -> bool:
    return any(future.done() and future.exception() for future in futures)


def _end(workers: list[subprocess.Popen[str]]) -> None:
    """Ask the workers that still run to stop their kernels, and make sure that they are gone."""
    for worker in workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
    for worker in workers:
        try:
            worker.wait(15)
        except subprocess.TimeoutExpired:
            worker.kill()  # its kernel notices within a second that its parent is gone


def saved(plan: Plan, lab: Lab, *status: str) -> Result | None:
    """A lab's result in the folder of the run, if it fits `Plan.key` and has one of these statuses; None otherwise."""
    try:
        result = lab_notes.read(plan.out / f"{lab.name}.json")
    except (OSError, ValueError):  # `damage` says why
        return None
    fits = all(result.get(k) == v for k, v in plan.key(lab).items()) and result["status"] in status
    return result if fits and (plan.out / f"{lab.name}.ipynb").exists() else None


def damage(plan: Plan, lab: Lab) -> str | None:
    """What is wrong with a lab's result in the folder of the run, in one line; None where nothing is, or none is there."""
    try:
        lab_notes.read(plan.out / f"{lab.name}.json")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return str(error)
    return None


# Two threads of Python 3.11 that parse at once may end in a SystemError (CPython's issue 106905), and a key parses modules and claims.
_PARSING = threading.Lock()


def _one(
    plan: Plan, lab: Lab, workers: dict[str, subprocess.Popen[str]], board: Board, stop: threading.Event
) -> Result | None:
    """Run one lab in a process of its own and write its result; None where it was stopped."""
    with _PARSING:
        key = plan.key(lab)  # now: whoever edits while it runs has changed it
    note, notebook = plan.out / f"{lab.name}.json", plan.out / f"{lab.name}.ipynb"
    note.parent.mkdir(parents=True, exist_ok=True)
    for old in (note, notebook):
        if old.is_dir():
            raise IsADirectoryError(f"{old} is a folder, where a file of the run goes; remove it and run the lab again")
        old.unlink(missing_ok=True)
    live = plan.out.absolute() / "live" / lab.name  # where experiments leave what they measure in this lab
    shutil.rmtree(live, ignore_errors=True)
    request = {
        "source": str(lab.path.resolve()),
        "out": str(notebook.resolve()),
        "parameters": plan.parameters(),
        "timeout": plan.timeout,
    }
    board.start(lab.name)
    began, outcome = time.monotonic(), None
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        worker = subprocess.Popen(
            [sys.executable, "-m", "privlab.runner.execution"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=_environment(plan, live),
            start_new_session=True,  # so that Ctrl-C reaches this process alone, which then stops the others in order
        )
        workers[lab.name] = worker
        assert worker.stdin and worker.stdout
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(json.dumps(request))
            worker.stdin.close()
        if stop.is_set():
            worker.send_signal(signal.SIGINT)
        for line in worker.stdout:
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                outcome = message.get("result", outcome)
                if "cell" in message:
                    board.cell(lab.name, message["cell"], message["cells"], message["heading"])
        status = worker.wait()
        if outcome is None and not stop.is_set():
            errors.seek(0)
            lines = [line.strip() for line in errors.read().splitlines() if line.strip()]
            last = lines[-1] if lines else "no word"
            outcome = {"error": f"the process of the lab ended with status {status}: {last}"}
    if outcome is None:
        return None
    seconds = round(time.monotonic() - began, 1)
    if plan.profile not in ("smoke", "class"):
        key["evidence"] = lab.evidence()  # to which the lab has added itself, and so may others have by now
    result = {
        "lab": lab.name,
        "status": "failed" if outcome["error"] else "ok",
        "seconds": seconds,
        **outcome,
        **key,
        "threads": plan.threads,
    }
    write_atomic(note, (json.dumps(result, indent=1) + "\n").encode())
    board.done(lab.name, result)
    return result


def _environment(plan: Plan, live: Path) -> dict[str, str]:
    """What makes a run repeatable, and keeps parallel labs, and the processes of their fleets, off each other's cores."""
    pools = ("OMP_NUM", "MKL_NUM", "OPENBLAS_NUM", "NUMEXPR_NUM", "VECLIB_MAXIMUM")
    # a lab runs in its own folder, from where a relative place would be another
    names = ("PRIVLAB_DATA", "PRIVLAB_STORE", "PRIVLAB_EVIDENCE")
    folders = {name: place for name in names if (place := places.named(name))}
    return (
        os.environ
        | {name: str(place.absolute()) for name, place in folders.items()}
        | {f"{pool}_THREADS": str(plan.threads) for pool in pools}
        | ({"PRIVLAB_CLUSTER": plan.cluster} if plan.cluster else {})
        | {
            "PRIVLAB_JOBS": str(plan.threads),
            "PRIVLAB_LIVE": str(live),
            "PYTHONHASHSEED": "0",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",  # figures go into the notebook
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
            "PRIVLAB_STRICT": "1",  # the solutions are in place: an exercise that fails its check is an error
        }
    )


@cache
def _versions() -> dict[str, str]:
    names = ("privlab", "torch", "torchvision", "timm", "numpy")
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _minutes(minutes: float) -> str:
    return (
        f"{minutes * 60:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
    )
