"""Run labs, measure experiments, report verdicts, audit a model, teach a class.

A command is a function: its options stand above it, its docstring is its help, and what it gives is the exit status (None for 0). The
rooms bring their modules when a command asks for one, so that `--help` waits for no torch.
"""

import ast
import json
import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from privlab import ledger, runner, teaching
from privlab.compute.files import make_folder, write_atomic

Command = Callable[[Namespace], int | None]
PARSER = ArgumentParser(prog="python -m privlab", description=__doc__.partition("\n")[0])
COMMANDS = PARSER.add_subparsers(dest="command", metavar="COMMAND", required=True)
STATUS = "Exit status: 0 done, 1 a lab failed, a verdict got worse or something is broken, 2 bad input, 130 stopped by Ctrl-C."


def option(name: str, help: str, kind: Any = str, **about: Any) -> tuple[str, dict[str, Any]]:
    """What `add_argument` takes.  kind: the type of what is given, or what holds where nothing is; bool for a switch."""
    if kind is bool:
        return name, {"help": help, "action": "store_true"}
    if isinstance(kind, type):
        return name, {"help": help, "type": kind, **about}
    return name, {"help": f"{help} (default: {kind})", "type": type(kind), "default": kind, **about}


def command(*options: tuple[str, dict[str, Any]]) -> Callable[[Command], Command]:
    def add(call: Command) -> Command:
        parser = COMMANDS.add_parser(call.__name__, help=call.__doc__, description=call.__doc__, epilog=STATUS)
        parser.set_defaults(call=call)
        for name, what in options:
            parser.add_argument(name, **what)
        return call

    return add


LABS = option("--labs", "where the labs are", Path("labs"))
NAMES = option("names", "number or name, such as 05 or deeper/05_faces; all if none is given", nargs="*", metavar="LAB")
COURSE = "the folder of a course"


@command(
    NAMES,
    option("--deeper", "also run the deeper notebooks of these labs", bool),
    option("--profile", "smoke, class, night, gpu or paper", "smoke"),
    option("--jobs", "labs at a time, which share the cores", 1),
    option("--out", "for executed notebooks and index.html (default: runs/PROFILE)", Path),
    option("--resume", "skip labs that succeeded in --out, where nothing has changed since", bool),
    option("--device", "cpu, cuda or cuda:1", "auto"),
    option("-p", "another parameter: seed 1", nargs=2, action="append", metavar=("NAME", "VALUE"), default=[]),
    LABS,
)
def run(options: Namespace) -> int:
    """Execute labs without a browser, each in its own process, and compare their values with the committed evidence."""
    from privlab.runner.runner import Plan, folder, run

    shelf = runner.catalogue.everything(options.labs)
    chosen = runner.catalogue.pick(shelf, options.names, options.deeper)
    extra = dict[str, Any](options.p)
    for name, text in options.p:
        with suppress(ValueError, SyntaxError):  # what is no literal of Python is text
            extra[name] = ast.literal_eval(text)
    out = options.out or folder(options.profile, extra)
    extra = {"device": options.device} | extra
    plan = Plan(tuple(chosen), out, options.profile, min(options.jobs, len(chosen)), options.resume, extra)
    return int(bool(run(plan, shelf)))


@command(
    option("experiments", "names, with wildcards: 'gradient_inversion.*' (default: all)", nargs="*"),
    option("--size", "smoke, class, night, gpu or paper", "class"),
    option("--list", "say which repeats are there and which are missing; measure nothing", bool),
    option("--register", "register the repeats; commit the registration before you measure", bool),
    option("--minutes", "start no repeat after this many minutes (default: measure all)", float),
    option("--jobs", "processes, one thread each (default: one a core; on a GPU, 1)", int),
    option("--device", "cpu, cuda, cuda:1 or auto", "cpu"),
)
def measure(options: Namespace) -> None:
    """Measure the registered repeats that are missing, and append them to the evidence (book/evidence, or $PRIVLAB_EVIDENCE)."""
    from privlab.experiments import measuring, protocol

    size, asked = ledger.evidence.checked(options.size), options.experiments or ["*"]
    names = [name for pattern in asked for name in protocol.names(pattern) or [protocol.find(pattern).name]]
    names = list(dict.fromkeys(names))  # patterns may overlap
    for name in set(names) & set(asked):
        protocol.find(name).size(size)  # who names an experiment learns that it has no such size
    if options.list:
        print(f"{'experiment':<48}{'there':>14}{'hours left':>12}")
        for plan in measuring.plans(names, size):
            hours = "-" if not plan.missing else "?" if plan.hours is None else f"{plan.hours:.1f}"
            there = f"{plan.there} of {plan.there + len(plan.missing)}"
            print(f"{plan.experiment:<48}{there:>14}{hours:>12}")
    elif options.register:
        have = [name for name in names if size in protocol.find(name).sizes]
        for entry in ledger.evidence.register(measuring.registration(name, size) for name in have):
            print(f"registered: {entry.experiment} at {entry.size}, repeats {entry.first} to {entry.range[-1]}")
    else:
        print(measuring.measure(names, size, minutes=options.minutes, jobs=options.jobs, device=options.device))


@command(
    option("--lab", "the claims of one lab only, such as 04 (default: all)"),
    option("--before", "earlier evidence: say on stderr which verdicts have changed; status 1 if one got worse", Path),
    option("--format", "Markdown, or a row a claim", "md", choices=["md", "csv"]),
)
def report(options: Namespace) -> int:
    """Judge the papers' claims by the evidence (book/evidence, or $PRIVLAB_EVIDENCE), and show the verdicts with their counts."""
    for name, place in (("before", options.before), ("PRIVLAB_EVIDENCE", ledger.evidence.folder())):
        if place and not place.is_dir():
            raise FileNotFoundError(f"{name}={str(place)!r} is not a folder of evidence; try book/evidence")
    if not (judged := ledger.judgements(options.lab)):
        raise ValueError(f"lab={options.lab!r} has no claim; give the two digits of a lab, such as 04")
    print(ledger.report.render(judged, options.format), end="")
    if not options.before:
        return 0
    moved = ledger.report.changes(judged, ledger.judgements(options.lab, options.before))
    print("\n".join(ledger.report.grid(moved)) if moved[1:] else "No verdict changed.", file=sys.stderr)
    return int(any(row[0] == "worse" for row in moved))


@command()
def doctor(options: Namespace) -> int:
    """Examine this machine: device, memory, versions and data sets."""
    broken = False
    for state, what, text in runner.doctor.examine():
        print(f"{state:<6}  {what:<9} {text}", flush=True)
        broken |= state == "BROKEN"
    return int(broken)


@command(option("--to", "where they go", Path("labs")))
def labs(options: Namespace) -> None:
    """Copy the labs out of the installed package into a new folder, to open and run them anywhere."""
    runner.catalogue.copy(options.to)
    print(f"wrote the labs into {options.to}")


@command(option("--check", "write nothing; list the files that differ, with status 1", bool), LABS)
def pair(options: Namespace) -> int:
    """Write labs/NN_topic.ipynb from labs/NN_topic.py, also in labs/deeper, and the tables of labs in README and guide: edit the .py."""
    changed = runner.pairing.pair(options.labs, options.check)
    for path in changed:
        differs = f"{path} differs from what the sources of the labs make; python -m privlab pair writes it anew"
        print(differs if options.check else f"wrote {path}")
    return int(options.check and bool(changed))


@command(option("address", "https://github.com/OWNER/NAME, or none to take it out (default: show it)", nargs="?"), LABS)
def address(options: Namespace) -> None:
    """Set the repository's address, and all that follows from it: buttons, the cell for Colab, the citation."""
    root = options.labs.resolve().parent
    if not options.address:
        print(runner.launch_buttons.repository(root) or "no address yet; give one: https://github.com/OWNER/NAME")
        return
    told = "" if options.address == "none" else options.address
    for path in (*runner.launch_buttons.settle(root, told), *runner.pairing.pair(options.labs.resolve())):
        print(f"wrote {path.relative_to(root)}")


@command(
    option("name", "a model of timm or of the zoo, such as vit_base_patch16_224"),
    option("--images", "files, or a set such as imagenet_samples (default: public photographs)"),
    option("--weights", "a .safetensors file of its state dict (default: fresh weights)", Path),
    option("--classes", "of its head (default: as the model has it)", int),
    option("--steps", "of the search (default: by the image's size)", int),
    option("--out", "for audit.html and audit.json (default: runs/audit_NAME)", Path),
)
def audit(options: Namespace) -> int:
    """Attack one model as the book does: what an image's gradient leaks, from which parts, and which defence holds."""
    from privlab.auditing import attack, audit

    out = options.out or Path("runs") / f"audit_{options.name}"
    model = attack.named(options.name, options.classes, options.weights)
    images, labels, public = attack.photographs(options.images, model, options.name)
    make_folder(out)
    shown = sys.stderr.isatty()
    found = audit(model, images, labels, name=options.name, public=public, steps=options.steps, progress=shown)
    settings = {"weights": str(options.weights or "fresh"), "images": options.images or "public photographs"}
    write_atomic(out / "audit.json", (json.dumps({"command": settings, **found.json()}, indent=1) + "\n").encode())
    found.page(out / "audit.html")
    print(found.text(), "", f"wrote {out / 'audit.html'} and {out / 'audit.json'}", sep="\n")
    return 130 if found.search["ended"] == "interrupted" else 0


@command(NAMES, option("--out", "where they go; what is there stays", Path("student")), LABS)
def student(options: Namespace) -> None:
    """Write the edition for self-study: the labs, and what goes deeper into them, without their solutions."""
    labs = runner.catalogue.pick(runner.catalogue.everything(options.labs), options.names, deeper=True)
    address = runner.launch_buttons.repository(options.labs.resolve().parent)
    new = {path: lab for lab in labs if not (path := options.out / f"{lab.name}.ipynb").exists()}
    for path, lab in new.items():
        write_atomic(path, runner.pairing.as_bytes(teaching.assignment.edition(lab.path, address)))
    print(f"wrote {len(new)} of {len(labs)} notebooks into {options.out}; what was there stays")


@command(NAMES, option("--to", COURSE, Path, required=True), option("--sentences", "ask for them", bool), LABS)
def assignment(options: Namespace) -> None:
    """Write labs as assignments of nbgrader, with solutions and checks, into the folder `source` of a course."""
    labs = runner.catalogue.pick(runner.catalogue.everything(options.labs), options.names, deeper=not options.names)
    for path in teaching.assignment.write(labs, options.to, options.sentences):
        print(f"wrote {path}; next, in {options.to}: nbgrader generate_assignment {path.stem}")


@command(option("returned", "their folder", Path), option("--into", COURSE, Path, required=True), LABS)
def collect(options: Namespace) -> None:
    """Take returned notebooks, whole and under any name, into a course of nbgrader; nothing of them is run."""
    for line in teaching.collect.collect(options.returned, options.into, runner.catalogue.everything(options.labs)):
        print("".join(sign if sign.isprintable() else "?" for sign in line))  # names are strangers'


@command(option("course", COURSE, Path), option("--timeout", "seconds of a cell, a fifth of a notebook's", 60.0))
def grade(options: Namespace) -> None:
    """Grade what was collected with nbgrader, the kernel of each notebook alone in bubblewrap, and write the feedback."""
    for line in teaching.grade.grade(options.course, options.timeout):
        print(line, flush=True)


@command(NAMES, option("--run", "of labs", Path("runs/smoke")), option("--out", "slides", Path("runs/slides")), LABS)
def slides(options: Namespace) -> None:
    """Write slides of executed labs, one HTML file each, with the longer prose as speaker's notes; they need no network."""
    for path in teaching.slides.write_all(options.labs, options.names, options.run, options.out):
        print(f"wrote {path}")


@command(option("returned", "a folder of files of guesses", Path), option("--out", "the page", Path("guesses.html")))
def guesses(options: Namespace) -> None:
    """Draw a page of what a class guessed: a histogram for each prediction of the labs."""
    table, left_out = teaching.class_guesses.read(options.returned)
    write_atomic(options.out, teaching.class_guesses.page(table).encode())
    for line in left_out:
        print(f"left out {line}", file=sys.stderr)
    print(f"wrote {options.out}, {table['question'].nunique()} questions")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of a command line; what is wrong with it, in one line on standard error."""
    options = PARSER.parse_args(arguments)
    try:
        status = options.call(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `report | head`; what is left goes nowhere, and Python does not complain at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt as stopped:
        print("\nstopped", *stopped.args, sep="; ", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        print(f"privlab {options.command}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
