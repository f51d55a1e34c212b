"""A line-up: a face that an attack found, photographs of six people, and the question who it is. Nothing is written, nothing is sent."""

from __future__ import annotations

import torch
from torch import Tensor

from privlab.notebook import plots, sheet
from privlab.notebook.game import Game, Round

PHOTOGRAPHS = 6


class LineUp(Game):
    """Round by round a face and six photographs; at the end the score, beside that of guessing and of a judge."""

    def __init__(
        self, found: Tensor, photographs: Tensor, judge: Tensor | None = None, rounds: int = 8, seed: int = 0
    ) -> None:
        """found, photographs: (people, channels, height, width) in [0, 1], of the same people in the same order.

        The photographs are never those that an attack has seen.  judge: (people,) bool, whom another network recognises.
        rounds: at most one a person.  seed: of the order and the places.
        Raises ValueError for shapes that differ, or fewer than six people.
        """
        if found.shape != photographs.shape or found.ndim != 4 or len(found) < PHOTOGRAPHS:
            raise ValueError(
                f"found has the shape {tuple(found.shape)}, photographs {tuple(photographs.shape)}; give a face and a "
                f"photograph of each of at least {PHOTOGRAPHS} people, (people, channels, height, width)"
            )
        self.found, self.photographs, self.judge = found, photographs, judge
        draw = torch.Generator().manual_seed(seed)
        self.people = torch.randperm(len(found), generator=draw)[:rounds].tolist()
        asks = []
        for number, person in enumerate(self.people, 1):
            others = [k for k in torch.randperm(len(found), generator=draw).tolist() if k != person]
            who = [[person, *others][k] for k in torch.randperm(PHOTOGRAPHS, generator=draw).tolist()]
            asks.append(Round(self._asked(number, person, who), who.index(person)))
        answers = {place: f"number {place + 1}" for place in range(PHOTOGRAPHS)}
        super().__init__(asks, answers, "Who is it?")

    def _asked(self, number: int, person: int, who: list[int]) -> str:
        face = plots.face(self.found[person], f"Round {number}: a face that the attack found.", sheet.SIDE)
        photographs = [
            sheet.figure(
                plots.face(self.photographs[k], f"Photograph {place} of six.", sheet.SIDE).tag(";display:block"),
                str(place),
            )
            for place, k in enumerate(who, 1)
        ]
        return (
            f"{sheet.figure(face.tag(';display:block'), 'found in the network')}"
            f'{sheet.paragraph("Is it one of these people?")}<div style="max-width:{3 * sheet.SIDE + 18}px">'
            f"{sheet.row(photographs, gap=6)}</div>"
        )

    @property
    def score(self) -> str:
        count = len(self.people)
        told = f"You named {sum(self.right)} of {count}. Random guessing names {count / PHOTOGRAPHS:.1f} of {count} on average."
        if self.judge is None:
            return told
        return f"{told} The judge named {int(self.judge[self.people].sum())}, out of all {len(self.found)} people."

    def over(self) -> str:
        """What was found of each, and a photograph."""
        words = {"found": [f"you: {'right' if yes else 'wrong'}" for yes in self.right]}
        if self.judge is not None:
            words["photograph"] = [f"judge: {'right' if self.judge[k] else 'wrong'}" for k in self.people]
        rows = {
            "found": plots.smooth(self.found[self.people]),
            "photograph": plots.smooth(self.photographs[self.people]),
        }
        alt = f"What was found of {len(self.people)} people, and a photograph of each. {self.score}"
        return plots.images(rows, alt, words).tag()
