"""A schedule editor: the reader sets when each term of an attack's loss counts, plays the search, and compares schedules."""

import html
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.results import State
from privlab.attacks.gradient_inversion.search import Stages
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import Control, Live, turned
from privlab.notebook.watch import Watch

Span = tuple[int, int]  # percent of the run from which, and up to which, a term counts
Schedule = tuple[Span, ...]  # one of each term
Search = Callable[[Mapping[str, Stages]], Iterator[State]]
FOUND = "what comes back"
WIDE = {"width": "34em", "max_width": "96%"}
LOOK: dict[str, Any] = {"continuous_update": False, "style": {"description_width": "8em"}, "layout": WIDE}


def stages(begin: int, end: int) -> Stages:
    """A term that counts from `begin` to `end`, in percent of the run, as an attack wants it."""
    factors = {0.0: 0.0, begin / 100: 1.0, end / 100: 0.0}
    return tuple((part, factor) for part, factor in factors.items() if part < 1)


class ScheduleEditor(Live):
    """The editor. `floor` is the baseline's PSNR, in dB, the mean over the images."""

    def __init__(self, search: Search, truth: Tensor, start: Mapping[str, Span], baseline: Tensor) -> None:
        """search: stages of each term -> a search with them, such as attack.search(model, leak).

        truth: the images, (batch, channels, height, width) in [0, 1], for the scores; no search sees them.
        start: term -> (from, to) in percent of the run, in steps of 25; equal ends: never. "gradients" is one of them.
        baseline: images that were made without the gradient, of the same shape.
        """
        self.search, self.truth, self.watches = search, truth.cpu(), dict[Schedule, Watch]()
        self.floor = metrics.psnr(baseline.cpu(), self.truth).mean().item()
        self.sliders = dict[str, ipywidgets.IntRangeSlider]()
        for name, span in start.items():
            self.sliders[name] = ipywidgets.IntRangeSlider(value=span, max=100, step=25, description=name, **LOOK)
            self.sliders[name].observe(lambda _: self._show(), "value")
        self.board, self.place = ipywidgets.HTML(), ipywidgets.VBox()
        super().__init__([*self.sliders.values(), self.place, self.board])
        self._show()

    @property
    def schedule(self) -> Schedule:
        """The spans that the sliders stand at, in the order of the terms."""
        return tuple(slider.value for slider in self.sliders.values())

    @property
    def wrong(self) -> str:
        """Why no search can follow this schedule; empty where one can."""
        if len({*self.sliders["gradients"].value}) == 1:
            return "The gradients never count, so nothing of the client's is used. Let them count somewhere."
        bare = [at for at in range(0, 100, 25) if not any(begin <= at < end for begin, end in self.schedule)]
        return f"No term counts from {bare[0]} to {bare[0] + 25} % of the run. Let one last." if bare else ""

    @property
    def tried(self) -> dict[Schedule, State]:
        """Schedule -> where its search ended, the best first."""
        over = sorted((one for one, watched in self.watches.items() if watched.ended), key=self.psnr, reverse=True)
        return {one: self.watches[one].states[FOUND] for one in over}

    def psnr(self, schedule: Schedule) -> float:
        return self.watches[schedule].ways[FOUND][-1].psnr

    def named(self, schedule: Schedule) -> str:
        """A schedule in words."""
        return ", ".join(f"{name} {a} to {b} %" for name, (a, b) in zip(self.sliders, schedule, strict=True) if a < b)

    def run(self, **spans: Span) -> float:
        """Set the sliders (gradients always count, other terms that are not named never do), search to the end, and return the PSNR.

        Raises ValueError for a schedule that no search can follow.
        """
        for name, slider in self.sliders.items():
            slider.value = ({"gradients": (0, 100)} | spans).get(name, (0, 0))
        if self.wrong:
            raise ValueError(self.wrong)
        self.watches[self.schedule].finish()
        return self.psnr(self.schedule)

    def page(self, seconds: float, room: int) -> str:
        """The schedules that were searched to the end, the best first."""
        menu = Control("schedule", tuple(map(self.named, self.tried)), 0, "menu")
        shown = [self.watches[one].images.value for one in self.tried]
        first = f"These were tried, the best first; the baseline has {self.floor:.1f} dB."
        return turned([menu], lambda at: shown[at], f"{first} In the notebook you set your own.")

    def _show(self) -> None:
        if Watch.playing:
            Watch.playing.pause()
        schedule = self.schedule
        if self.wrong:
            self.place.children = [ipywidgets.HTML(f'<p role="status">{self.wrong}</p>')]
            return
        if schedule not in self.watches:
            terms = {name: stages(*span) for name, span in zip(self.sliders, schedule, strict=True)}
            watched = self.watches[schedule] = Watch({FOUND: lambda: self.search(terms)}, self.truth, stride=1)
            for control in watched.children[1].children:
                control.add_class(SKIP)  # a search takes seconds: a sweep of the controls only moves the sliders
            watched.text.observe(lambda _: self._list(), "value")
        self.place.children = [self.watches[schedule]]

    def _list(self) -> None:
        rows = [f"<li>{self.psnr(one):.1f} dB: {html.escape(self.named(one))}</li>" for one in self.tried]
        head = f"<p>Tried, the best first; the baseline has {self.floor:.1f} dB.</p>" * bool(rows)
        self.board.value = f"{head}<ol>{''.join(rows)}</ol>"
