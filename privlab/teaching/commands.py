"""The commands student, mark, guesses and slides. What each needs is imported when it is called: `--help` waits for no torch."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from privlab.compute import atomic
from privlab.runner.commands import add_labs

if TYPE_CHECKING:
    from privlab.teaching.marking import Row, Scheme


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
    there = parser.add_mutually_exclusive_group()
    there.add_argument(
        "--keep", action="store_true", help="leave notebooks that are there as they are: they may hold somebody's work"
    )
    there.add_argument(
        "--overwrite",
        action="store_true",
        help="write over notebooks that are there, also where somebody worked in them",
    )
    add_labs(parser)
    parser.set_defaults(call=_student)


def _student(options: argparse.Namespace) -> int:
    from privlab.runner import catalogue
    from privlab.teaching import student_edition

    shelf = catalogue.everything(options.labs)
    atomic.make_folder(options.out)
    written = student_edition.write(
        shelf, options.labs_wanted, options.solutions, options.out, options.keep, options.overwrite
    )
    if options.keep:
        print(f"wrote {_many(len(written), 'notebook')} into {options.out}; those that were there are as they were")
        return 0
    for path, solutions in written:
        what = "with" if path.stem.endswith(student_edition.SHEET) else "without"
        print(f"wrote {path}, {what} {_many(solutions, 'solution')}")
    return 0


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


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
    parser.add_argument(
        "--students",
        type=Path,
        metavar="FILE",
        help="write a gradebook too: a row for each student, a column for each lab",
    )
    parser.add_argument(
        "--feedback", type=Path, metavar="FOLDER", help="write a file for each student, with the reasons for the marks"
    )
    parser.add_argument(
        "--scheme",
        type=Path,
        metavar="marks.toml",
        help="weights of labs, points of exercises, and where a student's identifier stands; see the teacher's guide",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on, and mark what is new or changed, until Ctrl-C; for a class in progress",
    )
    parser.set_defaults(call=_mark)


def _mark(options: argparse.Namespace) -> int:
    from privlab.teaching import marking

    scheme = marking.scheme(options.scheme) if options.scheme else marking.Scheme()
    rows: list[Row] = []
    told: set[Path] = set()
    for number in (signal.SIGINT, signal.SIGTERM):  # what follows has something to keep
        signal.signal(number, signal.default_int_handler)
    try:
        if not options.watch:
            rows = _mark_new(options, [], rows)
        else:
            print(f"watching {options.folder}; Ctrl-C ends it", file=sys.stderr)
            for rows in marking.watch(options.folder, lambda marked: _mark_new(options, marked)):
                _tell_others(options, told)
                _write_tables(options, rows, scheme)
    except KeyboardInterrupt:
        print(f"\nstopped; {options.out} has the {_many(len(rows), 'notebook')} marked so far", file=sys.stderr)
        return 130
    _tell_others(options, set())
    _write_tables(options, rows, scheme)
    return 0


def _tell_others(options: argparse.Namespace, told: set[Path]) -> None:
    """Name the files of the folder that are no notebooks by their names, but for guesses and those told before."""
    from privlab.teaching import class_guesses, marking

    paths: set[Path] = set()
    with contextlib.suppress(FileNotFoundError):  # the last notebook was taken away while it was marked
        paths = {path for path in marking.notebooks(options.folder)[1] if not class_guesses.is_one(path.name)}
    if others := sorted(path.name for path in paths - told if path.resolve() != options.out.resolve()):
        print(marking.shown(f"not marked, because their names are not those of notebooks: {', '.join(others)}"))
    told |= paths


def _mark_new(options: argparse.Namespace, marked: list[Row], new: list[Row] | None = None) -> list[Row]:
    """The rows of all notebooks of a folder, `marked` among them; a line for each new one, which `new` gets."""
    from tqdm.auto import tqdm

    from privlab.teaching import marking

    with tqdm(unit="notebook", disable=None) as bar:

        def began(count: int, warning: str) -> None:
            bar.reset(count)
            if warning and not marked:
                tqdm.write(f"privlab mark: {warning}", file=sys.stderr)

        def done(row: Row) -> None:
            if new is not None:
                new.append(row)
            bar.update()
            earned = f"lab {row.lab}, {row.marks} of {len(row.verdicts)}" if row.lab else "no marks"
            tqdm.write(marking.shown(f"{row.file}  {earned}  {row.seconds:.1f} s  {row.error}".rstrip()))

        limits = (options.jobs, options.timeout, options.memory)
        return marking.mark(options.folder, options.out, *limits, began, done, marked)


def _write_tables(options: argparse.Namespace, rows: list[Row], scheme: Scheme) -> None:
    from privlab.teaching import marking

    if options.students or options.feedback:
        count = marking.students.write(rows, scheme, options.students, options.feedback)
        print(
            f"wrote {' and '.join(str(p) for p in (options.students, options.feedback) if p)}, {_many(count, 'student')}"
        )
    print(f"wrote {options.out}, {_many(len(rows), 'row')}")


def add_guesses(commands: argparse._SubParsersAction) -> None:
    short = "draw a page of what a class guessed: a histogram for each prediction of the labs, and for the user study"
    parser = commands.add_parser(
        "guesses",
        help=short,
        description=f"{short}. "
        "It reads guesses.json, which a lab writes beside itself, and the files of runs/study. Exit status: 0 done, 2 bad input.",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of the returned files")
    parser.add_argument(
        "--out", type=Path, default=Path("guesses.html"), metavar="FILE", help="the page (default: %(default)s)"
    )
    parser.set_defaults(call=_guesses)


def _guesses(options: argparse.Namespace) -> int:
    from privlab.teaching import class_guesses

    guesses = class_guesses.read(options.folder)
    atomic.write_atomic(options.out, class_guesses.page(guesses).encode())
    for line in guesses.left_out:
        print(f"left out {line}", file=sys.stderr)
    print(f"wrote {options.out}, {_many(len(guesses.questions), 'question')}")
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
