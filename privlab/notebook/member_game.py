"""A game of membership inference: picture by picture the reader says whether the victim was trained on it, and so does an attack."""

from __future__ import annotations

import html
from collections.abc import Sequence

import torch
from torch import Tensor

from privlab.notebook import plots, sheet
from privlab.notebook.plots.picture import COLOURS
from privlab.notebook.rounds import Rounds

SIDE, SMALL = 160, 100  # CSS pixels of a picture that is asked about, and of one at the end
FIRST = 3  # classes of which the victim's confidence is shown, beside the right one
WORDS = {True: "a member", False: "not a member"}


class MemberGame(Rounds):
    """In the first half of the rounds the reader sees the picture alone, in the second the victim's confidences, too.

    `said` holds the reader's answers, True for member; `rounds` the places of the pictures, as many members as non-members.
    """

    question = "Was the victim trained on it?"
    note = "Was the victim trained on it? Say it, then look it up. The notebook keeps the score."

    def __init__(
        self, pictures: Tensor, labels: Tensor, logits: Tensor, classes: Sequence[str], members: Tensor, attack: Tensor,
        rounds: int, seed: int,
    ) -> None:  # fmt: skip
        self.pictures, self.labels, self.classes = pictures, labels, classes
        self.confidences = logits.double().softmax(1)
        self.members, self.attack = members, attack
        tips = {True: "The victim was trained on it", False: "The victim was not trained on it"}
        answers = {says: (WORDS[says].capitalize(), tip) for says, tip in tips.items()}
        super().__init__(_rounds(members, rounds, seed), answers, "The same pictures from the beginning")

    def __repr__(self) -> str:  # what a page shows that can show no widget
        return f"Member or not, in {len(self.rounds)} rounds; it needs a running kernel."

    @property
    def blind(self) -> int:
        """How many rounds show the picture alone; they come first."""
        return len(self.rounds) // 2

    @property
    def right(self) -> list[bool]:
        return [says == bool(self.members[at]) for says, at in zip(self.said, self.rounds, strict=False)]

    @property
    def attack_right(self) -> list[bool]:
        """Whether the attack is right, in every round."""
        return [bool(self.attack[at] == self.members[at]) for at in self.rounds]

    def _told(self) -> str:
        at = self.rounds[len(self.said) - 1]
        return (
            f"You said: {WORDS[self.said[-1]]}. {'Right' if self.right[-1] else 'Wrong'}. "
            f"The attack said: {WORDS[bool(self.attack[at])]}. "
        )

    def _asked(self, done: int) -> str:
        at, number = self.rounds[done], done + 1
        kind = html.escape(self.classes[int(self.labels[at])])
        picture = plots.face(self.pictures[at], f"Round {number}: a photograph, {kind}.", SIDE).tag(";display:block")
        below = (
            "You see the picture alone."
            if number <= self.blind
            else f"The victim's confidences:{self._confidences(at)}"
        )
        truth, call = (WORDS[bool(each[at])] for each in (self.members, self.attack))
        look = f"<details><summary>Look it up</summary>It is {truth}. The attack says: {call}.</details>"
        return picture + sheet.paragraph(f"Its class: <b>{kind}</b>. {below}") + look

    def _confidences(self, at: int) -> str:
        """The victim's first classes and the right one, as bars with numbers."""
        sure, label = self.confidences[at], int(self.labels[at])
        shown = dict.fromkeys([*sure.topk(min(FIRST, len(sure))).indices.tolist(), label])
        bar = "display:inline-block;height:.8em;margin:0 .5em;vertical-align:middle"
        rows = [
            f'<span style="display:inline-block;width:6.5em{";font-weight:bold" * (k == label)}">{html.escape(self.classes[k])}'
            f'</span><span style="{bar};width:{9 * sure[k]:.2f}em;background:{COLOURS[0]}"></span>{sure[k]:.3f}'
            for k in shown
        ]
        return "".join(f"<br>{row}" for row in rows)

    def _played(self) -> str:
        """All pictures, with the truth and who was right."""
        figures = [
            sheet.figure(
                plots.face(self.pictures[at], f"Round {k}.", SMALL).tag(";display:block"),
                f"{WORDS[bool(self.members[at])]}<br>you: {_judged(mine)}<br>attack: {_judged(its)}",
                f";width:{SMALL}px",
            )
            for k, (at, mine, its) in enumerate(zip(self.rounds, self.right, self.attack_right, strict=True), 1)
        ]
        parts = {"By the picture alone": figures[: self.blind], "With the victim's answers": figures[self.blind :]}
        rows = "display:flex;flex-wrap:wrap;gap:8px;max-width:45em;line-height:1.35"
        return "".join(f'<p><b>{name}</b></p><div style="{rows}">{"".join(each)}</div>' for name, each in parts.items())

    @property
    def score(self) -> str:
        half, rest = self.blind, len(self.rounds) - self.blind
        mine, theirs = self.right, self.attack_right
        return (
            f"You were right {sum(mine[:half])} times of {half} by the picture alone, and {sum(mine[half:])} times of {rest} "
            f"with the victim's answers. The attack was right {sum(theirs)} times of {len(theirs)}; you, {sum(mine)} times. "
            f"Random guessing is right {len(theirs) / 2:g} times on average."
        )


def play(
    pictures: Tensor, labels: Tensor, logits: Tensor, classes: Sequence[str], members: Tensor, attack: Tensor,
    rounds: int = 20, seed: int = 0,
) -> MemberGame:  # fmt: skip
    """Ask the reader, picture by picture, whether the victim was trained on it, and score an attack on the same pictures.

    pictures: (n, channels, height, width) in [0, 1].  labels: (n,), the right classes.  logits: (n, classes), the victim's answers.
    classes: their names.  members: (n,) bool, the truth.  attack: (n,) bool, what the attack says.
    rounds: at most; half of the pictures are members.  seed: of the pictures and their order.
    Raises ValueError for lengths that differ, fewer than two rounds, or where there are no members, or no non-members.
    """
    lengths = {len(each) for each in (pictures, labels, logits, members, attack)}
    if len(lengths) > 1:
        raise ValueError(
            f"pictures, labels, logits, members and attack have {sorted(lengths)} rows; give one for each picture"
        )
    if members.all() or not members.any():
        raise ValueError(f"members: {int(members.sum())} of {len(members)}; give members and non-members")
    if rounds < 2:
        raise ValueError(f"rounds={rounds}: give at least 2, for a member and a non-member")
    return MemberGame(pictures, labels, logits, classes, members, attack, rounds, seed)


def _rounds(members: Tensor, rounds: int, seed: int) -> list[int]:
    """Places of as many members as non-members, in any order."""
    draw = torch.Generator().manual_seed(seed)
    each = min(rounds // 2, int(members.sum()), int((~members).sum()))
    drawn = [
        side.nonzero()[:, 0][torch.randperm(int(side.sum()), generator=draw)[:each]] for side in (members, ~members)
    ]
    both = torch.cat(drawn)
    return both[torch.randperm(len(both), generator=draw)].tolist()


def _judged(right: bool) -> str:
    return "right" if right else "wrong"
