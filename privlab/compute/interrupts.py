"""Ctrl-C on the command line, for what has something to keep; elsewhere a command ends at once (`privlab.__main__`)."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def orderly() -> Iterator[None]:
    """Within, an interrupt raises KeyboardInterrupt, and SIGTERM too: a cancelled CI job stops as orderly as Ctrl-C does."""
    before = _set({signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.default_int_handler})
    try:
        yield
    finally:
        _set(before)


def _set(handlers: dict[signal.Signals, Any]) -> dict[signal.Signals, Any]:
    """The handlers before."""
    before = {}
    with contextlib.suppress(ValueError):  # a thread that is not the main one may not set them
        for number, handler in handlers.items():
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    return before
