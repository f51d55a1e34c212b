"""python -m privlab: run the labs, pair their notebooks, report on runs, look over the machine, audit a model."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

_ABOUT = {
    "run": (
        "execute labs headlessly, each in its own process, and judge the papers' claims by what they recorded",
        "Leaves in --out, for each lab, NN_topic.ipynb as executed and NN_topic.json (status, seconds, peak memory, "
        "error), and ledger.json. A lab runs in its own folder, with the solutions in place; a failed one keeps "
        "its notebook up to the failing cell. "
        "Exit status: 0 all green, 1 a lab failed, 2 bad input, 130 stopped by Ctrl-C (go on with --resume).",
    ),
    "pair": (
        "write labs/NN_topic.ipynb from labs/NN_topic.py, without outputs and with cell ids that stay put",
        "The .py is what people edit. Exit status of --check: 1 where a notebook is not what its source makes.",
    ),
    "report": (
        "show one or more runs against the papers, and against an earlier run",
        "RUN is a folder of `run`, or a ledger.json. Exit status: 1 where a verdict got worse than in --baseline or "
        "stopped being run.",
    ),
    "doctor": (
        "look over this machine: device, memory, versions, data sets, and the profiles that it can run",
        "Exit status: 1 where something is broken that the labs need.",
    ),
    "audit": (
        "turn the book on one model: what an image's gradient gives away, which parts speak, which defence costs least",
        "Prints the report and leaves in --out audit.html, with pictures, and audit.json. A model of your own: privlab.audit "
        "in Python. Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C (during the search, what was found is reported).",
    ),
}


def _parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m privlab", description=__doc__.split(":", 1)[1].strip().capitalize())
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made = {
        name: commands.add_parser(name, help=short, description=f"{short}. {long}")
        for name, (short, long) in _ABOUT.items()
    }

    run = made["run"]
    run.add_argument(
        "labs_wanted", nargs="*", metavar="LAB", help="number or name, such as 05 or 05_april; all if none is given"
    )
    run.add_argument("--profile", default="smoke", help="smoke, laptop, gpu or paper (default: %(default)s)")
    run.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="labs at a time, the cores shared out among them (default: 1)"
    )
    run.add_argument("--out", type=Path, metavar="FOLDER", help="where the results go (default: runs/PROFILE)")
    run.add_argument(
        "--resume", action="store_true", help="skip labs green in --out for the same source, profile, seed and device"
    )
    run.add_argument("--claim", metavar="ID", help="run only the labs that this claim needs; report lists the ids")
    run.add_argument(
        "--timeout",
        type=int,
        metavar="SECONDS",
        help="for one cell (default: smoke 600, laptop 1800, gpu 3600, paper none)",
    )
    run.add_argument("--seed", type=int, default=0, help="for the labs (default: %(default)s)")
    run.add_argument(
        "--device", default="auto", help="for the labs: auto, cpu, cuda, cuda:1, mps (default: %(default)s)"
    )
    run.add_argument(
        "--cluster", metavar="ADDRESS", help="train shadow models on this Dask scheduler, such as tcp://127.0.0.1:8786"
    )

    made["pair"].add_argument("--check", action="store_true", help="write nothing; name the notebooks that are stale")

    report = made["report"]
    report.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a folder such as runs/smoke; several stand side by side"
    )
    report.add_argument(
        "--baseline", type=Path, metavar="RUN", help="an earlier run of the same profile; what moved since goes first"
    )
    report.add_argument("--format", choices=["md", "json", "csv", "latex"], default="md", help="(default: %(default)s)")
    report.add_argument("--out", type=Path, metavar="FILE", help="write the report there (default: print it)")

    audit = made["audit"]
    audit.add_argument("name", metavar="NAME", help="a model of timm or of the zoo, such as vit_base_patch16_224")
    audit.add_argument(
        "--images",
        metavar="FOLDER_OR_SET",
        help="image files, or a set such as imagenet_samples (default: public photographs)",
    )
    audit.add_argument("--weights", type=Path, metavar="FILE", help=".safetensors of its state dict (default: fresh)")
    audit.add_argument("--classes", type=int, metavar="N", help="rows of its head (default: its own number)")
    audit.add_argument("--minutes", type=float, default=0.0, metavar="M", help="of search (default: a short one)")
    audit.add_argument("--seed", type=int, default=0, help="of weights, images and noise (default: %(default)s)")
    audit.add_argument("--out", type=Path, metavar="FOLDER", help="where the report goes (default: runs/audit_NAME)")

    for name in ("run", "pair", "doctor"):
        made[name].add_argument(
            "--labs", type=Path, default=Path("labs"), metavar="FOLDER", help="where the labs are (default: labs)"
        )
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of a command line; what is wrong with it, in one line on standard error."""
    given = _parser().parse_args(arguments)
    try:
        commands = {"run": _run, "pair": _pair, "report": _report, "doctor": _doctor, "audit": _audit}
        return commands[given.command](given)
    except (ValueError, OSError, ImportError) as error:
        print(f"privlab {given.command}: {error}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    from privlab import catalogue, fleet, runner

    shelf = catalogue.labs(given.labs)
    profile = catalogue.profile(given.profile)
    if given.claim and given.labs_wanted:
        raise ValueError(
            f"claim={given.claim!r} and lab={given.labs_wanted[0]!r} both say what to run; give one of them"
        )
    chosen = catalogue.labs_of_claim(shelf, given.claim) if given.claim else catalogue.pick(shelf, given.labs_wanted)
    out = given.out or Path("runs") / profile
    timeout = runner.TIMEOUTS[profile] if given.timeout is None else given.timeout
    plan = runner.Plan(
        tuple(chosen), out, profile, given.seed, given.device, given.jobs, timeout, given.resume, given.cluster
    )
    if plan.cluster:
        fleet.reach(plan.cluster).close()  # told now, and not by each lab in turn
    names = ", ".join(lab.name for lab in chosen)
    print(f"{names} at the profile {profile}, seed {given.seed}, {plan.at_once} at once, threads each: {plan.threads}")
    print(runner.cost(plan), flush=True)
    with contextlib.suppress(ValueError):  # a thread that is not the main one may not set it
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a cancelled CI job stops as orderly as Ctrl-C does
    try:
        results = runner.run(plan)
    except KeyboardInterrupt:
        print(f"\nstopped; what is complete stays in {out}, the same command with --resume goes on", file=sys.stderr)
        return 130

    from privlab import summary  # brings torch, which must not stand beside the labs in memory

    everything = {lab.name: runner.saved(replace(plan, labs=(lab,)), lab, "ok", "failed") for lab in shelf}
    counted = [name for name, result in everything.items() if result]
    made, unread = summary.book(out, counted, profile)
    for name in unread.keys() & results.keys():
        results[name] |= {"status": "failed", "error": results[name]["error"] or unread[name]}
    failed = [name for name, result in results.items() if result["error"]]
    print("", summary.of_labs(results, made), "", summary.of_claims(made, counted), "", sep="\n")
    print(f"{len(failed)} of {len(results)} labs failed: {', '.join(failed)}" if failed else f"all green; see {out}")
    return int(bool(failed))


def _pair(given: argparse.Namespace) -> int:
    from privlab import pairing

    if not given.labs.is_dir():
        raise FileNotFoundError(
            f"labs={str(given.labs)!r} is not a folder; run from the repository, or give --labs FOLDER"
        )
    if given.check:
        stale = pairing.stale(given.labs)
        for path in stale:
            print(f"{path} is not what {path.with_suffix('.py').name} makes; python -m privlab pair writes it")
        return int(bool(stale))
    for path in pairing.pair(given.labs):
        print(f"wrote {path}")
    return 0


def _report(given: argparse.Namespace) -> int:
    from privlab import ledger
    from privlab.atomic import write_atomic

    def read(path: Path) -> ledger.Ledger:
        return ledger.read(path / "ledger.json" if path.is_dir() else path)

    runs = [read(path) for path in given.runs]
    text = ledger.render(runs, "tex" if given.format == "latex" else given.format)
    status, moved = 0, ""
    if given.baseline:
        baseline = read(given.baseline)
        same = [run for run in runs if run.profile == baseline.profile]
        if not same:
            raise ValueError(
                f"baseline={str(given.baseline)!r} is a run at {baseline.profile}; none of the runs given is"
            )
        found = [ledger.changes(run, baseline) for run in same]
        status, moved = max(change.status for change in found), "\n".join(map(repr, found))
    if given.out:
        write_atomic(given.out, text.encode())
        print(moved + "\n" if moved else "", f"wrote {given.out}", sep="")
    else:
        if moved:
            print(moved, file=sys.stderr)  # so that a report in JSON or CSV can still be piped
        print(text, end="")
    return status


def _doctor(given: argparse.Namespace) -> int:
    from privlab import doctor

    broken = False
    for finding in doctor.examine(given.labs):
        print(finding, flush=True)
        broken |= finding.state == doctor.BROKEN
    return int(broken)


def _audit(given: argparse.Namespace) -> int:
    import json

    from privlab import audit, audit_checks, audit_inputs
    from privlab.atomic import write_atomic

    audit_checks.numbers(15.0, given.minutes, None)  # told now, and not after the model is built
    out = given.out or Path("runs") / f"audit_{given.name}"
    try:
        model = audit_inputs.named(given.name, given.classes, given.weights, given.seed)
        shape = audit_inputs.input_shape(model, given.name)
        images, labels, public = audit_inputs.photographs(given.images, model, shape, given.seed)
        made = audit(
            model,
            images,
            labels,
            name=given.name,
            public=public,
            minutes=given.minutes,
            seed=given.seed,
            progress=sys.stderr.isatty(),
        )
    except KeyboardInterrupt:
        print("\nstopped before there was anything to report", file=sys.stderr)
        return 130
    out.mkdir(parents=True, exist_ok=True)
    told = {"weights": str(given.weights) if given.weights else "fresh", "images": given.images or "public photographs"}
    write_atomic(out / "audit.json", (json.dumps({"command": told, **made.json()}, indent=1) + "\n").encode())
    made.page(out / "audit.html")
    print(made.text(), "", f"wrote {out / 'audit.html'} and {out / 'audit.json'}", sep="\n")
    return 130 if made.search.ended == "interrupted" else 0


if __name__ == "__main__":
    sys.exit(main())
