"""Gradient attacks while they search: one alone, or several side by side in a race; with other cells free to run meanwhile.

A search is an iterator of states, so whoever holds it decides when it goes on. Playing is a task on the kernel's event loop: it takes a
state, lets whatever waits there (a click on Pause, another cell) have its turn, and takes the next.
"""

from __future__ import annotations

import asyncio
import html
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import ipywidgets
import numpy as np
import torch
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.descent import State
from privlab.notebook import plots, sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button, running_loop, shown_error
from privlab.notebook.pages import Control, turned
from privlab.notebook.plots.picture import COLOURS

REST = 0.05  # seconds between two frames, for the eye and for whatever else the kernel has to do
TURN = 0.001  # seconds after each state; a click takes several turns of the loop to get through, so 0 would be late
SIDE = 130  # CSS pixels of an image in a race: five stand in a notebook's column, two on a telephone
KEPT, FRAMES, COLUMNS = 60, 13, 5  # frames of a way that are kept, that a page has room for, and of a picture
LANE = ";margin:0 14px 12px 0;text-align:left;line-height:1.45;color:inherit;max-width:100%"

Search = Callable[[], Iterator[State]]  # begins it

_playing: set[Watch] = set()  # one at most: two would slow each other down


class Frame(NamedTuple):
    """Where a search stood.  images: (batch, channels, height, width).  score: the mean SSIM, or else the loss; words tell it."""

    step: int
    images: Tensor
    score: float
    words: str


class Lane:
    """One search, where it stands, and how it came there.  ssim, psnr (dB): means over the images, NaN where there are none."""

    def __init__(self, begin: Search, truth: Tensor | None) -> None:
        self.search, self.truth = begin(), truth
        self.ahead = next(self.search, None)
        if self.ahead is None:
            raise ValueError("searches: got one without a state; give lambda: attack.search(model, leak)")
        self.way: list[Frame] = []
        self.go_on()
        self.look()

    def go_on(self) -> None:
        """Take the next state, if there is one; where a restart ends with it, find out whether another follows."""
        following = self.ahead or next(self.search, None)
        if following is not None:
            self.state, self.ahead = following, next(self.search, None) if following.reason else None
        self.over = following is None or (bool(following.reason) and self.ahead is None)

    def look(self) -> None:
        """Score where it stands, and enter it into the way, which begins anew with each restart."""
        images, step, loss = self.state.images.detach().cpu(), self.state.step, self.state.loss
        self.ssim = self.psnr = math.nan
        if self.truth is not None and not images.isnan().any():
            self.ssim, self.psnr = (of(images, self.truth).mean().item() for of in (metrics.ssim, metrics.psnr))
        words = f"loss {loss:.3g}" if self.truth is None else f"SSIM {self.ssim:.2f}<br>{self.psnr:.1f} dB"
        frame = Frame(step, images.nan_to_num(nan=0.5), loss if self.truth is None else self.ssim, words)
        if self.way and step <= self.way[-1].step:  # it stands where it stood, or another restart has begun
            self.way = self.way[:-1] if step == self.way[-1].step else []
        self.way.append(frame)
        if len(self.way) > KEPT:
            del self.way[1:-1:2]

    def some(self, count: int) -> list[Frame]:
        """So many frames of the way at most, evenly spaced, the first and the last among them."""
        last = len(self.way) - 1
        return [self.way[k] for k in sorted({round(i * last / (count - 1)) for i in range(count)})]


class Watch(Live):
    """What `watch` gives. Its methods are its buttons; `states`, `ssim` and `psnr` say where each search stands, by name."""

    task: asyncio.Task[None] | None = None  # while it plays
    error = ""

    def __init__(self, searches: Mapping[str, Search], truth: Tensor | None, stride: int, bar: float) -> None:
        self.truth = None if truth is None else truth.detach().cpu()
        self.searches, self.stride, self.bar = searches, stride, bar
        self.lanes = {name: Lane(begin, self.truth) for name, begin in searches.items()}
        self.images, self.text, self.failure = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Output()
        self.moves = [  # a sweep clicks them in this order, so what follows Play stops it
            button("Play", "Go on until Pause; other cells can run meanwhile", self.play, width="6em"),
            button("Pause", "Stop here; Play and Step go on from here", self.pause, width="6em"),
            button("Step", f"Go on by {stride}, or to the end of a restart", self.step, width="6em"),
        ]
        restart = button("Restart", "Begin again", self.restart, width="6em")
        restart.add_class(SKIP)  # a page is to show how far the searches have come
        super().__init__([self.images, ipywidgets.HBox([*self.moves, restart], layout=WRAP), self.text, self.failure])
        self._show()

    def __repr__(self) -> str:
        return f"Watch: {self.line}"

    def play(self) -> None:
        """Go on until the end or `pause`. Where no event loop runs, this is `step`."""
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
        """Go on by one stride and stop there."""
        self.pause()
        for _ in self._stride():
            pass

    def restart(self) -> None:
        """Begin the searches again."""
        self.pause()
        self.failure.outputs, self.error = (), ""
        with self._failures():
            self.lanes = {name: Lane(begin, self.truth) for name, begin in self.searches.items()}
        self._show()

    def finish(self) -> None:
        """Go to the end, here and now."""
        while not self.ended:
            self.step()

    @property
    def ended(self) -> bool:
        return bool(self.error) or all(lane.over for lane in self.lanes.values())

    @property
    def states(self) -> dict[str, State]:
        return {name: lane.state for name, lane in self.lanes.items()}

    @property
    def ssim(self) -> dict[str, float]:
        return {name: lane.ssim for name, lane in self.lanes.items()}

    @property
    def psnr(self) -> dict[str, float]:
        return {name: lane.psnr for name, lane in self.lanes.items()}

    @property
    def recognised(self) -> list[str]:
        """The names whose image is recognised at the end. Searches that are not over are run to their end first."""
        self.finish()
        return [name for name, value in self.ssim.items() if value > self.bar]

    @property
    def settings(self) -> int:
        return 0 if self.ended else FRAMES

    def page(self, seconds: float, room: int) -> str:
        """The way so far, gone on with for some seconds, with a slider through its steps."""
        began = time.monotonic()
        while not self.ended and time.monotonic() - began < seconds:
            self.step()
        ways = {name: lane.some(FRAMES) for name, lane in self.lanes.items()}
        steps = tuple(str(frame.step) for frame in max(ways.values(), key=len))
        slider = Control("step of the search", steps, len(steps) - 1)
        return turned([slider], lambda k: self._row({name: way[min(k, len(way) - 1)] for name, way in ways.items()}))

    def picture(self) -> plots.Picture:
        """The way of each search so far, a row each, from where it began to where it stands; of a single image."""
        ways = {name: lane.some(COLUMNS) for name, lane in self.lanes.items()}
        stands = [f"{name} is at step {lane.state.step}, SSIM {lane.ssim:.2f}" for name, lane in self.lanes.items()]
        return plots.images(
            {name: torch.cat([frame.images for frame in way]) for name, way in ways.items()},
            f"A row of reconstructions for each search, from where it began to where it stands: {'; '.join(stands)}.",
            {name: [f"step {f.step}, {f.words.replace('<br>', ', ')}" for f in way] for name, way in ways.items()},
        )

    def _stride(self) -> Iterator[None]:
        """Take up to `stride` states of each, give way after each, and show the last."""
        with self._failures():
            for _ in range(self.stride):
                running = [lane for lane in self.lanes.values() if not lane.over]
                for lane in running:
                    lane.go_on()
                    yield
                if any(lane.state.reason for lane in running):
                    break
            self._show()

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
            self.error = f"stopped by {type(error).__name__}, see below"
            self.failure.outputs = shown_error(error)
            self._show()
            raise

    def _show(self) -> None:
        for lane in self.lanes.values():
            lane.look()
        self.line = " · ".join(self._facts())
        self.images.value = self._row({name: lane.way[-1] for name, lane in self.lanes.items()})
        self.text.value = f'<div style="font-variant-numeric:tabular-nums">{html.escape(self.line)}</div>'
        for move in self.moves:
            move.disabled = self.ended

    def _facts(self) -> Iterator[str]:
        """Where it stands; a single search tells its losses, too, and several who is recognised."""
        states = self.states.values()
        restart = max(state.restart for state in states)
        yield f"step {min(state.step for state in states)}" + f" of restart {restart}" * (restart > 0)
        yield self.error or ("playing" if self.task else "ended" if self.ended else "paused")
        if len(self.lanes) == 1:
            (state,) = states
            yield from (f"{name} {value:.3g}" for name, value in state.losses.items())
            yield f"{state.evaluations:,} evaluation{'s' * (state.evaluations != 1)}"
            yield from [f"over: {state.reason}"] * bool(state.reason)
        elif self.truth is not None:
            known = [name for name, value in self.ssim.items() if value > self.bar]
            yield f"SSIM above {self.bar:g}: {', '.join(known) or 'none yet'}"

    def _row(self, frames: Mapping[str, Frame]) -> str:
        """The images of each search with their scores and how these came about, and the true images at the end."""
        figures = []
        for name, frame in frames.items():
            curve = self._curve([one.score for one in self.lanes[name].way if one.step <= frame.step])
            figures.append(self._figure(frame.images, name, frame.words, f"{name} after {frame.step} steps", curve))
        if self.truth is not None:
            figures.append(self._figure(self.truth, "the truth", "no search sees it", "The true images"))
        return f'<div style="display:flex;flex-wrap:wrap">{"".join(figures)}</div>'

    def _figure(self, images: Tensor, name: str, words: str, alt: str, below: str = "") -> str:
        """Images side by side, as squares of pixels. It keeps its room while the browser decodes the next frame."""
        picture = sheet.strip(images, f"{alt}: {words.replace('<br>', ', ')}.")
        picture = replace(picture, width=SIDE) if len(self.lanes) > 1 else picture
        count, _, high, wide = images.shape
        look = f";display:block;aspect-ratio:{count * (wide + 1) - 1}/{high};image-rendering:pixelated"
        caption = f"<strong>{html.escape(name)}</strong><br>{words}"
        return sheet.figure(picture.tag(look) + below, caption, f"{LANE};width:{picture.width}px")

    def _curve(self, course: Sequence[float]) -> str:
        """The SSIM so far, from 0 to 1, with a dashed line at the bar; or the loss so far, on a log scale."""
        heights = np.array(course) if self.truth is not None else np.log10(np.maximum(course, 1e-30))
        low, high = (0.0, 1.0) if self.truth is not None else (heights.min(), heights.max() + 1e-9)
        level = 40 - 40 * (np.nan_to_num(heights) - low) / (high - low)
        across = np.linspace(0, 100, max(2, len(level)))
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, [*level, level[-1]], strict=False))
        bar = f'<path d="M0 {40 - 40 * self.bar:g}H100" stroke="currentColor" stroke-dasharray="2 2"/>'
        return (
            f'<svg viewBox="-2 -2 104 44" width="{SIDE}" aria-hidden="true" style="display:block;margin-top:3px;max-width:100%">'
            f'<path d="M0 0V40H100" fill="none" stroke="currentColor" opacity=".5"/>{bar * (self.truth is not None)}'
            f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/></svg>'
        )


def watch(searches: Mapping[str, Search], truth: Tensor | None = None, stride: int = 10, bar: float = 0.5) -> Watch:
    """Searches side by side, standing at their first states, with buttons. What plays at this moment is paused.

    searches: name -> a function that begins a search, such as `lambda: attack.search(model, leak)`.
    truth: the true images, (batch, channels, height, width) in [0, 1], for the scores and the reader; no search sees them.
    stride: steps of each between two frames, and of a click on Step; the end of a restart is shown in any case.
    bar: SSIM above which an image counts as recognised.
    Raises ValueError for a search without a state, or a truth that does not fit. What a search raises later is shown below it.
    """
    for other in tuple(_playing):
        other.pause()
    return Watch(searches, truth, stride, bar)
