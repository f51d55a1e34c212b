"""A line-up: a face that an attack found, photographs of six people, and the question who it is. Nothing is written, nothing is sent."""

from __future__ import annotations

import torch
from torch import Tensor

from privlab.notebook import plots, sheet
from privlab.notebook.rounds import Rounds

PHOTOGRAPHS = 6


class LineUp(Rounds):
    """Round by round a face and six photographs with a button each; at the end the score, beside that of guessing and of a judge.

    `said` holds the reader's answers, places 0 to 5; `rounds` (person, people in the line-up) of each round.
    """

    question = "Who is it?"
    note = "Say who it is, then look it up. The notebook keeps the score."

    def __init__(self, found: Tensor, photographs: Tensor, judge: Tensor | None, rounds: int, seed: int) -> None:
        self.found, self.photographs, self.judge = found, photographs, judge
        draw = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(found), generator=draw)[:rounds].tolist()
        answers = {place: (str(place + 1), f"It is photograph {place + 1}") for place in range(PHOTOGRAPHS)}
        lines = [(person, _line(person, len(found), draw)) for person in order]
        super().__init__(lines, answers, "The same rounds from the beginning", width="3.5em")

    def __repr__(self) -> str:  # what a page shows that can show no widget
        return f"A line-up of {len(self.rounds)} rounds, {PHOTOGRAPHS} photographs each; it needs a running kernel."

    @property
    def right(self) -> list[bool]:
        return [who[at] == person for (person, who), at in zip(self.rounds, self.said, strict=False)]

    def _told(self) -> str:
        person, who = self.rounds[len(self.said) - 1]
        was = "Right." if self.right[-1] else f"No, it was number {who.index(person) + 1}."
        return f"Your last answer was number {self.said[-1] + 1}. {was} "

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
