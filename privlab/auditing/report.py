"""What an audit found, and how it is read: as text, as plain data, in a notebook, and as one page of HTML."""

import os
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd
from torch import Tensor

from privlab.auditing.forms import COMPUTED, GAIN, TARGET, UP_TO, Row
from privlab.compute.files import write_atomic
from privlab.notebook import plots

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{0}</title><style>
body {{font: 16px/1.5 sans-serif; color: #1a1a1a; background: #fff; max-width: 54rem; margin: auto; padding: 1.5rem}}
table {{display: block; overflow-x: auto}} th, td {{text-align: left; padding-right: .9rem; border-bottom: 1px solid #ccc}}
</style></head><body>{1}</body></html>
"""
CLEAR = "No closed form of this book reads an image here. That is no proof that it is safe: a longer search, or other algebra, may."
FORMS = """The best that algebra makes of one image's gradient, over the images, in dB: psnr as it comes, and fitted, at its best brightness
and contrast, a factor and a shift of all pixels; and the gradients that it reads."""
UNTRIED = "No closed form reads an image, so no defence was tried. Lab 13 has noise against a search."
DEFENCES = f"""What is left. A defence holds where no picture is above {TARGET:g} dB as it comes, or {GAIN:g} dB nearer than those that
look at no gradient, each at its best. Noise is Gaussian, and the attacker knows its norm (over the gradient's). What a defence costs in
accuracy is not measured, nor what it leaves to a search. Look at the pictures: no measure sees all that an eye sees."""
SEARCH = """A lower bound, no verdict: gradient matching (`presets.annealed`) from noise on image 0, its label and all gradients known.
So few steps seldom show anything, at large sizes above all. blind: the best of pictures that look at no gradient."""
PARTS = """Share: of the squared length of image 0's gradient. Rank: the least of the part's matrices (squared length over squared largest
singular value). At 1.00 all rows are multiples of one, which is what entered there: the image, or features of it."""
LIMITS = """Not looked at: batches and several local steps, where images hide among each other; train mode; membership and attribute
inference, which need the training data (labs 01 to 03); model inversion (lab 11); longer searches and priors (labs 06, 07)."""


@dataclass(frozen=True, repr=False)
class Audit:
    """What `privlab.audit` found. It prints as text and shows itself in a notebook; rows make a pandas.DataFrame.

    solves: every form on every image: form, names of gradients that it reads, image, how they were sent, what it shows or ""; in dB, psnr
        of the picture as it comes, and fitted, at its best brightness and contrast.  why: form -> why it does not apply.
    defences: name of a noise or a withheld gradient, the highest psnr and fitted that are left or None, whether it holds.
    parts: of image 0's gradient: part, numbers, share of its squared norm, least rank of its matrices or None.
    search: for image 0, also why it ended.  pictures: what -> (images, channels, height, width) in [0, 1].
    """

    name: str
    about: str
    solves: list[Row]
    why: dict[str, str]
    defences: list[Row]
    parts: list[Row]
    search: Row
    pictures: dict[str, Tensor]

    @property
    def leaks(self) -> list[Row]:
        """The closed forms, image by image, that show something of it as the gradients were computed."""
        return [solve for solve in self.solves if solve["how"] == COMPUTED and solve["shows"]]

    def json(self) -> Row:
        """All but the pictures as plain data."""
        return {name: value for name, value in vars(self).items() if name != "pictures"}

    def text(self) -> str:
        """The report in lines for a terminal."""
        lines = []
        for title, words, table in self._sections():
            lines += ["", title, *textwrap.wrap(words, 110)]
            lines += [] if table.empty else ["", *table.to_string(index=False, justify="left").splitlines()]
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
            lines += [] if table.empty else [table.to_html(index=False, border=0)]
        return "\n".join(lines)

    def _sections(self) -> Iterator[tuple[str, str, pd.DataFrame]]:
        """Title, words, table."""
        yield f"What a gradient of {self.name} gives away", self._headline(), pd.DataFrame()
        best = {s["form"]: s for s in sorted(self.solves, key=_worth) if s["how"] == COMPUTED}  # on any image
        why = [f"{form} does not apply: {reason}." for form, reason in self.why.items()]
        rows = [{**s, "shows": s["shows"] or "nothing", "names": ", ".join(s["names"])} for s in best.values()]
        yield "Closed forms", " ".join([FORMS, *why]), _table(rows, "form", "shows", "psnr", "fitted", "names")
        table = _table(self.defences, "name", "psnr", "fitted", "holds")
        yield "What would stop them", UNTRIED if table.empty else DEFENCES, table
        yield "A short search", SEARCH, _table([self.search], "steps", "psnr", "fitted", "blind", "ended")
        yield "Which parts speak", PARTS, pd.DataFrame(self.parts).round(3).fillna("")
        yield "What was looked at, and what was not", f"{self.about}. {LIMITS}", pd.DataFrame()

    def _headline(self) -> str:
        """The first thing to know."""
        if not self.leaks:
            return CLEAR
        best, read = max(self.leaks, key=_worth), {solve["image"] for solve in self.leaks}
        return (
            f"Without a search, an attacker reads {len(read)} of {len(self.pictures['the images'])} images, each from its own gradient. "
            "The clearest is {shows}, at {psnr:.1f} dB as it comes and {fitted:.1f} dB at its best brightness and contrast; 30 look clean."
        ).format(**best)


def _worth(solve: Row) -> tuple[bool, bool, float]:
    return bool(solve["shows"]), solve["shows"] != UP_TO, solve["fitted"]


def _table(rows: list[Row], *columns: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*columns]).round(1).astype(object).fillna("none")
