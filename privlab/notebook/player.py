"""A gradient attack while it searches: watch it, pause it, go through it step by step, and run other cells meanwhile.

A search is an iterator of states, so whoever holds it decides when it goes on. Playing is a task on the kernel's event
loop: it takes a state, lets whatever waits there (a click on Pause, another cell) have its turn, and takes the next.
With some kernels (ipykernel 7.0 to 7.3) JupyterLab's clicks arrive on a thread of their own. A search there would share its
model with the cell that runs at that moment; so a click leaves word on the loop where the player was made, and the work is
done there.
"""

from __future__ import annotations

import asyncio
import html
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.descent import State
from privlab.notebook.flipbook import strip
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.widgets import button, running_loop, shown_error

Search = Iterator[State]

REST = 0.05  # seconds between two frames, for the eye and for whatever else the kernel has to do
TURN = 0.001  # seconds after each state; a click takes several turns of the loop to get through, so 0 would be late
REASONS = {
    "steps": "all steps are done",
    "enough": "the loss is low enough",
    "patience": "the loss has not fallen for long enough",
    "not finite": "the loss or its gradient is no finite number",
}
NO_RESTART = "A search that has begun cannot restart; give watch() what begins it: lambda: attack.search(model, leak)"

_playing: set[Player] = set()  # one at most: two would slow each other down


def watch(
    search: Search | Callable[[], Search], truth: Tensor | None = None, stride: int = 10, label: str = "step"
) -> Player:
    """A player for a search, standing at its first state. A player that plays at this moment is paused.

    search: a function without arguments that begins one, such as `lambda: attack.search(model, leak)`, or a search that
        has begun, which cannot be restarted.
    truth: the true images, (batch, channels, height, width) in [0, 1], shown and compared for the reader; no attack sees them.
    stride: states between two frames, and of a click on Step; the end of a restart is shown in any case.
    label: what a step of the search is called.
    Raises ValueError for what is no search or an empty one, a stride below 1, or a truth that does not fit; and what
    the search raises before its first state. What it raises later is shown in the player.
    """
    if isinstance(stride, bool) or not isinstance(stride, int) or stride < 1:
        raise ValueError(f"stride={stride!r} goes nowhere; give 1 or more, such as 10")
    for other in tuple(_playing):
        other.pause()
    return Player(search, truth, stride, label)


class Player(ipywidgets.VBox):
    """What `watch` gives. Its methods are its buttons; `state` is the state that it shows, `ended` whether it is the last."""

    task: asyncio.Task[None] | None = None  # while it plays

    def __init__(self, search: Search | Callable[[], Search], truth: Tensor | None, stride: int, label: str) -> None:
        self.source, self.truth, self.stride, self.label = search, truth, stride, label
        self._begin()
        self._psnr()  # here, because it checks that the truth fits
        self.found, self.text, self.chart = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        self.failure = ipywidgets.Output()
        images = [self.found]
        if truth is not None:
            images.append(ipywidgets.HTML(_figure(truth, "the truth, which the attack never sees", "The true images.")))
        again = "Begin the search again" if callable(search) else NO_RESTART
        buttons = [  # a sweep clicks them in this order, so what follows Play stops it
            button("Play", "Go on until Pause; other cells can run meanwhile", self.play, width="6em"),
            button("Pause", "Stop here; Play and Step go on from here", self.pause, width="6em"),
            button("Step", f"Go on by {stride}, or to the end of a restart", self.step, width="6em"),
            button("Restart", again, self.restart, width="6em"),
        ]
        buttons[3].disabled = not callable(search)
        self.moves = buttons[:3]  # the buttons that have nothing to do once the search is over
        wrap = {"flex_flow": "row wrap"}
        rows = [ipywidgets.HBox(row, layout=wrap) for row in (images, buttons)]  # the text below: its length varies
        super().__init__([*rows, self.text, self.chart, self.failure])
        self._show()

    def __repr__(self) -> str:
        return f"Player: {self.line}"  # what a page shows that can show no widget

    # -- the buttons ---------------------------------------------------------------------------------------------------

    def play(self) -> None:
        """Go on until the search ends or `pause` is called. Where no event loop runs, this is `step`."""
        loop = running_loop()
        if self.ended or self.task:
            return
        if loop is None:
            return self.step()
        for other in tuple(_playing):
            other.pause()
        _playing.add(self)
        self.task = loop.create_task(self._go_on())
        self._show()

    def pause(self) -> None:
        """Stop here."""
        if self.task:
            self.task.cancel()
            self._stopped()

    def step(self) -> None:
        """Go on by `stride` states, or to the end of this restart, and stop there."""
        self.pause()
        for _ in self._stride():
            pass

    def restart(self) -> None:
        """Begin the search again and stop at its first state.  Raises ValueError for one that had begun when it was given."""
        if not callable(self.source):
            raise ValueError(NO_RESTART)
        self.pause()
        self.failure.outputs = ()
        with self._failures():
            self._begin()
        self._show()

    def close(self) -> None:
        """Stop, and go from the page."""
        self.pause()
        super().close()

    # -- the search ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.search = self.source() if callable(self.source) else self.source
        first = next(self.search, None) if hasattr(self.search, "__next__") else self.search
        if not isinstance(first, State):
            what = "no state at all" if first is None else f"{type(first).__name__} where a State should be"
            raise ValueError(f"search: got {what}; give a function that begins one: lambda: attack.search(model, leak)")
        self.error, self.trace = "", list[tuple[int, float]]()
        self._take(first)

    def _take(self, state: State) -> None:
        """Make this the present state; if a restart ends with it, find out whether another follows."""
        self.state, self.ended = state, False
        if state.reason:
            following = next(self.search, None)
            self.ended = following is None
            self.search = chain([following] if following else [], self.search)

    def _stride(self) -> Iterator[None]:
        """Take up to `stride` states, give way after each, and show the last."""
        with self._failures():
            for _ in range(self.stride):
                following = next(self.search, None)
                if following is None:
                    self.ended = True
                    break
                if following.restart != self.state.restart:
                    self.trace = []
                self._take(following)
                if following.reason:
                    break
                yield
            self._show()

    async def _go_on(self) -> None:
        try:
            while not self.ended:
                for _ in self._stride():
                    await asyncio.sleep(TURN)
                await asyncio.sleep(REST)
        except Exception:
            pass  # the player shows it, and nobody waits for this task
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

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        state, psnr = self.state, self._psnr()
        several = len(state.images) > 1
        now = f"{self.label} {state.step}" + f" of restart {state.restart}" * (state.restart > 0)
        alt = f"{len(state.images)} image{'s' * several} that the attack has found, at {now}."
        facts = [now, self._standing(), *(f"{name} {value:.3g}" for name, value in state.losses.items())]
        if psnr is not None:
            facts.append("no PSNR, pixels are NaN" if math.isnan(psnr) else f"{'mean ' * several}PSNR {psnr:.1f} dB")
        facts.append(f"{state.evaluations:,} evaluation{'s' * (state.evaluations != 1)}")
        if not self.trace or self.trace[-1][0] != state.step:
            self.trace.append((state.step, state.loss if psnr is None else psnr))
        self.found.value = _figure(state.images, "what the attack has found", alt)
        self.line = " · ".join(facts)
        self.text.value = f'<div style="font-variant-numeric:tabular-nums">{html.escape(self.line)}</div>'
        self.chart.value = _chart(self.trace, "loss" if psnr is None else "PSNR in dB", self.label)
        for move in self.moves:
            move.disabled = self.ended

    def _psnr(self) -> float | None:
        """Of the present images, in dB; None where no truth was given."""
        if self.truth is None:
            return None
        if self.state.images.isnan().any():
            return math.nan
        return metrics.psnr(self.state.images, self.truth).mean().item()

    def _standing(self) -> str:
        if self.error or self.task:
            return self.error or "playing"
        reason = REASONS.get(self.state.reason, self.state.reason)
        if self.ended:
            return f"ended: {reason or 'the search is over'}"
        return f"paused; this restart has ended: {reason}" if reason else "paused"


def _figure(images: Tensor, caption: str, alt: str) -> str:
    """A batch side by side, enlarged as squares; NaN is grey. It keeps its room while the browser decodes the next frame."""
    picture = strip(images.nan_to_num(nan=0.5), alt)
    count, _, high, wide = images.shape
    look = f";display:block;margin:0;aspect-ratio:{count * (wide + 1) - 1}/{high}"
    look += ";image-rendering:pixelated" * (picture.width >= count * wide)
    plain = "margin:0 1.5em .5em 0;text-align:left;line-height:1.5;color:inherit"
    return f'<figure style="{plain}"><figcaption>{html.escape(caption)}</figcaption>{picture.tag(look)}</figure>'


def _chart(trace: list[tuple[int, float]], what: str, label: str) -> str:
    """A line through (step, value) with its ends in figures, drawn in a millisecond; a loss on a log axis."""
    points = [(x, y) for x, y in trace if math.isfinite(y) and (y > 0 or what != "loss")]
    if len(points) < 2:
        return ""
    values, scale = [y for _, y in points], math.log10 if what == "loss" else float
    first, last, low, high = points[0][0], points[-1][0], min(values), max(values)
    across, up = 340 / ((last - first) or 1), 60 / ((scale(high) - scale(low)) or 1.0)
    line = " ".join(f"{60 + across * (x - first):.1f},{84 - up * (scale(y) - scale(low)):.1f}" for x, y in points)
    words = (
        f"{what}: {values[0]:.3g} at {label} {first}, {values[-1]:.3g} at {label} {last}; from {low:.3g} to {high:.3g}"
    )
    marks = [(54, 28, "end", f"{high:.3g}"), (54, 88, "end", f"{low:.3g}"), (60, 102, "start", f"{label} {first}")]
    marks += [(400, 102, "end", f"{label} {last}"), (0, 12, "start", what + " (log scale)" * (what == "loss"))]
    texts = [f'<text x="{x}" y="{y}" text-anchor="{side}">{html.escape(text)}</text>' for x, y, side, text in marks]
    return (
        f'<svg role="img" aria-label="{html.escape(words)}" viewBox="0 0 404 106" style="width:404px;max-width:100%" '
        f'font-size="12" fill="currentColor"><path d="M60 20V86H400" fill="none" stroke="currentColor" opacity=".5"/>'
        f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>{"".join(texts)}</svg>'
    )
