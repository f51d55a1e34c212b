"""A line-up: a face that an attack found, photographs of six people, and the question who it is. Nothing is written, nothing is sent."""

import torch
from torch import Tensor

from privlab.notebook import plots, sheet
from privlab.notebook.game import Game, Round

ROUNDS, PHOTOGRAPHS = 8, 6
ANSWERS = {place: f"number {place + 1}" for place in range(PHOTOGRAPHS)}


class LineUp(Game):
    """Round by round a face and six photographs; at the end the score, beside that of guessing and of a judge."""

    def __init__(self, found: Tensor, photographs: Tensor, judge: Tensor, seed: int = 0) -> None:
        """found, photographs: (people, channels, height, width) in [0, 1], of the same people in the same order.

        The photographs are never those that an attack has seen.  judge: (people,) bool, whom another network recognises.
        seed: of the order and the places.
        """
        self.found, self.photographs, self.judge = found, photographs, judge
        draw = torch.Generator().manual_seed(seed)
        self.people = torch.randperm(len(found), generator=draw)[:ROUNDS].tolist()
        rounds = []
        for person in self.people:
            others = [k for k in torch.randperm(len(found), generator=draw).tolist() if k != person]
            who = [[person, *others][k] for k in torch.randperm(PHOTOGRAPHS, generator=draw).tolist()]
            face = sheet.named(found[person][None], "found in the network")
            six = sheet.row(sheet.named(photographs[k][None], ANSWERS[place]) for place, k in enumerate(who))
            asked = sheet.paragraph("Is it one of these people?")
            shown = f'{face}{asked}<div style="max-width:{3 * sheet.SIDE + 18}px">{six}</div>'
            rounds.append(Round(shown, who.index(person)))
        super().__init__(rounds, ANSWERS, "Who is it?")

    @property
    def score(self) -> str:
        count = len(self.people)
        return (
            f"You named {sum(self.right)} of {count}. Random guessing names {count / PHOTOGRAPHS:.1f} of {count} on average. "
            f"The judge named {int(self.judge[self.people].sum())}, out of all {len(self.found)} people."
        )

    def over(self) -> str:
        """What was found of each, and a photograph."""
        faces = {"found": self.found, "photograph": self.photographs}
        words = {
            "found": [f"you: {'right' if yes else 'wrong'}" for yes in self.right],
            "photograph": [f"judge: {'right' if yes else 'wrong'}" for yes in self.judge[self.people]],
        }
        alt = f"What was found of {len(self.people)} people, and a photograph of each. {self.score}"
        return plots.images({row: of[self.people] for row, of in faces.items()}, alt, words, smooth=True).html
