"""The result of a user study as it comes in: how many of a class preferred which network, beside a class that guesses."""

from __future__ import annotations

import asyncio
import html
from pathlib import Path

import ipywidgets
import numpy as np
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom

from privlab.ledger import papers
from privlab.notebook.live import WRAP, Live, button, running_loop, shown_error
from privlab.notebook.plots import picture
from privlab.notebook.plots.picture import COLOURS, Picture
from privlab.notebook.user_study import statistics
from privlab.notebook.user_study.answers import FOLDER, Played, Study, files, read

BEAT = 2.0  # seconds between two looks into the folder


def board(study: Study, folder: Path | str = FOLDER) -> Board:
    """A histogram of the finished games in a folder, for the screen of a class; with *live* ticked, it looks again every two seconds.

    study: the pairs that were played.  folder: where the games of all players are, see `play`; it need not exist yet.
    """
    return Board(study, folder)


class Board(Live):
    """What `board` gives.  `games` are the finished games that it shows; `refresh` reads the folder anew."""

    def __init__(self, study: Study, folder: Path | str) -> None:
        self.study, self.folder = study, Path(folder)
        self.games: list[Played] = []
        self.task: asyncio.Task[None] | None = None
        self.seen: list[tuple[str, int]] | None = None
        self.chart, self.words, self.failure = ipywidgets.HTML(), ipywidgets.HTML(), ipywidgets.Output()
        self.live = ipywidgets.Checkbox(value=False, description="live: look every two seconds", indent=False)
        self.live.observe(lambda change: self._go() if change["new"] else self._rest(), "value")
        row = ipywidgets.HBox([button("Look again", "Read the folder anew", self.refresh), self.live], layout=WRAP)
        super().__init__([self.chart, self.words, row, self.failure])
        self.refresh()

    def __repr__(self) -> str:  # what a page shows that can show no widget
        return f"{len(self.games)} finished games of {self.study}"

    def page(self, seconds: float, room: int) -> str:
        """The chart as it stands."""
        return f"{self.chart.value}{self.words.value}"

    def refresh(self) -> None:
        """Read the folder, and draw again where a file has changed. A damaged file is left out, and a line says so."""
        try:
            paths = files(self.folder) if self.folder.exists() else []
            if (now := [(p.name, p.stat().st_mtime_ns) for p in paths]) == self.seen:
                return
            self.seen, self.games, left_out = now, [], []
            for path in paths:
                try:
                    game = read(path)
                    if game.over and not game.fits(self.study):
                        self.games.append(game)
                except ValueError as error:
                    left_out.append(str(error))
            self.chart.value = chart(self.study, self.games).tag()
            told = (
                statistics.of_games(self.games)._repr_html_()
                if self.games
                else "<p>Nobody has finished a game yet.</p>"
            )
            self.words.value = told + "".join(f"<p>left out: {html.escape(line)}</p>" for line in left_out)
        except Exception as error:
            self._rest()
            self.failure.outputs = shown_error(error)
            raise

    def close(self) -> None:
        """Stop looking, and go from the page."""
        self._rest()
        super().close()

    def _go(self) -> None:
        loop = running_loop()
        if loop and not self.task:
            self.task = loop.create_task(self._look())
        self.refresh()

    def _rest(self) -> None:
        if self.task:
            self.task.cancel()
            self.task = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            try:
                self.refresh()
            except Exception:
                return  # the board shows it, and nobody waits for this task


def chart(study: Study, games: list[Played]) -> Picture:
    """How many players chose the first network how often, and how many would if all guessed; finished games of one study."""
    count, (one, other) = len(study.pairs), study.names
    chosen = [sum(a.choice == one for a in game.answers) for game in games]
    bars = np.bincount(chosen, minlength=count + 1) if chosen else np.zeros(count + 1)
    guessed = max(len(games), 1) * binom.pmf(np.arange(count + 1), count, 0.5)
    figure, ax = picture.empty_chart(f"pairs, of {count}, in which “{one}” was found closer", "players", "")
    ax.bar(np.arange(count + 1), bars, color=COLOURS[0], width=0.8, label=f"{len(games)} players")
    ax.plot(
        np.arange(count + 1), guessed, "s--", color=COLOURS[1], ms=5, label=f"if {'all' if games else 'one'} guessed"
    )
    share = papers.table("koh2024_table10").query("metric == 'user_preference'")["mean"].max()
    picture.draw_thresholds(ax, {}, {f"the paper's mean, {share:g} %": share / 100 * count})
    ax.set_xticks(np.arange(count + 1))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    picture.legend_above(figure)
    told = ", ".join(f"{int(n)} with {k}" for k, n in enumerate(bars) if n) or "none yet"
    alt = f"How often “{one}” was found closer than “{other}”, players by number of pairs: {told}."
    return picture.render(figure, f"{alt} Guessing centres on {count / 2:g} of {count}.")
