"""A game of membership inference: picture by picture the reader says whether the victim was trained on it, and so does an attack."""

from __future__ import annotations

import html
from collections.abc import Sequence

import torch
from torch import Tensor

from privlab.notebook import plots, sheet
from privlab.notebook.game import Game, Round
from privlab.notebook.plots.picture import COLOURS

SIDE, SMALL = 160, 100  # CSS pixels of a picture that is asked about, and of one at the end
FIRST = 3  # classes of which the victim's confidence is shown, beside the right one
WORDS = {True: "a member", False: "not a member"}


class MemberGame(Game):
    """In the first half of the rounds the reader sees the picture alone, in the second the victim's confidences, too.

    blind: how many rounds show the picture alone.  attack_right: whether the attack is right, in every round.
    """

    def __init__(
        self, pictures: Tensor, labels: Tensor, logits: Tensor, classes: Sequence[str], members: Tensor, attack: Tensor,
        rounds: int = 20, seed: int = 0,
    ) -> None:  # fmt: skip
        """pictures: (n, channels, height, width) in [0, 1].  labels: (n,), the right classes.  logits: (n, classes), the victim's answers.

        classes: their names.  members: (n,) bool, the truth.  attack: (n,) bool, what the attack says.
        rounds: at most; half of the pictures are members.  seed: of the pictures and their order.
        Raises ValueError for lengths that differ, or where there are no members, or no non-members.
        """
        if len(lengths := {len(each) for each in (pictures, labels, logits, members, attack)}) > 1:
            raise ValueError(
                f"pictures, labels, logits, members and attack have {sorted(lengths)} rows; give one for each picture"
            )
        if members.all() or not members.any():
            raise ValueError(f"members: {int(members.sum())} of {len(members)}; give members and non-members")
        self.pictures, self.chosen = pictures, _balanced(members, rounds, seed)
        self.blind = len(self.chosen) // 2
        self.truth = [bool(members[at]) for at in self.chosen]
        self.attack_right = [bool(attack[at] == members[at]) for at in self.chosen]
        sure = logits.double().softmax(1)

        def shown(number: int, at: int) -> str:
            kind = html.escape(classes[int(labels[at])])
            below = "You see the picture alone."
            if number > self.blind:
                below = f"The victim's confidences:{_confidences(sure[at], int(labels[at]), classes)}"
            picture = plots.face(pictures[at], f"Round {number}: a photograph, {kind}.", SIDE).tag(";display:block")
            return picture + sheet.paragraph(f"Its class: <b>{kind}</b>. {below}")

        told = [f"The attack said: {WORDS[bool(attack[at])]}." for at in self.chosen]
        asked = [shown(number, at) for number, at in enumerate(self.chosen, 1)]
        asks = [Round(*one) for one in zip(asked, self.truth, told, strict=True)]
        super().__init__(asks, WORDS, "Was the victim trained on it?")

    @property
    def score(self) -> str:
        half, mine, theirs = self.blind, self.right, self.attack_right
        return (
            f"You were right {sum(mine[:half])} times of {half} by the picture alone, and {sum(mine[half:])} times of "
            f"{len(theirs) - half} with the victim's answers. The attack was right {sum(theirs)} times of {len(theirs)}; you, "
            f"{sum(mine)} times. Random guessing is right {len(theirs) / 2:g} times on average."
        )

    def over(self) -> str:
        """All pictures, with the truth and who was right."""
        judged = {True: "right", False: "wrong"}
        figures = [
            sheet.figure(
                plots.face(self.pictures[at], f"Round {k}.", SMALL).tag(";display:block"),
                f"{WORDS[truth]}<br>you: {judged[mine]}<br>attack: {judged[its]}",
                f";width:{SMALL}px",
            )
            for k, (at, truth, mine, its) in enumerate(
                zip(self.chosen, self.truth, self.right, self.attack_right, strict=True), 1
            )
        ]
        parts = {"By the picture alone": figures[: self.blind], "With the victim's answers": figures[self.blind :]}
        return "".join(f"<p><b>{name}</b></p>{sheet.row(each)}" for name, each in parts.items())


def _balanced(members: Tensor, rounds: int, seed: int) -> list[int]:
    """Places of as many members as non-members, in any order."""
    draw = torch.Generator().manual_seed(seed)
    half = min(rounds // 2, int(members.sum()), int((~members).sum()))
    both = torch.cat(
        [side.nonzero()[:, 0][torch.randperm(int(side.sum()), generator=draw)[:half]] for side in (members, ~members)]
    )
    return both[torch.randperm(len(both), generator=draw)].tolist()


def _confidences(sure: Tensor, label: int, classes: Sequence[str]) -> str:
    """The victim's first classes and the right one, as bars with numbers."""
    bar = "display:inline-block;height:.8em;margin:0 .5em;vertical-align:middle"
    rows = [
        f'<br><span style="display:inline-block;width:6.5em{";font-weight:bold" * (k == label)}">{html.escape(classes[k])}'
        f'</span><span style="{bar};width:{9 * sure[k]:.2f}em;background:{COLOURS[0]}"></span>{sure[k]:.3f}'
        for k in dict.fromkeys([*sure.topk(min(FIRST, len(sure))).indices.tolist(), label])
    ]
    return "".join(rows)
