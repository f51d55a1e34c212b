"""What every live control stands on: a widget that leaves a page behind, its buttons, and the plain HTML that such a page is made of.

What a widget shows without a kernel is known only at the end of a run, since later cells finish a race or send a redaction. So there
`leave_pages` puts HTML beside each widget that the lab has shown: controls, and a frame for each setting that was drawn beforehand.
"""

import asyncio
import contextlib
import html
import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import current_thread
from typing import Any

import ipywidgets
from IPython import get_ipython
from IPython.display import display
from ipywidgets.widgets import widget as registry

WRAP = {"flex_flow": "row wrap"}  # layout of a row that a narrow page breaks
ROOM = 850_000  # characters of HTML for all widgets of a lab: a megabyte a page, with what else is in it
PLAIN = "margin:0;text-align:left;color:inherit"  # themes centre figures and grey their captions
ROW = 'style="display:flex;flex-wrap:wrap;align-items:center;gap:.1em .8em;margin:.3em 0"'

# All the script there is. It starts from the control that was moved, so two figures on one page cannot meddle with each other. Where
# the setting has no frame of its own, the other controls go back to where they rested.
TURN = (
    "const inputs = [...this.querySelectorAll('[data-control]')], frames = [...this.querySelectorAll('[data-frame]')];"
    "const at = () => inputs.map(one => one.type === 'checkbox' ? Number(one.checked) : one.value).join('-');"
    "const find = () => frames.find(frame => frame.dataset.frame === at());"
    "if (!find()) inputs.filter(one => one !== event.target).forEach(one => {"
    " one.value = one.dataset.rest; one.checked = one.dataset.rest === '1'; });"
    "const found = find(); frames.forEach(frame => frame.hidden = frame !== found);"
    "inputs.filter(one => one.type === 'range').forEach(one => { const word = JSON.parse(one.dataset.options)[one.value];"
    " one.setAttribute('aria-valuetext', word); one.parentElement.nextElementSibling.textContent = word; });"
)

Setting = tuple[int, ...]  # the position of each control, counted from 0


class Live(ipywidgets.VBox):
    """A widget that has a page for readers without a kernel."""

    was_shown = False
    settings = 0  # how many a page takes its time to draw; 0 for what is there already

    def __repr__(self) -> str:
        return f"{type(self).__name__}, a live control; it needs a running kernel."

    def page(self, seconds: float, room: int) -> str:
        """HTML that says the same without Python, made in so many seconds of the processor and characters, if it can be had in fewer."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        self.was_shown = True
        display(self._repr_mimebundle_(), raw=True, display_id=self.model_id)


def leave_pages(seconds: float) -> None:
    """Put its page beside each widget of this kernel that was shown.

    seconds: for each explorer. They are one sum, of which small grids take first, and leave what they do not need; so it is with the room.
    """
    live = [one for one in list(registry._instances.values()) if isinstance(one, Live) and one.was_shown]
    left, room = seconds * sum(one.settings > 0 for one in live), ROOM
    for done, one in enumerate(sorted(live, key=lambda one: one.settings)):
        began, waiting = time.thread_time(), len(live) - done
        page = one.page(left / waiting, room // waiting)
        left, room = left - (time.thread_time() - began), room - len(page)
        display({**one._repr_mimebundle_(), "text/html": page}, raw=True, display_id=one.model_id, update=True)


def button(name: str, tip: str, act: Callable[[], object], **layout: str) -> ipywidgets.Button:
    """A button whose clicks are worked on the event loop on which it was made, whatever thread they arrive on.

    With some kernels (ipykernel 7.0 to 7.3) JupyterLab's clicks arrive on a thread of their own, beside the cell that runs.
    """
    button, maker, loop = ipywidgets.Button(description=name, tooltip=tip, layout=layout), current_thread(), None
    with contextlib.suppress(RuntimeError):  # plain Python has none
        loop = asyncio.get_running_loop()

    def click(_: ipywidgets.Button) -> None:
        act() if loop is None or current_thread() is maker else loop.call_soon_threadsafe(act)

    button.on_click(click)
    return button


@dataclass(frozen=True)
class Control:
    """What a reader moves: its label, the words at its positions, the position at which it rests; a "slider", "menu" or "box"."""

    label: str
    options: tuple[str, ...]
    rest: int = 0
    kind: str = "slider"

    def tag(self) -> str:
        """The HTML; a control that cannot be moved is told in words."""
        label, *words = map(html.escape, (self.label, *self.options))
        word, mark = words[self.rest], f'data-control data-rest="{self.rest}" autocomplete="off"'
        if len(words) == 1:
            inside = f'{label}: {word}<input type="hidden" {mark} value="0">'
        elif self.kind == "box":
            inside = f'<label><input type="checkbox" {mark}{" checked" * self.rest}> {label}</label>'
        elif self.kind == "slider":
            mark += f' min="0" max="{len(words) - 1}" step="1" value="{self.rest}" aria-valuetext="{word}"'
            mark += f' data-options="{html.escape(json.dumps(self.options))}"'
            bar = f'<input type="range" {mark} style="vertical-align:middle;width:20em;max-width:38vw">'
            inside = f'<label style="flex:0 1 auto">{label} {bar}</label><output aria-hidden="true">{word}</output>'
        else:
            chosen = [" selected" * (n == self.rest) for n in range(len(words))]
            choices = "".join(f'<option value="{n}"{chosen[n]}>{one}</option>' for n, one in enumerate(words))
            menu = f'<select {mark} style="max-width:100%">{choices}</select>'
            inside = f'<label style="max-width:100%">{label} {menu}</label>'
        return f"<div {ROW}>{inside}</div>"


def turning(controls: Sequence[Control], frames: Mapping[Setting, str], note: str = "", above: str = "") -> str:
    """A <figure> of controls and frames in HTML that needs nothing from outside. Sliders and menus take the arrow keys by themselves.

    frames: setting -> its HTML; the setting at rest has one. A setting without a frame sends the other controls back.
    note: what stands below the controls, such as that the notebook has more settings.  above: HTML that stands above every frame.
    Where scripts are off the frame at rest is there, and where the controls stand.
    """
    rest = tuple(control.rest for control in controls)
    shown = "".join(
        f'<div data-frame="{"-".join(map(str, setting))}"{" hidden" * (setting != rest)}>{frame}</div>'
        for setting, frame in frames.items()
    )
    stand = "; ".join(f"{control.label}: {control.options[control.rest]}" for control in controls)
    below = f'<p class="privlab-live">{html.escape(note)}</p>' if note else ""
    return (
        f'<figure class="privlab-flipbook" style="{PLAIN}" oninput="{html.escape(TURN)}" onchange="this.oninput(event)">'
        f'<div class="privlab-turn">{"".join(control.tag() for control in controls)}{below}</div>'
        f'{above}<div aria-live="polite">{shown}</div>'
        f"<noscript><style>.privlab-flipbook .privlab-turn{{display:none!important}}</style>"
        f"<p>{html.escape(stand)}</p></noscript></figure>"
    )


def turned(controls: Sequence[Control], draw: Callable[..., str], note: str = "") -> str:
    """`turning` with a frame for every setting.  draw: the position of each control -> HTML."""
    settings = itertools.product(*(range(len(control.options)) for control in controls))
    return turning(controls, {setting: draw(*setting) for setting in settings}, note)


def as_html(thing: Any) -> str:
    """What a notebook shows of a thing, as HTML; it is asked in one."""
    bundle = get_ipython().display_formatter.format(thing)[0]
    if "text/markdown" in bundle and "text/html" not in bundle:
        from nbconvert.filters import markdown2html  # it takes half a second to import

        return str(markdown2html(bundle["text/markdown"]))
    return str(bundle.get("text/html") or f"<pre>{html.escape(bundle['text/plain'])}</pre>")
