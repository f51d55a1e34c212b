"""A user study: which of two reconstructions looks more like the person? The pairs, the answers on disk, and what they add up to.

`game.play` puts the question; this file knows no widget. One game of one player is one small JSON file in a folder on this
machine. It holds a random id, the sides, the choices and the seconds: no name, no date, no picture. Nothing is sent anywhere;
a class that wants one result copies its files into one folder and calls `summary` on it.

(Koh et al. 2024, section 11: a target and two inversions, 60 seconds a pair, 530 pairs with ten people each.)
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from privlab.compute import reading
from privlab.compute.atomic import write_atomic
from privlab.notebook.plots.image_grids import pixels

__all__ = ["FOLDER", "Answer", "Pair", "Played", "Study", "begin", "files", "load", "read", "schedule"]

FORMAT = 1
FOLDER = "runs/study"
LARGEST = 1_000_000  # bytes of a file of answers; a game of a thousand pairs takes a tenth
Side = Literal["left", "right"]


@dataclass(frozen=True, eq=False)
class Pair:
    """A target and two reconstructions of it.

    target, one, other: (1 or 3, height, width), floats in [0, 1] (clamped, as a screen would) or uint8. `one` comes from the
    first of the study's names, `other` from the second; those two have one size, which must not tell them apart.
    person: whose picture it is; shown at the end of a game.
    Raises ValueError for other shapes or types, or NaN.
    """

    target: Tensor
    one: Tensor
    other: Tensor
    person: str | int = ""

    def __post_init__(self) -> None:
        for name in ("target", "one", "other"):
            picture = getattr(self, name)
            if not isinstance(picture, Tensor) or picture.ndim != 3 or picture.shape[0] not in (1, 3):
                got = f"shape {tuple(picture.shape)}" if isinstance(picture, Tensor) else type(picture).__name__
                raise ValueError(f"{name}: got {got}; give one picture, (1 or 3, height, width)")
            picture = picture.detach().cpu()
            pixels(
                (picture.float() / 255 if picture.dtype == torch.uint8 else picture)[None]
            )  # complains of NaN, integers
            object.__setattr__(self, name, picture if picture.dtype == torch.uint8 else _rounded(picture))
        if self.one.shape != self.other.shape:
            sizes = f"{tuple(self.one.shape)} and {tuple(self.other.shape)}"
            raise ValueError(f"one, other: got shapes {sizes}, which would tell them apart; give them in one size")


def _rounded(picture: Tensor) -> Tensor:
    return (picture.float().clamp(0, 1) * 255).round().byte()


@dataclass(frozen=True, eq=False)
class Study:
    """Pairs to be shown, and how.

    names: of the networks that the first and the second reconstruction of every pair come from.
    seconds: for a pair, 1 to 3600.  title: over the game; it must not say what is expected.
    Raises ValueError for no pairs, pairs of different sizes, names that are empty or equal, or seconds out of range.
    """

    pairs: Sequence[Pair]
    names: tuple[str, str] = ("full", "skip_4")
    seconds: int = 60
    title: str = "Which one is closer?"

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", tuple(self.pairs))
        object.__setattr__(self, "names", tuple(self.names))
        if not self.pairs:
            raise ValueError("pairs=() leaves nothing to compare; give at least one study.Pair")
        for what in ("target", "one"):
            if len(sizes := {tuple(getattr(p, what).shape) for p in self.pairs}) > 1:
                raise ValueError(f"pairs: `{what}` has the sizes {sorted(sizes)}; bring them to one")
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
        one, other = self.names
        return (
            f"Study: {len(self.pairs)} pairs, {one} against {other}, {self.seconds} s each, pictures {self.digest[:8]}"
        )

    def save(self, path: Path | str) -> None:
        """Write the study into one file (safetensors), to be handed out to a class.

        A reconstruction that is computed again on another machine differs in a few pixels, and is then another picture.
        """
        tensors = {name: torch.stack([getattr(p, name) for p in self.pairs]) for name in ("target", "one", "other")}
        about = {
            "names": self.names,
            "seconds": self.seconds,
            "title": self.title,
            "people": [p.person for p in self.pairs],
        }
        content = safetensors.torch.save(tensors, {"study": json.dumps({"format": FORMAT, **about})})
        write_atomic(path, content)


def load(path: Path | str) -> Study:
    """A study that `Study.save` wrote.

    Raises FileNotFoundError, or ValueError for a file that is damaged, of another format, or no study.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist; Study.save writes it")
    with reading.guarded(path, "is no study that can be read here", "ask for it again"):
        with safetensors.safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["study"])
            _of_this_format(about)
            rows = [file.get_tensor(name) for name in ("target", "one", "other")]
        pairs = [Pair(*row) for row in zip(*rows, about["people"], strict=True)]
        return Study(pairs, tuple(about["names"]), about["seconds"], about["title"])


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
    def file(self) -> str:
        return f"{self.study[:8]}_{self.player}.json"

    @property
    def over(self) -> bool:
        return len(self.answers) == self.pairs

    @property
    def upcoming(self) -> tuple[int, str]:
        """The pair to show now, and the name whose picture goes to the left.  Raises IndexError where the game is over."""
        pair, first_left = schedule(self.seed, self.pairs)[len(self.answers)]
        return pair, self.names[0 if first_left else 1]

    def fits(self, study: Study) -> str:
        """Why these are no answers to this study, "" where they are."""
        if self.study != study.digest:
            return f"it answers for other pictures ({self.study[:8]}, here {study.digest[:8]})"
        mine = (self.names, self.limit)
        return "" if mine == (study.names, study.seconds) else f"it was played with names and seconds {mine}"

    def answer(self, side: Side | None, seconds: float, folder: Path | str = FOLDER) -> Played:
        """The game with one more answer, which is on disk when this returns.

        side: of the chosen picture, None for no answer in time.  seconds: taken.  Raises OSError where it cannot be written.
        """
        pair, left = self.upcoming
        right = self.names[1 - self.names.index(left)]
        choice = None if side is None else {"left": left, "right": right}[side]
        more = replace(self, answers=(*self.answers, Answer(pair, left, choice, round(seconds, 2))))
        content = json.dumps({"format": FORMAT, **asdict(more)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        write_atomic(Path(folder) / self.file, content.encode())
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

    seed: of the order and the sides; drawn if None, as it should be in a class. A half-played game must have this seed.
    fresh: a new one in any case.  Raises ValueError for a seed that is no whole number from 0.
    """
    if seed is not None and not _whole(seed, 0, 2**63):
        raise ValueError(f"seed={seed!r}; give a whole number from 0, or None")
    if not fresh:
        for path in sorted(files(folder), key=lambda p: p.stat().st_mtime, reverse=True):
            try:
                game = read(path)
            except ValueError:
                continue  # `summary` is who speaks of it
            if not game.fits(study) and not game.over and seed in (None, game.seed):
                return game
    drawn = secrets.randbits(32) if seed is None else seed
    return Played(study.digest, study.names, len(study.pairs), study.seconds, secrets.token_hex(8), drawn)


def read(path: Path | str) -> Played:
    """One file of answers.

    Raises FileNotFoundError, or ValueError for a file that is damaged, of another format, or no game.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file; a game writes one after its first answer")
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, a game has less than {LARGEST:,}")
        content = json.loads(path.read_bytes())
        _of_this_format(content)
        del content["format"]
        answers = tuple(Answer(**a) for a in content["answers"])
        played = Played(**{**content, "names": tuple(content["names"]), "answers": answers})
        _sound(played)
        return played
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} holds no answers that can be read here: {_reason(error)}") from None


def files(folder: Path | str) -> list[Path]:
    """Every file in a folder that may hold answers, in the order of the names."""
    return [path for path in reading.visible(folder, "*.json") if path.is_file()]


def _of_this_format(content: Any) -> None:
    if not isinstance(content, dict) or "format" not in content:
        raise ValueError("it names no format")
    if content["format"] != FORMAT:
        raise ValueError(f"it has the format {content['format']!r:.40}, this privlab reads {FORMAT}")


def _sound(game: Played) -> None:
    """Raises ValueError where a file cannot have come from a game: an edited or broken one."""
    if not (all(isinstance(x, str) and x for x in (game.study, game.player)) and _two_names(game.names)):
        raise ValueError("study, player or names are out of form")
    if not (_whole(game.pairs, 1, 100_000) and _whole(game.limit, 1, 3600) and _whole(game.seed, 0, 2**63)):
        raise ValueError("pairs, limit or seed are out of range")
    if len(game.answers) > game.pairs:
        raise ValueError(f"it has {len(game.answers)} answers to {game.pairs} pairs")
    drawn = schedule(game.seed, game.pairs)
    for number, (answer, (pair, first_left)) in enumerate(zip(game.answers, drawn, strict=False), 1):
        if (answer.pair, answer.left) != (pair, game.names[0 if first_left else 1]):
            raise ValueError(f"answer {number} is not to the pair, or not with the sides, that its seed gives")
        took = answer.seconds
        if isinstance(took, bool) or not isinstance(took, (int, float)) or not 0 <= took <= game.limit:
            raise ValueError(f"answer {number} took {took!r:.40} s of {game.limit}")
        if answer.choice is not None and answer.choice not in game.names:
            raise ValueError(f"answer {number} chose {answer.choice!r:.40}, which is none of {game.names}")


def _two_names(names: Any) -> bool:
    return len(names) == 2 and all(isinstance(x, str) and x.strip() for x in names) and names[0] != names[1]


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _reason(error: Exception) -> str:
    return f"no {error} in it" if isinstance(error, KeyError) else str(error).splitlines()[0][:200]
