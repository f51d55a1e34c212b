"""A run as a person sees it: alone in its folder, what it will cost at the start, and what it is worth on one screen at the end."""

from __future__ import annotations

from dataclasses import replace

from filelock import FileLock, Timeout
from joblib.externals.loky.process_executor import BrokenProcessPool

from privlab.compute import atomic, machine, tasks
from privlab.ledger import evidence
from privlab.runner import runner
from privlab.runner.catalogue import Lab


def run(plan: runner.Plan, shelf: list[Lab]) -> list[str]:
    """Run a plan, and print how it goes; the names of the labs that failed.

    plan: with a timeout of None, a cell has the time of its profile.  shelf: all labs, for the page of what the folder holds.
    Raises ValueError for a profile or a device that is none, and for a folder in use; OSError where memory ran out; KeyboardInterrupt,
    which says what was kept.
    """
    evidence.checked(plan.profile, "profile")
    machine.check_device(plan.device)
    if plan.timeout is None:
        plan = replace(plan, timeout=runner.TIMEOUTS[plan.profile])
    if plan.cluster:
        tasks.reach(plan.cluster).close()  # said now, and not by each lab in turn
    atomic.make_folder(plan.out)
    try:
        with FileLock(plan.out / ".run.lock", timeout=0):
            each = f"{plan.threads} thread{'s' * (plan.threads != 1)} each"
            names = ", ".join(lab.name for lab in plan.labs)
            print(f"{names} at the profile {plan.profile}, seed {plan.seed}, {plan.at_once} at once, {each}")
            print(runner.cost(plan), flush=True)
            results = runner.run(plan)
    except Timeout:
        raise ValueError(f"out={str(plan.out)!r} is in use by another run; wait for its end, or give another") from None
    except KeyboardInterrupt:
        complete = f"what is complete stays in {plan.out}"
        raise KeyboardInterrupt(f"{complete}; the same command with --resume continues") from None
    except BrokenProcessPool:
        why = "the process of a lab died, as it does when memory runs out"
        raise OSError(f"{why}; --resume continues, and fewer --jobs need less") from None
    from privlab.runner import screen  # not beside the labs in memory

    held = {lab.name: results.get(lab.name) or runner.saved(plan, lab) for lab in shelf}
    print("", screen.finish(plan.out, results, {name: result for name, result in held.items() if result}), sep="\n")
    failed = [name for name, result in results.items() if result["error"]]
    counted = f"{len(failed)} of {len(results)} labs failed: {', '.join(failed)}"
    print(counted if failed else f"all labs succeeded; see {plan.out}")
    return failed
