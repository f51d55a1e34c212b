"""A race: the same search behind several networks, side by side and step by step, until it is plain which of them give the image away."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import ipywidgets
import torch
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.descent import State
from privlab.notebook import plots
from privlab.notebook.live import WRAP
from privlab.notebook.pages import Control, turned
from privlab.notebook.playback import Playback, check_stride, stop_all
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.sheet import strip

SIDE = 130  # CSS pixels of an image: five stand in a notebook's column, two on a telephone
COLUMNS = 5  # pictures of each way that are shown afterwards
STILLS = 13  # frames on a page without a kernel: a megabyte has room for no more of four noisy images
LANE = f"margin:0 14px 12px 0;width:{SIDE}px;text-align:left;line-height:1.45;color:inherit"


def race(searches: Mapping[str, Iterator[State]], truth: Tensor, stride: int = 5, bar: float = 0.5) -> Race:
    """A race of searches for one image, standing at its start. What plays at this moment is paused.

    searches: name of a network -> its search, such as attack.search(model, leak); of several restarts the first is run.
    truth: the image, (1, channels, height, width) in [0, 1], for the captions; no search sees it.
    stride: steps of each between two frames, and of a click on Step.  bar: SSIM above which an image counts as recognised.
    Raises ValueError for no search, one without a state, a stride below 1, or images that are no match for truth.
    """
    check_stride(stride)
    stop_all()
    return Race(dict(searches), truth, stride, bar)


class Stand(NamedTuple):
    """Where a search stands: its state, with the scores of its image."""

    state: State
    ssim: float
    psnr: float  # dB

    @property
    def image(self) -> Tensor:
        """As it is shown; NaN is grey."""
        return self.state.images.cpu().nan_to_num(nan=0.5)

    def __str__(self) -> str:
        return f"step {self.state.step}, SSIM {self.ssim:.2f}"


class Race(Playback):
    """What `race` gives; `states`, `ssim` and `psnr` say where each of its searches stands, by name."""

    def __init__(self, searches: dict[str, Iterator[State]], truth: Tensor, stride: int, bar: float) -> None:
        self.searches, self.truth, self.stride, self.bar = searches, truth, stride, bar
        first = {name: next(search, None) for name, search in searches.items()}
        self.states = {name: state for name, state in first.items() if isinstance(state, State)}
        if missing := [name for name in first if name not in self.states]:
            raise ValueError(f"searches: {missing[0]!r} has no state; give attack.search(model, leak)")
        if not self.states or len(truth) != 1:
            raise ValueError(f"got {len(self.states)} searches for {len(truth)} images; give a search or more for one")
        self.over = {name for name, state in self.states.items() if state.reason}
        self.way: list[dict[str, Stand]] = []  # where all stood at each frame
        self._stand(next(iter(self.states.values())))  # here, because it checks that the truth fits
        self.lanes, self.text = ipywidgets.HTML(), ipywidgets.HTML()
        buttons = self._controls(f"Go on by {stride} steps of each")
        super().__init__([self.lanes, ipywidgets.HBox(buttons, layout=WRAP), self.text, self.failure])
        self._show()

    def __repr__(self) -> str:
        return f"Race: {self.line}"  # what a page shows that can show no widget

    @property
    def recognised(self) -> list[str]:
        """The networks whose image is recognised at the end. A race that is not over is run to its end first."""
        self.finish()
        return [name for name, value in self.ssim.items() if value > self.bar]

    def finish(self) -> None:
        """Run it to its end, here and now."""
        while not self.ended:
            self.step()

    def picture(self) -> plots.Picture:
        """The way of each search so far, a row each, from where it began to where it stands."""
        shown = self._some(COLUMNS)
        return plots.images(
            {name: torch.cat([frame[name].image for frame in shown]) for name in self.states},
            captions={name: [str(frame[name]) for frame in shown] for name in self.states},
            alt="A row of reconstructions for each architecture, from noise on the left to where its search stands on the "
            f"right: {'; '.join(f'{name} is at {stand}' for name, stand in self.way[-1].items())}.",
        )

    def page(self, seconds: float, room: int) -> str:
        """The race so far, with a slider through its steps."""
        shown = self._some(STILLS)
        steps = tuple(str(min(_steps(frame))) for frame in shown)
        slider = Control("step of each search", steps, len(steps) - 1)
        return turned([slider], lambda k: self._lanes(shown[k]))

    def _some(self, count: int) -> list[dict[str, Stand]]:
        """So many frames of the way at most, evenly spaced, the first and the last among them."""
        last = len(self.way) - 1
        return [self.way[k] for k in sorted({round(i * last / (count - 1)) for i in range(count)})]

    # -- the searches --------------------------------------------------------------------------------------------------

    def _stride(self) -> Iterator[None]:
        with self._failures():
            for _ in range(self.stride):
                for name in [name for name in self.states if name not in self.over]:
                    following = next(self.searches[name], None)
                    self.states[name] = following or self.states[name]
                    if following is None or following.reason:
                        self.over.add(name)
                    yield
            self._show()

    def _stand(self, state: State) -> Stand:
        """With NaN for scores where pixels are none."""
        if state.images.isnan().any():
            return Stand(state, math.nan, math.nan)
        images = state.images.cpu()
        return Stand(state, metrics.ssim(images, self.truth).item(), metrics.psnr(images, self.truth).item())

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        self.ended = bool(self.error) or len(self.over) == len(self.states)
        stands = {name: self._stand(state) for name, state in self.states.items()}
        self.ssim = {name: stand.ssim for name, stand in stands.items()}
        self.psnr = {name: stand.psnr for name, stand in stands.items()}
        if not self.way or _steps(self.way[-1]) != _steps(stands):
            self.way.append(stands)
        known = [name for name, value in self.ssim.items() if value > self.bar]
        standing = self.error or ("playing" if self.task else "over" if self.ended else "paused")
        self.line = (
            f"step {min(_steps(stands))} · {standing} · SSIM above {self.bar:g}: {', '.join(known) or 'none yet'}"
        )
        self.lanes.value = self._lanes(stands)
        self.text.value = f'<div style="font-variant-numeric:tabular-nums">{html.escape(self.line)}</div>'
        for move in self.moves:
            move.disabled = self.ended

    def _lanes(self, stands: Mapping[str, Stand]) -> str:
        """The image of each network where it stands, and the photograph at the end."""
        lanes = [self._lane(name, stand) for name, stand in stands.items()]
        lanes.append(_figure(self.truth, "the photograph", "no search sees it", "The photograph."))
        return f'<div style="display:flex;flex-wrap:wrap">{"".join(lanes)}</div>'

    def _lane(self, name: str, stand: Stand) -> str:
        """An image, its scores, and a bar that grows with its SSIM towards a finishing line."""
        length = 99 * stand.ssim if stand.ssim > 0 else 0
        way = (
            f'<svg viewBox="0 0 100 9" width="{SIDE}" aria-hidden="true" style="display:block;margin-top:3px;max-width:100%">'
            f'<rect x=".5" y="2" width="99" height="5" fill="none" stroke="currentColor" stroke-opacity=".6" stroke-width=".7"/>'
            f'<rect x=".5" y="2" width="{length:.1f}" height="5" fill="{COLOURS[0]}"/>'
            f'<path d="M{100 * self.bar:g} 0V9" stroke="currentColor" stroke-width="1.4"/></svg>'
        )
        alt = f"{name} after {stand.state.step} steps: SSIM {stand.ssim:.2f}."
        return _figure(stand.image, name, f"SSIM {stand.ssim:.2f}<br>{stand.psnr:.1f} dB", alt, way)


def _steps(stands: Mapping[str, Stand]) -> list[int]:
    return [stand.state.step for stand in stands.values()]


def _figure(image: Tensor, name: str, words: str, alt: str, below: str = "") -> str:
    picture = replace(strip(image, alt), width=SIDE)
    look = f";display:block;aspect-ratio:{image.shape[3]}/{image.shape[2]};image-rendering:pixelated"  # room before it is there
    caption = f'<figcaption style="color:inherit;font-size:inherit"><strong>{html.escape(name)}</strong><br>{words}</figcaption>'
    return f'<figure style="{LANE}">{picture.tag(look)}{below}{caption}</figure>'
