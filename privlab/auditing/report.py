"""What an audit found, and how it is read: as text, as plain data, in a notebook, and as one page of HTML."""

from __future__ import annotations

import dataclasses
import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from torch import Tensor

from privlab.auditing.forms import COMPUTED, Defence, Solve
from privlab.auditing.judge import GAIN, TARGET, UP_TO
from privlab.compute.atomic import write_atomic
from privlab.notebook import plots

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{0}</title><style>
body {{font: 16px/1.5 sans-serif; color: #1a1a1a; background: #fff; max-width: 54rem; margin: auto; padding: 1.5rem}}
table {{border-collapse: collapse; display: block; overflow-x: auto}}
th, td {{text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #ccc; vertical-align: top}}
</style></head><body>{1}</body></html>
"""
CLEAR = """No closed form of this book reads an image from one image's gradient of this model. That is no proof that it is safe: a longer
search, or algebra that we do not know, may."""
FORMS = """The best that algebra makes of one image's gradient, over the images: its PSNR as it comes, and with its best brightness and
contrast, a factor and a shift of all pixels."""
UNTRIED = "No closed form reads an image, so no defence was tried. Lab 13 has noise against a search."
DEFENCES = f"""A defence holds where no picture is above {TARGET:g} dB as it comes, or {GAIN:g} dB nearer than those that look at no
gradient, each at its best brightness and contrast. Noise is Gaussian, and the attacker knows its norm (over the gradient's). What a defence
costs in accuracy is not measured, nor what it leaves to a search. Look at the pictures: no measure sees all that an eye sees."""
SEARCH = """A lower bound, no verdict: gradient matching (`presets.annealed`) from noise on image 0, its label and all gradients known.
So few steps seldom show anything, at large sizes above all."""
PARTS = """Share: of the squared length of image 0's gradient. Rank: the least of the part's matrices (squared length over squared largest
singular value). At 1.00 all rows are multiples of one, which is what entered there: the image, or features of it."""
LIMITS = """Not looked at: batches and several local steps, where images hide among each other; train mode; membership and attribute
inference, which need the training data (labs 01 to 03); model inversion (lab 11); longer searches and priors (labs 06, 07)."""


class Part(NamedTuple):
    """One part of image 0's gradient.  share: of its squared norm.  rank: the least |G|^2 / s^2 of its matrices, s the largest singular
    value of G; None where it has no matrix."""

    name: str
    numbers: int
    share: float
    rank: float | None


class Search(NamedTuple):
    """A search for image 0.  ended: why; "steps" where all were taken.  psnr, fitted: of what it found, in dB, see `judge.Look`.

    blind: the best fitted of pictures that look at no gradient.
    """

    steps: int
    ended: str
    psnr: float
    fitted: float
    blind: float


@dataclass(frozen=True, repr=False)
class Audit:
    """What `privlab.audit` found. It prints as text and shows itself in a notebook.

    name, about: of the model, in words.  solves: every closed form on every image.  why: form -> why it does not apply.
    defences: none where nothing leaks.  pictures: what -> (images, channels, height, width) in [0, 1].
    """

    name: str
    about: str
    solves: tuple[Solve, ...]
    why: dict[str, str]
    defences: tuple[Defence, ...]
    parts: tuple[Part, ...]
    search: Search
    pictures: dict[str, Tensor]

    @property
    def leaks(self) -> list[Solve]:
        """The closed forms, image by image, that show something of it as the gradients were computed."""
        return [solve for solve in self.solves if solve.how == COMPUTED and solve.shows]

    def json(self) -> dict[str, Any]:
        """All but the pictures as plain data."""
        return dataclasses.asdict(dataclasses.replace(self, pictures={}))

    def text(self) -> str:
        """The report in lines for a terminal."""
        lines = []
        for title, words, table in self._sections():
            lines += ["", title, *textwrap.wrap(words, 110)]
            lines += [] if table is None else ["", *table.to_string(index=False, justify="left").splitlines()]
        return "\n".join(lines[1:])

    def page(self, path: str | os.PathLike[str]) -> Path:
        """Write the report with its pictures as one HTML file, which refers to no other; returns its path."""
        write_atomic(path := Path(path), PAGE.format(escape(self.name), self._repr_html_()).encode())
        return path

    __repr__ = text

    def _repr_html_(self) -> str:
        (title, words, _), *sections = self._sections()
        lines = [f"<h1>{escape(title)}</h1><p>{escape(words)}</p>"]
        if self.pictures["the images"].shape[1] in (1, 3):
            some = {what: batch[:4] for what, batch in self.pictures.items()}
            lines.append(plots.images(some, f"Rows of pictures: {', '.join(some)}.").html)
        for title, words, table in sections:
            lines.append(f"<h2>{escape(title)}</h2><p>{escape(words)}</p>")
            lines += [] if table is None else [table.to_html(index=False, border=0)]
        return "\n".join(lines)

    def _sections(self) -> Iterator[tuple[str, str, pd.DataFrame | None]]:
        """Title, words, table."""
        yield f"What a gradient of {self.name} gives away", headline(self), None
        best: dict[str, Solve] = {}  # form -> its best on any image
        for solve in sorted((s for s in self.solves if s.how == COMPUTED), key=_worth):
            best[solve.form] = solve
        rows = [
            (form, s.shows or "nothing", _dB(s.psnr), _dB(s.fitted), ", ".join(s.names)) for form, s in best.items()
        ]
        table = pd.DataFrame(
            rows, columns=["closed form", "shows", "as it comes", "at its best", "reads the gradients of"]
        )
        why = [f"{form} does not apply: {reason}." for form, reason in self.why.items()]
        yield "Closed forms", " ".join([FORMS, *why]), table if rows else None
        left = [
            (", ".join(d.withheld) or d.name, _dB(d.psnr), _dB(d.fitted), "yes" if d.holds else "no")
            for d in self.defences
        ]
        table = pd.DataFrame(left, columns=["noise, or withheld", "left as it comes", "at its best", "holds"])
        yield "What would stop them", DEFENCES if left else UNTRIED, table if left else None
        s = self.search
        found = [(f"{s.steps} steps", _dB(s.psnr), _dB(s.fitted), s.ended), ("no gradient", "", _dB(s.blind), "")]
        yield (
            "A short search",
            SEARCH,
            pd.DataFrame(found, columns=["picture", "as it comes", "at its best", "ended by"]),
        )
        parts = pd.DataFrame([part._asdict() for part in self.parts]).round(3).fillna("")
        yield "Which parts speak", PARTS, parts
        yield "What was looked at, and what was not", f"{self.about}. {LIMITS}", None


def headline(audit: Audit) -> str:
    """The first thing to know of an audit."""
    if not audit.leaks:
        return CLEAR
    best, read, images = max(audit.leaks, key=_worth), {s.image for s in audit.leaks}, audit.pictures["the images"]
    return (
        f"Without a search, an attacker reads {len(read)} of {len(images)} images, each from its own gradient. The clearest is "
        f"{best.shows}, at {_dB(best.psnr)} as it comes and {_dB(best.fitted)} with its best brightness and contrast; 30 look clean."
    )


def _worth(solve: Solve) -> tuple[bool, bool, float]:
    return bool(solve.shows), solve.shows != UP_TO, solve.fitted


def _dB(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f} dB"
