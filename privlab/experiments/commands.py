"""The command measure. What it needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
import signal


def add_measure(commands: argparse._SubParsersAction) -> None:
    short = "measure experiments, and append the results to the book's evidence"
    parser = commands.add_parser(
        "measure",
        help=short,
        description=f"{short}. It measures the registered repeats that are missing, first those that decide most claims per hour. If it is "
        "interrupted, it loses at most the repeats that it is computing; run it again to continue. "
        "It writes to book/evidence, or to the folder that PRIVLAB_EVIDENCE names.",
    )
    parser.add_argument(
        "experiments",
        nargs="*",
        metavar="EXPERIMENT",
        help="names, with wildcards: 'gradient_inversion.*' (default: all)",
    )
    parser.add_argument(
        "--size", default="class", metavar="SIZE", help="smoke, class, night, gpu or paper (default: %(default)s)"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="list the repeats that are there and those that are missing; measure nothing",
    )
    parser.add_argument(
        "--register",
        action="store_true",
        help="register the repeats of these experiments; commit the registration before you measure",
    )
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="start no repeat after this many minutes (default: measure all)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes, one thread each (default: as many as there are cores; on a GPU, 1)",
    )
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="address of a Dask scheduler whose workers can read this folder"
    )
    parser.add_argument(
        "--device", default="cpu", metavar="DEVICE", help="cpu, cuda, cuda:1 or auto (default: %(default)s)"
    )
    parser.set_defaults(call=_measure)


def _measure(options: argparse.Namespace) -> int:
    from privlab.experiments import measuring, protocol
    from privlab.ledger import evidence

    evidence.checked(options.size)
    listed = [name for pattern in options.experiments or ["*"] for name in _named(protocol, pattern)]
    names = list(dict.fromkeys(listed))  # patterns may overlap
    for name in set(names) & set(options.experiments):
        protocol.find(name).size(options.size)  # who names an experiment learns that it has no such size
    if options.list:
        print(_table(measuring.plans(names, options.size)))
        return 0
    if options.register:
        asked = [name for name in names if options.size in protocol.find(name).sizes]
        for entry in evidence.register(measuring.registration(name, options.size) for name in asked):
            print(
                f"registered: {entry.experiment} at {entry.size}, repeats {entry.first} to {entry.first + entry.repeats - 1}"
            )
        return 0
    if options.minutes is not None and not options.minutes > 0:
        raise ValueError(f"minutes={options.minutes:g} leaves no time; give a positive number")
    for number in (signal.SIGINT, signal.SIGTERM):  # what follows has something to keep
        signal.signal(number, signal.default_int_handler)
    said = measuring.measure(
        names, options.size, minutes=options.minutes, jobs=options.jobs, cluster=options.cluster, device=options.device
    )
    print(said)
    return 0


def _named(protocol, pattern: str) -> list[str]:
    return protocol.names(pattern) or [protocol.find(pattern).name]


def _table(plans) -> str:
    rows = [("experiment", "size", "there", "hours left", "claims")]
    for plan in plans:
        hours = "?" if plan.hours is None else f"{plan.hours:.1f}"
        rows.append(
            (
                plan.experiment,
                plan.size,
                f"{plan.there} of {plan.registered}",
                hours if plan.missing else "-",
                str(plan.claims),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
