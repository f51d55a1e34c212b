"""The client's pen: strike parts of an update out within a budget, send the rest, and see what the attacks make of it."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Mapping

import ipywidgets
from torch import Tensor

from privlab import metrics
from privlab.notebook import sheet
from privlab.notebook.control_sweep import SKIP
from privlab.notebook.live import WRAP, Live, button
from privlab.notebook.pages import Control, turned

RECOGNISED = 0.5  # SSIM: above it an image is called recognised, as in lab 04
BUDGETS = (0.15, 0.5, 0.9)  # shares of all numbers that may be struck out
NO_IMAGE = f'<div style="box-sizing:border-box;height:{sheet.SIDE}px;border:1px dashed currentColor"></div>'

Attack = Callable[
    [frozenset[str]], Tensor | None
]  # names of the parts that are sent -> an image, or None: cannot be run


class Desk(Live):
    """A box to tick for each part of the update; a struck part is not sent.

    `tries` holds what was sent so far: the parts struck out -> attack -> the image that it made.
    """

    def __init__(self, photograph: Tensor, parts: Mapping[str, int], attacks: Mapping[str, Attack]) -> None:
        """photograph: the client's, (1, channels, height, width) in [0, 1].  parts: name -> how many numbers it has.

        attacks: name -> function of the parts that are sent, giving an image of the photograph's shape, or None where it cannot be run.
        """
        self.photograph, self.parts, self.attacks = photograph.cpu(), dict(parts), dict(attacks)
        self.tries = dict[frozenset[str], dict[str, Tensor]]()
        self.words, self.sheet = ipywidgets.HTML(), ipywidgets.HTML()
        options = [(f"{each:.0%}", each) for each in BUDGETS]
        self.budget = ipywidgets.ToggleButtons(
            options=options, description="budget", style={"description_width": "5em"}
        )
        layout = {"width": "15em", "max_width": "96%"}
        self.boxes = {
            name: ipywidgets.Checkbox(
                description=f"{name}, {_percent(self.share([name]))}", indent=False, layout=layout
            )
            for name in self.parts
        }
        self.send = button("Send the rest", "All attacks are run on what is sent", self._send)
        self.send.add_class(SKIP)  # a search takes seconds: too long for a sweep of the controls
        for control in (self.budget, *self.boxes.values()):
            control.observe(lambda _: self._count(), "value")
        rows = ipywidgets.HBox([*self.boxes.values()], layout=WRAP)
        title = ipywidgets.HTML(sheet.paragraph("Tick what you strike out:"))
        super().__init__([self.budget, title, rows, self.words, self.send, self.sheet])
        self._count()

    def __repr__(self) -> str:
        return f"An update of {len(self.parts)} parts to strike out, and {len(self.attacks)} attacks; it needs a running kernel."

    @property
    def struck(self) -> frozenset[str]:
        """The parts that are ticked."""
        return frozenset(name for name, box in self.boxes.items() if box.value)

    def share(self, struck: Collection[str]) -> float:
        """What part of all numbers of the update these parts have, from 0 to 1."""
        return sum(self.parts[name] for name in struck) / sum(self.parts.values())

    def redact(self, struck: Collection[str]) -> dict[str, float]:
        """Strike these parts out, send the rest, and run all attacks: attack -> SSIM of its image.

        struck: names of parts; may be empty. An attack that cannot be run on what is left is not in the result.
        Raises ValueError for a part that is none, or where nothing is left to send.
        """
        key, sent = frozenset(struck), self.parts.keys() - set(struck)
        if key - self.parts.keys() or not sent:
            raise ValueError(f"struck={sorted(key)}: give some of {', '.join(self.parts)}, and leave one to send")
        if key not in self.tries:
            made = {name: attack(frozenset(sent)) for name, attack in self.attacks.items()}
            self.tries[key] = {name: image.cpu() for name, image in made.items() if image is not None}
        best = "No redaction so far hides it."
        if self.cheapest is not None:
            best = f"The smallest that hides it: {_percent(self.cheapest)}."
        told = sheet.paragraph(f"<b>Redactions sent: {len(self.tries)}.</b> {best}", status=True)
        self.sheet.value = told + "".join(map(self._row, [*self.tries][::-1]))
        return self.ssim(key)

    def ssim(self, struck: Collection[str]) -> dict[str, float]:
        """Attack -> SSIM of the image that it made of a redaction that was sent."""
        images = self.tries[frozenset(struck)]
        return {name: metrics.ssim(image, self.photograph).item() for name, image in images.items()}

    def hides(self, struck: Collection[str]) -> bool:
        """Whether no attack's image is recognised after this redaction, which was sent before."""
        return max(self.ssim(struck).values(), default=0.0) <= RECOGNISED

    @property
    def cheapest(self) -> float | None:
        """The smallest share that was struck out and hid the photograph; None while nothing did."""
        return min((self.share(key) for key in self.tries if self.hides(key)), default=None)

    def page(self, seconds: float, room: int) -> str:
        """The redactions that were sent, in their order."""
        if not (sent := [*self.tries]):
            return "<p>Nothing was sent.</p>"
        menu = Control("struck out", tuple(map(self._named, sent)), 0, "menu")
        note = "These were sent. In the notebook you strike out what you like, within a budget."
        return turned([menu], lambda at: self._row(sent[at]), note)

    def _send(self) -> None:
        self.words.value = sheet.paragraph("The attacks are running. The search takes some seconds.", status=True)
        self.redact(self.struck)
        self._count()

    def _count(self) -> None:
        share, budget = self.share(self.struck), self.budget.value
        self.send.disabled = over = share > budget or len(self.struck) == len(self.parts)
        more = "That is too much: untick a part." if over else "The rest is sent."
        told = f"You strike out {_percent(share)} of all numbers. Your budget is {budget:.0%}. {more}"
        self.words.value = sheet.paragraph(told, status=True)

    def _named(self, struck: frozenset[str]) -> str:
        names = ", ".join(name for name in self.parts if name in struck) or "nothing"
        return f"{names} ({_percent(self.share(struck))})"

    def _row(self, struck: frozenset[str]) -> str:
        """A redaction that was sent: the photograph, and what each attack made of the rest."""
        ssim, result = self.ssim(struck), "hidden" if self.hides(struck) else "recognised"
        told = f"Struck out: {html.escape(self._named(struck))}. The photograph is <b>{result}</b>."
        figures = [sheet.named(self.photograph, "the photograph")]
        for name in self.attacks:
            if name in ssim:
                figures.append(sheet.named(self.tries[struck][name], f"{name}: SSIM {ssim[name]:.2f}"))
            else:
                words = f"{html.escape(name)}: it lacks a gradient that it needs"
                figures.append(sheet.figure(NO_IMAGE, words, sheet.FIXED))
        return sheet.paragraph(told) + sheet.row(figures)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.999 else f"{share:.2%}"
