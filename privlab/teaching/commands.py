"""The commands student, assignment, collect, grade, slides and guesses. What they need is imported when they are called."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from privlab.compute import atomic
from privlab.runner.commands import add_labs

_STATUS = "Exit status: 0 done, 2 bad input."


def add_student(commands: argparse._SubParsersAction) -> None:
    short = "write the edition for self-study: the labs without their solutions"
    parser = commands.add_parser("student", help=short, description=f"{short}. {_STATUS}")
    parser.add_argument(
        "labs_wanted",
        nargs="*",
        metavar="LAB",
        help="number or name of a lab, whose deeper notebooks are written too; all labs if none is given",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("student"), metavar="FOLDER", help="where they go (default: %(default)s)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave notebooks that are there: they may hold somebody's work"
    )
    add_labs(parser)
    parser.set_defaults(call=_student)


def _student(options: argparse.Namespace) -> int:
    from privlab.runner import catalogue
    from privlab.teaching import student_edition

    atomic.make_folder(options.out)
    shelf = catalogue.everything(options.labs)
    written = student_edition.write(shelf, options.labs_wanted, options.out, options.keep)
    print(f"wrote {len(written)} notebooks into {options.out}, without {sum(count for _, count in written)} solutions")
    return 0


def add_assignment(commands: argparse._SubParsersAction) -> None:
    short = "write labs as assignments of nbgrader, with solutions and checks, into the folder `source` of a course"
    parser = commands.add_parser("assignment", help=short, description=f"{short}. {_STATUS}")
    parser.add_argument("labs_wanted", nargs="+", metavar="LAB", help="number or name, such as 04 or deeper/05_theorem")
    parser.add_argument("--to", type=Path, required=True, metavar="COURSE", help="the folder of the course")
    parser.add_argument(
        "--sentences",
        action="store_true",
        help="where an exercise is answered by reading, ask for sentences too, which you mark with 0 to 3 points",
    )
    add_labs(parser)
    parser.set_defaults(call=_assignment)


def _assignment(options: argparse.Namespace) -> int:
    from privlab.runner import catalogue
    from privlab.teaching import assignment

    labs = catalogue.pick(catalogue.everything(options.labs), options.labs_wanted)
    for path in assignment.write(labs, options.to, options.sentences):
        print(f"wrote {path}; next, in {options.to}: nbgrader generate_assignment {path.stem}")
    return 0


def add_collect(commands: argparse._SubParsersAction) -> None:
    short = "take returned notebooks, whole and under any name, into a course of nbgrader; nothing of them is run"
    parser = commands.add_parser("collect", help=short, description=f"{short}. {_STATUS}")
    parser.add_argument(
        "returned", type=Path, metavar="RETURNED", help="the folder of the notebooks, and of folders with them"
    )
    parser.add_argument("--into", type=Path, required=True, metavar="COURSE", help="the folder of the course")
    add_labs(parser)
    parser.set_defaults(call=_collect)


def _collect(options: argparse.Namespace) -> int:
    from privlab.runner import catalogue
    from privlab.teaching import collect

    for line in collect.collect(options.returned, options.into, catalogue.everything(options.labs)):
        print("".join(sign if sign.isprintable() else "?" for sign in line))  # names are strangers'
    return 0


def add_grade(commands: argparse._SubParsersAction) -> None:
    short = "grade what was collected with nbgrader, the kernel of each notebook alone in bubblewrap, and write the feedback"
    parser = commands.add_parser("grade", help=short, description=f"{short}. {_STATUS}")
    parser.add_argument("course", type=Path, metavar="COURSE", help="the folder of the course")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60,
        metavar="SECONDS",
        help="for one cell; a notebook gets five times as long (default: 60)",
    )
    parser.set_defaults(call=_grade)


def _grade(options: argparse.Namespace) -> int:
    from privlab.teaching import grade

    for line in grade.grade(options.course, options.timeout):
        print(line, flush=True)
    return 0


def add_slides(commands: argparse._SubParsersAction) -> None:
    short = "write slides of executed labs, one HTML file each, with the longer prose as speaker's notes; they need no network"
    parser = commands.add_parser("slides", help=short, description=f"{short}. {_STATUS}")
    parser.add_argument("labs_wanted", nargs="*", metavar="LAB", help="number or name; all labs if none is given")
    parser.add_argument(
        "--run", type=Path, default=Path("runs/smoke"), metavar="RUN", help="folder of the run (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/slides"), metavar="FOLDER", help="where they go (default: %(default)s)"
    )
    add_labs(parser)
    parser.set_defaults(call=_slides)


def _slides(options: argparse.Namespace) -> int:
    from privlab.teaching import slides

    atomic.make_folder(options.out)
    for path in slides.write_all(options.labs, options.labs_wanted, options.run, options.out):
        print(f"wrote {path}")
    return 0


def add_guesses(commands: argparse._SubParsersAction) -> None:
    short = "draw a page of what a class guessed: a histogram for each prediction of the labs, and for the user study"
    parser = commands.add_parser("guesses", help=short, description=f"{short}. {_STATUS}")
    parser.add_argument(
        "folder", type=Path, metavar="RETURNED", help="the folder with the guesses.json, and the files of runs/study"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("guesses.html"), metavar="FILE", help="the page (default: %(default)s)"
    )
    parser.set_defaults(call=_guesses)


def _guesses(options: argparse.Namespace) -> int:
    from privlab.teaching import class_guesses

    table, left_out = class_guesses.read(options.folder)
    atomic.write_atomic(options.out, class_guesses.page(table).encode())
    for line in left_out:
        print(f"left out {line}", file=sys.stderr)
    print(f"wrote {options.out}, {table['question'].nunique()} questions")
    return 0
