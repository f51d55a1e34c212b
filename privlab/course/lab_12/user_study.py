"""The user study in a notebook: which of two reconstructions looks more like the person? A game against the clock, its answers on disk,
and a board of what a class has chosen (Koh et al. 2024, section 11: a target and two inversions, 60 seconds a pair).

A game is a table with a row a round, and once it is over a JSON file in a folder on this machine. It holds no name, no date and no picture,
and nothing is sent anywhere; a class that wants one result copies its files into one folder. The columns are

    study, player   the digest of the study, and a random id
    pair            its place in the study
    left, right     whose picture is where, by the names of the networks
    choice          the name of a network; none where no answer came in time
    seconds         until the answer
"""

import asyncio
import hashlib
import html
import json
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic

import ipywidgets
import numpy as np
import pandas as pd
import safetensors.torch
import torch
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom, binomtest
from torch import Tensor

from privlab.compute.files import guarded, visible, write_atomic
from privlab.ledger import papers
from privlab.notebook import plots, sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button
from privlab.notebook.plots import picture

FOLDER = "runs/study"  # where the answers are
SIDES = ("left", "right")
SIDE = 192  # CSS pixels of a picture: target, reconstructions and buttons fit on a laptop's screen
WIDE = 2 * SIDE + 4
LOOK = 2.0  # seconds between two looks into the folder
# percent of the paper's answers, for the full network
PREFERRED = papers.table("koh2024_table10").query("metric == 'user_preference'")["mean"].max()
ASKED = "Which of the two pictures below looks more like this person?"
# A clock that runs in the browser, also beside a cell that computes. It counts down, and then hides the pair.
CLOCK = """<style>
@property --privlab-left {{ syntax: "<integer>"; inherits: false; initial-value: 0 }}
@keyframes privlab-clock {{ from {{ --privlab-left: {0}; width: 100% }} }}
@keyframes privlab-hide {{ to {{ visibility: hidden }} }}
.privlab-clock {{ width: 0; border-top: 8px solid #0072b2; white-space: nowrap; animation: privlab-clock {0}s linear;
  counter-reset: left var(--privlab-left) }}
.privlab-clock::after {{ content: counter(left) " s left" }}
.privlab-clock + div {{ animation: privlab-hide {0}s step-end forwards }}
</style><div class="privlab-clock" role="timer"></div>"""


class Study:
    """Pairs to be shown, each a target and the two networks' reconstructions of it.  digest: answers count together only where it is equal.

    Another machine computes pictures that differ in a few pixels, so a class shares the file that `save` writes.
    """

    def __init__(self, pairs: Sequence[Sequence[Tensor]] | Tensor, names: Sequence[str], seconds: int = 60) -> None:
        """pairs: images of one shape, (1 or 3, height, width) in [0, 1].  names: of the networks.  seconds: for a pair."""
        self.names, self.seconds, self.count = names, seconds, len(pairs)
        pictures = torch.stack([torch.stack([*images]) for images in pairs])  # (pairs, 3, channels, height, width)
        self.pictures = (pictures.clamp(0, 1) * 255).round().byte()
        about = {"study": json.dumps({"names": names, "seconds": seconds})}
        self.file = safetensors.torch.save({"pictures": self.pictures}, about)
        self.digest = hashlib.sha256(self.file).hexdigest()

    def save(self, path: Path | str) -> None:
        """Write it into one file, to be handed out."""
        write_atomic(path, self.file)

    def images(self, pair: int) -> dict[str, Tensor]:
        """The target of a pair, and the reconstruction of each network by its name, in [0, 1]."""
        return dict(zip(("target", *self.names), self.pictures[pair] / 255, strict=True))


def load(path: Path | str) -> Study:
    """A study that `Study.save` wrote.  Raises ValueError for a file that is damaged, or no study."""
    guard = guarded(path, "is no study that can be read here", "ask for it again")
    with guard, safetensors.safe_open(path, framework="pt") as file:
        return Study(file.get_tensor("pictures") / 255, **json.loads(file.metadata()["study"]))


def begin(study: Study) -> pd.DataFrame:
    """A game without answers, its pairs in an order of its own.

    Each network is on the left in half of the rounds (one more or less where their number is odd), so that somebody who always
    clicks on one side favours nobody.
    """
    draw, count, names = np.random.default_rng(), study.count, np.array(study.names)
    left = draw.permutation((np.arange(count) + draw.integers(2)) % 2)  # 0 or 1, in turn, and then shuffled
    sides = {"left": names[left], "right": names[1 - left], "pair": draw.permutation(count)}
    return pd.DataFrame(sides).assign(study=study.digest, player=secrets.token_hex(8), choice=None, seconds=np.nan)


def games(study: Study, folder: Path | str) -> tuple[list[pd.DataFrame], list[str]]:
    """The games in a folder that answer to a study, the newest last, and why other files were left out, a line each."""
    found, left_out = [], []
    columns, types = [*begin(study)], {"player": str, "seconds": float}
    for path in sorted(visible(folder, "*.json"), key=lambda path: path.stat().st_mtime):
        try:
            with guarded(path, "holds no answers to these pairs", "it is left out"):
                game = pd.DataFrame(json.loads(path.read_bytes()))[columns].astype(types)
                if {*game.study} != {study.digest}:
                    raise ValueError("it answers for other pictures, names or seconds")
            found.append(game)
        except (OSError, ValueError) as error:
            left_out.append(str(error))
    return found, left_out


def interval(votes: np.ndarray) -> tuple[float, float]:
    """The 95% interval of the share of ones in votes (players, pairs), NaN where there is no answer.

    Answers of one player have a taste in common, and answers to one pair have that pair in common. So it is Wilson's (1927) where one
    player has answered, and with several a percentile interval of a bootstrap that draws players and pairs at the same time, with
    replacement (Owen 2007); where all agree there is nothing to draw, so it is never narrower than Wilson's of all answers. Simulated
    with players and pairs that differ, and 2 to 20 players, it covers the true share 91 to 98 times of 100; Wilson's alone, 64 to 85.
    """
    hits, there = np.nan_to_num(votes), ~np.isnan(votes)
    low, high = binomtest(int(hits.sum()), int(there.sum())).proportion_ci(0.95, method="wilson")
    if len(votes) > 1:
        draw = np.random.default_rng(0)
        players, pairs = (draw.multinomial(n, np.full(n, 1 / n), size=4_000) for n in votes.shape)  # (resamples, n)
        counts, firsts = ((players @ there) * pairs).sum(1), ((players @ hits) * pairs).sum(1)  # of each resample
        drawn = np.quantile(firsts[counts > 0] / counts[counts > 0], [0.025, 0.975])
        low, high = min(low, drawn[0]), max(high, drawn[1])
    return float(low), float(high)


def summary(study: Study, games: Sequence[pd.DataFrame]) -> str:
    """What some games of a study add up to, in words; of a player who is there twice an answer counts once."""
    if not games:
        return "Nobody has finished a game yet."
    table = pd.concat(games).dropna(subset="seconds").drop_duplicates(["player", "pair"])
    told, (one, other) = table.dropna(subset="choice"), study.names
    if told.empty:
        return "Nobody answered in time, so there is nothing to sum up."
    votes = told.assign(vote=(told.choice == one) * 1.0).pivot(index="player", columns="pair", values="vote")
    (players, pairs), first, (low, high) = votes.shape, (told.choice == one).sum(), interval(votes.to_numpy())
    kind = "a bootstrap over players and pairs" if players > 1 else "Wilson's, for this player's answers to other pairs"
    return (
        f"{first} of {len(told)} ({first / len(told):.0%}, 95% interval {100 * low:.0f} to {100 * high:.0f}) found the picture "
        f"from “{one}” closer, the other being “{other}”. Players: {players}; pairs: {pairs}; {len(table) - len(told)} without an "
        f"answer in time. The interval is {kind}."
    )


class Game(Live):
    """A target, two reconstructions, so many seconds: which one is closer? Nothing happens before Start is clicked.

    `table` is the game, as `begin` makes it, and `place` the row whose pair is on show; there are such once it has begun.
    """

    def __init__(self, study: Study, folder: Path | str = FOLDER) -> None:
        """study: the pairs, and the seconds for each.  folder: where games are kept."""
        self.study, self.folder = study, folder
        rules = [
            "<b>Which one is closer?</b>",
            f"{study.count} pairs of pictures, {study.seconds} seconds for each. Above is a picture of a person, below it are two "
            "reconstructions by an attack. Say which of them looks more like the person: click <b>left</b> or <b>right</b> below it, or "
            "go there with Tab and press Enter. When the time is over, the pair disappears, and a click goes on without an answer.",
            f"Your choices are written to <code>{html.escape(str(folder))}</code> and are sent nowhere. No name is asked for.",
        ]
        self.words, self.sheet = ipywidgets.HTML("".join(map(sheet.paragraph, rules))), ipywidgets.HTML()
        tips = {side: f"The {side} picture is closer" for side in SIDES}
        sides = [button(side, tip, partial(self.answer, side), width="50%") for side, tip in tips.items()]
        self.row = ipywidgets.HBox(sides, layout={"width": "100%", "max_width": f"{WIDE}px"})
        self.again = button("Start", "The same rounds from the beginning", self.restart)
        for each in (*sides, self.again):
            each.add_class(SKIP)  # a sweep of the controls must not play
        super().__init__([self.words, self.again])

    def restart(self) -> None:
        """Draw the pairs and their sides, show the first, and let the time run."""
        self.table, self.again.description = begin(self.study), "New game"
        self._show(0)

    def answer(self, side: str) -> None:
        """Answer for the pair on show: "left" or "right", which count as no answer once its time is over.  Nothing after the last."""
        if self.place == self.study.count:
            return
        took, limit = monotonic() - self.shown, self.study.seconds
        self.table.loc[self.place, "choice"] = self.table.loc[self.place, side] if took <= limit else None
        self.table.loc[self.place, "seconds"] = round(min(took, limit), 2)
        self._show(self.place + 1, "No answer in time for the last pair. " * (took > limit))

    def page(self, seconds: float, room: int) -> str:
        return f"{self.words.value}<p>The game is played in the notebook.</p>"

    def _show(self, place: int, missed: str = "") -> None:
        """The pair whose turn it is, or at the end what the game has given."""
        self.place = place
        if place < self.study.count:
            words = f"{missed}<b>Pair {place + 1} of {self.study.count}.</b> {ASKED}"
            self.words.value, self.sheet.value = sheet.paragraph(words, status=True), self._pair(place)
            self.children = [self.words, self.sheet, self.row]
            self.shown = monotonic()
            return
        lost = ""
        try:
            file = Path(self.folder) / f"{self.table.player[0]}.json"
            write_atomic(file, self.table.to_json(orient="records", indent=1).encode())
        except OSError as error:  # a folder of the class may be full, or closed
            lost = sheet.paragraph(html.escape(f"Your answers could not be kept: {error.strerror}."))
        board = Board(self.study, self.folder)  # which takes its time, so it is drawn before anything changes
        self.words.value, self.children = lost + self._over(), [self.words, board, self.again]

    def _over(self) -> str:
        """What the answers add up to; and pair by pair which was which, and what was chosen."""
        said = sheet.paragraph(html.escape(summary(self.study, [self.table])))
        shown = f"<h4>You</h4>{said}<h4>The pairs</h4>"
        for pair, choice in zip(self.table.pair, self.table.choice, strict=True):
            images = self.study.images(pair)
            titles = {name: name + ", your choice" * (name == choice) for name in images} | {"target": f"person {pair}"}
            shown += sheet.row(sheet.named(image[None], titles[name]) for name, image in images.items())
        return f"{shown}<h4>Everybody in this folder</h4>"

    def _pair(self, place: int) -> str:
        """A round: the clock, the target, and below it the two reconstructions. Which is which is not told."""
        now, where = self.table.loc[place], f"pair {place + 1} of {len(self.table)}"
        images = self.study.images(now.pair)
        target = sheet.picture(images["target"][None], f"The target, {where}: a picture of the person.", SIDE)
        two = [sheet.picture(images[now[side]][None], f"The {side} reconstruction, {where}.", SIDE) for side in SIDES]
        return (
            f'<div style="max-width:{WIDE}px">{CLOCK.format(self.study.seconds)}'
            '<div style="display:grid;grid-template-columns:1fr 1fr;gap:4px">'
            f'<div style="grid-column:1/3;justify-self:center">{target}</div>{"".join(two)}</div></div>'
        )


class Board(Live):
    """How the games in a folder came out, for the screen of a class; with *live* ticked, it looks again every two seconds.

    `games` are the games that it shows; `refresh` reads the folder anew.
    """

    def __init__(self, study: Study, folder: Path | str = FOLDER) -> None:
        """study: the pairs that were played.  folder: where the games of all players are; it need not exist yet."""
        self.study, self.folder = study, folder
        self.chart, self.words = ipywidgets.HTML(), ipywidgets.HTML()
        self.live = ipywidgets.Checkbox(description="live: look every two seconds", indent=False)
        self.live.observe(lambda _: asyncio.get_running_loop().create_task(self._look()), "value")
        row = ipywidgets.HBox([button("Look again", "Read the folder anew", self.refresh), self.live], layout=WRAP)
        super().__init__([self.chart, self.words, row])
        self.refresh()

    def page(self, seconds: float, room: int) -> str:
        """The chart as it stands."""
        return f"{self.chart.value}{self.words.value}"

    def refresh(self) -> None:
        """Read the folder, and draw again. A damaged file is left out, and a line says so."""
        self.games, left_out = games(self.study, self.folder)
        self.chart.value = self._histogram().html
        lines = [summary(self.study, self.games), *(f"left out: {line}" for line in left_out)]
        self.words.value = "".join(sheet.paragraph(html.escape(line)) for line in lines)

    async def _look(self) -> None:
        while self.live.value:
            self.refresh()
            await asyncio.sleep(LOOK)

    def _histogram(self) -> plots.Picture:
        """How many players chose the first network how often, and how many would if all guessed."""
        count, (one, other), players = self.study.count, self.study.names, len(self.games)
        places = np.arange(count + 1)
        bars = np.histogram([(game.choice == one).sum() for game in self.games], np.arange(count + 2))[0]
        figure, ax = picture.chart(f"pairs, of {count}, in which “{one}” was found closer", "players")
        ax.bar(places, bars, color=picture.COLOURS[0], label=f"{players} players")
        guessed, who = max(players, 1) * binom.pmf(places, count, 0.5), "all" if players else "one"
        ax.plot(places, guessed, "s--", color=picture.COLOURS[1], ms=5, label=f"if {who} guessed")
        picture.thresholds(ax, {}, {f"the paper's mean, {PREFERRED:g} %": PREFERRED / 100 * count})
        ax.set_xticks(places)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        told = ", ".join(f"{n} with {k}" for k, n in enumerate(bars) if n) or "none yet"
        alt = f"How often “{one}” was found closer than “{other}”, players by number of pairs: {told}."
        return picture.render(figure, f"{alt} Guessing centres on {count / 2:g} of {count}.")
