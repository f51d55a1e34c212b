"""The frame of a game that is played in rounds: a question, a button for each answer, and at the end the score."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import ipywidgets

from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button
from privlab.notebook.pages import Control, turned


class Rounds(Live):
    """A game round by round.  A kind of game gives `question`, `note`, `right`, `score`, `_asked`, `_told` and `_played`.

    rounds: what each round is about.  said: the reader's answers so far.
    """

    question: str
    note: str  # what a page without a kernel says below the rounds

    def __init__(self, rounds: list[Any], answers: Mapping[Any, tuple[str, str]], again: str, **look: str) -> None:
        """answers: what a button says -> its name and tip.  again: the tip of the button that begins anew.  look: of the buttons."""
        self.rounds, self.said = rounds, list[Any]()
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        self.buttons = {a: button(*named, partial(self.answer, a), **look) for a, named in answers.items()}
        self.again = button("Play again", again, self.restart)
        for each in (*self.buttons.values(), self.again):
            each.add_class(SKIP)  # a sweep of the controls must not play: the page is to show the first round
        self.row = ipywidgets.HBox([*self.buttons.values()], layout=WRAP)
        super().__init__([self.words, self.sheet, self.row, self.again])
        self._show()

    def answer(self, says: Any) -> None:
        """Answer this round.  Nothing once all rounds are played."""
        if len(self.said) < len(self.rounds):
            self.said.append(says)
            self._show()

    def restart(self) -> None:
        """Forget all answers."""
        self.said = []
        self._show()

    def page(self, seconds: float, room: int) -> str:
        """Round by round, with the answer folded."""
        return turned([Control.counted("round", len(self.rounds))], self._asked, self.note)

    @property
    def right(self) -> list[bool]:
        """Whether each answer so far was right."""
        raise NotImplementedError

    @property
    def score(self) -> str:
        """The result in a few sentences."""
        raise NotImplementedError

    def _show(self) -> None:
        over, done = len(self.said) == len(self.rounds), len(self.said)
        self.row.layout.display = "none" if over else None
        self.again.layout.display = None if self.said else "none"
        asked = self.score if over else f"<b>Round {done + 1} of {len(self.rounds)}.</b> {self.question}"
        self.words.value = sheet.paragraph((self._told() if self.said else "") + asked, status=True)
        self.sheet.value = self._played() if over else self._asked(done)

    def _asked(self, done: int) -> str:
        """What a round shows."""
        raise NotImplementedError

    def _told(self) -> str:
        """What became of the last answer."""
        raise NotImplementedError

    def _played(self) -> str:
        """What is shown when all is over."""
        raise NotImplementedError
