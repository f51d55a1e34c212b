"""What the answers of a user study add up to: the share that preferred the first network, with an interval that is not too sure.

Answers of one player have a taste in common, and answers to one pair have that pair in common. Fifty players with twelve pairs
are therefore less than 600 independent answers, and an interval that takes them for such is too narrow.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from privlab.notebook.user_study.answers import FOLDER, Played, Study, files, read

__all__ = ["Summary", "of_games", "summary", "wilson"]

RESAMPLES = 4_000


@dataclass(frozen=True, repr=False)
class Summary:
    """What was preferred.

    names: of the two networks.  players, pairs: that gave or got at least one answer in time.  first, answers: how many chose
    names[0], of how many.  silent: rounds without an answer in time, which are in no share.  left: answers for the left side,
    about half of them where nobody leans to a side.  low, high: the 95% interval of the share.  how: "wilson" or "bootstrap".
    left_out: why files of the folder were not read, a line each.
    """

    names: tuple[str, str]
    players: int
    pairs: int
    first: int
    answers: int
    silent: int
    left: int
    low: float
    high: float
    how: str
    left_out: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the answers that chose names[0]; nan where nobody answered in time."""
        return self.first / self.answers if self.answers else math.nan

    @property
    def sentence(self) -> str:
        """The result in one sentence, in plain text."""
        if not self.answers:
            return "Nobody answered in time, so there is nothing to sum up."
        interval = f"95% interval {100 * self.low:.0f} to {100 * self.high:.0f}"
        return f"{self.first} of {self.answers} ({self.share:.0%}, {interval}) found the picture from `{self.names[0]}` closer"

    @property
    def details(self) -> str:
        """Who answered, what was not answered, and what the interval is, in plain text."""
        who = f"{self.players} player{'s' * (self.players != 1)}, {self.pairs} pair{'s' * (self.pairs != 1)}"
        kind = {
            "wilson": "Wilson's, for this player's answers to other pairs like these",
            "bootstrap": "a bootstrap over players and pairs",
        }[self.how]
        return f"{who}; {self.silent} without an answer in time; {self.left} of {self.answers} on the left. The interval is {kind}."

    def __repr__(self) -> str:
        return "\n".join([self.sentence, self.details, *(f"left out: {line}" for line in self.left_out)])

    def _repr_html_(self) -> str:
        one, other = (f"<code>{html.escape(name)}</code>" for name in self.names)
        sentence = html.escape(self.sentence).replace(f"`{html.escape(self.names[0])}`", one)
        against = f", the other being {other}" if self.answers else ""
        lost = "".join(f"<li>left out: {html.escape(line)}</li>" for line in self.left_out)
        return f"<p><b>{sentence}</b>{against}.</p><p>{html.escape(self.details)}</p>" + f"<ul>{lost}</ul>" * bool(lost)


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95% interval of a share of independent answers (Wilson 1927): (low, high), (0, 1) for no answers."""
    if not count:
        return 0.0, 1.0
    interval = binomtest(hits, count).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def summary(where: Path | str | Iterable[Path | str] = FOLDER, of: Study | None = None, seed: int = 0) -> Summary:
    """What the games in a folder, or in some files, add up to.

    where: a folder, of which every *.json is read, or files.  of: the study that they answer to; where it is missing, they must
        all answer to one.  seed: of the bootstrap.
    In a folder, what cannot be read or answers to other pictures than `of` is left out, and `left_out` says so.
    See `of_games` for the interval, and for players who are there twice.
    Raises FileNotFoundError for a file or folder that is not there, ValueError where there is nothing to read, for a file that is
    damaged, of another format or not about `of` (files only), and for games that answer to different studies.
    """
    games, left_out = [], []
    one_folder = isinstance(where, (str, Path)) and not Path(where).is_file()
    if isinstance(where, (str, Path)):
        if not Path(where).exists():
            raise FileNotFoundError(f"{where} is not there; a game writes its folder with the first answer")
        paths = files(where) if one_folder else [Path(where)]
    else:
        paths = [Path(path) for path in where]
    for path in paths:
        try:
            game = read(path)
            if of and (why := game.fits(of)):
                raise ValueError(f"{path.name}: {why}")
        except ValueError as error:
            if not one_folder:
                raise
            left_out.append(str(error))
        else:
            games.append(game)
    if not games:
        lost = "".join(f"; {line}" for line in left_out[:3])
        raise ValueError(f"where={str(where)!r} holds no answers that count; play a game first{lost}")
    return of_games(games, seed, left_out)


def of_games(games: Sequence[Played], seed: int = 0, left_out: Sequence[str] = ()) -> Summary:
    """What some games add up to. One player who is there twice counts once, with the longer game.

    The interval is Wilson's where one player has answered: how this one would answer to other pairs like these. With several it
    is a percentile interval of a bootstrap that draws players and pairs at the same time, with replacement (Owen 2007): how other
    players would answer to other pairs. Where all agree there is nothing to draw, so it is never narrower than Wilson's of all
    answers. Simulated with players and pairs that differ, and 2 to 20 players, it covers the true share 91 to 98 times of 100, the
    least with two players; Wilson's, which takes all answers to be independent, 64 to 85 times.

    Raises ValueError for no games, games of different studies, or one player's with different answers.
    """
    if not games:
        raise ValueError("games=() holds no game; give at least one")
    if len(kinds := {(g.study, g.pairs, g.limit, g.names) for g in games}) > 1:
        studies = " and ".join(
            f"{digest[:8]} ({', '.join(names)}, {limit} s)" for digest, _, limit, names in sorted(kinds)
        )
        raise ValueError(f"games: they answer to different studies, {studies}; say which one is meant: of=study")
    each: dict[str, Played] = {}
    for game in sorted(games, key=lambda g: len(g.answers)):
        shorter = each.get(game.player)
        if shorter and game.answers[: len(shorter.answers)] != shorter.answers:
            raise ValueError(
                f"games: player {game.player} is there twice with different answers; drop one of the two files"
            )
        each[game.player] = game

    names, width = games[0].names, games[0].pairs
    votes = np.full(
        (len(each), width), np.nan
    )  # (players, pairs): 1 for the first name, 0 for the second, nan for none
    rows = sorted(each.values(), key=lambda g: g.player)  # so that no interval hangs on the order of the files
    rounds = [(row, a) for row, game in enumerate(rows) for a in game.answers]
    for row, a in rounds:
        votes[row, a.pair] = math.nan if a.choice is None else a.choice == names[0]
    there = ~np.isnan(votes)
    votes = votes[there.any(1)][:, there.any(0)]  # who never answered in time is no player to draw
    first, answers = int(np.nansum(votes)), int(there.sum())
    low, high = wilson(first, answers)
    if len(votes) > 1:
        drawn = _bootstrap(votes, seed)
        low, high = min(low, drawn[0]), max(high, drawn[1])
    return Summary(
        names=names,
        players=len(votes),
        pairs=votes.shape[1],
        first=first,
        answers=answers,
        silent=sum(a.choice is None for _, a in rounds),
        left=sum(a.choice == a.left for _, a in rounds),
        low=low,
        high=high,
        how="bootstrap" if len(votes) > 1 else "wilson",
        left_out=tuple(left_out),
    )


def _bootstrap(votes: np.ndarray, seed: int) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the share when players and pairs are drawn anew.  votes: (players, pairs), nan for none."""
    generator = np.random.default_rng(seed)
    players, pairs = (
        generator.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) for n in votes.shape
    )  # (resamples, n) each
    counts = ((players @ ~np.isnan(votes)) * pairs).sum(1)  # answers in each resample
    hits = ((players @ np.nan_to_num(votes)) * pairs).sum(1)
    low, high = np.quantile(hits[counts > 0] / counts[counts > 0], [0.025, 0.975])
    return float(low), float(high)
