"""The commands run, pair and doctor. What each needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path


def add_labs(parser: argparse.ArgumentParser) -> None:
    """Where the labs are: an option of each command that reads them."""
    parser.add_argument(
        "--labs", type=Path, default=Path("labs"), metavar="FOLDER", help="where the labs are (default: labs)"
    )


def add_run(commands: argparse._SubParsersAction) -> None:
    short = (
        "execute labs without a browser, each in its own process, and compare their values with the committed evidence"
    )
    parser = commands.add_parser(
        "run",
        help=short,
        description=f"{short}. "
        "The command writes to --out, for each lab, the executed notebook NN_topic.ipynb and NN_topic.json (status, seconds, peak memory, "
        "error), and one index.html with pictures, every claim, and the status of the labs. A lab runs in its own folder, with the "
        "solutions of its exercises; if it fails, its notebook is kept up to the failing cell. "
        "Exit status: 0 all labs succeeded, 1 a lab failed, 2 bad input, 130 stopped by Ctrl-C (continue with --resume).",
    )
    parser.add_argument(
        "labs_wanted",
        nargs="*",
        metavar="LAB",
        help="number or name, such as 05, 05_april or deeper/05_faces; all labs if none is given",
    )
    parser.add_argument(
        "--deeper", action="store_true", help="also run the deeper notebooks of these labs (labs/deeper)"
    )
    parser.add_argument("--profile", default="smoke", help="smoke, class, night, gpu or paper (default: %(default)s)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="run N labs at a time, and divide the cores among them (default: 1)",
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the results go (default: runs/PROFILE)")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="skip labs that succeeded in --out with the same source, package, evidence, versions and parameters",
    )
    parser.add_argument(
        "-p",
        nargs=2,
        action="append",
        default=[],
        dest="parameters",
        metavar=("NAME", "VALUE"),
        help="set another parameter of the labs, such as: 05 -p victim vit_tiny_patch16_224; the results go to a separate folder",
    )
    parser.add_argument(
        "--timeout",
        type=int,
        metavar="SECONDS",
        help="time limit of one cell (default: smoke 600, class 1800, gpu 3600; night and paper have none)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the labs (default: %(default)s)")
    parser.add_argument(
        "--device", default="auto", help="device of the labs: auto, cpu, cuda or cuda:1 (default: %(default)s)"
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="at night, gpu and paper: measure the repeats of experiments on this Dask scheduler, such as tcp://127.0.0.1:8786; "
        "everything else is computed here",
    )
    add_labs(parser)
    parser.set_defaults(call=_run)


def _run(options: argparse.Namespace) -> int:
    import signal

    from filelock import FileLock, Timeout
    from joblib.externals.loky.process_executor import BrokenProcessPool

    from privlab.compute import atomic, machine, tasks
    from privlab.ledger import evidence
    from privlab.runner import catalogue, runner

    shelf = catalogue.everything(options.labs)
    profile = evidence.checked(options.profile, "profile")
    chosen = [lab for lab in shelf if not lab.goes_deeper]
    if options.labs_wanted:
        chosen = catalogue.pick(shelf, options.labs_wanted)
    if options.deeper:
        chosen = catalogue.with_deeper(shelf, chosen)
    extra = {name: runner.value(text) for name, text in options.parameters}
    out = options.out or runner.folder(profile, extra)
    timeout = runner.TIMEOUTS[profile] if options.timeout is None else options.timeout
    plan = runner.Plan(
        tuple(chosen),
        out,
        profile,
        options.seed,
        machine.checked_device(options.device, _cards),
        options.jobs,
        timeout,
        options.resume,
        options.cluster,
        extra,
    )
    if plan.cluster:
        tasks.reach(plan.cluster).close()  # said now, and not by each lab in turn
    atomic.make_folder(out)
    for number in (signal.SIGINT, signal.SIGTERM):  # joblib ends its workers, and they their kernels
        signal.signal(number, signal.default_int_handler)
    try:
        with FileLock(out / ".run.lock", timeout=0):
            each = f"{plan.threads} thread{'s' * (plan.threads != 1)} each"
            names = ", ".join(lab.name for lab in chosen)
            print(f"{names} at the profile {profile}, seed {plan.seed}, {plan.at_once} at once, {each}")
            print(runner.cost(plan), flush=True)
            results = runner.run(plan)
    except Timeout:
        raise ValueError(f"out={str(out)!r} is in use by another run; wait for its end, or give another") from None
    except KeyboardInterrupt:
        print(f"\nstopped; what is complete stays in {out}; the same command with --resume continues", file=sys.stderr)
        return 130
    except BrokenProcessPool:
        why = "the process of a lab died, as it does when memory runs out"
        raise OSError(f"{why}; --resume continues, and fewer --jobs need less") from None
    from privlab.runner import screen  # not beside the labs in memory

    alone = {lab.name: replace(plan, labs=(lab,), extra=extra if lab in chosen else {}) for lab in shelf}
    kept = {lab.name: results.get(lab.name) or runner.saved(alone[lab.name], lab) for lab in shelf}
    failed = [name for name, result in results.items() if result["error"]]
    print("", screen.finish(out, results, {name: result for name, result in kept.items() if result}), sep="\n")
    of = f"{len(failed)} of {len(results)} labs failed: {', '.join(failed)}"
    print(of if failed else f"all labs succeeded; see {out}")
    return int(bool(failed))


def _cards() -> int:
    import torch  # asked for where a card is

    return torch.cuda.device_count()


def add_pair(commands: argparse._SubParsersAction) -> None:
    short = "write labs/NN_topic.ipynb from labs/NN_topic.py, also in labs/deeper, and the tables of labs in README and guide"
    parser = commands.add_parser(
        "pair",
        help=short,
        description=f"{short}. A notebook has no outputs, and cell ids that stay. Edit the .py, not the .ipynb. "
        "Exit status of --check: 1 if a file differs from what the sources of the labs make.",
    )
    parser.add_argument("--check", action="store_true", help="write nothing; list the files that differ")
    add_labs(parser)
    parser.set_defaults(call=_pair)


def _pair(options: argparse.Namespace) -> int:
    from privlab.runner import pairing, tables

    if not options.labs.is_dir():
        raise FileNotFoundError(
            f"labs={str(options.labs)!r} is not a folder; run from the repository, or give --labs FOLDER"
        )
    if options.check:
        stale = [*pairing.stale(options.labs), *tables.stale(options.labs)]
        for path in stale:
            print(f"{path} differs from what the sources of the labs make; python -m privlab pair writes it anew")
        return int(bool(stale))
    for path in [*pairing.pair(options.labs), *tables.write(options.labs)]:
        print(f"wrote {path}")
    return 0


def add_labs_command(commands: argparse._SubParsersAction) -> None:
    short = "copy the labs out of the installed package, to open and run them anywhere"
    parser = commands.add_parser(
        "labs",
        help=short,
        description=f"{short}. A notebook that you have changed is never overwritten. Exit status: 0 done, 2 bad input.",
    )
    parser.add_argument(
        "--to", type=Path, default=Path("labs"), metavar="FOLDER", help="where they go (default: %(default)s)"
    )
    parser.set_defaults(call=_labs)


def _labs(options: argparse.Namespace) -> int:
    from privlab.runner import catalogue

    written = catalogue.copy(options.to)
    print(
        f"wrote {len(written)} files; open {options.to / '00_start_here.ipynb'} in JupyterLab"
        if written
        else "all there"
    )
    return 0


def add_address(commands: argparse._SubParsersAction) -> None:
    short = "set the repository's address, and all that follows from it: buttons, the cell for Colab, the citation"
    parser = commands.add_parser(
        "address",
        help=short,
        description=f"{short}. Writes pyproject.toml, CITATION.cff, the README's row and the notebooks; commit them. Without an "
        "address it shows the present one. Exit status: 0 done, 2 bad input.",
    )
    parser.add_argument("address", nargs="?", metavar="URL", help="such as https://github.com/OWNER/NAME")
    parser.add_argument("--branch", default="main", help="that readers get (default: %(default)s)")
    parser.add_argument("--none", action="store_true", help="take the address out again")
    add_labs(parser)
    parser.set_defaults(call=_address)


def _address(options: argparse.Namespace) -> int:
    from privlab.runner import address, launch_buttons

    if options.none and options.address:
        raise ValueError(f"address={options.address!r} and --none: give one of them")
    root = options.labs.resolve().parent
    if not (options.none or options.address):
        place = launch_buttons.repository(root)
        print(
            f"{place.address}, branch {place.branch}"
            if place
            else "no address yet; give one: https://github.com/OWNER/NAME"
        )
        return 0
    place = None if options.none else launch_buttons.Repository(options.address, options.branch)
    for path in address.settle(root, place):
        print(f"wrote {path.relative_to(root)}")
    return 0


def add_doctor(commands: argparse._SubParsersAction) -> None:
    short = "examine this machine: device, memory, versions, data sets, and the profiles that it can run"
    parser = commands.add_parser(
        "doctor",
        help=short,
        description=f"{short}. Exit status: 1 if something that the labs need is broken.",
    )
    add_labs(parser)
    parser.set_defaults(call=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    from privlab.runner import doctor

    broken = False
    for finding in doctor.examine(options.labs):
        print(finding, flush=True)
        broken |= finding.state == doctor.BROKEN
    return int(broken)
