"""python -m privlab: run labs, measure experiments, write notebooks, grade answers, report verdicts, examine the machine, audit a model."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    """Imports what it is made of: here, and not above, an interrupt leaves no traceback."""
    import argparse

    from privlab.auditing import commands as auditing
    from privlab.experiments import commands as experiments
    from privlab.ledger import commands as ledger
    from privlab.runner import commands as runner
    from privlab.teaching import commands as teaching

    top = argparse.ArgumentParser(prog="python -m privlab", description=__doc__.split(":", 1)[1].strip().capitalize())
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (  # in the order of --help
        runner.add_run,
        runner.add_pair,
        experiments.add_measure,
        teaching.add_student,
        teaching.add_assignment,
        teaching.add_collect,
        teaching.add_grade,
        teaching.add_slides,
        teaching.add_guesses,
        ledger.add_report,
        runner.add_doctor,
        runner.add_labs_command,
        runner.add_address,
        auditing.add_audit,
    ):
        add(commands)
    return top


def _stop(*_: object) -> None:
    """End at an interrupt, wherever we are: an exception inside an import is swallowed, or leaves a traceback."""
    os.write(2, b"\nstopped\n")
    os._exit(130)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of a command line; what is wrong with it, in one line on standard error."""
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)  # this process is ours, and not deaf in the background
    try:
        try:
            options = _parser().parse_args(arguments)
            return options.call(options)
        finally:
            sys.stdout.flush()  # here, since at Python's end a closed pipe can no longer be caught
    except BrokenPipeError:  # who reads has gone, as in `| head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141  # what a shell says of a program that a closed pipe ended
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError) as error:
        print(f"privlab {options.command}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
