"""Gradient attacks while they search: one alone, or several side by side in a race; with other cells free to run meanwhile.

A search is an iterator of states, so whoever holds it decides when it goes on. Playing is a task on the kernel's event loop: it takes a
state, lets whatever waits there (a click on Pause, another cell) have its turn, and takes the next.
"""

import asyncio
import html
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import ipywidgets
import numpy as np
import torch
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.results import State
from privlab.notebook import plots, sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Control, Live, button, turned
from privlab.notebook.plots.picture import COLOURS

BAR = 0.5  # SSIM above which an image counts as recognised
REST = 0.05  # seconds between two frames, for the eye and for whatever else the kernel has to do
TURN = 0.001  # seconds after each state; a click takes several turns of the loop to get through, so 0 would be late
WIDTH, LARGEST = 560, 256  # CSS pixels that the images of a single search, and one of them, may take
SIDE = 130  # CSS pixels of an image in a race: five stand in a notebook's column, two on a telephone
FRAMES, COLUMNS = 13, 5  # of a way, that a page has room for, and of a picture
LANE = ";margin:0 14px 12px 0;text-align:left;line-height:1.45;color:inherit;max-width:100%"


class Frame(NamedTuple):
    """Where a search stood.  images: (batch, channels, height, width).  ssim, psnr (dB): means over them; of NaN there are none."""

    step: int
    images: Tensor
    ssim: float
    psnr: float

    @property
    def words(self) -> str:
        return f"SSIM {self.ssim:.2f}, {self.psnr:.1f} dB"


class Watch(Live):
    """Searches side by side, which stand at their first states, with buttons.

    By the names of the searches, `states` has where each stands, and `ways` how it came there; the last frame of a way is on show.
    """

    playing: ClassVar["Watch | None"] = None  # one at most: two would slow each other down
    task: asyncio.Task[None]  # of what plays
    error: Exception | None = None

    def __init__(self, searches: Mapping[str, Callable[[], Iterator[State]]], truth: Tensor, stride: int = 10) -> None:
        """searches: name -> a function that begins a search of one restart, such as `lambda: attack.search(model, leak)`.

        truth: the true images, (batch, channels, height, width) in [0, 1], for the scores and the reader; no search sees them.
        stride: steps of each between two frames, and of a click on Step.
        Raises ValueError for a truth that does not fit. What a search raises later is shown below it.
        """
        self.searches, self.truth, self.stride = searches, truth.detach().cpu(), stride
        self.images, self.text, self.failure = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Output()
        tips = {  # a sweep clicks them in this order, so what follows Play stops it
            "Play": ("Go on until Pause; other cells can run meanwhile", self.play),
            "Pause": ("Stop here; Play and Step go on from here", self.pause),
            "Step": (f"Go on by {stride}, or to the end", self.step),
            "Restart": ("Begin again", self.restart),
        }
        *self.moves, again = (button(name, *tip, width="6em") for name, tip in tips.items())
        again.add_class(SKIP)  # a page is to show how far the searches have come
        super().__init__([self.images, ipywidgets.HBox([*self.moves, again], layout=WRAP), self.text, self.failure])
        self.restart()

    def play(self) -> None:
        """Go on until the end or `pause`; it needs an event loop, as a notebook has one."""
        self.pause()
        if not self.ended:
            Watch.playing, self.task = self, asyncio.get_running_loop().create_task(self._go_on())
            self._show()

    def pause(self) -> None:
        """Stop what plays, this or another."""
        if playing := Watch.playing:
            Watch.playing = None
            playing.task.cancel()
            playing._show()

    def step(self) -> None:
        """Go on by one stride and stop there."""
        self.pause()
        for _ in self._stride():
            pass
        if self.error:
            raise self.error

    def restart(self) -> None:
        """Begin the searches again."""
        self.pause()
        self.error, self.failure.outputs = None, ()
        self.running = {name: begin() for name, begin in self.searches.items()}
        self.states = {name: next(search) for name, search in self.running.items()}
        self.ways: dict[str, list[Frame]] = {name: [] for name in self.searches}
        self._show()

    def finish(self) -> None:
        """Go to the end, here and now."""
        while not self.ended:
            self.step()

    @property
    def ended(self) -> bool:
        return self.error is not None or all(state.reason for state in self.states.values())

    @property
    def recognised(self) -> list[str]:
        """The names whose image is recognised where they stand."""
        return [name for name, way in self.ways.items() if way[-1].ssim > BAR]

    def page(self, seconds: float, room: int) -> str:
        """The way so far, with a slider through its steps."""
        ways = {name: _some(way, FRAMES) for name, way in self.ways.items()}
        steps = tuple(str(frame.step) for frame in max(ways.values(), key=len))
        slider = Control("step of the search", steps, len(steps) - 1)
        return turned([slider], lambda k: self._row({name: way[min(k, len(way) - 1)] for name, way in ways.items()}))

    def picture(self) -> plots.Picture:
        """The way of each search so far, a row each, from where it began to where it stands; of a single image."""
        ways = {name: _some(way, COLUMNS) for name, way in self.ways.items()}
        stands = [f"{name} is at step {way[-1].step}, SSIM {way[-1].ssim:.2f}" for name, way in ways.items()]
        return plots.images(
            {name: torch.cat([frame.images for frame in way]) for name, way in ways.items()},
            f"A row of reconstructions for each search, from where it began to where it stands: {'; '.join(stands)}.",
            {name: [f"step {frame.step}, {frame.words}" for frame in way] for name, way in ways.items()},
        )

    async def _go_on(self) -> None:
        while not self.ended:
            for _ in self._stride():
                await asyncio.sleep(TURN)
            await asyncio.sleep(REST)
        Watch.playing = None
        self._show()

    def _stride(self) -> Iterator[None]:
        """Take up to `stride` states of each, give way after each, and show the last. An exception is shown, and ends it."""
        try:
            for _ in range(self.stride):
                for name, search in self.running.items():
                    if not self.states[name].reason:
                        self.states[name] = next(search)
                        yield
        except Exception as error:  # as the content of an Output, where the headless runner finds it, too
            lines = traceback.format_exception(error)
            shown = {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": lines}
            self.error, self.failure.outputs = error, (shown,)
        self._show()

    def _show(self) -> None:
        """Enter where each search stands into its way, with its scores, and show it."""
        for name, state in self.states.items():
            way, images, ssim, psnr = self.ways[name], state.images.detach().cpu(), math.nan, math.nan
            if way and way[-1].step == state.step:
                continue
            if not images.isnan().any():
                ssim, psnr = (of(images, self.truth).mean().item() for of in (metrics.ssim, metrics.psnr))
            way.append(Frame(state.step, images.nan_to_num(nan=0.5), ssim, psnr))
        self.line = " · ".join(self._facts())
        self.images.value = self._row({name: way[-1] for name, way in self.ways.items()})
        self.text.value = f'<div style="font-variant-numeric:tabular-nums">{html.escape(self.line)}</div>'
        for move in self.moves:
            move.disabled = self.ended

    def _facts(self) -> Iterator[str]:
        """Where it stands; a single search tells its losses, too, and several who is recognised."""
        states = [*self.states.values()]
        yield f"step {min(state.step for state in states)}"
        stands = "playing" if Watch.playing is self else "ended" if self.ended else "paused"
        yield f"stopped by {type(self.error).__name__}, see below" if self.error else stands
        if len(states) > 1:
            yield f"SSIM above {BAR:g}: {', '.join(self.recognised) or 'none yet'}"
        else:
            yield from (f"{name} {value:.3g}" for name, value in states[0].losses.items())
            yield f"evaluations {states[0].evaluations:,}"
            yield from [f"over: {states[0].reason}"] * bool(states[0].reason)

    def _row(self, frames: Mapping[str, Frame]) -> str:
        """The images of each search with their scores and how these came about, and the true images at the end."""
        shown = [(name, one.images, f"{name} after {one.step} steps", one.words) for name, one in frames.items()]
        figures = []
        for name, images, alt, words in [*shown, ("the truth", self.truth, "The true images", "no search sees it")]:
            width = SIDE if len(self.ways) > 1 else min(LARGEST * len(images), WIDTH)
            picture = sheet.picture(images, f"{alt}: {words}.", width, sheet.SQUARES)
            caption = f"<strong>{html.escape(name)}</strong><br>{words.replace(', ', '<br>')}"
            if name in frames:
                picture += _curve([one.ssim for one in self.ways[name] if one.step <= frames[name].step])
            figures.append(sheet.figure(picture, caption, f"{LANE};width:{width}px"))
        return sheet.row(figures, gap=0)


def _some(way: Sequence[Frame], count: int) -> list[Frame]:
    """So many frames of a way at most, evenly spaced, the first and the last among them."""
    return [way[k] for k in sorted({round(i * (len(way) - 1) / (count - 1)) for i in range(count)})]


def _curve(course: Sequence[float]) -> str:
    """The SSIM so far, from 0 to 1, with a dashed line at the bar."""
    across, heights = np.linspace(0, 100, len(course)), 40 - 40 * np.nan_to_num(course)
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, heights, strict=True))
    return (
        f'<svg viewBox="-2 -2 104 44" width="{SIDE}" aria-hidden="true" style="display:block;margin-top:3px;max-width:100%">'
        f'<path d="M0 0V40H100" fill="none" stroke="currentColor" opacity=".5"/>'
        f'<path d="M0 {40 - 40 * BAR:g}H100" stroke="currentColor" stroke-dasharray="2 2"/>'
        f'<polyline points="{line}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/></svg>'
    )
