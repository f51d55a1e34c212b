"""What goes on by itself until somebody stops it: Play, Pause and Step as buttons, and the kernel free for other cells meanwhile.

Playing is a task on the kernel's event loop: it takes a state, lets whatever waits there (a click on Pause, another cell)
have its turn, and takes the next. With some kernels (ipykernel 7.0 to 7.3) JupyterLab's clicks arrive on a thread of
their own. A search there would share its model with the cell that runs at that moment; so a click leaves word on the
loop where the player was made, and the work is done there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import ipywidgets

from privlab.notebook.live import Live, button, running_loop, shown_error

REST = 0.05  # seconds between two frames, for the eye and for whatever else the kernel has to do
TURN = 0.001  # seconds after each state; a click takes several turns of the loop to get through, so 0 would be late

_playing: set[Playback] = set()  # one at most: two would slow each other down


def stop_all() -> None:
    """Pause whatever plays at this moment."""
    for other in tuple(_playing):
        other.pause()


def check_stride(stride: int) -> None:
    """Raise ValueError for what is no number of steps between two frames."""
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
        raise ValueError(f"stride={stride!r} goes nowhere; give 1 or more, such as 10")


class Playback(Live):
    """The buttons and the task behind them. What plays says how it goes on, `_stride`, and what is seen of it, `_show`."""

    task: asyncio.Task[None] | None = None  # while it plays
    ended = False
    error = ""

    def _controls(self, step: str) -> list[ipywidgets.Button]:
        """Play, Pause and Step, disabled once it has ended.  step: what a click on Step does, in words."""
        self.failure = ipywidgets.Output()
        self.moves = [  # a sweep clicks them in this order, so what follows Play stops it
            button("Play", "Go on until Pause; other cells can run meanwhile", self.play, width="6em"),
            button("Pause", "Stop here; Play and Step go on from here", self.pause, width="6em"),
            button("Step", step, self.step, width="6em"),
        ]
        return list(self.moves)

    def play(self) -> None:
        """Go on until the end or `pause`. Where no event loop runs, this is `step`."""
        loop = running_loop()
        if self.ended or self.task:
            return
        if loop is None:
            return self.step()
        stop_all()
        _playing.add(self)
        self.task = loop.create_task(self._go_on())
        self._show()

    def pause(self) -> None:
        """Stop here."""
        if self.task:
            self.task.cancel()
            self._stopped()

    def step(self) -> None:
        """Go on by one stride and stop there."""
        self.pause()
        for _ in self._stride():
            pass

    def close(self) -> None:
        """Stop, and go from the page."""
        self.pause()
        super().close()

    def _stride(self) -> Iterator[None]:
        """Take the states of a stride, give way after each, and show the last."""
        raise NotImplementedError

    def _show(self) -> None:
        """Show where it stands, and disable `moves` where it has ended."""
        raise NotImplementedError

    async def _go_on(self) -> None:
        try:
            while not self.ended:
                for _ in self._stride():
                    await asyncio.sleep(TURN)
                await asyncio.sleep(REST)
        except Exception:
            pass  # it is shown, and nobody waits for this task
        finally:
            if self.task is asyncio.current_task():
                self._stopped()

    def _stopped(self) -> None:
        self.task = None
        _playing.discard(self)
        self._show()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Show an exception with its traceback, where the headless runner finds it too, and pass it on."""
        try:
            yield
        except Exception as error:
            self.ended, self.error = True, f"stopped by {type(error).__name__}, see below"
            self.failure.outputs = shown_error(error)
            self._show()
            raise
