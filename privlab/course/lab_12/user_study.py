"""The user study in a notebook: a game against the clock, and a board of what a class has chosen.

The time is kept by a task on the kernel's event loop, not by a thread: it ends with the loop, never runs beside a cell, and works where
the kernel's loop does. A click that arrives late, as another cell computes, counts as no answer. In plain Python `tick` does what the
task would do.
"""

from __future__ import annotations

import asyncio
import html
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ipywidgets
import numpy as np
import torch
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom
from torch import Tensor

from privlab.course.lab_12.study import FOLDER, Pair, Played, Side, Study, begin, games, load, read, summary
from privlab.ledger import papers
from privlab.notebook import plots, sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button, running_loop, shown_error
from privlab.notebook.plots import picture

__all__ = ["Board", "Game", "Pair", "Played", "Study", "load", "read", "summary"]

SIDE = 192  # CSS pixels of a picture, at most: target, reconstructions and buttons fit on a laptop's screen
BEAT, LOOK = 0.2, 2.0  # seconds between two looks at the clock, and into the folder
GUARD = (
    0.3  # seconds in which nobody can have compared anything: a double click, or one that was meant for the pair before
)
PATIENCE = 2  # pairs in a row without an answer, after which the game waits: nobody is there


_running: set[Game] = set()  # one at most


class Ticking(Live):
    """A widget with a task that does something again and again while it is wanted; an error is shown, and ends it."""

    task: asyncio.Task[None] | None = None

    def _tick(self, act: Callable[[], None], seconds: float) -> None:
        """Do this every so many seconds until `rest`, where an event loop runs."""

        async def ticking() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    act()
                except Exception:
                    return  # it is shown, and nobody waits for this task

        if not self.task and (loop := running_loop()):
            self.task = loop.create_task(ticking())

    def _halt(self) -> None:
        if self.task:
            self.task.cancel()
            self.task = None

    def rest(self, why: str = "") -> None:
        """Stop.  why: what a game says of it."""
        self._halt()

    @contextmanager
    def _failures(self, failure: ipywidgets.Output) -> Iterator[None]:
        """Show an exception where the headless runner finds it too, and pass it on."""
        try:
            yield
        except Exception as error:
            failure.outputs = shown_error(error)
            self.rest(f"Stopped by {type(error).__name__}, see below.")
            raise

    def close(self) -> None:
        """Stop, and go from the page."""
        self.rest()
        super().close()


class Game(Ticking):
    """A target, two reconstructions, so many seconds: which one is closer? Nothing happens before Start is clicked.

    `played` is the game so far; `start`, `choose` and `rest` are what its buttons do.
    """

    running = False
    clock = staticmethod(time.monotonic)

    def __init__(self, study: Study, folder: Path | str = FOLDER, seed: int | None = None) -> None:
        """study: the pairs, and the seconds for each.  folder: where answers are kept, a file a game; half-played ones go on from there.

        seed: of the order of the pairs and of the sides; None draws one, as it should be in a class.
        """
        for other in tuple(_running):  # such as that of this very cell, before it was run again
            other.rest()
        self.study, self.folder, self.seed = study, folder, seed
        self.text, self.failure = ipywidgets.HTML(), ipywidgets.Output()
        self.go = button("Start", "Show a pair; its time begins to run", self.start)
        self.anew = button("New game", "Begin with no answers, as another player", lambda: self.start(fresh=True))
        self.target, self.left, self.right = (ipywidgets.HTML() for _ in range(3))
        look = {"width": "auto", "max_width": f"{SIDE}px"}
        self.buttons = {
            "left": button("left", "The left picture is closer", lambda: self.choose("left"), **look),
            "right": button("right", "The right picture is closer", lambda: self.choose("right"), **look),
        }
        for each in (self.go, self.anew, *self.buttons.values()):
            each.add_class(SKIP)  # a sweep of the controls must not play, nor write answers that nobody gave
        self.bar = ipywidgets.IntProgress(study.seconds, min=0, max=study.seconds, layout={"flex": "1"})
        self.seconds = ipywidgets.Label(layout={"width": "4.5em"})
        wide = {"width": "100%", "max_width": f"{2 * SIDE + 16}px"}
        pictures = zip((self.left, self.right), self.buttons.values(), strict=True)
        columns = [ipywidgets.VBox(one, layout={"width": "50%"}) for one in pictures]
        clock, both = (ipywidgets.HBox(row, layout=wide) for row in ([self.bar, self.seconds], columns))
        self.start_row, self.round = ipywidgets.HBox([self.go, self.anew]), ipywidgets.VBox([clock, self.target, both])
        super().__init__([self.text, self.start_row, self.round, self.failure])
        self._invite()

    def __repr__(self) -> str:
        return f"A game of {len(self.study.pairs)} pairs, {self.study.seconds} s each; it needs a running kernel."

    def page(self, seconds: float, room: int) -> str:
        """The rules; the game itself needs a clock."""
        return f"{self.text.value}<p>The game is played in the notebook.</p>"

    def start(self, fresh: bool = False) -> None:
        """Show a pair and let the time run: go on with a half-played game unless `fresh`."""
        if self.running:
            return
        for other in tuple(_running):
            other.rest()
        with self._failures(self.failure):
            self.failure.outputs = ()
            self.played = begin(
                self.study, self.folder, self.seed, fresh
            )  # from the disk: another cell may have gone on
            self.missed, self.running = 0, True
            _running.add(self)
            self._tick(self.tick, BEAT)
            self._ask()

    def choose(self, side: Side) -> None:
        """Answer for the pair on show. Nothing where none is, or where it came into sight just now."""
        took = self.clock() - self.shown if self.running else 0.0
        if took >= GUARD:
            with self._failures(self.failure):
                self._record(side if took <= self.study.seconds else None, took)

    def tick(self) -> None:
        """Show the seconds that are left; where there are none, write down that there was no answer, and show the next pair."""
        if self.running:
            with self._failures(self.failure):
                took = self.clock() - self.shown
                if took >= self.study.seconds:
                    self._record(None, took)
                else:
                    self._show_time(took)

    def rest(self, why: str = "The game was stopped.") -> None:
        """Stop. The pair on show stays unanswered, and comes again."""
        if self.running:
            self._halt()
            self._invite(why)

    def _halt(self) -> None:
        self.running = False
        _running.discard(self)
        super()._halt()

    def _record(self, side: Side | None, took: float) -> None:
        self.played = self.played.answer(side, min(took, self.study.seconds), self.folder)
        self.missed = 0 if side else self.missed + 1
        if self.played.over:
            self._halt()
            self._finish()
        elif self.missed >= PATIENCE:
            self.rest(f"{PATIENCE} pairs in a row went without an answer, so the game waits for you.")
        else:
            self._ask("" if side else "No answer in time for the last pair. ")

    def _ask(self, before: str = "") -> None:
        number, count = len(self.played.answers) + 1, len(self.study.pairs)
        place, left = self.played.upcoming
        pair, where = self.study.pairs[place], f"pair {number} of {count}"
        sides = (pair.one, pair.other) if left == self.study.names[0] else (pair.other, pair.one)
        asked = "Which of the two pictures below looks more like this person?"
        self.text.value = sheet.paragraph(f"{before}<b>{where.capitalize()}.</b> {asked}", status=True)
        self.target.value = _face(
            pair.target, f"The target, {where}: a picture of the person.", ";margin:0 auto;max-width:50%"
        )
        self.left.value, self.right.value = (
            _face(one, f"The {side} reconstruction, {where}.") for side, one in zip(self.buttons, sides, strict=True)
        )
        self.shown = self.clock()
        self._show_time(0.0)
        self._panes(pair=True)

    def _show_time(self, took: float) -> None:
        self.bar.value = math.ceil(self.study.seconds - took)
        self.seconds.value = f"{self.bar.value} s left"

    def _panes(self, start: bool = False, again: bool = False, pair: bool = False) -> None:
        for pane, there in ((self.go, start), (self.anew, again), (self.start_row, start or again), (self.round, pair)):
            pane.layout.display = None if there else "none"

    def _invite(self, why: str = "") -> None:
        self.played = begin(self.study, self.folder, self.seed)
        done, count = len(self.played.answers), len(self.study.pairs)
        half = (
            f"A game is half played: {done} of {count}. Go on with it, or begin a new game if it was somebody else's."
        )
        lines = (
            f"<b>{html.escape(self.study.title)}</b>",
            f"{count} pairs of pictures, {self.study.seconds} seconds for each. Above is a picture of a person, below it are two "
            "reconstructions by an attack. Say which of them looks more like the person: click <b>left</b> or <b>right</b> below it, "
            "or go there with Tab and press Enter. Without an answer in time, the next pair follows.",
            f"Your choices are written to <code>{html.escape(str(self.folder))}</code> and are sent nowhere. No name is asked for.",
            html.escape(why),
            half * (done > 0),
        )
        self.text.value = "".join(sheet.paragraph(line) for line in lines if line)
        self.go.description = "Go on" if done else "Start"
        self._panes(start=True, again=done > 0)

    def _finish(self) -> None:
        """What was chosen, what everybody chose, and which was which."""
        everybody, left_out = games(self.study, self.folder)
        parts = {
            "You": str(summary([self.played])),
            "Everybody in this folder": str(summary(everybody))
            if len(everybody) > 1
            else "There is no other game yet.",
            "The paper": _paper(),
            "What this can show": _reach(sum(answer.choice is not None for answer in self.played.answers)),
        }
        parts |= {"Left out": "; ".join(left_out)} if left_out else {}
        told = "".join(f"<h4>{name}</h4>{sheet.paragraph(html.escape(words))}" for name, words in parts.items())
        self.text.value = told + "<h4>The pairs</h4>" + "".join(one.tag() for one in _reveal(self.study, self.played))
        self._panes(again=True)


class Board(Ticking):
    """A histogram of the finished games in a folder, for the screen of a class; with *live* ticked, it looks again every two seconds.

    `games` are the finished games that it shows; `refresh` reads the folder anew.
    """

    def __init__(self, study: Study, folder: Path | str = FOLDER) -> None:
        """study: the pairs that were played.  folder: where the games of all players are; it need not exist yet."""
        self.study, self.folder = study, Path(folder)
        self.chart, self.words, self.failure = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Output()
        self.live = ipywidgets.Checkbox(value=False, description="live: look every two seconds", indent=False)
        self.live.observe(lambda change: self._tick(self.refresh, LOOK) if change["new"] else self.rest(), "value")
        row = ipywidgets.HBox([button("Look again", "Read the folder anew", self.refresh), self.live], layout=WRAP)
        super().__init__([self.chart, self.words, row, self.failure])
        self.refresh()

    def __repr__(self) -> str:
        return f"{len(self.games)} finished games of {self.study}"

    def page(self, seconds: float, room: int) -> str:
        """The chart as it stands."""
        return f"{self.chart.value}{self.words.value}"

    def refresh(self) -> None:
        """Read the folder, and draw again. A damaged file is left out, and a line says so."""
        with self._failures(self.failure):
            found, left_out = games(self.study, self.folder)
            self.games = [game for game in found if game.over]
            self.chart.value = _histogram(self.study, self.games).tag()
            told = str(summary(self.games)) if self.games else "Nobody has finished a game yet."
            lines = [told, *(f"left out: {line}" for line in left_out)]
            self.words.value = "".join(sheet.paragraph(html.escape(line)) for line in lines)


def _histogram(study: Study, games: list[Played]) -> plots.Picture:
    """How many players chose the first network how often, and how many would if all guessed."""
    count, (one, other) = len(study.pairs), study.names
    chosen = [sum(answer.choice == one for answer in game.answers) for game in games]
    bars = np.bincount(np.array(chosen, int), minlength=count + 1)
    guessed = max(len(games), 1) * binom.pmf(np.arange(count + 1), count, 0.5)
    figure, ax = picture.empty_chart(f"pairs, of {count}, in which “{one}” was found closer", "players", "")
    ax.bar(np.arange(count + 1), bars, color=picture.COLOURS[0], label=f"{len(games)} players")
    who = "all" if games else "one"
    ax.plot(np.arange(count + 1), guessed, "s--", color=picture.COLOURS[1], ms=5, label=f"if {who} guessed")
    picture.draw_thresholds(ax, {}, {f"the paper's mean, {_preferred():g} %": _preferred() / 100 * count})
    ax.set_xticks(np.arange(count + 1))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    picture.legend_above(figure)
    told = ", ".join(f"{int(n)} with {k}" for k, n in enumerate(bars) if n) or "none yet"
    alt = f"How often “{one}” was found closer than “{other}”, players by number of pairs: {told}."
    return picture.render(figure, f"{alt} Guessing centres on {count / 2:g} of {count}.")


def _face(one: Tensor, alt: str, style: str = "") -> str:
    """A picture, smooth: of squares a reader would see the edges, not the face."""
    look = f";display:block;aspect-ratio:{one.shape[-1]}/{one.shape[-2]}{style}"  # room before it is there
    return plots.face(one.float() / 255, alt, SIDE).tag(look)


def _preferred() -> float:
    """Of the paper's answers, in percent, those for the full network."""
    return float(papers.table("koh2024_table10").query("metric == 'user_preference'")["mean"].max())


def _paper() -> str:
    return (
        f"Koh et al. 2024 (section 11, table 10) asked ten people about each of 530 actors: {_preferred():g}% found the picture from the "
        "full network closer than that from the network without skip connections (PPA on MaxViT)."
    )


def _reach(count: int) -> str:
    """What so many answers of one reader can and cannot show."""
    low, high = (int(binom.ppf(q, count, 0.5)) for q in (0.025, 0.975))
    chance = f"Somebody who guesses gets {low} to {high} of {count} in nineteen games of twenty."
    if not low:
        chance = f"{count} answers show nothing either way: somebody who guesses may well get all of them alike."
    return (
        f"{chance} No number of answers shows that anybody would recognise the person: of two bad pictures, too, one is closer. And one "
        "reader's eye is not everybody's; that takes the games of a class."
    )


def _reveal(study: Study, played: Played) -> Iterator[plots.Picture]:
    """Which was which: the pairs in the order in which they were shown, six to a picture."""
    for start in range(0, len(played.answers), 6):
        some = played.answers[start : start + 6]
        pairs = [study.pairs[answer.pair] for answer in some]
        rows = {
            title: plots.smooth(torch.stack([getattr(pair, what) for pair in pairs]).float() / 255, SIDE)
            for title, what in zip(("target", *study.names), ("target", "one", "other"), strict=True)
        }
        below = {name: ["your choice" * (answer.choice == name) for answer in some] for name in study.names}
        words = ", ".join(answer.choice or "none" for answer in some)
        alt = f"Pairs {start + 1} to {start + len(some)}: the target above, then {' and '.join(study.names)}. You chose: {words}."
        yield plots.images(rows, alt, {"target": [str(pair.person) for pair in pairs], **below})
