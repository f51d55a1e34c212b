"""The user study in a notebook: a game against the clock, and a board of what a class has chosen.

The time is kept by a task on the kernel's event loop, which works where the kernel's loop does, and never beside a cell. A click that
arrives late, as another cell computes, counts as no answer. In plain Python `tick` does what the task would do.
"""

from __future__ import annotations

import asyncio
import html
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ClassVar

import ipywidgets
import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom
from torch import Tensor

from privlab.course.lab_12.study import Study, answer, begin, games, load, summary
from privlab.ledger import papers
from privlab.notebook import plots, sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button, running_loop
from privlab.notebook.plots import picture

__all__ = ["Board", "Game", "Study", "load"]

FOLDER = "runs/study"  # where the answers are
SIDE = 192  # CSS pixels of a picture: target, reconstructions and buttons fit on a laptop's screen
WIDE = {"width": "100%", "max_width": f"{2 * SIDE + 4}px"}
BEAT, LOOK = 0.2, 2.0  # seconds between two looks at the clock, and into the folder
GUARD = 0.3  # seconds in which nobody can have compared anything: a double click, or one meant for the pair before
PATIENCE = 2  # pairs in a row without an answer, after which the game waits: nobody is there


class Timed(Live):
    """A live control that does something again and again."""

    task: asyncio.Task[None] | None = None

    def repeat(self, seconds: float, act: Callable[[], None]) -> None:
        """Begin to do it, in place of what was done before; nothing where no event loop runs."""

        async def again() -> None:
            while True:
                await asyncio.sleep(seconds)
                act()

        self.halt()
        loop = running_loop()
        self.task = loop.create_task(again()) if loop else None

    def halt(self) -> None:
        if self.task:
            self.task.cancel()


class Game(Timed):
    """A target, two reconstructions, so many seconds: which one is closer? Nothing happens before Start is clicked.

    `played` is the game so far, a table as `study` has it; `start`, `choose` and `rest` are what its buttons do.
    """

    running: ClassVar[Game | None] = None  # one at most

    def __init__(self, study: Study, folder: Path | str = FOLDER) -> None:
        """study: the pairs, and the seconds for each.  folder: where answers are kept, a file a game; half-played ones go on from there."""
        self.study, self.folder = study, folder
        self.text, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        self.go = button("Start", "Show a pair; its time begins to run", self.start)
        self.anew = button("New game", "Begin with no answers, as another player", partial(self.start, fresh=True))
        self.buttons = [
            button(side, f"The {side} picture is closer", partial(self.choose, side), width="50%")
            for side in ("left", "right")
        ]
        for each in (self.go, self.anew, *self.buttons):
            each.add_class(SKIP)  # a sweep of the controls must not play, nor write answers that nobody gave
        self.bar = ipywidgets.IntProgress(max=study.seconds, layout=WIDE)
        self.round = [self.text, self.bar, self.sheet, ipywidgets.HBox(self.buttons, layout=WIDE)]
        super().__init__()
        if Game.running:  # such as that of this very cell, before it was run again
            Game.running.rest()
        self._invite()

    def __repr__(self) -> str:
        return f"A game of {len(self.study.pairs)} pairs, {self.study.seconds} s each; it needs a running kernel."

    def page(self, seconds: float, room: int) -> str:
        """The rules; the game itself needs a clock."""
        return f"{self.text.value}<p>The game is played in the notebook.</p>"

    def start(self, fresh: bool = False) -> None:
        """Show a pair and let the time run: go on with a half-played game unless `fresh`."""
        if Game.running:
            Game.running.rest()
        self.played = begin(self.study, self.folder, fresh)  # from the disk: another cell may have gone on
        self.repeat(BEAT, self.tick)
        self.missed, Game.running = 0, self
        self._ask()

    def choose(self, side: str) -> None:
        """Answer for the pair on show. Nothing where none is, or where it came into sight just now."""
        if Game.running is self and (took := monotonic() - self.shown) >= GUARD:
            self._record(side if took <= self.study.seconds else None, took)

    def tick(self) -> None:
        """Show the seconds that are left; where there are none, write down that there was no answer, and show the next pair."""
        took = monotonic() - self.shown
        self.bar.value = math.ceil(self.study.seconds - took)
        self.bar.description = f"{self.bar.value} s left"
        if took >= self.study.seconds:
            self._record(None, took)

    def rest(self, why: str = "The game was stopped.") -> None:
        """Stop. The pair on show stays unanswered, and comes again."""
        self.halt()
        self._invite(why)

    def halt(self) -> None:
        super().halt()
        Game.running = None

    def _record(self, side: str | None, took: float) -> None:
        try:
            self.played = answer(self.played, side, min(took, self.study.seconds), self.folder)
        except OSError as error:  # a folder of the class may be full, or closed
            return self.rest(f"The answer could not be kept: {error.strerror}.")
        self.missed = 0 if side else self.missed + 1
        if self.played.seconds.notna().all():
            self.halt()
            self._finish()
        elif self.missed == PATIENCE:
            self.rest(f"{PATIENCE} pairs in a row went without an answer, so the game waits for you.")
        else:
            self._ask("" if side else "No answer in time for the last pair. ")

    def _ask(self, before: str = "") -> None:
        done = self.played.seconds.count()
        now, where = self.played.loc[done], f"pair {done + 1} of {len(self.study.pairs)}"
        asked = "Which of the two pictures below looks more like this person?"
        self.text.value = sheet.paragraph(f"{before}<b>{where.capitalize()}.</b> {asked}", status=True)
        images = self.study.images(now.pair)
        target = _face(images["target"], f"The target, {where}: a picture of the person.")
        two = [_face(images[now[side]], f"The {side} reconstruction, {where}.") for side in ("left", "right")]
        self.sheet.value = (
            f'<div style="display:grid;grid-template-columns:1fr 1fr;gap:4px;max-width:{WIDE["max_width"]}">'
            f'<div style="grid-column:1/3;justify-self:center">{target}</div>{"".join(two)}</div>'
        )
        self.shown, self.children = monotonic(), self.round
        self.tick()

    def _invite(self, why: str = "") -> None:
        done, count = begin(self.study, self.folder).seconds.count(), len(self.study.pairs)
        lines = [
            "<b>Which one is closer?</b>",
            f"{count} pairs of pictures, {self.study.seconds} seconds for each. Above is a picture of a person, below it are two "
            "reconstructions by an attack. Say which of them looks more like the person: click <b>left</b> or <b>right</b> below it, "
            "or go there with Tab and press Enter. Without an answer in time, the next pair follows.",
            f"Your choices are written to <code>{html.escape(str(self.folder))}</code> and are sent nowhere. No name is asked for.",
            html.escape(why),
        ]
        if done:
            whose = "Go on with it, or begin a new game if it was somebody else's."
            lines.append(f"A game is half played: {done} of {count}. {whose}")
        self.text.value = "".join(sheet.paragraph(line) for line in lines if line)
        self.go.description = "Go on" if done else "Start"
        self.children = [self.text, ipywidgets.HBox([self.go, self.anew] if done else [self.go])]

    def _finish(self) -> None:
        """What was chosen, which was which, and what everybody chose."""
        board, told = Board(self.study, self.folder), self.played.choice.count()
        low, high = binom.ppf([0.025, 0.975], told, 0.5).astype(int)
        chance = f"Somebody who guesses gets {low} to {high} of {told} in nineteen games of twenty."
        if not low:
            chance = f"{told} answers show nothing either way: somebody who guesses may well get all of them alike."
        parts = {
            "You": summary(self.study, [self.played]),
            "The paper": f"Koh et al. 2024 (section 11, table 10) asked ten people about each of 530 actors: {_preferred():g}% found the "
            "picture from the full network closer than that from the network without skip connections (PPA on MaxViT).",
            "What this can show": f"{chance} No number of answers shows that anybody would recognise the person: of two bad pictures, too, "
            "one is closer. And one reader's eye is not everybody's; that takes the games of a class.",
        }
        words = "".join(f"<h4>{name}</h4>{sheet.paragraph(html.escape(text))}" for name, text in parts.items())
        pairs = "".join(self._revealed(*one) for one in self.played[["pair", "choice"]].itertuples(index=False))
        self.text.value = f"{words}<h4>The pairs</h4>{pairs}<h4>Everybody in this folder</h4>"
        self.children = [self.text, board, self.anew]

    def _revealed(self, pair: int, choice: str | None) -> str:
        """Which was which in a round."""
        images = self.study.images(pair)
        titles = [f"person {pair}", *(name + ", your choice" * (name == choice) for name in self.study.names)]
        return sheet.row(sheet.named(image[None], title) for image, title in zip(images.values(), titles, strict=True))


class Board(Timed):
    """A histogram of the finished games in a folder, for the screen of a class; with *live* ticked, it looks again every two seconds.

    `games` are the finished games that it shows; `refresh` reads the folder anew.
    """

    def __init__(self, study: Study, folder: Path | str = FOLDER) -> None:
        """study: the pairs that were played.  folder: where the games of all players are; it need not exist yet."""
        self.study, self.folder = study, folder
        self.chart, self.words = ipywidgets.HTML(), ipywidgets.HTML()
        self.live = ipywidgets.Checkbox(description="live: look every two seconds", indent=False)
        self.live.observe(lambda _: self.repeat(LOOK, self.refresh) if self.live.value else self.halt(), "value")
        row = ipywidgets.HBox([button("Look again", "Read the folder anew", self.refresh), self.live], layout=WRAP)
        super().__init__([self.chart, self.words, row])
        self.refresh()

    def __repr__(self) -> str:
        return (
            f"{len(self.games)} finished games of {len(self.study.pairs)} pairs, {' against '.join(self.study.names)}"
        )

    def page(self, seconds: float, room: int) -> str:
        """The chart as it stands."""
        return f"{self.chart.value}{self.words.value}"

    def refresh(self) -> None:
        """Read the folder, and draw again. A damaged file is left out, and a line says so."""
        found, left_out = games(self.study, self.folder)
        self.games = [game for game in found if game.seconds.notna().all()]
        self.chart.value = self._histogram().html
        told = summary(self.study, self.games) if self.games else "Nobody has finished a game yet."
        lines = [told, *(f"left out: {line}" for line in left_out)]
        self.words.value = "".join(sheet.paragraph(html.escape(line)) for line in lines)

    def _histogram(self) -> plots.Picture:
        """How many players chose the first network how often, and how many would if all guessed."""
        count, (one, other), players = len(self.study.pairs), self.study.names, len(self.games)
        chosen = [(game.choice == one).sum() for game in self.games]
        places = np.arange(count + 1)
        bars, guessed = np.bincount(np.array(chosen, int), minlength=count + 1), binom.pmf(places, count, 0.5)
        figure, ax = picture.empty_chart(f"pairs, of {count}, in which “{one}” was found closer", "players", "")
        ax.bar(places, bars, color=picture.COLOURS[0], label=f"{players} players")
        who = "all" if players else "one"
        ax.plot(places, max(players, 1) * guessed, "s--", color=picture.COLOURS[1], ms=5, label=f"if {who} guessed")
        picture.draw_thresholds(ax, {}, {f"the paper's mean, {_preferred():g} %": _preferred() / 100 * count})
        ax.set_xticks(places)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        picture.legend_above(figure)
        told = ", ".join(f"{n} with {k}" for k, n in enumerate(bars) if n) or "none yet"
        alt = f"How often “{one}” was found closer than “{other}”, players by number of pairs: {told}."
        return picture.render(figure, f"{alt} Guessing centres on {count / 2:g} of {count}.")


def _face(image: Tensor, alt: str) -> str:
    """A picture, smooth: of squares a reader would see the edges, not the face. The page has room for it before it is there."""
    return sheet.picture(image[None], alt, SIDE, f";aspect-ratio:{image.shape[2]}/{image.shape[1]}")


def _preferred() -> float:
    """Of the paper's answers, in percent, those for the full network."""
    return float(papers.table("koh2024_table10").query("metric == 'user_preference'")["mean"].max())
