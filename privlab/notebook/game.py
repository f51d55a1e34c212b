"""A game in rounds: what is shown, buttons to answer with, and the score at the end; on a page, the rounds with their answers folded."""

import html
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import ipywidgets

from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Control, Live, button, turned


@dataclass(frozen=True)
class Round:
    """shown: HTML of the question.  right: which answer is.  told: HTML that is said of it afterwards."""

    shown: str
    right: Hashable
    told: str = ""


class Game(Live):
    """Round by round; a kind of game may tell its own `score`, and what is shown when all is `over`.  said: the answers so far."""

    def __init__(self, rounds: Sequence[Round], answers: Mapping[Any, str], ask: str) -> None:
        """answers: each that can be given -> its words.  ask: the question of every round."""
        self.rounds, self.answers, self.ask, self.said = list(rounds), dict(answers), ask, list[Hashable]()
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        buttons = [button(word, ask, partial(self.answer, says), width="auto") for says, word in answers.items()]
        self.again = button("Play again", "The same rounds from the beginning", self.restart)
        for each in (*buttons, self.again):
            each.add_class(SKIP)  # a sweep of the controls must not play: the page is to show the first round
        self.row = ipywidgets.HBox(buttons, layout=WRAP)
        super().__init__([self.words, self.sheet, self.row, self.again])
        self._show()

    @property
    def right(self) -> list[bool]:
        """Whether each answer so far was right."""
        return [said == one.right for said, one in zip(self.said, self.rounds, strict=False)]

    @property
    def played(self) -> bool:
        """Whether all rounds are."""
        return len(self.said) == len(self.rounds)

    @property
    def score(self) -> str:
        """The result in a few sentences, as HTML."""
        return f"You were right {sum(self.right)} times of {len(self.rounds)}."

    def over(self) -> str:
        """HTML of what is shown when all rounds are played."""
        return "".join(one.shown for one in self.rounds)

    def answer(self, says: Hashable) -> None:
        """Answer this round.  Nothing once all rounds are played."""
        if not self.played:
            self.said.append(says)
            self._show()

    def restart(self) -> None:
        """Forget all answers."""
        self.said = []
        self._show()

    def page(self, seconds: float, room: int) -> str:
        """Round by round, with the answer folded."""
        folded = [
            f"{one.shown}<details><summary>{self.ask} Look it up</summary>{html.escape(self.answers[one.right])}. {one.told}</details>"
            for one in self.rounds
        ]
        note = "Answer, then look it up. The notebook keeps the score."
        slider = Control("round", tuple(f"{n} of {len(folded)}" for n, _ in enumerate(folded, 1)))
        return turned([slider], lambda at: folded[at], note)

    def _show(self) -> None:
        self.row.layout.display = "none" if self.played else None
        self.again.layout.display = None if self.said else "none"
        words = self.score if self.played else f"<b>Round {len(self.said) + 1} of {len(self.rounds)}.</b> {self.ask}"
        if self.said:
            last, said, right = self.rounds[len(self.said) - 1], self.answers[self.said[-1]], self.right[-1]
            verdict = "Right." if right else f"No: {html.escape(self.answers[last.right])}."
            words = f"You said: {html.escape(said)}. {verdict} {last.told} {words}"
        self.words.value = sheet.paragraph(words, status=True)
        self.sheet.value = self.over() if self.played else self.rounds[len(self.said)].shown
