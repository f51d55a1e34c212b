"""The client's pen: strike parts of an update out within a budget, send the rest, and see what the attacks make of it."""

import html
from collections.abc import Callable, Collection, Mapping, Set

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Control, Live, button, turned

RECOGNISED = 0.5  # SSIM: above it an image is called recognised, as in lab 04
BUDGETS = {"15%": 0.15, "50%": 0.5, "90%": 0.9}  # shares of all numbers that may be struck out
LACKS = "it lacks a gradient that it needs"
NO_IMAGE = f'<div style="box-sizing:border-box;height:{sheet.SIDE}px;border:1px dashed currentColor"></div>'

Attack = Callable[[Set[str]], Tensor | None]  # the parts that are sent -> an image; None: cannot be run


class Desk(Live):
    """A box to tick for each part of the update; a struck part is not sent.

    `tries` and `ssim` hold what was sent so far: the parts struck out -> attack -> the image that it made, and how near it came.
    """

    def __init__(self, photograph: Tensor, parts: Mapping[str, int], attacks: Mapping[str, Attack]) -> None:
        """photograph: the client's, (1, channels, height, width) in [0, 1].  parts: name -> how many numbers it has.

        attacks: name -> function of the parts that are sent, giving an image of the photograph's shape, or None where it cannot be run.
        """
        self.photograph, self.parts, self.attacks = photograph.cpu(), parts, attacks
        self.tries, self.ssim = dict[frozenset[str], dict[str, Tensor]](), dict[frozenset[str], dict[str, float]]()
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        self.budget = ipywidgets.ToggleButtons(options=BUDGETS, description="budget")
        look = {"indent": False, "layout": {"width": "15em", "max_width": "96%"}}
        shares = {name: f"{name}, {_percent(self.share([name]))}" for name in parts}
        self.boxes = {name: ipywidgets.Checkbox(description=words, **look) for name, words in shares.items()}
        for control in (self.budget, *self.boxes.values()):
            control.observe(lambda _: self._count(), "value")
        self.send = button("Send the rest", "All attacks are run on what is sent", lambda: self.redact(self._struck()))
        self.send.add_class(SKIP)  # a search takes seconds: too long for a sweep of the controls
        title = ipywidgets.HTML(sheet.paragraph("Tick what you strike out:"))
        rows = ipywidgets.HBox([*self.boxes.values()], layout=WRAP)
        super().__init__([self.budget, title, rows, self.words, self.send, self.sheet])
        self._count()

    def share(self, struck: Collection[str]) -> float:
        """What part of all numbers of the update these parts have, from 0 to 1."""
        return sum(self.parts[name] for name in struck) / sum(self.parts.values())

    def redact(self, struck: Collection[str]) -> dict[str, float]:
        """Strike these parts out, send the rest, and run all attacks that can be run on it: attack -> SSIM of its image."""
        key = frozenset(struck)
        if key not in self.tries:
            self.words.value = sheet.paragraph("The attacks are running. The search takes some seconds.", status=True)
            made = {name: attack(self.parts.keys() - key) for name, attack in self.attacks.items()}
            images = self.tries[key] = {name: image.cpu() for name, image in made.items() if image is not None}
            self.ssim[key] = {name: metrics.ssim(image, self.photograph).item() for name, image in images.items()}
            self._count()
        least = self.cheapest
        best = "No redaction so far hides it." if least is None else f"The smallest that hides it: {_percent(least)}."
        told = sheet.paragraph(f"<b>Redactions sent: {len(self.tries)}.</b> {best}", status=True)
        self.sheet.value = told + "".join(map(self._row, reversed(self.tries)))
        return self.ssim[key]

    @property
    def cheapest(self) -> float | None:
        """The smallest share that was struck out and hid the photograph; None while nothing did."""
        return min((self.share(key) for key in self.tries if self._hidden(key)), default=None)

    def page(self, seconds: float, room: int) -> str:
        """The redactions that were sent, in their order."""
        menu, sent = Control("struck out", tuple(map(self._named, self.tries)), 0, "menu"), [*self.tries]
        note = "These were sent. In the notebook you strike out what you like, within a budget."
        return turned([menu], lambda at: self._row(sent[at]), note)

    def _hidden(self, struck: frozenset[str]) -> bool:
        return max(self.ssim[struck].values(), default=0.0) <= RECOGNISED

    def _struck(self) -> frozenset[str]:
        return frozenset(name for name, box in self.boxes.items() if box.value)

    def _count(self) -> None:
        struck, budget = self._struck(), self.budget.value
        self.send.disabled = over = self.share(struck) > budget or len(struck) == len(self.parts)
        more = "That is too much: untick a part." if over else "The rest is sent."
        told = f"You strike out {_percent(self.share(struck))} of all numbers. Your budget is {budget:.0%}. {more}"
        self.words.value = sheet.paragraph(told, status=True)

    def _named(self, struck: Collection[str]) -> str:
        names = ", ".join(name for name in self.parts if name in struck) or "nothing"
        return f"{names} ({_percent(self.share(struck))})"

    def _row(self, struck: frozenset[str]) -> str:
        """A redaction that was sent: the photograph, and what each attack made of the rest."""
        made, result = self.tries[struck], "hidden" if self._hidden(struck) else "recognised"
        told = f"Struck out: {html.escape(self._named(struck))}. The photograph is <b>{result}</b>."
        images = {name: sheet.figure(NO_IMAGE, f"{name}: {LACKS}", sheet.FIXED) for name in self.attacks}
        images |= {name: sheet.named(one, f"{name}: SSIM {self.ssim[struck][name]:.2f}") for name, one in made.items()}
        return sheet.paragraph(told) + sheet.row([sheet.named(self.photograph, "the photograph"), *images.values()])


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.999 else f"{share:.2%}"
