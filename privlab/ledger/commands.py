"""The commands report and history. What each needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=["md", "json", "csv", "latex"], default="md", help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it there (default: print it)")


def add_report(commands: argparse._SubParsersAction) -> None:
    short = "show one or more runs against the papers, and against an earlier run"
    parser = commands.add_parser(
        "report",
        help=short,
        description=f"{short}. "
        "RUN is a folder of `run`, or a ledger.json. With --baseline, what moved goes first: verdicts, and figures whose means differ "
        "by more than the spreads of both allow (Welch's t; at most one run in twenty shows a moved figure where none did). "
        "Exit status: 1 where a verdict got worse than in --baseline or stopped being run; with --strict also where a figure moved, "
        "is measured otherwise or is no longer recorded.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a folder such as runs/smoke; several stand side by side"
    )
    parser.add_argument(
        "--baseline", type=Path, metavar="RUN", help="an earlier run of the same profile; what moved since goes first"
    )
    parser.add_argument(
        "--strict", action="store_true", help="status 1 also where a figure of --baseline moved or is gone"
    )
    _add_format(parser)
    parser.set_defaults(call=_report)


def _report(options: argparse.Namespace) -> int:
    from privlab import ledger
    from privlab.ledger import comparison

    def read(path: Path) -> ledger.Ledger:
        return ledger.read(path / "ledger.json" if path.is_dir() else path)

    if options.strict and not options.baseline:
        raise ValueError("strict: there is nothing to be strict about without --baseline; give an earlier run")
    runs = [read(path) for path in options.runs]
    text = ledger.render(runs, "tex" if options.format == "latex" else options.format)
    comparisons = []
    if options.baseline:
        baseline = read(options.baseline)
        same = [run for run in runs if run.profile == baseline.profile]
        if not same:
            raise ValueError(
                f"baseline={str(options.baseline)!r} is a run at {baseline.profile}; none of the runs given is"
            )
        comparisons = [comparison.compare(run, baseline) for run in same]
        # beside the report where it is printed, so that JSON or CSV can still be piped
        print("\n\n".join(map(str, comparisons)), file=sys.stdout if options.out else sys.stderr)
    _put(text, options.out)
    return max((one.strict if options.strict else one.status for one in comparisons), default=0)


def add_history(commands: argparse._SubParsersAction) -> None:
    short = "show the verdicts and figures of many runs in the order of their dates, and when each moved"
    parser = commands.add_parser(
        "history",
        help=short,
        description=f"{short}. "
        "RUN is a folder of `run`, a ledger.json, or a folder of such folders. Markdown and LaTeX have each claim, and the figures that "
        "claims use or that moved; CSV and JSON have everything. Exit status: 0 done, 2 bad input.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="such as runs/gpu, or runs/gpu/2026-W47 runs/gpu/2026-W48"
    )
    parser.add_argument("--profile", help="the runs of this profile only")
    _add_format(parser)
    parser.set_defaults(call=_history)


def _history(options: argparse.Namespace) -> int:
    from privlab.ledger import history

    runs = history.read(options.runs, options.profile)
    _put(history.render(runs, "tex" if options.format == "latex" else options.format), options.out)
    return 0


def _put(text: str, out: Path | None) -> None:
    """Print a text, or write it to a file and say so."""
    from privlab.compute.atomic import write_atomic

    if out:
        write_atomic(out, text.encode())
    print(f"wrote {out}\n" if out else text, end="")
