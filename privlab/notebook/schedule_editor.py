"""A schedule editor: the reader sets when each term of an attack's loss counts, plays the search, and compares schedules."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.descent import State
from privlab.attacks.gradient_inversion.terms import Stages
from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP
from privlab.notebook.pages import Control, turned
from privlab.notebook.playback import Playback
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sheet import strip

Span = tuple[int, int]  # percent of the run from which, and up to which, a term counts
Schedule = tuple[Span, ...]  # one of each term
Search = Callable[[Mapping[str, Stages]], Iterator[State]]
WIDE, LABEL = {"width": "34em", "max_width": "96%"}, {"description_width": "8em"}


def stages(begin: int, end: int) -> Stages:
    """A term that counts from `begin` to `end`, in percent of the run, as an attack wants it."""
    before, after = ((0.0, 0.0),) * (begin > 0), ((end / 100, 0.0),) * (end < 100)
    return (*before, (begin / 100, 1.0), *after) if begin < end else ((0.0, 0.0),)


class ScheduleEditor(Playback):
    """The editor. `tried` holds how far each schedule was searched; `psnr` is the mean over the images."""

    def __init__(self, search: Search, truth: Tensor, start: Mapping[str, Span], baseline: Tensor, steps: int) -> None:
        """search: stages of each term -> a search with them, such as attack.search(model, leak).

        truth: the images, (batch, channels, height, width) in [0, 1], for the scores; no search sees them.
        start: term -> (from, to) in percent of the run, in steps of 25; equal ends: never. "gradients" is one of them.
        baseline: images that were made without the gradient, of the same shape.  steps: of a search.
        Raises ValueError for a start without gradients.
        """
        if "gradients" not in start:
            raise ValueError(f"start: {', '.join(start) or 'nothing'} without 'gradients'; a search needs them")
        self.search, self.truth, self.steps = search, truth.cpu(), steps
        self.floor = metrics.psnr(baseline.cpu(), self.truth).mean().item()
        self.tried, self.searches = dict[Schedule, State](), dict[Schedule, Iterator[State]]()
        slider = partial(ipywidgets.IntRangeSlider, max=100, step=25, continuous_update=False, layout=WIDE, style=LABEL)
        self.sliders = {name: slider(value=span, description=name) for name, span in start.items()}
        self.chart, self.words, self.board = (ipywidgets.HTML() for _ in range(3))
        for move in (buttons := self._controls("Go on by one step of the search")):
            move.add_class(SKIP)  # a search takes seconds: a sweep of the controls only moves the sliders
        for one in self.sliders.values():
            one.observe(self._moved, "value")
        shown = self.chart, ipywidgets.HBox(buttons, layout=WRAP), self.words, self.failure, self.board
        super().__init__([*self.sliders.values(), *shown])
        self._show()

    def __repr__(self) -> str:  # what a page shows that can show no widget
        told = [f"{self.named(schedule)}: {self.psnr(schedule):.1f} dB" for schedule in self.tried]
        return f"Schedule editor. {'; '.join(told) or 'Nothing is searched yet'}."

    @property
    def schedule(self) -> Schedule:
        """The spans that the sliders stand at, in the order of the terms."""
        return tuple(self.spans.values())

    @property
    def spans(self) -> dict[str, Span]:
        return {name: slider.value for name, slider in self.sliders.items()}

    def run(self, **spans: Span) -> float:
        """Set the sliders (gradients always count, other terms that are not named never do), search to the end, and return the PSNR."""
        if unknown := [name for name in spans if name not in self.sliders]:
            raise ValueError(f"there is no term {unknown[0]!r}; the terms are {', '.join(self.sliders)}")
        for name, slider in self.sliders.items():
            slider.value = spans.get(name, (0, 100) if name == "gradients" else (0, 0))
        if self.wrong:
            raise ValueError(self.wrong)
        while not self.ended:
            self.step()
        return self.psnr(self.schedule)

    @property
    def wrong(self) -> str:
        """Why no search can follow this schedule; empty where one can."""
        if len({*self.spans["gradients"]}) == 1:
            return "The gradients never count, so nothing of the client's is used. Let them count somewhere."
        lasts = any(begin < 100 == end for begin, end in self.schedule)
        return "" if lasts else "No term counts at the end of the run. Let one last to 100 %."

    def psnr(self, schedule: Schedule) -> float:
        return self._mean(metrics.psnr, schedule)

    def _mean(self, metric: Callable[[Tensor, Tensor], Tensor], schedule: Schedule) -> float:
        return metric(self.tried[schedule].images.cpu(), self.truth).mean().item()

    def named(self, schedule: Schedule) -> str:
        """A schedule in words."""
        return ", ".join(f"{name} {a} to {b} %" for name, (a, b) in zip(self.sliders, schedule, strict=True) if a < b)

    def _stride(self) -> Iterator[None]:
        with self._failures():
            if (at := self.schedule) not in self.tried:
                self.searches[at] = self.search({name: stages(*span) for name, span in self.spans.items()})
                self.tried[at] = next(self.searches[at])
            self.tried[at] = next(self.searches[at], self.tried[at])
            yield
            self._show()

    def _moved(self, _: object) -> None:
        self.pause()
        self._show()

    def _show(self) -> None:
        state = self.tried.get(self.schedule)
        self.ended = bool(self.wrong) or (state is not None and bool(state.reason))
        for move in self.moves:
            move.disabled = self.ended
        self.chart.value = _chart(self.spans, state.step / self.steps if state else 0.0)
        self.words.value = self._found(self.schedule)
        over = self._over()
        rows = [f"<li>{self._scores(one)}: {html.escape(self.named(one))}</li>" for one in over]
        head = f"<p>Tried, the best first; the baseline has {self.floor:.1f} dB.</p>" * bool(over)
        self.board.value = f"{head}<ol>{''.join(rows)}</ol>"

    def page(self, seconds: float, room: int) -> str:
        """The schedules that were searched to the end, the best first."""
        if not (over := self._over()):
            return "<p>Nothing was searched.</p>"
        menu = Control("schedule", tuple(map(self.named, over)), 0, "menu")
        note = (
            f"These were tried, the best first; the baseline has {self.floor:.1f} dB. In the notebook you set your own."
        )

        def draw(at: int) -> str:
            return _chart(dict(zip(self.sliders, over[at], strict=True)), 1.0) + self._found(over[at])

        return turned([menu], draw, note)

    def _over(self) -> list[Schedule]:
        return sorted((one for one in self.tried if self.tried[one].reason), key=self.psnr, reverse=True)

    def _found(self, schedule: Schedule) -> str:
        """Where the search with a schedule stands, in words and images."""
        shown, state = {"the client's photographs": self.truth}, self.tried.get(schedule)
        said = self.wrong or "This schedule was not searched yet. Press Play."
        if state:
            shown["what comes back"] = state.images.cpu().nan_to_num(nan=0.5)
            said = f"step {state.step} of {self.steps}: {self._scores(schedule)}"
        figures = sheet.row((_figure(images, name) for name, images in shown.items()), gap=16)
        return f'<p role="status">{said}</p>{figures}'

    def _scores(self, schedule: Schedule) -> str:
        return f"{self.psnr(schedule):.1f} dB, SSIM {self._mean(metrics.ssim, schedule):.2f}"


def _chart(spans: Mapping[str, Span], done: float) -> str:
    """When each term counts, as bars along the run; a line shows where the search stands."""
    high, told = 24 * len(spans) + 8, "; ".join(f"{name} from {a} to {b} %" for name, (a, b) in spans.items())
    svg = f'<svg viewBox="0 0 515 {high}" role="img" aria-label="When each term counts: {html.escape(told)}." font-size="13"'
    svg += ' fill="currentColor" style="width:515px;max-width:100%">'
    for y, (name, (begin, end)) in zip(range(5, high - 8, 24), spans.items(), strict=True):
        svg += f'<text x="0" y="{y + 12}">{html.escape(name)}</text><path d="M110 {y + 8}h400" stroke="currentColor" opacity=".4"/>'
        svg += f'<rect x="{110 + 4 * begin}" y="{y}" width="{4 * (end - begin)}" height="16" fill="{COLOURS[0]}"/>'
    return f'{svg}<path d="M{110 + 400 * done:.1f} 0V{high}" stroke="{COLOURS[1]}" stroke-width="3"/></svg>'


def _figure(images: Tensor, name: str) -> str:
    row = replace(strip(images, f"{name}."), width=sheet.SIDE * len(images)).tag(
        ";display:block;image-rendering:pixelated"
    )
    return sheet.figure(row, html.escape(name))
