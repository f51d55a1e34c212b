"""The command report. What it needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
from pathlib import Path


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
        "--before", type=Path, metavar="FOLDER", help="compare with earlier evidence, such as another book/evidence"
    )
    parser.add_argument(
        "--evidence", type=Path, metavar="FOLDER", help="judge by this evidence (default: book/evidence)"
    )
    parser.add_argument(
        "--format", choices=["md", "csv"], default="md", help="Markdown or a row a claim (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the output to this file (default: print it)")
    parser.set_defaults(call=_report)


def _report(options: argparse.Namespace) -> int:
    import sys

    from privlab.compute.atomic import write_atomic
    from privlab.ledger import judging, report

    for argument in ("evidence", "before"):
        path = getattr(options, argument)
        if path and not path.is_dir():
            raise FileNotFoundError(f"{argument}={str(path)!r} is not a folder of evidence; try book/evidence")
    judged = judging.judgements(options.lab, options.evidence)
    if not judged:
        raise ValueError(f"lab={options.lab!r} has no claim; give the two digits of a lab, such as 04")
    worse = False
    if options.before:
        moved = report.changes(judged, judging.judgements(options.lab, options.before))
        worse = any(row[0] == "worse" for row in moved)
        text = "\n".join(report.grid(moved)) if moved[1:] else "No verdict changed."
        print(text, file=sys.stdout if options.out else sys.stderr)
    text = report.render(judged, options.format)
    if options.out:
        write_atomic(options.out, text.encode())
    print(f"wrote {options.out}\n" if options.out else text, end="")
    return int(worse)
