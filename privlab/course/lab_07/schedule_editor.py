"""A schedule editor: the reader sets when each term of an attack's loss counts, plays the search, and compares schedules."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.descent import State
from privlab.attacks.gradient_inversion.terms import Stages
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import Live
from privlab.notebook.pages import Control, turned
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.watch import Watch, watch

Span = tuple[int, int]  # percent of the run from which, and up to which, a term counts
Schedule = tuple[Span, ...]  # one of each term
FOUND = "what comes back"


def stages(begin: int, end: int) -> Stages:
    """A term that counts from `begin` to `end`, in percent of the run, as an attack wants it."""
    before, after = ((0.0, 0.0),) * (begin > 0), ((end / 100, 0.0),) * (end < 100)
    return (*before, (begin / 100, 1.0), *after) if begin < end else ((0.0, 0.0),)


class ScheduleEditor(Live):
    """The editor. `tried` holds how far each schedule was searched; `floor` is the baseline's PSNR, in dB, the mean over the images."""

    def __init__(
        self,
        search: Callable[[Mapping[str, Stages]], Iterator[State]],
        truth: Tensor,
        start: Mapping[str, Span],
        baseline: Tensor,
    ) -> None:
        """search: stages of each term -> a search with them, such as attack.search(model, leak).

        truth: the images, (batch, channels, height, width) in [0, 1], for the scores; no search sees them.
        start: term -> (from, to) in percent of the run, in steps of 25; equal ends: never. "gradients" is one of them.
        baseline: images that were made without the gradient, of the same shape.
        """
        self.search, self.truth = search, truth.cpu()
        self.floor = metrics.psnr(baseline.cpu(), self.truth).mean().item()
        self.watches: dict[Schedule, Watch] = {}
        look = {"style": {"description_width": "8em"}, "layout": {"width": "34em", "max_width": "96%"}}
        self.sliders = {
            name: ipywidgets.IntRangeSlider(
                value=span, max=100, step=25, continuous_update=False, description=name, **look
            )
            for name, span in start.items()
        }
        for slider in self.sliders.values():
            slider.observe(lambda _: self._show(), "value")
        self.chart, self.board, self.place = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.VBox()
        super().__init__([*self.sliders.values(), self.chart, self.place, self.board])
        self._show()

    def __repr__(self) -> str:
        told = [f"{self.named(schedule)}: {self.psnr(schedule):.1f} dB" for schedule in self.tried]
        return f"Schedule editor. {'; '.join(told) or 'Nothing is searched yet'}."

    @property
    def schedule(self) -> Schedule:
        """The spans that the sliders stand at, in the order of the terms."""
        return tuple(slider.value for slider in self.sliders.values())

    @property
    def wrong(self) -> str:
        """Why no search can follow this schedule; empty where one can."""
        if len({*self.sliders["gradients"].value}) == 1:
            return "The gradients never count, so nothing of the client's is used. Let them count somewhere."
        lasts = any(begin < 100 == end for begin, end in self.schedule)
        return "" if lasts else "No term counts at the end of the run. Let one last to 100 %."

    @property
    def tried(self) -> dict[Schedule, State]:
        """Schedule -> where its search stands, of those that were searched."""
        stands = {schedule: watched.states[FOUND] for schedule, watched in self.watches.items()}
        return {schedule: state for schedule, state in stands.items() if state.step}

    def psnr(self, schedule: Schedule) -> float:
        return self.watches[schedule].psnr[FOUND]

    def named(self, schedule: Schedule) -> str:
        """A schedule in words."""
        return ", ".join(f"{name} {a} to {b} %" for name, (a, b) in zip(self.sliders, schedule, strict=True) if a < b)

    def run(self, **spans: Span) -> float:
        """Set the sliders (gradients always count, other terms that are not named never do), search to the end, and return the PSNR.

        Raises ValueError for a term that there is not, or a schedule that no search can follow.
        """
        if unknown := [name for name in spans if name not in self.sliders]:
            raise ValueError(f"there is no term {unknown[0]!r}; the terms are {', '.join(self.sliders)}")
        for name, slider in self.sliders.items():
            slider.value = spans.get(name, (0, 100) if name == "gradients" else (0, 0))
        if self.wrong:
            raise ValueError(self.wrong)
        self.watches[self.schedule].finish()
        return self.psnr(self.schedule)

    def page(self, seconds: float, room: int) -> str:
        """The schedules that were searched to the end, the best first."""
        if not (over := self._over()):
            return "<p>Nothing was searched.</p>"
        menu = Control("schedule", tuple(map(self.named, over)), 0, "menu")
        note = (
            f"These were tried, the best first; the baseline has {self.floor:.1f} dB. In the notebook you set your own."
        )
        shown = [self._chart(one) + self.watches[one].images.value for one in over]
        return turned([menu], lambda at: shown[at], note)

    def _over(self) -> list[Schedule]:
        return sorted((one for one in self.tried if self.watches[one].ended), key=self.psnr, reverse=True)

    def _show(self) -> None:
        """Show the schedule, and the search that follows it."""
        for watched in self.watches.values():
            watched.pause()
        self.chart.value = self._chart(self.schedule)
        if self.wrong:
            self.place.children = [ipywidgets.HTML(f'<p role="status">{self.wrong}</p>')]
            return
        if self.schedule not in self.watches:
            terms = {name: stages(*slider.value) for name, slider in self.sliders.items()}
            watched = watch({FOUND: lambda: self.search(terms)}, self.truth, stride=1)
            for control in watched.children[1].children:
                control.add_class(SKIP)  # a search takes seconds: a sweep of the controls only moves the sliders
            watched.text.observe(lambda _: self._list(), "value")
            self.watches[self.schedule] = watched
        self.place.children = [self.watches[self.schedule]]
        self._list()

    def _list(self) -> None:
        rows = [f"<li>{self.psnr(one):.1f} dB: {html.escape(self.named(one))}</li>" for one in self._over()]
        head = f"<p>Tried, the best first; the baseline has {self.floor:.1f} dB.</p>" * bool(rows)
        self.board.value = f"{head}<ol>{''.join(rows)}</ol>"

    def _chart(self, schedule: Schedule) -> str:
        """When each term counts, as bars along the run."""
        high, words = 24 * len(schedule) + 8, html.escape(self.named(schedule))
        bars = "".join(
            f'<text x="0" y="{y + 12}">{html.escape(name)}</text><path d="M110 {y + 8}h400" stroke="currentColor" opacity=".4"/>'
            f'<rect x="{110 + 4 * begin}" y="{y}" width="{4 * (end - begin)}" height="16" fill="{COLOURS[0]}"/>'
            for y, name, (begin, end) in zip(range(5, high, 24), self.sliders, schedule, strict=False)
        )
        return (
            f'<svg viewBox="0 0 515 {high}" role="img" aria-label="When each term counts: {words}." font-size="13" '
            f'fill="currentColor" style="width:515px;max-width:100%">{bars}</svg>'
        )
