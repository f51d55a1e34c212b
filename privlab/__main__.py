"""python -m privlab: run the labs, pair their notebooks, report on runs and on weeks of them, look over the machine, audit a model."""

from __future__ import annotations

import argparse
import contextlib
import json
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
    "student": (
        "write the student edition: the labs without their solutions, or sheets of solutions to hand out later",
        "A sheet, NN_topic_solutions.ipynb, has the solutions of a lab's exercises, or of those named, with their text and checks. "
        "It replaces no student's notebook. Exit status: 0 done, 2 bad input.",
    ),
    "mark": (
        "mark a folder of returned notebooks, and write a table: a row a notebook, a column an exercise",
        "Each answer runs in a process of its own, which can write no file and reach no network, with limits of time and memory; "
        "whatever a notebook does spoils no row but its own. Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C.",
    ),
    "slides": (
        "write slides of labs that were run: one HTML file a lab, with the prose as speaker's notes",
        "They need no network: the scripts that data_scripts/vendor.py fetches go beside them. Exit status: 0 done, 2 bad input.",
    ),
    "report": (
        "show one or more runs against the papers, and against an earlier run",
        "RUN is a folder of `run`, or a ledger.json. With --baseline, what moved goes first: verdicts, and figures whose means differ "
        "by more than the spreads of both allow (Welch's t; at most one run in twenty shows a moved figure where none did). "
        "Exit status: 1 where a verdict got worse than in --baseline or stopped being run; with --strict also where a figure moved, "
        "is measured otherwise or is no longer recorded.",
    ),
    "history": (
        "show the verdicts and figures of many runs in the order of their dates, and when each moved",
        "RUN is a folder of `run`, a ledger.json, or a folder of such folders. Markdown and LaTeX have each claim, and the figures that "
        "claims use or that moved; CSV and JSON have everything. Exit status: 0 done, 2 bad input.",
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
        "--resume",
        action="store_true",
        help="skip labs green in --out for the same source, modules of privlab, versions and parameters",
    )
    run.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        dest="parameters",
        metavar=("NAME", "VALUE"),
        help="set another parameter of the labs, such as: 05 -p victim vit_tiny_patch16_224; goes to a folder of its own",
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

    student = made["student"]
    student.add_argument("labs_wanted", nargs="*", metavar="LAB", help="number or name; all if none is given")
    student.add_argument(
        "--solutions",
        nargs="+",
        default=[],
        metavar="WHICH",
        help="write sheets with the solutions of these labs or exercises, such as: 05 06.twin; and editions of LAB only",
    )
    student.add_argument(
        "--out", type=Path, default=Path("student"), metavar="FOLDER", help="where they go (default: %(default)s)"
    )

    mark = made["mark"]
    mark.add_argument("folder", type=Path, metavar="DIR", help="the returned notebooks, also in folders of it")
    mark.add_argument(
        "--out", type=Path, default=Path("marks.csv"), metavar="FILE", help="the table (default: %(default)s)"
    )
    mark.add_argument("--jobs", type=int, default=1, metavar="N", help="notebooks at a time, 1 GB each (default: 1)")
    mark.add_argument(
        "--timeout", type=float, default=20, metavar="SECONDS", help="of a processor, for one answer (default: 20)"
    )
    mark.add_argument(
        "--memory", type=float, default=2, metavar="GB", help="for one answer, beside torch's own (default: 2)"
    )

    slides = made["slides"]
    slides.add_argument("labs_wanted", nargs="*", metavar="LAB", help="number or name; all if none is given")
    slides.add_argument("--run", type=Path, default=Path("runs/smoke"), metavar="RUN", help="(default: %(default)s)")
    slides.add_argument("--out", type=Path, default=Path("runs/slides"), metavar="DIR", help="(default: %(default)s)")

    made["pair"].add_argument("--check", action="store_true", help="write nothing; name the notebooks that are stale")

    report = made["report"]
    report.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a folder such as runs/smoke; several stand side by side"
    )
    report.add_argument(
        "--baseline", type=Path, metavar="RUN", help="an earlier run of the same profile; what moved since goes first"
    )
    report.add_argument(
        "--strict", action="store_true", help="status 1 also where a figure of --baseline moved or is gone"
    )

    history = made["history"]
    history.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="such as runs/gpu, or runs/gpu/2026-W47 runs/gpu/2026-W48"
    )
    history.add_argument("--profile", help="the runs of this profile only")

    for name in ("report", "history"):
        made[name].add_argument(
            "--format", choices=["md", "json", "csv", "latex"], default="md", help="(default: %(default)s)"
        )
        made[name].add_argument("--out", type=Path, metavar="FILE", help="write it there (default: print it)")

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

    for name in ("run", "pair", "student", "slides", "doctor"):
        made[name].add_argument(
            "--labs", type=Path, default=Path("labs"), metavar="FOLDER", help="where the labs are (default: labs)"
        )
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of a command line; what is wrong with it, in one line on standard error."""
    given = _parser().parse_args(arguments)
    try:
        return globals()[f"_{given.command}"](given)  # argparse has let through only what is in _ABOUT
    except (ValueError, OSError, ImportError) as error:
        print(f"privlab {given.command}: {error}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    from privlab.compute import tasks
    from privlab.runner import catalogue, runner

    shelf = catalogue.labs(given.labs)
    profile = catalogue.profile(given.profile)
    if given.claim and given.labs_wanted:
        raise ValueError(
            f"claim={given.claim!r} and lab={given.labs_wanted[0]!r} both say what to run; give one of them"
        )
    chosen = catalogue.labs_of_claim(shelf, given.claim) if given.claim else catalogue.pick(shelf, given.labs_wanted)
    extra = {name: runner.value(name, text) for name, text in given.parameters}
    out = given.out or runner.folder(profile, extra)
    timeout = runner.TIMEOUTS[profile] if given.timeout is None else given.timeout
    plan = runner.Plan(
        tuple(chosen), out, profile, given.seed, given.device, given.jobs, timeout, given.resume, given.cluster, extra
    )
    if plan.cluster:
        tasks.reach(plan.cluster).close()  # told now, and not by each lab in turn
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

    from privlab.ledger import summary  # brings torch, which must not stand beside the labs in memory

    alone = {lab: replace(plan, labs=(lab,), extra=extra if lab in chosen else {}) for lab in shelf}
    everything = {lab.name: runner.saved(one, lab, "ok", "failed") for lab, one in alone.items()}
    counted = [name for name, result in everything.items() if result]
    others = [name for name in everything.keys() - results.keys() if not everything[name]]
    old = sorted(name for name in others if (out / f"{name}.ipynb").exists())
    made, unread = summary.book(out, counted, profile)
    for name in unread.keys() & results.keys():
        results[name] |= {"status": "failed", "error": results[name]["error"] or unread[name]}
    failed = [name for name, result in results.items() if result["error"]]
    print("", summary.of_labs(results, made), "", summary.of_claims(made, counted), "", sep="\n")
    ended = [name for name, result in everything.items() if result and result["status"] == "ok"]
    if lacking := summary.unrecorded(made, ended):
        print(lacking, "", sep="\n")
    if old:
        print(
            f"not in this ledger: {', '.join(old)}; what {out} holds of them is from before a change (run --resume renews it)"
        )
    print(f"{len(failed)} of {len(results)} labs failed: {', '.join(failed)}" if failed else f"all green; see {out}")
    return int(bool(failed))


def _pair(given: argparse.Namespace) -> int:
    from privlab.runner import pairing

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


def _student(given: argparse.Namespace) -> int:
    from privlab.runner import catalogue
    from privlab.teaching import student_edition

    shelf = catalogue.labs(given.labs)
    for path, solutions in student_edition.write(shelf, given.labs_wanted, given.solutions, given.out):
        what = "with" if path.stem.endswith(student_edition.SHEET) else "without"
        print(f"wrote {path}, {what} {solutions} solutions")
    return 0


def _mark(given: argparse.Namespace) -> int:
    from tqdm.auto import tqdm

    from privlab.teaching import marking

    rows: list[marking.Row] = []
    with tqdm(unit="notebook", disable=None) as bar:

        def began(count: int, unheld: list[str]) -> None:
            bar.reset(count)
            if unheld:
                what = f"this system cannot keep an answer from these: {', '.join(unheld)}"
                tqdm.write(f"{what}; mark in a container", file=sys.stderr)

        def done(row: marking.Row) -> None:
            rows.append(row)
            bar.update()
            earned = f"lab {row.lab}, {row.marks} of {len(row.verdicts)}" if row.lab else "no marks"
            tqdm.write(marking.shown(f"{row.file}  {earned}  {row.seconds:.1f} s  {row.error}".rstrip()))

        try:
            marking.mark(given.folder, given.out, given.jobs, given.timeout, given.memory, began, done)
        except KeyboardInterrupt:
            print(f"\nstopped; {given.out} has the {len(rows)} notebooks that are marked", file=sys.stderr)
            return 130
    if shared := sorted({name for row in rows for name, v in row.verdicts.items() if v["where"] == "inside"}):
        print(
            f"judged in one process with the answer, so easier to fool: {', '.join(shared)} (see privlab/teaching/marking/grader.py)"
        )
    if others := [p.name for p in marking.notebooks(given.folder)[1] if p.resolve() != given.out.resolve()]:
        print(marking.shown(f"not marked, no notebooks by their names: {', '.join(others)}"))
    print(f"wrote {given.out}, {len(rows)} rows")
    return 0


def _slides(given: argparse.Namespace) -> int:
    from privlab.teaching import slides

    for path in slides.write_all(given.labs, given.labs_wanted, given.run, given.out):
        print(f"wrote {path}")
    return 0


def _report(given: argparse.Namespace) -> int:
    from privlab import ledger
    from privlab.ledger import comparison

    def read(path: Path) -> ledger.Ledger:
        return ledger.read(path / "ledger.json" if path.is_dir() else path)

    if given.strict and not given.baseline:
        raise ValueError("strict: there is nothing to be strict about without --baseline; give an earlier run")
    runs = [read(path) for path in given.runs]
    text = ledger.render(runs, "tex" if given.format == "latex" else given.format)
    found = []
    if given.baseline:
        baseline = read(given.baseline)
        same = [run for run in runs if run.profile == baseline.profile]
        if not same:
            raise ValueError(
                f"baseline={str(given.baseline)!r} is a run at {baseline.profile}; none of the runs given is"
            )
        found = [comparison.compare(run, baseline) for run in same]
        # beside the report where it is printed, so that JSON or CSV can still be piped
        print("\n\n".join(map(str, found)), file=sys.stdout if given.out else sys.stderr)
    _put(text, given.out)
    return max((one.strict if given.strict else one.status for one in found), default=0)


def _history(given: argparse.Namespace) -> int:
    from privlab.ledger import history

    runs = history.read(given.runs, given.profile)
    _put(history.render(runs, "tex" if given.format == "latex" else given.format), given.out)
    return 0


def _put(text: str, out: Path | None) -> None:
    """Print a text, or write it to a file and say so."""
    from privlab.compute.atomic import write_atomic

    if out:
        write_atomic(out, text.encode())
    print(f"wrote {out}\n" if out else text, end="")


def _doctor(given: argparse.Namespace) -> int:
    from privlab.runner import doctor

    broken = False
    for finding in doctor.examine(given.labs):
        print(finding, flush=True)
        broken |= finding.state == doctor.BROKEN
    return int(broken)


def _audit(given: argparse.Namespace) -> int:
    from privlab.auditing import audit, inputs, validation
    from privlab.compute.atomic import write_atomic

    validation.numbers(15.0, given.minutes, None)  # told now, and not after the model is built
    out = given.out or Path("runs") / f"audit_{given.name}"
    try:
        model = inputs.named(given.name, given.classes, given.weights, given.seed)
        shape = inputs.input_shape(model, given.name)
        images, labels, public = inputs.photographs(given.images, model, shape, given.seed)
        bar = sys.stderr.isatty()
        made = audit(
            model, images, labels, name=given.name, public=public, minutes=given.minutes, seed=given.seed, progress=bar
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
