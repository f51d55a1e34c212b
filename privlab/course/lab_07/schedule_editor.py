"""A schedule editor: the reader ticks the terms of an attack's loss, sets when each counts, picks the optimiser, and compares searches."""

import html
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.results import State
from privlab.attacks.gradient_inversion.search import Stages
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Control, Live, turned
from privlab.notebook.watch import Frame, Watch

Span = tuple[int, int]  # percent of the run from which, and up to which, a term counts; equal ends: never
Search = Callable[[str, Mapping[str, Stages]], Iterator[State]]
OPTIMISERS = {"Adam": 20, "L-BFGS": 1}  # name -> steps between two frames: L-BFGS takes up to 20 evaluations a step
HALVED = "gradients count half from 50 % on"
LOOK: dict[str, Any] = {"continuous_update": False, "layout": {"width": "24em", "max_width": "96%"}}
NARROW = {"width": "14em"}


def stages(begin: int, end: int, halved: bool = False) -> Stages:
    """A term that counts from `begin` to `end`, in percent of the run, as an attack wants it.  halved: with half its weight from 50 on."""
    parts = [part for part in sorted({0, begin, 50, end}) if part < 100]
    return tuple((part / 100, (begin <= part < end) * (0.5 if halved and part >= 50 else 1.0)) for part in parts)


class ScheduleEditor(Live):
    """The editor. `floor` is the baseline's PSNR, in dB, the mean over the images."""

    def __init__(self, search: Search, truth: Tensor, start: Mapping[str, Span], baseline: Tensor) -> None:
        """search: "Adam" or "L-BFGS", and the stages of each term -> a search with them, such as attack.search(model, leak).

        truth: the images, (batch, channels, height, width) in [0, 1], for the scores; no search sees them.
        start: term -> (from, to) in percent of the run, in steps of 25; equal ends: never. "gradients" is one of them.
        baseline: images that were made without the gradient, of the same shape.
        """
        self.search, self.truth, self.watches, self.setting_up = search, truth.cpu(), dict[str, Watch](), False
        self.floor = metrics.psnr(baseline.cpu(), self.truth).mean().item()
        self.optimiser = ipywidgets.ToggleButtons(options=[*OPTIMISERS], description="optimiser")
        self.halved = ipywidgets.Checkbox(description=HALVED, indent=False)
        self.boxes, self.sliders = dict[str, ipywidgets.Checkbox](), dict[str, ipywidgets.IntRangeSlider]()
        for name, (begin, end) in start.items():
            self.boxes[name] = ipywidgets.Checkbox(value=begin < end, description=name, indent=False, layout=NARROW)
            when = (begin, end) if begin < end else (0, 100)
            self.sliders[name] = ipywidgets.IntRangeSlider(value=when, max=100, step=25, readout_format="d", **LOOK)
        for control in (self.optimiser, self.halved, *self.boxes.values(), *self.sliders.values()):
            control.observe(lambda _: self._show(), "value")
        rows = [ipywidgets.HBox([self.boxes[name], self.sliders[name]], layout=WRAP) for name in start]
        self.board, self.place = ipywidgets.HTML(), ipywidgets.VBox()
        super().__init__([self.optimiser, *rows, self.halved, self.place, self.board])
        self._show()

    @property
    def spans(self) -> dict[str, Span]:
        """Term -> when it counts; (0, 0) where its box is not ticked."""
        return {name: slider.value if self.boxes[name].value else (0, 0) for name, slider in self.sliders.items()}

    @property
    def setting(self) -> str:
        """What the controls stand at, in words."""
        counts = [f"{name} {begin} to {end} %" for name, (begin, end) in self.spans.items() if begin < end]
        return f"{self.optimiser.value}: {', '.join(counts)}{'; ' + HALVED if self.halved.value else ''}"

    @property
    def wrong(self) -> str:
        """Why no search can follow this schedule; empty where one can."""
        begin, end = self.spans["gradients"]
        if begin == end:
            return "The gradients never count, so nothing of the client's is used. Let them count somewhere."
        bare = [at for at in range(0, 100, 25) if not any(begin <= at < end for begin, end in self.spans.values())]
        return f"No term counts from {bare[0]} to {bare[0] + 25} % of the run. Let one last." if bare else ""

    @property
    def tried(self) -> dict[str, Frame]:
        """Setting -> where its search ended, the best first."""
        ends = {one: way[-1] for one, watched in self.watches.items() if watched.ended for way in watched.ways.values()}
        return dict(sorted(ends.items(), key=lambda end: end[1].psnr, reverse=True))

    def run(self, optimiser: str, halved: bool = False, **spans: Span) -> float:
        """Set the controls (gradients always count, other terms that are not named never do), search to the end, and return the PSNR.

        Raises ValueError for a schedule that no search can follow.
        """
        self.setting_up = True
        self.optimiser.value, self.halved.value = optimiser, halved
        for name, (begin, end) in (dict.fromkeys(self.boxes, (0, 0)) | {"gradients": (0, 100)} | spans).items():
            self.boxes[name].value = begin < end
            if begin < end:
                self.sliders[name].value = begin, end
        self.setting_up = False
        self._show()
        if self.wrong:
            raise ValueError(self.wrong)
        self.watches[self.setting].finish()
        return self.tried[self.setting].psnr

    def page(self, seconds: float, room: int) -> str:
        """The searches that came to their end, the best first."""
        shown = {one: self.watches[one].images.value for one in self.tried}
        menu, first = (
            Control("search", tuple(shown), 0, "menu"),
            f"the best first; the baseline has {self.floor:.1f} dB",
        )
        note = f"These were tried, {first}. In the notebook you tick the terms and set your own schedule."
        return turned([menu], lambda at: [*shown.values()][at], note)

    def _show(self) -> None:
        if self.setting_up:
            return
        if Watch.playing:
            Watch.playing.pause()
        if self.wrong:
            self.place.children = [ipywidgets.HTML(f'<p role="status">{self.wrong}</p>')]
            return
        if self.setting not in self.watches:
            self._forget()
            optimiser, half = self.optimiser.value, self.halved.value
            terms = {name: stages(*span, half and name == "gradients") for name, span in self.spans.items()}
            begin = {f"what comes back, by {optimiser}": lambda: self.search(optimiser, terms)}
            watched = self.watches[self.setting] = Watch(begin, self.truth, OPTIMISERS[optimiser])
            for control in watched.children[1].children:
                control.add_class(SKIP)  # a search takes seconds: a sweep of the controls only moves the sliders
            watched.text.observe(lambda _: self._list(), "value")
        self.place.children = [self.watches[self.setting]]

    def _forget(self) -> None:
        """Let go of searches that nobody began: each holds a copy of the image prior."""
        for setting, watched in [*self.watches.items()]:
            if not any(state.step for state in watched.states.values()):
                self.watches.pop(setting).running.clear()
                watched.close()

    def _list(self) -> None:
        rows = [f"<li>{end.psnr:.1f} dB: {html.escape(setting)}</li>" for setting, end in self.tried.items()]
        head = f"<p>Tried, the best first; the baseline has {self.floor:.1f} dB.</p>" * bool(rows)
        self.board.value = f"{head}<ol>{''.join(rows)}</ol>"
