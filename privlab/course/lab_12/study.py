"""A user study: which of two reconstructions looks more like the person? The pairs, the answers on disk, and what they add up to.

One game of one player is one small JSON file in a folder on this machine. It holds a random id, the sides, the choices and the seconds: no
name, no date, no picture. Nothing is sent anywhere; a class that wants one result copies its files into one folder.

(Koh et al. 2024, section 11: a target and two inversions, 60 seconds a pair, 530 pairs with ten people each.)
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import safetensors
import safetensors.torch
import torch
from scipy.stats import binomtest
from torch import Tensor

from privlab.compute.atomic import write_atomic
from privlab.notebook.plots.image_grids import pixels

FORMAT = 1
FOLDER = "runs/study"
LARGEST = 1_000_000  # bytes of a file of answers; a game of a thousand pairs takes a tenth
RESAMPLES = 4_000
Side = Literal["left", "right"]


@dataclass(frozen=True, eq=False)
class Pair:
    """A target and two reconstructions of it.

    target, one, other: (1 or 3, height, width), floats in [0, 1] or uint8. `one` comes from the first of the study's names, `other` from
    the second; those two have one size, which must not tell them apart.  person: whose picture it is; shown at the end of a game.
    """

    target: Tensor
    one: Tensor
    other: Tensor
    person: str | int = ""

    def __post_init__(self) -> None:
        for name in ("target", "one", "other"):
            picture = getattr(self, name).detach().cpu()
            if picture.dtype != torch.uint8:
                picture = torch.from_numpy(pixels(picture[None])[0]).permute(2, 0, 1)[: len(picture)]
            object.__setattr__(self, name, picture)
        if self.one.shape != self.other.shape:
            raise ValueError(
                f"one has the shape {tuple(self.one.shape)}, other {tuple(self.other.shape)}, which would tell them apart"
            )


@dataclass(frozen=True, eq=False)
class Study:
    """Pairs to be shown, and how.

    names: of the networks that the first and the second reconstruction of every pair come from.
    seconds: for a pair.  title: over the game; it must not say what is expected.
    Raises ValueError for no pairs, names that are empty or equal, or seconds out of range.
    """

    pairs: Sequence[Pair]
    names: tuple[str, str] = ("full", "skip_4")
    seconds: int = 60
    title: str = "Which one is closer?"

    def __post_init__(self) -> None:
        if not self.pairs:
            raise ValueError("pairs=() leaves nothing to compare; give at least one Pair")
        if not _two_names(self.names):
            raise ValueError(f"names={self.names!r}; give two different ones, such as ('full', 'skip_4')")
        if not _whole(self.seconds, 1, 3600):
            raise ValueError(f"seconds={self.seconds!r} for a pair; give a whole number from 1 to 3600, such as 60")

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all pictures in their order, as 8-bit pixels: answers are merged only where it is the same."""
        digest = hashlib.sha256()
        for pair in self.pairs:
            for picture in (pair.target, pair.one, pair.other):
                digest.update(repr(tuple(picture.shape)).encode() + picture.contiguous().numpy().tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"Study: {len(self.pairs)} pairs, {' against '.join(self.names)}, {self.seconds} s each, pictures {self.digest[:8]}"

    def save(self, path: Path | str) -> None:
        """Write the study into one file (safetensors), to be handed out to a class.

        A reconstruction that is computed again on another machine differs in a few pixels, and is then another picture.
        """
        tensors = {name: torch.stack([getattr(p, name) for p in self.pairs]) for name in ("target", "one", "other")}
        about = {"names": self.names, "seconds": self.seconds, "title": self.title}
        about |= {"format": FORMAT, "people": [p.person for p in self.pairs]}
        write_atomic(path, safetensors.torch.save(tensors, {"study": json.dumps(about)}))


def load(path: Path | str) -> Study:
    """A study that `Study.save` wrote.  Raises FileNotFoundError, or ValueError for a file that is damaged, or no study."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist; Study.save writes it")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["study"])
            rows = [file.get_tensor(name) for name in ("target", "one", "other")]
        pairs = [Pair(*row) for row in zip(*rows, about["people"], strict=True)]
        return Study(pairs, tuple(about["names"]), about["seconds"], about["title"])
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is no study that can be read here: {error}; ask for it again") from None


# -- a game on disk ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """One round.  pair: its place in the study.  left: whose picture was on the left.  choice: a name, None for no answer in time."""

    pair: int
    left: str
    choice: str | None
    seconds: float


@dataclass(frozen=True)
class Played:
    """One player's game, so far or to its end.  study: the digest of its pictures.  pairs: how many.  limit: seconds for each."""

    study: str
    names: tuple[str, str]
    pairs: int
    limit: int
    player: str
    seed: int
    answers: tuple[Answer, ...] = ()

    @property
    def over(self) -> bool:
        return len(self.answers) == self.pairs

    @property
    def upcoming(self) -> tuple[int, str]:
        """The pair to show now, and the name whose picture goes to the left."""
        pair, first_left = schedule(self.seed, self.pairs)[len(self.answers)]
        return pair, self.names[0 if first_left else 1]

    def fits(self, study: Study) -> bool:
        """Whether these are answers to this study."""
        return (self.study, self.names, self.limit) == (study.digest, tuple(study.names), study.seconds)

    def answer(self, side: Side | None, seconds: float, folder: Path | str = FOLDER) -> Played:
        """The game with one more answer, which is on disk when this returns.

        side: of the chosen picture, None for no answer in time.  seconds: taken.  Raises OSError where it cannot be written.
        """
        pair, left = self.upcoming
        right = self.names[1 - self.names.index(left)]
        choice = None if side is None else {"left": left, "right": right}[side]
        more = replace(self, answers=(*self.answers, Answer(pair, left, choice, round(seconds, 2))))
        content = json.dumps({"format": FORMAT, **asdict(more)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomic(Path(folder) / f"{self.study[:8]}_{self.player}.json", content.encode())
        return more


def schedule(seed: int, count: int) -> list[tuple[int, bool]]:
    """The rounds of a game: (pair, whether the first reconstruction is on the left), from the seed and nothing else.

    Each network is on the left in half of the rounds (one more or less where count is odd), so that somebody who always clicks
    on one side favours nobody. Built on Python's `random()`, which gives the same numbers in every version.
    """
    draw = random.Random(seed).random
    order = sorted(range(count), key=[draw() for _ in range(count)].__getitem__)
    extra = draw() < 0.5
    keys = [draw() for _ in range(count)]
    sides = {place: (rank + extra) % 2 == 0 for rank, place in enumerate(sorted(range(count), key=keys.__getitem__))}
    return [(pair, sides[place]) for place, pair in enumerate(order)]


def begin(study: Study, folder: Path | str = FOLDER, seed: int | None = None, fresh: bool = False) -> Played:
    """The game in the folder that is half played, the newest if there are several, or else a new one. Writes nothing.

    seed: of the order and the sides; drawn if None, as it should be in a class.  fresh: a new one in any case.
    """
    half = [game for game in games(study, folder)[0] if not game.over and seed in (None, game.seed)]
    if half and not fresh:
        return half[-1]
    drawn = secrets.randbits(32) if seed is None else seed
    return Played(
        study.digest, (study.names[0], study.names[1]), len(study.pairs), study.seconds, secrets.token_hex(8), drawn
    )


def games(study: Study, folder: Path | str) -> tuple[list[Played], list[str]]:
    """The games in a folder that answer to a study, the newest last, and why other files were left out, a line each."""
    found, left_out = [], []
    paths = Path(folder).glob("[!.]*.json") if Path(folder).is_dir() else ()
    for path in sorted(paths, key=lambda path: path.stat().st_mtime):
        try:
            game = read(path)
            if game.fits(study):
                found.append(game)
            else:
                left_out.append(f"{path.name}: it answers for other pictures, names or seconds")
        except ValueError as error:
            left_out.append(str(error))
    return found, left_out


def read(path: Path | str) -> Played:
    """One file of answers.  Raises ValueError for a file that is damaged, of another format, edited, or no game."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, a game has less than {LARGEST:,}")
        content = json.loads(path.read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError(f"it is of another format than {FORMAT}")
        answers = tuple(Answer(**answer) for answer in content["answers"])
        played = Played(**{**content, "names": tuple(content["names"]), "answers": answers})
        _check(played)
        return played
    except (OSError, KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise ValueError(f"{path.name} holds no answers that can be read here: {reason}") from None


def _check(game: Played) -> None:
    """Raises ValueError where a file cannot have come from a game: an edited or broken one."""
    if not (all(isinstance(x, str) and x for x in (game.study, game.player)) and _two_names(game.names)):
        raise ValueError("study, player or names are out of form")
    if not (_whole(game.pairs, 1, 100_000) and _whole(game.limit, 1, 3600) and _whole(game.seed, 0, 2**63)):
        raise ValueError("pairs, limit or seed are out of range")
    if len(game.answers) > game.pairs:
        raise ValueError(f"it has {len(game.answers)} answers to {game.pairs} pairs")
    for number, (answer, drawn) in enumerate(zip(game.answers, schedule(game.seed, game.pairs), strict=False), 1):
        if (answer.pair, answer.left) != (drawn[0], game.names[0 if drawn[1] else 1]):
            raise ValueError(f"answer {number} is not to the pair, or not with the sides, that its seed gives")
        took = answer.seconds
        timed = isinstance(took, (int, float)) and not isinstance(took, bool) and 0 <= took <= game.limit
        if not timed or answer.choice not in (None, *game.names):
            raise ValueError(f"answer {number} took {took!r:.40} s and chose {answer.choice!r:.40}")


def _two_names(names: Any) -> bool:
    return len(names) == 2 and all(isinstance(x, str) and x.strip() for x in names) and names[0] != names[1]


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


# -- what games add up to ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What was preferred.

    first, answers: how many chose names[0], of how many in time.  players, pairs: that gave or got at least one.  silent: rounds without
    an answer in time.  low, high: the 95% interval of the share.
    """

    names: tuple[str, str]
    players: int
    pairs: int
    first: int
    answers: int
    silent: int
    low: float
    high: float

    def __str__(self) -> str:
        if not self.answers:
            return "Nobody answered in time, so there is nothing to sum up."
        kind = (
            "a bootstrap over players and pairs"
            if self.players > 1
            else "Wilson's, for this player's answers to other pairs"
        )
        return (
            f"{self.first} of {self.answers} ({self.first / self.answers:.0%}, 95% interval {100 * self.low:.0f} to "
            f"{100 * self.high:.0f}) found the picture from “{self.names[0]}” closer, the other being “{self.names[1]}”. "
            f"Players: {self.players}; pairs: {self.pairs}; {self.silent} without an answer in time. The interval is {kind}."
        )


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95% interval of a share of independent answers (Wilson 1927): (low, high), (0, 1) for no answers."""
    if not count:
        return 0.0, 1.0
    interval = binomtest(hits, count).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def summary(games: Sequence[Played], seed: int = 0) -> Summary:
    """What some games of one study add up to; a player who is there twice counts once, with the longer game.

    Answers of one player have a taste in common, and answers to one pair have that pair in common. So the interval is Wilson's where one
    player has answered, and with several a percentile interval of a bootstrap that draws players and pairs at the same time, with
    replacement (Owen 2007); where all agree there is nothing to draw, so it is never narrower than Wilson's of all answers. Simulated with
    players and pairs that differ, and 2 to 20 players, it covers the true share 91 to 98 times of 100; Wilson's alone, 64 to 85 times.
    """
    each = {game.player: game for game in sorted(games, key=lambda game: len(game.answers))}
    rows = [each[player] for player in sorted(each)]  # so that no interval hangs on the order of the files
    votes = np.full((len(rows), games[0].pairs), np.nan)  # (players, pairs): 1 for the first name, 0 for the second
    for row, game in enumerate(rows):
        for answer in game.answers:
            votes[row, answer.pair] = math.nan if answer.choice is None else answer.choice == game.names[0]
    there = ~np.isnan(votes)
    silent = sum(answer.choice is None for game in rows for answer in game.answers)
    votes = votes[there.any(1)][:, there.any(0)]  # who never answered in time is no player to draw
    first, answers = int(np.nansum(votes)), int(there.sum())
    low, high = wilson(first, answers)
    if len(votes) > 1:
        draw = np.random.default_rng(seed)
        players, pairs = (draw.multinomial(n, np.full(n, 1 / n), size=RESAMPLES) for n in votes.shape)  # (resamples, n)
        counts = ((players @ ~np.isnan(votes)) * pairs).sum(1)  # answers in each resample
        hits = ((players @ np.nan_to_num(votes)) * pairs).sum(1)
        drawn = np.quantile(hits[counts > 0] / counts[counts > 0], [0.025, 0.975])
        low, high = min(low, float(drawn[0])), max(high, float(drawn[1]))
    return Summary(rows[0].names, len(votes), votes.shape[1], first, answers, silent, low, high)
