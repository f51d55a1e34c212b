"""A game of membership inference: picture by picture the reader says whether the victim was trained on it, and so does an attack."""

import html
from collections.abc import Sequence

import torch
from torch import Tensor

from privlab.notebook import sheet
from privlab.notebook.game import Game, Round

ROUNDS, FIRST = 20, 3  # at most; and classes of which the victim's confidence is shown, beside the right one
WORDS, JUDGED = {True: "a member", False: "not a member"}, {True: "right", False: "wrong"}


class MemberGame(Game):
    """In the first half of the rounds the reader sees the picture alone, in the second the victim's confidences, too.

    blind: how many rounds show the picture alone.  attack_right: whether the attack is right, in every round.
    """

    def __init__(
        self, pictures: Tensor, labels: Tensor, logits: Tensor, classes: Sequence[str], members: Tensor, attack: Tensor, seed: int = 0
    ) -> None:  # fmt: skip
        """pictures: (n, channels, height, width) in [0, 1].  labels: (n,).  logits: (n, classes), the victim's.  classes: their names.

        members, attack: (n,) bool, the truth, and what the attack says; as many members are shown as others.  seed: of choice and order.
        """
        draw = torch.Generator().manual_seed(seed)
        sides = [side.nonzero()[:, 0] for side in (members, ~members)]
        half = min(ROUNDS // 2, *map(len, sides))
        both = torch.cat([side[torch.randperm(len(side), generator=draw)[:half]] for side in sides])
        self.chosen = both[torch.randperm(2 * half, generator=draw)].tolist()
        self.pictures, self.blind, rounds = pictures, half, []
        self.attack_right = (attack == members)[self.chosen].tolist()
        for number, at in enumerate(self.chosen, 1):
            label = int(labels[at])
            below = "You see the picture alone."
            if number > half:
                below = f"The victim's confidences:{_bars(logits[at].double().softmax(0), label, classes)}"
            picture = sheet.picture(pictures[at][None], f"Round {number}: a photograph, {classes[label]}.", 160)
            words = sheet.paragraph(f"Its class: <b>{html.escape(classes[label])}</b>. {below}")
            told = f"The attack said: {WORDS[bool(attack[at])]}."
            rounds.append(Round(picture + words, bool(members[at]), told))
        super().__init__(rounds, WORDS, "Was the victim trained on it?")

    @property
    def score(self) -> str:
        half, mine, theirs = self.blind, self.right, self.attack_right
        return (
            f"You were right {sum(mine[:half])} times of {half} by the picture alone, and {sum(mine[half:])} times of {half} "
            f"with the victim's answers. The attack was right {sum(theirs)} times of {2 * half}; you, {sum(mine)} times. "
            f"Random guessing is right {half} times on average."
        )

    def over(self) -> str:
        """All pictures, with the truth and who was right."""
        figures = []
        for at, one, mine, its in zip(self.chosen, self.rounds, self.right, self.attack_right, strict=True):
            words = f"{self.answers[one.right]}; you: {JUDGED[mine]}; attack: {JUDGED[its]}"
            figures.append(sheet.named(self.pictures[at][None], words))
        alone, informed = sheet.row(figures[: self.blind]), sheet.row(figures[self.blind :])
        return f"<p><b>By the picture alone</b></p>{alone}<p><b>With the victim's answers</b></p>{informed}"


def _bars(confidences: Tensor, label: int, classes: Sequence[str]) -> str:
    """The victim's first classes and the right one, which is bold, as bars with numbers."""
    shown = dict.fromkeys([*confidences.topk(FIRST).indices.tolist(), label])
    names = {k: f"<b>{html.escape(classes[k])}</b>" if k == label else html.escape(classes[k]) for k in shown}
    return "".join(
        f'<br><label><meter value="{confidences[k]:.3f}" style="width:9em"></meter> {confidences[k]:.3f} {name}</label>'
        for k, name in names.items()
    )
