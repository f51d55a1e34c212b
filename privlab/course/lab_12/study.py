"""A user study: which of two reconstructions looks more like the person? The pairs, the answers on disk, and what they add up to.

One game of one player is one small JSON file in a folder on this machine. It holds a random id, the sides, the choices and the seconds: no
name, no date, no picture. Nothing is sent anywhere; a class that wants one result copies its files into one folder.

(Koh et al. 2024, section 11: a target and two inversions, 60 seconds a pair, 530 pairs with ten people each.)
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from scipy.stats import binomtest, rankdata
from torch import Tensor

from privlab.compute import reading
from privlab.compute.atomic import write_atomic

FORMAT, MOST, FOLDER = 1, 10_000, "runs/study"  # of a file of answers, pairs of a study, and where answers are
PICTURES = ("target", "one", "other")


class Pair(NamedTuple):
    """A target and the two networks' reconstructions of it, (1 or 3, height, width) in [0, 1] or bytes, and whose picture it is."""

    target: Tensor
    one: Tensor
    other: Tensor
    person: str = ""


@dataclass(frozen=True, eq=False)
class Study:
    """Pairs to be shown.  names: of the networks.  seconds: for a pair.  title: of the game; it must not say what is expected."""

    pairs: Sequence[Pair]
    names: Sequence[str] = ("full", "skip_4")
    seconds: int = 60
    title: str = "Which one is closer?"

    @cached_property
    def pictures(self) -> dict[str, Tensor]:
        """The targets, and the reconstructions of either network, as bytes: (pairs, 1 or 3, height, width) each."""
        batches = {name: torch.stack([getattr(pair, name) for pair in self.pairs]).cpu() for name in PICTURES}
        for name, batch in batches.items():
            if batch.is_floating_point():
                batches[name] = (batch.clamp(0, 1) * 255).round().byte()
        return batches

    def images(self, pair: int) -> list[Tensor]:
        """The target of a pair and its reconstructions, in [0, 1]."""
        return [batch[pair].float() / 255 for batch in self.pictures.values()]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all pictures: answers count together only where it is the same."""
        digest = hashlib.sha256()
        for pair in zip(*self.pictures.values(), strict=True):
            for picture in pair:
                digest.update(repr(tuple(picture.shape)).encode() + picture.numpy().tobytes())
        return digest.hexdigest()

    def save(self, path: Path | str) -> None:
        """Write it into one file (safetensors), to be handed out: what another machine computes again differs in a few pixels."""
        about = {"names": self.names, "seconds": self.seconds, "title": self.title}
        people = [pair.person for pair in self.pairs]
        write_atomic(path, safetensors.torch.save(self.pictures, {"study": json.dumps([about, people])}))


def load(path: Path | str) -> Study:
    """A study that `Study.save` wrote.  Raises ValueError for a file that is damaged, or no study."""
    with reading.guarded(path, "is no study that can be read here", "ask for it again"):
        with safetensors.safe_open(path, framework="pt") as file:
            about, people = json.loads(file.metadata()["study"])
            rows = [file.get_tensor(name) for name in PICTURES]
        return Study([Pair(*row) for row in zip(*rows, people, strict=True)], **about)


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
    names: tuple[str, ...]
    pairs: int
    limit: int
    player: str
    seed: int
    answers: tuple[Answer, ...] = ()

    @property
    def over(self) -> bool:
        return len(self.answers) == self.pairs

    @property
    def upcoming(self) -> tuple[int, str, str]:
        """The pair to show now, and the names whose pictures go to the left and to the right."""
        pair, first_left = schedule(self.seed, self.pairs)[len(self.answers)]
        left, right = self.names if first_left else self.names[::-1]
        return pair, left, right

    def answer(self, side: str | None, seconds: float, folder: Path | str = FOLDER) -> Played:
        """The game with one more answer, which is on disk when this returns.  side: "left", "right" or None.  Raises OSError."""
        pair, left, right = self.upcoming
        choice = {"left": left, "right": right, None: None}[side]
        more = replace(self, answers=(*self.answers, Answer(pair, left, choice, round(seconds, 2))))
        content = json.dumps({"format": FORMAT, **asdict(more)}, indent=1)
        write_atomic(Path(folder) / f"{self.study[:8]}_{self.player}.json", content.encode())
        return more


def schedule(seed: int, count: int) -> list[tuple[int, bool]]:
    """The rounds of a game: (pair, whether the first network is on the left), from the seed and nothing else.

    Each network is on the left in half of the rounds (one more or less where count is odd), so that somebody who always clicks
    on one side favours nobody. Built on Python's `random()`, which gives the same numbers in every version.
    """
    draw = random.Random(seed).random
    order = np.argsort([draw() for _ in range(count)]).tolist()
    extra, ranks = draw() < 0.5, rankdata([draw() for _ in range(count)])  # from 1
    return [(pair, bool((rank + extra) % 2)) for pair, rank in zip(order, ranks, strict=True)]


def begin(study: Study, folder: Path | str = FOLDER, fresh: bool = False) -> Played:
    """The newest game in the folder that is half played, unless `fresh`, or else a new one. Writes nothing."""
    half = [game for game in games(study, folder)[0] if not game.over]
    if half and not fresh:
        return half[-1]
    player, seed = secrets.token_hex(8), secrets.randbits(32)
    return Played(study.digest, tuple(study.names), len(study.pairs), study.seconds, player, seed)


def games(study: Study, folder: Path | str) -> tuple[list[Played], list[str]]:
    """The games in a folder that answer to a study, the newest last, and why other files were left out, a line each."""
    found, left_out = [], []
    for path in sorted(reading.visible(folder, "*.json"), key=lambda path: path.stat().st_mtime):
        try:
            game = read(path)
            if (game.study, game.names, game.limit) != (study.digest, tuple(study.names), study.seconds):
                raise ValueError(f"{path.name}: it answers for other pictures, names or seconds")
            found.append(game)
        except (OSError, ValueError) as error:
            left_out.append(str(error))
    return found, left_out


def read(path: Path | str) -> Played:
    """One file of answers.  Raises ValueError for a file that no game has written."""
    with reading.guarded(path, "holds no answers that can be read here", "it is left out"):
        content = json.loads(Path(path).read_bytes())
        form, names = content.pop("format"), tuple(map(str, content.pop("names")))
        answers = tuple(Answer(**answer) for answer in content.pop("answers"))
        game = Played(names=names, answers=answers, **content)
        player = re.fullmatch("[0-9a-f]{16}", game.player) and re.fullmatch("[0-9a-f]{64}", game.study)
        if form != FORMAT or not player or not len(answers) <= game.pairs <= MOST:
            raise ValueError("its format, player, study or number of answers is none that is written here")
        rounds = [(pair, names[0 if first_left else 1]) for pair, first_left in schedule(game.seed, game.pairs)]
        asked = [(answer.pair, answer.left) for answer in answers] == rounds[: len(answers)]
        if not asked or not all(a.choice in (None, *names) and 0 <= a.seconds <= game.limit for a in answers):
            raise ValueError("its answers are not to the pairs and sides that its seed gives")
        return game


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


def summary(games: Sequence[Played]) -> str:
    """What some games of one study add up to, in words; a player who is there twice counts once, with the longer game."""
    each = {game.player: game for game in sorted(games, key=lambda game: len(game.answers))}
    rows = [(player, answer.pair, answer.choice) for player, game in each.items() for answer in game.answers]
    table = pd.DataFrame(rows, columns=["player", "pair", "choice"])
    told, (one, other) = table.dropna(), games[0].names
    if told.empty:
        return "Nobody answered in time, so there is nothing to sum up."
    votes = told.assign(choice=told.choice == one).pivot(index="player", columns="pair", values="choice").astype(float)
    (players, pairs), first, (low, high) = votes.shape, (told.choice == one).sum(), interval(votes.to_numpy())
    kind = "a bootstrap over players and pairs" if players > 1 else "Wilson's, for this player's answers to other pairs"
    return (
        f"{first} of {len(told)} ({first / len(told):.0%}, 95% interval {100 * low:.0f} to {100 * high:.0f}) found the picture "
        f"from “{one}” closer, the other being “{other}”. Players: {players}; pairs: {pairs}; {len(table) - len(told)} without an "
        f"answer in time. The interval is {kind}."
    )
