"""The commands student, mark and slides. What each needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from privlab.compute import atomic, interrupts
from privlab.runner.commands import add_labs


def add_student(commands: argparse._SubParsersAction) -> None:
    short = "write the student edition: the labs without their solutions, or sheets of solutions to hand out later"
    parser = commands.add_parser(
        "student",
        help=short,
        description=f"{short}. "
        "A sheet, NN_topic_solutions.ipynb, has the solutions of all or some exercises of a lab, with their text and checks. "
        "It replaces no student's notebook. Exit status: 0 done, 2 bad input.",
    )
    parser.add_argument(
        "labs_wanted",
        nargs="*",
        metavar="LAB",
        help="number or name of a lab, whose deeper notebooks are written too; all labs if none is given",
    )
    parser.add_argument(
        "--solutions",
        nargs="+",
        default=[],
        metavar="WHICH",
        help="write sheets with the solutions of these labs or exercises, such as: 05 06.twin; editions are written only of LAB",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("student"),
        metavar="FOLDER",
        help="where the notebooks go (default: %(default)s)",
    )
    add_labs(parser)
    parser.set_defaults(call=_student)


def _student(options: argparse.Namespace) -> int:
    from privlab.runner import catalogue
    from privlab.teaching import student_edition

    shelf = catalogue.everything(options.labs)
    atomic.make_folder(options.out)
    for path, solutions in student_edition.write(shelf, options.labs_wanted, options.solutions, options.out):
        what = "with" if path.stem.endswith(student_edition.SHEET) else "without"
        print(f"wrote {path}, {what} {solutions} solutions")
    return 0


def add_mark(commands: argparse._SubParsersAction) -> None:
    short = "mark a folder of returned notebooks, and write a table with a row for each notebook and a column for each exercise"
    parser = commands.add_parser(
        "mark",
        help=short,
        description=f"{short}. "
        "Each answer runs in a separate process, which can write no file and reach no network, with limits of time and memory. "
        "A notebook can spoil only its own row. Exit status: 0 done, 2 bad input, 130 stopped by Ctrl-C.",
    )
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="the folder of the returned notebooks; they may be in folders inside it",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("marks.csv"), metavar="FILE", help="the table (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="mark N notebooks at a time; each takes 1 GB (default: 1)"
    )
    parser.add_argument(
        "--timeout", type=float, default=20, metavar="SECONDS", help="processor time for one answer (default: 20)"
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=2,
        metavar="GB",
        help="memory for one answer, in addition to that of torch (default: 2)",
    )
    parser.set_defaults(call=_mark)


def _mark(options: argparse.Namespace) -> int:
    from tqdm.auto import tqdm

    from privlab.teaching import marking

    rows: list[marking.Row] = []
    with tqdm(unit="notebook", disable=None) as bar:

        def began(count: int, warning: str) -> None:
            bar.reset(count)
            if warning:
                tqdm.write(f"privlab mark: {warning}", file=sys.stderr)

        def done(row: marking.Row) -> None:
            rows.append(row)
            bar.update()
            earned = f"lab {row.lab}, {row.marks} of {len(row.verdicts)}" if row.lab else "no marks"
            tqdm.write(marking.shown(f"{row.file}  {earned}  {row.seconds:.1f} s  {row.error}".rstrip()))

        try:
            with interrupts.orderly():
                marking.mark(options.folder, options.out, options.jobs, options.timeout, options.memory, began, done)
        except KeyboardInterrupt:
            print(f"\nstopped; {options.out} has the {len(rows)} notebooks that are marked", file=sys.stderr)
            return 130
    if others := [p.name for p in marking.notebooks(options.folder)[1] if p.resolve() != options.out.resolve()]:
        print(marking.shown(f"not marked, because their names are not those of notebooks: {', '.join(others)}"))
    print(f"wrote {options.out}, {len(rows)} rows")
    return 0


def add_slides(commands: argparse._SubParsersAction) -> None:
    short = "write slides of executed labs: one HTML file for each lab, with the prose as speaker's notes"
    parser = commands.add_parser(
        "slides",
        help=short,
        description=f"{short}. "
        "The slides need no network: their folder gets the scripts that data_scripts/vendor.py fetches. Exit status: 0 done, 2 bad input.",
    )
    parser.add_argument("labs_wanted", nargs="*", metavar="LAB", help="number or name; all labs if none is given")
    parser.add_argument(
        "--run", type=Path, default=Path("runs/smoke"), metavar="RUN", help="folder of the run (default: %(default)s)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/slides"),
        metavar="DIR",
        help="where the slides go (default: %(default)s)",
    )
    add_labs(parser)
    parser.set_defaults(call=_slides)


def _slides(options: argparse.Namespace) -> int:
    from privlab.teaching import slides

    atomic.make_folder(options.out)
    for path in slides.write_all(options.labs, options.labs_wanted, options.run, options.out):
        print(f"wrote {path}")
    return 0
