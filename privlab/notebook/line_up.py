"""A line-up: a face that an attack found, photographs of six people, and the question who it is. Nothing is written, nothing is sent."""

from __future__ import annotations

from typing import Any

import ipywidgets
import torch
from torch import Tensor

from privlab.notebook import plots, sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.flipbook import Control
from privlab.notebook.stills import Stills, turned
from privlab.notebook.widgets import WRAP, button

PHOTOGRAPHS = 6


class LineUp(Stills):
    """Round by round a face and six photographs with a button each; at the end the score, beside that of guessing and of a judge.

    `said` holds the reader's answers, `rounds` (person, people in the line-up) of each round.
    """

    def __init__(self, found: Tensor, photographs: Tensor, judge: Tensor | None, rounds: int, seed: int) -> None:
        self.found, self.photographs, self.judge = found, photographs, judge
        draw = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(found), generator=draw)[:rounds].tolist()
        self.rounds = [(person, _line(person, len(found), draw)) for person in order]
        self.said: list[int] = []
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        self.buttons = [self._button(place) for place in range(PHOTOGRAPHS)]
        self.again = button("Play again", "The same rounds from the beginning", self.restart)
        for each in (*self.buttons, self.again):
            each.add_class(SKIP)  # a sweep of the controls must not play: the page is to show the first round
        self.row = ipywidgets.HBox(self.buttons, layout=WRAP)
        super().__init__([self.words, self.sheet, self.row, self.again])
        self._show()

    def __repr__(self) -> str:  # what a page shows that can show no widget
        return f"A line-up of {len(self.rounds)} rounds, {PHOTOGRAPHS} photographs each; it needs a running kernel."

    @property
    def right(self) -> list[bool]:
        """Whether each answer so far was right."""
        return [who[at] == person for (person, who), at in zip(self.rounds, self.said, strict=False)]

    def answer(self, place: int) -> None:
        """Say that it is the photograph in this place, 0 to 5. Nothing once all rounds are played."""
        if len(self.said) < len(self.rounds):
            self.said.append(place)
            self._show()

    def restart(self) -> None:
        """Forget all answers."""
        self.said = []
        self._show()

    # -- what is to be seen --------------------------------------------------------------------------------------------

    def _button(self, place: int) -> ipywidgets.Button:
        look = {"width": "3.5em"}
        return button(str(place + 1), f"It is photograph {place + 1}", lambda: self.answer(place), **look)

    def _show(self) -> None:
        over = len(self.said) == len(self.rounds)
        self.row.layout.display = "none" if over else None
        self.again.layout.display = None if self.said else "none"
        last = ""
        if self.said:
            person, who = self.rounds[len(self.said) - 1]
            was = "Right." if self.right[-1] else f"No, it was number {who.index(person) + 1}."
            last = f"Your last answer was number {self.said[-1] + 1}. {was} "
        asked = self.score if over else f"<b>Round {len(self.said) + 1} of {len(self.rounds)}.</b> Who is it?"
        self.words.value = sheet.paragraph(last + asked, status=True)
        self.sheet.value = self._played() if over else self._asked(len(self.said))

    def stills(self) -> dict[str, Any]:
        """Round by round, with the answer folded."""
        slider = Control.counted("round", len(self.rounds))
        return turned([slider], self._asked, "Say who it is, then look it up. The notebook keeps the score.")

    def _asked(self, done: int) -> str:
        person, who = self.rounds[done]
        found = plots.face(self.found[person], f"Round {done + 1}: a face that the attack found.", sheet.SIDE)
        photographs = [
            _figure(plots.face(self.photographs[k], f"Photograph {place} of six.", sheet.SIDE), str(place))
            for place, k in enumerate(who, start=1)
        ]
        return (
            f"{_figure(found, 'found in the network')}{sheet.paragraph('Is it one of these people?')}"
            f'<div style="display:flex;flex-wrap:wrap;gap:6px;max-width:{3 * sheet.SIDE + 18}px">{"".join(photographs)}</div>'
            f"<details><summary>Look it up</summary>It is number {who.index(person) + 1}.</details>"
        )

    def _played(self) -> str:
        people = [person for person, _ in self.rounds]
        words = {"found": ["you: right" if yes else "you: wrong" for yes in self.right]}
        if self.judge is not None:
            words["photograph"] = [f"judge: {'right' if self.judge[k] else 'wrong'}" for k in people]
        rows = {"found": plots.smooth(self.found[people]), "photograph": plots.smooth(self.photographs[people])}
        alt = f"What was found of {len(people)} people, and a photograph of each. {self.score}"
        return plots.images(rows, alt, words).tag()

    @property
    def score(self) -> str:
        """The result in a sentence or two."""
        count = len(self.rounds)
        told = f"You named {sum(self.right)} of {count}. Random guessing names {count / PHOTOGRAPHS:.1f} of {count} on average."
        if self.judge is None:
            return told
        return f"{told} The judge named {int(self.judge[[k for k, _ in self.rounds]].sum())}, out of all {len(self.found)} people."


def play(found: Tensor, photographs: Tensor, judge: Tensor | None = None, rounds: int = 8, seed: int = 0) -> LineUp:
    """Ask the reader, round by round, whom a face that was found shows: one of six people.

    found, photographs: (people, channels, height, width) in [0, 1], of the same people in the same order; the photographs are never
        those that an attack has seen.
    judge: (people,) bool, whom another network recognises.  rounds: at most one a person.  seed: of the order and the places.
    Raises ValueError for shapes that differ, or fewer than six people.
    """
    if found.shape != photographs.shape or found.ndim != 4:
        raise ValueError(
            f"found has the shape {tuple(found.shape)}, photographs {tuple(photographs.shape)}; give a face and a "
            "photograph of each person, (people, channels, height, width)"
        )
    if len(found) < PHOTOGRAPHS:
        raise ValueError(f"found: {len(found)} people do not fill a line-up; give at least {PHOTOGRAPHS}")
    return LineUp(found, photographs, judge, min(rounds, len(found)), seed)


def _line(person: int, people: int, draw: torch.Generator) -> list[int]:
    """Six people, this one among them, in any order."""
    others = [k for k in torch.randperm(people, generator=draw).tolist() if k != person][: PHOTOGRAPHS - 1]
    who = [person, *others]
    return [who[k] for k in torch.randperm(PHOTOGRAPHS, generator=draw).tolist()]


def _figure(face: plots.Picture, words: str) -> str:
    return sheet.figure(face.tag(";display:block"), words)
