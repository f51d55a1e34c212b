"""Red team and blue team: Blue sets the defence of a gradient, Red picks the attack on it; two players, or one against the machine."""

from __future__ import annotations

import html
from collections.abc import Mapping

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button
from privlab.notebook.pages import Control, turned

TWO, BLUE, RED = "two players", "you are Blue", "you are Red"
MOST = 20.0  # dB above the baseline that count: more shows no more of the photograph


class Duel(Live):
    """Each round Blue takes a defence that was not taken yet, and Red answers with an attack; two players, or one against the machine.

    `played` holds (defence, attack) of each round, `gain` and `loss` say what Red recovers, and what Blue loses in all.
    """

    def __init__(
        self, photograph: Tensor, baseline: Tensor, board: Mapping[str, Mapping[str, Tensor]], costs: Mapping[str, float], rounds: int = 4
    ) -> None:  # fmt: skip
        """photograph: the client's, (1, channels, height, width) in [0, 1].  baseline: made without the gradient, of the same shape.

        board: defence -> attack -> what it recovers, of the same shape.  costs: defence -> points of accuracy that it costs.
        rounds: at most as many as there are defences.
        Raises ValueError for an empty board, or a defence without all attacks or without a cost.
        """
        attacks = [*next(iter(board.values()), {})]
        for name, row in board.items():
            if not attacks or [*row] != attacks or name not in costs:
                raise ValueError(f"board: {name!r} has {[*row]}; give it the attacks {attacks} and one of the costs")
        if not board:
            raise ValueError("board is empty; give a defence with an attack, or several")
        rounds = min(rounds, len(board))
        self.photograph, self.board, self.costs, self.rounds = photograph.cpu(), board, costs, rounds
        self.floor = metrics.psnr(baseline.cpu(), self.photograph).item()
        self.psnr = {
            (defence, attack): metrics.psnr(image.cpu(), self.photograph).item()
            for defence, row in board.items()
            for attack, image in row.items()
        }
        self.attacks = attacks
        self.played, self.sent = list[tuple[str, str]](), ""
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        label = {"description_width": "5em"}
        self.mode = ipywidgets.ToggleButtons(options=(TWO, BLUE, RED), description="players", style=label)
        self.defence = ipywidgets.Dropdown(
            description="Blue", style=label, layout={"width": "30em", "max_width": "96%"}
        )
        self.send = button("Send the gradient", "Blue's defence is set", lambda: self.defend(self.defence.value))
        self.picks = {
            name: button(name, f"Red attacks: {name}", lambda name=name: self.attack(name), width="auto")  # type: ignore[misc]
            for name in self.attacks
        }
        self.again = button("Play again", "From the first round on", self.restart)
        for each in (self.mode, self.defence, self.send, *self.picks.values(), self.again):
            each.add_class(SKIP)  # a sweep of the controls must not play: the page is to show the first round
        self.mode.observe(lambda _: self.restart(), "value")
        self.blue = ipywidgets.HBox([self.defence, self.send], layout=WRAP)
        self.red = ipywidgets.HBox([ipywidgets.Label("Red:"), *self.picks.values()], layout=WRAP)
        super().__init__([self.mode, self.words, self.blue, self.red, self.sheet, self.again])
        self.restart()

    def __repr__(self) -> str:
        return f"Red team and blue team, {len(self.board)} defences and {len(self.attacks)} attacks; it needs a running kernel."

    # -- the rules -----------------------------------------------------------------------------------------------------

    def gain(self, defence: str, attack: str) -> float:
        """What the attack recovers beyond the baseline, in dB, from 0 to 20."""
        return min(MOST, max(0.0, self.psnr[defence, attack] - self.floor))

    def loss(self, defence: str, attack: str) -> float:
        """What the round costs Blue: that, and the points of accuracy."""
        return self.gain(defence, attack) + self.costs[defence]

    def best(self, defence: str) -> str:
        """Red's best attack on a defence."""
        return max(self.attacks, key=lambda attack: self.psnr[defence, attack])

    def worst(self, defence: str) -> float:
        """What a defence costs Blue if Red plays the best attack."""
        return self.loss(defence, self.best(defence))

    @property
    def left(self) -> list[str]:
        """Defences that were not taken yet."""
        return [name for name in self.board if name not in {defence for defence, _ in self.played}]

    @property
    def over(self) -> bool:
        return len(self.played) == self.rounds

    def defend(self, defence: str) -> None:
        """Blue's move; where the machine is Red, it answers. Nothing while a defence is set, or after the last round."""
        if not self.sent and not self.over and defence in self.left:
            self.sent = defence
            if self.mode.value == BLUE:
                self.attack(self.best(defence))
            else:
                self._show()

    def attack(self, attack: str) -> None:
        """Red's move; where the machine is Blue, the next round begins. Nothing before Blue has moved."""
        if self.sent:
            self.played.append((self.sent, attack))
            self.sent = ""
            self._begin()

    def restart(self) -> None:
        """Forget all rounds."""
        self.played, self.sent = [], ""
        self._begin()

    def _begin(self) -> None:
        if self.mode.value == RED and not self.over:
            self.sent = min(self.left, key=self.worst)
        self._show()

    # -- what is to be seen --------------------------------------------------------------------------------------------

    def _show(self) -> None:
        self.defence.options = [(f"{name}: {_points(self.costs[name])}", name) for name in self.left]
        self.defence.index = 0 if self.left else None  # else none is chosen, and the button would do nothing
        self.blue.layout.display = "none" if self.sent or self.over else None
        self.red.layout.display = None if self.sent else "none"
        self.again.layout.display = None if self.played else "none"
        turn = (
            f"Blue sends: <b>{html.escape(self.sent)}</b> ({_points(self.costs[self.sent])}). Red, attack."
            if self.sent
            else "Blue, choose a defence."
        )
        number = f"<b>Round {len(self.played) + 1} of {self.rounds}.</b> "
        self.words.value = sheet.paragraph(self.score if self.over else number + turn, status=True)
        self.sheet.value = "".join(map(self._round, self.played[::-1]))

    def page(self, seconds: float, room: int) -> str:
        """The whole board: a menu of Blue's defences, and one of Red's attacks."""
        blue, red = [*self.board], self.attacks
        menus = [Control(team, tuple(names), 0, "menu") for team, names in (("Blue", blue), ("Red", red))]
        note = "Set both teams. In the notebook two players take turns, or one plays against the machine."
        return turned(menus, lambda i, j: self._round((blue[i], red[j])), note)

    def _round(self, move: tuple[str, str]) -> str:
        """A round that was played: the photograph, what Red has of it, and what Red could have had."""
        defence, attack = move
        best, value = self.best(defence), self.psnr[move]
        images = {
            "the photograph": self.photograph,
            attack: self.board[defence][attack],
            f"best: {best}": self.board[defence][best],
        }
        told = (
            f"<b>{html.escape(defence)}</b>, attacked by {html.escape(attack)}: {value:.1f} dB, {self.gain(*move):.1f} counted above the "
            f"baseline ({self.floor:.1f} dB); the defence {_points(self.costs[defence])}. Blue loses {self.loss(*move):.1f}."
        )
        return sheet.paragraph(told) + sheet.row(sheet.named(image, name) for name, image in images.items())

    @property
    def score(self) -> str:
        """The result in a few sentences."""
        lost = sum(self.loss(*move) for move in self.played)
        most = sum(self.worst(defence) for defence, _ in self.played)
        least = sum(sorted(map(self.worst, self.board))[: self.rounds])
        return (
            f"<b>Blue has lost {lost:.1f} in {self.rounds} rounds.</b> With these defences the best attacks would have taken {most:.1f}. "
            f"With the best defences, Blue would have lost {least:.1f} to the best attacks."
        )  # fmt: skip


def _points(cost: float) -> str:
    """A cost in words; below zero the network gains."""
    return f"gains {-cost:.1f} points" if round(cost, 1) < 0 else f"costs {abs(cost):.1f} points"
