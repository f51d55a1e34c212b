"""A user study: which of two reconstructions looks more like the person? The pairs, the answers on disk, and what they add up to.

A game is a table with a row for each round, and once it is over, one small JSON file in a folder on this machine:

    study, player   the digest of the study, and a random id
    pair            its place in the study
    left, right     whose picture is where, by the names of the networks
    choice          the name of a network; none where no answer came in time
    seconds         until the answer

It holds no name, no date and no picture. Nothing is sent anywhere; a class that wants one result copies its files into one folder.

(Koh et al. 2024, section 11: a target and two inversions, 60 seconds a pair, 530 pairs with ten people each.)
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from scipy.stats import binomtest
from torch import Tensor

from privlab.compute import reading
from privlab.compute.atomic import write_atomic

PICTURES = ("target", "one", "other")


@dataclass(frozen=True, eq=False)
class Study:
    """Pairs to be shown, each a target and the two networks' reconstructions of it: (1 or 3, height, width) in [0, 1], or bytes.

    names: of the networks.  seconds: for a pair.
    """

    pairs: Sequence[Sequence[Tensor]]
    names: Sequence[str]
    seconds: int = 60

    @cached_property
    def file(self) -> bytes:
        """All of it as a file (safetensors), the pictures as bytes."""
        about = json.dumps({"names": self.names, "seconds": self.seconds})
        batches = (torch.stack([_as_bytes(image) for image in images]) for images in zip(*self.pairs, strict=True))
        return safetensors.torch.save(dict(zip(PICTURES, batches, strict=True)), {"study": about})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file: answers count together only where it is the same."""
        return hashlib.sha256(self.file).hexdigest()

    def save(self, path: Path | str) -> None:
        """Write it into one file, to be handed out: what another machine computes again differs in a few pixels."""
        write_atomic(path, self.file)

    def images(self, pair: int) -> dict[str, Tensor]:
        """The target of a pair, and the reconstruction of each network by its name, in [0, 1]."""
        images = [_as_bytes(image) / 255 for image in self.pairs[pair]]
        return dict(zip(("target", *self.names), images, strict=True))


def load(path: Path | str) -> Study:
    """A study that `Study.save` wrote.  Raises ValueError for a file that is damaged, or no study."""
    guard = reading.guarded(path, "is no study that can be read here", "ask for it again")
    with guard, safetensors.safe_open(path, framework="pt") as file:
        pairs = zip(*map(file.get_tensor, PICTURES), strict=True)
        return Study([*pairs], **json.loads(file.metadata()["study"]))


def begin(study: Study) -> pd.DataFrame:
    """A game without answers, its pairs in an order of its own.

    Each network is on the left in half of the rounds (one more or less where their number is odd), so that somebody who always
    clicks on one side favours nobody.
    """
    draw, count, names = np.random.default_rng(), len(study.pairs), np.array(study.names)
    left = draw.permutation((np.arange(count) + draw.integers(2)) % 2)  # 0 or 1, in turn, and then shuffled
    sides = {"left": names[left], "right": names[1 - left], "pair": draw.permutation(count)}
    return pd.DataFrame(sides).assign(study=study.digest, player=secrets.token_hex(8), choice=None, seconds=np.nan)


def keep(game: pd.DataFrame, folder: Path | str) -> None:
    """Write a game that is over into the folder.  Raises OSError."""
    write_atomic(Path(folder) / f"{game.player[0]}.json", game.to_json(orient="records", indent=1).encode())


def games(study: Study, folder: Path | str) -> tuple[list[pd.DataFrame], list[str]]:
    """The games in a folder that answer to a study, the newest last, and why other files were left out, a line each."""
    found, left_out = [], []
    for path in sorted(reading.visible(folder, "*.json"), key=lambda path: path.stat().st_mtime):
        try:
            with reading.guarded(path, "holds no answers to these pairs", "it is left out"):
                game = pd.DataFrame(json.loads(path.read_bytes())).astype({"player": str, "seconds": float})
                if {*game.study} != {study.digest}:
                    raise ValueError("it answers for other pictures, names or seconds")
                named = {*game.left, *game.right, *game.choice.dropna()} <= {*study.names}
                if not named or sorted(game.pair) != [*range(len(study.pairs))] or game.seconds.isna().any():
                    raise ValueError("no game wrote what it holds")
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


def _as_bytes(image: Tensor) -> Tensor:
    return (image.cpu().clamp(0, 1) * 255).round().byte() if image.is_floating_point() else image.cpu()
