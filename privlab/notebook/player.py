"""A gradient attack while it searches: watch it, pause it, go through it step by step, and run other cells meanwhile.

A search is an iterator of states, so whoever holds it decides when it goes on.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator
from itertools import chain

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.attacks.gradient_inversion.descent import State
from privlab.notebook.live import WRAP, button
from privlab.notebook.playback import Playback, check_stride, stop_all
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.racing import race
from privlab.notebook.sheet import strip

__all__ = ["Player", "race", "watch"]

Search = Iterator[State]

REASONS = {
    "steps": "all steps are done",
    "patience": "the loss has not fallen for long enough",
    "not finite": "the loss or its gradient is no finite number",
}
NO_RESTART = "A search that has begun cannot restart; give watch() what begins it: lambda: attack.search(model, leak)"


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
    check_stride(stride)
    stop_all()
    return Player(search, truth, stride, label)


class Player(Playback):
    """What `watch` gives. Its methods are its buttons; `state` is the state that it shows, `ended` whether it is the last."""

    def __init__(self, search: Search | Callable[[], Search], truth: Tensor | None, stride: int, label: str) -> None:
        self.source, self.truth, self.stride, self.label = search, truth, stride, label
        self._begin()
        self._psnr()  # here, because it checks that the truth fits
        self.found, self.text, self.chart = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.HTML()
        images = [self.found]
        if truth is not None:
            images.append(ipywidgets.HTML(_figure(truth, "the truth, which the attack never sees", "The true images.")))
        again = "Begin the search again" if callable(search) else NO_RESTART
        buttons = self._controls(f"Go on by {stride}, or to the end of a restart")
        buttons.append(button("Restart", again, self.restart, width="6em"))
        buttons[3].disabled = not callable(search)
        rows = [ipywidgets.HBox(row, layout=WRAP) for row in (images, buttons)]  # the text below: its length varies
        super().__init__([*rows, self.text, self.chart, self.failure])
        self._show()

    def __repr__(self) -> str:
        return f"Player: {self.line}"  # what a page shows that can show no widget

    def page(self, seconds: float, room: int) -> str:
        """Where it stands."""
        return self.found.value + self.text.value + self.chart.value

    def restart(self) -> None:
        """Begin the search again and stop at its first state.  Raises ValueError for one that had begun when it was given."""
        if not callable(self.source):
            raise ValueError(NO_RESTART)
        self.pause()
        self.failure.outputs = ()
        with self._failures():
            self._begin()
        self._show()

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
