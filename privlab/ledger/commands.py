"""The commands report and history. What each needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
from pathlib import Path


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=["md", "json", "csv", "latex"],
        default="md",
        help="format of the output (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the output to this file (default: print it)")
    parser.add_argument(
        "--evidence", type=Path, metavar="FOLDER", help="judge by the evidence in this folder (default: book/evidence)"
    )


def add_report(commands: argparse._SubParsersAction) -> None:
    short = "judge the papers' claims by the committed evidence, and show the verdicts with their counts"
    parser = commands.add_parser(
        "report",
        help=short,
        description=f"{short}. With --before, changes of verdicts go to standard error. Exit status: 1 if a claim no longer "
        "reproduces that did before, or if the verdict of a claim has become 'not reproduced'.",
    )
    parser.add_argument("--lab", metavar="NN", help="show the claims of one lab only, such as 04 (default: all)")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="FOLDER",
        help="compare with earlier evidence, such as book/evidence of another checkout",
    )
    _add_format(parser)
    parser.set_defaults(call=_report)


def _report(options: argparse.Namespace) -> int:
    import sys

    from privlab.ledger import judging, report

    judged = judging.judgements(options.lab, _folder(options.evidence, "evidence"))
    if not judged:
        raise ValueError(f"lab={options.lab!r} has no claim; give the two digits of a lab, such as 04")
    worse = False
    if options.before:
        moved = report.changes(judged, judging.judgements(options.lab, _folder(options.before, "before")))
        worse = any(row[0] == "worse" for row in moved)
        text = "\n".join(report.grid(moved)) if moved[1:] else "No verdict changed."
        print(text, file=sys.stdout if options.out else sys.stderr)
    _put(report.render(judged, "tex" if options.format == "latex" else options.format), options.out)
    return int(worse)


def add_history(commands: argparse._SubParsersAction) -> None:
    short = "list every verdict that was ever due, by date: at all sizes, and those that were replaced too"
    parser = commands.add_parser("history", help=short, description=f"{short}.")
    _add_format(parser)
    parser.set_defaults(call=_history)


def _history(options: argparse.Namespace) -> int:
    from privlab.ledger import history

    lines = history.lines(root=_folder(options.evidence, "evidence"))
    _put(history.render(lines, "tex" if options.format == "latex" else options.format), options.out)
    return 0


def _folder(path: Path | None, argument: str) -> Path | None:
    if path and not path.is_dir():
        raise FileNotFoundError(f"{argument}={str(path)!r} is not a folder of evidence; try book/evidence")
    return path


def _put(text: str, out: Path | None) -> None:
    """Print a text, or write it to a file and say so."""
    from privlab.compute.atomic import write_atomic

    if out:
        write_atomic(out, text.encode())
    print(f"wrote {out}\n" if out else text, end="")
