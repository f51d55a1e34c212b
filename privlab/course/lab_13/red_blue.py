"""Red team and blue team: Blue sets the defence of a gradient, Red picks the attack on it; two players, or one against the machine."""

import html
from collections.abc import Mapping
from functools import partial

import ipywidgets
import pandas as pd
from torch import Tensor

from privlab import metrics
from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Control, Live, button, turned

TWO, BLUE, RED = "two players", "you are Blue", "you are Red"
ROUNDS = 4
MOST = 20.0  # dB above the baseline that count: more shows no more of the photograph


class Duel(Live):
    """Each round Blue takes a defence that was not taken yet, and Red answers with an attack.

    played: (defence, attack) of each round.  sent: the defence that waits for Red.
    psnr, gain, loss: tables, a row a defence and a column an attack: dB, those of them that count, and what Blue loses.
    best, worst: by defence, Red's best attack, and what Blue loses to it.  floor: of the baseline, in dB.
    """

    def __init__(
        self, photograph: Tensor, baseline: Tensor, board: Mapping[str, Mapping[str, Tensor]], costs: Mapping[str, float]
    ) -> None:  # fmt: skip
        """photograph: the client's, (1, channels, height, width) in [0, 1].  baseline: made without the gradient, of the same shape.

        board: defence -> attack, the same for each -> what it recovers.  costs: defence -> points of accuracy that it costs.
        """
        self.photograph, self.board, self.costs = photograph.cpu(), board, pd.Series(costs)[[*board]]
        self.floor = self._decibels(baseline)
        self.psnr = pd.DataFrame(board).map(self._decibels).T
        self.gain = (self.psnr - self.floor).clip(0, MOST)
        self.loss = self.gain.add(self.costs, axis=0)
        self.best, self.worst = self.psnr.idxmax(axis=1), self.loss.max(axis=1)
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        self.mode = ipywidgets.ToggleButtons(options=(TWO, BLUE, RED), description="players")
        self.mode.observe(lambda _: self.restart(), "value")
        self.defence = ipywidgets.Dropdown(description="Blue", layout={"width": "30em", "max_width": "96%"})
        send = button("Send the gradient", "Blue's defence is set", lambda: self.defend(self.defence.value))
        picks = [button(name, f"Red attacks: {name}", partial(self.attack, name), width="auto") for name in self.psnr]
        self.again = button("Play again", "From the first round on", self.restart)
        for each in (self.mode, self.defence, send, *picks, self.again):
            each.add_class(SKIP)  # a sweep of the controls must not play: the page is to show the first round
        self.blue = ipywidgets.HBox([self.defence, send], layout=WRAP)
        self.red = ipywidgets.HBox([ipywidgets.Label("Red:"), *picks], layout=WRAP)
        super().__init__()
        self.restart()

    def restart(self) -> None:
        self.played, self.sent = list[tuple[str, str]](), ""
        self._go_on()

    def defend(self, defence: str) -> None:
        """Blue's move. Nothing where one is made, or after the last round, when a double click arrives."""
        if not self.sent and len(self.played) < ROUNDS:
            self.sent = defence
            self._go_on()

    def attack(self, attack: str) -> None:
        """Red's move. Nothing before Blue has moved."""
        if self.sent:
            self.played.append((self.sent, attack))
            self.sent = ""
            self._go_on()

    def page(self, seconds: float, room: int) -> str:
        """The whole board: a menu of Blue's defences, and one of Red's attacks."""
        blue, red = tuple(self.psnr.index), tuple(self.psnr)
        note = "Set both teams. In the notebook two players take turns, or one plays against the machine."
        menus = [Control("Blue", blue, 0, "menu"), Control("Red", red, 0, "menu")]
        return turned(menus, lambda i, j: self._round(blue[i], red[j]), note)

    def _go_on(self) -> None:
        """The machine's move, if it has one; then what is to be seen."""
        if self.mode.value == BLUE and self.sent:
            return self.attack(self.best[self.sent])
        used, over = [defence for defence, _ in self.played], len(self.played) == ROUNDS
        left = self.worst.drop(used)
        if self.mode.value == RED and not self.sent and not over:
            self.sent = str(left.idxmin())
        if over:
            told = (
                f"<b>Blue has lost {sum(self.loss.at[move] for move in self.played):.1f} in {ROUNDS} rounds.</b> "
                f"With these defences the best attacks would have taken {self.worst[used].sum():.1f}. "
                f"With the best defences, Blue would have lost {self.worst.nsmallest(ROUNDS).sum():.1f} to the best attacks."
            )
        else:
            asked = "Blue, choose a defence."
            if self.sent:
                asked = f"Blue sends: <b>{html.escape(self.sent)}</b> ({self._cost(self.sent)}). Red, attack."
            told = f"<b>Round {len(used) + 1} of {ROUNDS}.</b> {asked}"
        self.words.value = sheet.paragraph(told, status=True)
        self.sheet.value = "".join(self._round(*move) for move in self.played[::-1])
        self.defence.options = [(f"{name}: {self._cost(name)}", name) for name in left.index]
        self.defence.index = 0  # else none is chosen, and the button would do nothing
        turn = [] if over else [self.red if self.sent else self.blue]
        self.children = [self.mode, self.words, *turn, self.sheet, *[self.again][: len(used)]]

    def _round(self, defence: str, attack: str) -> str:
        """A round that was played: the photograph, what Red has of it, and what Red could have had."""
        best, row, move = self.best[defence], self.board[defence], (defence, attack)
        images = {"the photograph": self.photograph, attack: row[attack], f"best: {best}": row[best]}
        told = (
            f"<b>{html.escape(defence)}</b>, attacked by {html.escape(attack)}: {self.psnr.at[move]:.1f} dB, "
            f"{self.gain.at[move]:.1f} counted above the baseline ({self.floor:.1f} dB); the defence {self._cost(defence)}. "
            f"Blue loses {self.loss.at[move]:.1f}."
        )
        return sheet.paragraph(told) + sheet.row(sheet.named(image, name) for name, image in images.items())

    def _decibels(self, image: Tensor) -> float:
        return metrics.psnr(image.cpu(), self.photograph).item()

    def _cost(self, defence: str) -> str:
        """In words; below zero the network gains."""
        cost = round(self.costs[defence], 1)
        return f"gains {-cost:.1f} points" if cost < 0 else f"costs {abs(cost):.1f} points"
