"""The user study as a game in a notebook: a target, two reconstructions, so many seconds; which one is closer?

The time is kept by a task on the kernel's event loop, not by a thread: it ends with the loop, never runs beside a cell, and works
where the kernel's loop does, in JupyterLab, VS Code and Colab. While another cell computes, the figures stand still, and so does
everything else; a click that arrives late for that reason counts as no answer. In plain Python, where no loop runs, `tick` does
what the task would do. Answers stay on this machine: see `answers`.
"""

from __future__ import annotations

import asyncio
import html
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ipywidgets
import torch
from scipy.stats import binom
from torch import Tensor

from privlab.ledger import papers
from privlab.notebook import plots
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import Live, button, running_loop, shown_error
from privlab.notebook.user_study import statistics
from privlab.notebook.user_study.answers import FOLDER, Played, Side, Study, begin

SIDE = 192  # CSS pixels of a picture, at most: target, reconstructions and buttons fit on a laptop's screen
BEAT = 0.2  # seconds between two looks at the clock
GUARD = (
    0.3  # seconds in which nobody can have compared anything: a double click, or one that was meant for the pair before
)
PATIENCE = 2  # pairs in a row without an answer, after which the game waits: nobody is there
COLUMN = f"{2 * SIDE + 16}px"

_running: set[Game] = set()  # one at most


def play(study: Study, folder: Path | str = FOLDER, seed: int | None = None) -> Game:
    """The game, standing at its first state: nothing happens, and nothing is written, before Start is clicked.

    study: the pairs, and the seconds for each.  folder: where answers are kept, a file a game; half-played ones go on from there. A
        game that is played again counts as another player.
    seed: of the order of the pairs and of the sides; None draws one, as it should be in a class.
    A game that runs at this moment, such as that of this very cell before it was run again, is stopped.
    Raises ValueError for a bad seed. What goes wrong later is shown in the game, where the headless runner looks for it too.
    """
    for other in tuple(_running):
        other.rest()
    return Game(study, folder, seed)


class Game(Live):
    """What `play` gives.  `played` is the game so far; `start`, `choose` and `rest` are what its buttons do."""

    running = False
    task: asyncio.Task[None] | None = None
    clock = staticmethod(time.monotonic)

    def __init__(self, study: Study, folder: Path | str, seed: int | None) -> None:
        self.study, self.folder, self.seed = study, folder, seed
        self.text = ipywidgets.HTML()
        self.go = button("Start", "Show a pair; its time begins to run", self.start)
        self.anew = button("New game", "Begin with no answers, as another player", lambda: self.start(fresh=True))
        self.target, self.left, self.right = (ipywidgets.HTML() for _ in range(3))
        look = {"width": "auto", "max_width": f"{SIDE}px", "margin": "4px 2px"}
        self.buttons = {
            "left": button("left", "The left picture is closer", lambda: self.choose("left"), **look),
            "right": button("right", "The right picture is closer", lambda: self.choose("right"), **look),
        }
        for each in (self.go, self.anew, *self.buttons.values()):
            each.add_class(SKIP)  # a sweep of the controls must not play, nor write answers that nobody gave
        self.bar = ipywidgets.IntProgress(
            study.seconds, min=0, max=study.seconds, layout={"width": "auto", "flex": "1"}
        )
        self.seconds = ipywidgets.Label(layout={"width": "4.5em"})
        columns = [
            ipywidgets.VBox([picture, self.buttons[side]], layout={"width": "50%"})
            for side, picture in (("left", self.left), ("right", self.right))
        ]
        wide = {"width": "100%", "max_width": COLUMN}
        self.start_row = ipywidgets.HBox([self.go, self.anew])
        time_left, reconstructions = (ipywidgets.HBox(row, layout=wide) for row in ([self.bar, self.seconds], columns))
        self.round = ipywidgets.VBox([time_left, self.target, reconstructions])
        self.failure = ipywidgets.Output()
        super().__init__([self.text, self.start_row, self.round, self.failure])
        self._invite()

    def __repr__(self) -> str:  # what a page shows that can show no widget
        return f"A game of {len(self.study.pairs)} pairs, {self.study.seconds} s each; it needs a running kernel."

    def page(self, seconds: float, room: int) -> str:
        """The rules; the game itself needs a clock."""
        return f"{self.text.value}<p>The game is played in the notebook.</p>"

    # -- what the buttons do -----------------------------------------------------------------------------------------------

    def start(self, fresh: bool = False) -> None:
        """Show a pair and let the time run: go on with a half-played game unless `fresh`."""
        if self.running:
            return
        for other in tuple(_running):
            other.rest()
        with self._failures():
            self.failure.outputs = ()
            self.played = begin(
                self.study, self.folder, self.seed, fresh
            )  # from the disk: another cell may have gone on
            self.missed, self.running = 0, True
            _running.add(self)
            if loop := running_loop():
                self.task = loop.create_task(self._count())
            self._ask()

    def choose(self, side: Side) -> None:
        """Answer for the pair on show. Nothing where none is, or where it came into sight just now."""
        if not self.running:
            return
        with self._failures():
            took = self.clock() - self.shown
            if took >= GUARD:
                self._record(side if took <= self.study.seconds else None, took)

    def tick(self) -> None:
        """Show the seconds that are left; where there are none, write down that there was no answer, and show the next pair."""
        if not self.running:
            return
        with self._failures():
            took = self.clock() - self.shown
            if took >= self.study.seconds:
                self._record(None, took)
            else:
                self._show_time(took)

    def rest(self, why: str = "The game was stopped.") -> None:
        """Stop. The pair on show stays unanswered, and comes again."""
        if self.running:
            self._stop()
            self._invite(why)

    def close(self) -> None:
        """Stop, and go from the page."""
        self.rest()
        super().close()

    # -- a round -----------------------------------------------------------------------------------------------------------

    def _record(self, side: Side | None, took: float) -> None:
        self.played = self.played.answer(side, min(took, self.study.seconds), self.folder)
        self.missed = 0 if side else self.missed + 1
        if self.played.over:
            self._stop()
            self._finish()
        elif self.missed >= PATIENCE:
            self.rest(f"{PATIENCE} pairs in a row went without an answer, so the game waits for you.")
        else:
            self._ask("" if side else "No answer in time for the last pair. ")

    def _ask(self, before: str = "") -> None:
        number, count = len(self.played.answers) + 1, len(self.study.pairs)
        place, left = self.played.upcoming
        pair, where = self.study.pairs[place], f"pair {number} of {count}"
        first_left = left == self.study.names[0]
        asked = "Which of the two pictures below looks more like this person?"
        self.text.value = f'<p role="status" style="{PLAIN}">{before}<b>{where.capitalize()}.</b> {asked}</p>'
        self.target.value = _figure(pair.target, f"The target, {where}: a picture of the person.", middle=True)
        self.left.value = _figure(pair.one if first_left else pair.other, f"The left reconstruction, {where}.")
        self.right.value = _figure(pair.other if first_left else pair.one, f"The right reconstruction, {where}.")
        self.shown = self.clock()
        self._show_time(0.0)
        self._panes(pair=True)

    def _show_time(self, took: float) -> None:
        self.bar.value = math.ceil(self.study.seconds - took)
        self.seconds.value = f"{self.bar.value} s left"

    async def _count(self) -> None:
        while self.running:
            await asyncio.sleep(BEAT)
            try:
                self.tick()
            except Exception:
                return  # the game shows it, and nobody waits for this task

    def _stop(self) -> None:
        self.running = False
        _running.discard(self)
        if self.task:
            self.task.cancel()
            self.task = None

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Stop at an exception, show it with its traceback, and pass it on."""
        try:
            yield
        except Exception as error:
            self._stop()
            self._invite(f"Stopped by {type(error).__name__}, see below.")
            self.failure.outputs = shown_error(error)
            raise

    # -- before and after --------------------------------------------------------------------------------------------------

    def _panes(self, start: bool = False, again: bool = False, pair: bool = False) -> None:
        for pane, there in ((self.go, start), (self.anew, again), (self.start_row, start or again), (self.round, pair)):
            pane.layout.display = None if there else "none"

    def _invite(self, why: str = "") -> None:
        self.played = begin(self.study, self.folder, self.seed)
        done, count = len(self.played.answers), len(self.study.pairs)
        rules = (
            f"{count} pairs of pictures, {self.study.seconds} seconds for each. Above is a picture of a person, below it are two "
            "reconstructions by an attack. Say which of them looks more like the person: click <b>left</b> or <b>right</b> below it, "
            "or go there with Tab and press Enter. Without an answer in time, the next pair follows.",
            f"Your choices are written to <code>{html.escape(str(self.folder))}</code> and are sent nowhere. No name is asked for.",
        )
        half = (
            f"A game is half played: {done} of {count}. Go on with it, or begin a new game if it was somebody else's."
            if done
            else ""
        )
        lines = (f"<b>{html.escape(self.study.title)}</b>", *rules, html.escape(why), half)
        self.text.value = "".join(f'<p style="{PLAIN}">{line}</p>' for line in lines if line)
        self.go.description = "Go on" if done else "Start"
        self._panes(start=True, again=done > 0)

    def _finish(self) -> None:
        mine = statistics.of_games([self.played])
        parts = [
            ("You", mine._repr_html_()),
            ("Everybody in this folder", self._everybody()),
            ("The paper", f"<p>{_paper()}</p>"),
            ("What this can show", f"<p>{_reach(mine.answers)}</p>"),
            ("The pairs", "".join(picture.tag() for picture in _reveal(self.study, self.played))),
        ]
        body = "".join(f'<h4 style="margin:.8em 0 .2em">{html.escape(name)}</h4>{text}' for name, text in parts)
        self.text.value = f'<div style="line-height:1.5;max-width:45em">{body}</div>'
        self._panes(again=True)

    def _everybody(self) -> str:
        try:
            summary = statistics.summary(self.folder, self.study)
        except ValueError as error:
            return f"<p>{html.escape(str(error))}</p>"
        alone = summary.players <= 1 and not summary.left_out
        return "<p>There is no other game yet.</p>" if alone else summary._repr_html_()


PLAIN = "line-height:1.5;margin:0 0 .5em;max-width:45em"


def _figure(picture: Tensor, alt: str, middle: bool = False) -> str:
    """A picture as HTML, which keeps its room while the browser decodes the next one."""
    shape = picture.shape
    look = f";display:block;aspect-ratio:{shape[-1]}/{shape[-2]}"
    look += ";margin:0 auto .5em;max-width:50%" * middle  # half of the page, as the two below it have
    image = plots.face(picture.float() / 255, alt, SIDE).tag(look)
    return f'<div style="max-width:{COLUMN}">{image}</div>'


def _enlarged(pictures: Tensor) -> Tensor:
    """(n, channels, height, width) bytes as floats, smooth: of squares a reader would see the edges, not the face."""
    return plots.smooth(pictures.float() / 255, SIDE)


def _paper() -> str:
    rows = (
        papers.table("koh2024_table10").query("metric == 'user_preference'").set_index("skip_connections")["mean_text"]
    )
    return (
        f"Koh et al. 2024 (section 11, table 10) asked ten people about each of 530 actors: {rows['Full']}% found the picture from the "
        f"full network closer, {rows['Skip Removed']}% that from the network without skip connections (PPA on MaxViT)."
    )


def _reach(count: int) -> str:
    """What so many answers of one reader can and cannot show."""
    cannot = (
        "No number of answers shows that anybody would <i>recognise</i> the person: of two bad pictures, too, one is closer. And one "
        "reader's eye is not everybody's; that takes the games of a class."
    )
    low, high = (int(binom.ppf(q, count, 0.5)) for q in (0.025, 0.975))
    if not low:
        return f"{count} answers show nothing either way: somebody who guesses may well get all of them alike. {cannot}"
    enough = next(k for k in range(count + 1) if statistics.wilson(k, count)[0] > 0.5)
    published = float(papers.table("koh2024_table10").query("metric == 'user_preference'")["mean"].max()) / 100
    chance = binom.sf(enough - 1, count, published)
    return (
        f"Somebody who guesses gets {low} to {high} of {count} in nineteen games of twenty. From {enough} on, the interval leaves out "
        f"one half; a reader who sees it as the people in the paper did gets there in {chance:.0%} of games. {cannot}"
    )


def _reveal(study: Study, played: Played) -> list[plots.Picture]:
    """Which was which: the pairs in the order in which they were shown, six to a picture."""
    pictures = []
    for start in range(0, len(played.answers), 6):
        some = played.answers[start : start + 6]
        pairs = [study.pairs[a.pair] for a in some]
        batches = [_enlarged(torch.stack([getattr(p, what) for p in pairs])) for what in ("target", "one", "other")]
        rows = dict(zip(("target", *study.names), batches, strict=True))
        chosen = {name: ["your choice" * (a.choice == name) for a in some] for name in study.names}
        words = ", ".join(a.choice or "none" for a in some)
        alt = f"Pairs {start + 1} to {start + len(some)}: the target above, then {' and '.join(study.names)}. You chose: {words}."
        pictures.append(plots.images(rows, alt, {"target": [str(p.person) for p in pairs], **chosen}))
    return pictures
