"""Switches between a ResNet's way and a ConvNeXt's: the network that they make, and what a search found behind it.

All combinations were searched before, so it is HTML with a few lines of script, and is switched in the static book as in a notebook.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from torch import Tensor

from privlab import metrics, models
from privlab.notebook.network_panel import MARKED, PLAIN, bar, image, panel, stack

THUMB = 34  # CSS pixels of an image in the row
SMALL: dict[str, Any] = dict(width=0.25, depths=(1, 1, 1, 1))
Setting = tuple[int, ...]  # a 0 or a 1 for each switch

# All the script there is. It starts from the box that was ticked, so two of these on one page cannot meddle with each other.
FLIP = (
    "const all = this.closest('figure');"
    "const n = [...all.querySelectorAll('input')].map(box => box.checked ? '1' : '0').join('');"
    "all.querySelectorAll('[data-setting]').forEach(part => part.hidden = part.dataset.setting !== n);"
    f"all.querySelectorAll('[data-thumb]').forEach(one => one.style.cssText = one.dataset.thumb === n ? '{MARKED}' : '');"
)


class Switchboard:
    """The switches.  `ssim` and `psnr` say how near each image comes to the photograph, by setting; `ranked` has the lowest SSIM first."""

    def __init__(
        self,
        step: int,
        switches: Mapping[str, Sequence[Mapping[str, Any]]],
        words: Mapping[str, Sequence[str]],
        found: Mapping[Setting, Tensor],
        truth: Tensor,
    ) -> None:
        """step: of the morph, 1 to 14, whose design is switched.  switches: name -> the changes when it is off, and when it is on.

        words: name -> what it is then, in words.  found: setting -> image, (1, 3, height, width) in [0, 1].  truth: the photograph.
        Raises ValueError for switches without words, a setting without an image, or images that are no match.
        """
        settings = [*itertools.product((0, 1), repeat=len(switches))]
        if missing := [name for name in switches if len(words.get(name, ())) != 2]:
            raise ValueError(f"words: {missing[0]!r} needs two, for off and for on; got {words.get(missing[0])!r}")
        if missing_settings := [one for one in settings if one not in found]:
            raise ValueError(
                f"found: there is no image for {missing_settings[0]}; give one for each of {len(settings)} settings"
            )
        self.step, self.switches, self.words = step, switches, words
        self.found, self.truth = {one: found[one].cpu() for one in settings}, truth.cpu()
        self.ssim = {one: metrics.ssim(shown, self.truth).item() for one, shown in self.found.items()}
        self.psnr = {one: metrics.psnr(shown, self.truth).item() for one, shown in self.found.items()}

    @property
    def ranked(self) -> list[Setting]:
        """The settings, from the one that gives least away to the one that gives most."""
        return sorted(self.found, key=lambda one: self.ssim[one])

    @property
    def effects(self) -> dict[str, float]:
        """Name -> main effect of the switch on the PSNR, in dB: the mean where it is on minus the mean where it is off."""
        sides = {
            name: [[v for one, v in self.psnr.items() if one[place] == on] for on in (0, 1)]
            for place, name in enumerate(self.switches)
        }
        return {name: sum(on) / len(on) - sum(off) / len(off) for name, (off, on) in sides.items()}

    def __repr__(self) -> str:
        low, high = self.ranked[0], self.ranked[-1]
        ends = " to ".join(f"{self.ssim[one]:.2f} ({self.said(one)})" for one in (low, high))
        return f"SSIM of the reconstruction over {len(self.found)} settings of {len(self.switches)} switches: {ends}"

    def said(self, setting: Setting) -> str:
        """A setting in words."""
        return ", ".join(self.words[name][on] for name, on in zip(self.switches, setting, strict=True))

    def changes(self, setting: Setting) -> dict[str, Any]:
        """What a setting changes in the step."""
        return {
            k: v
            for (off, on), yes in zip(self.switches.values(), setting, strict=True)
            for k, v in (on if yes else off).items()
        }

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.tag(), "text/plain": repr(self)}

    def tag(self) -> str:
        """The <figure>: a box to tick for each switch, all of them off; the network that they make; all images, least leak first."""
        boxes = "".join(
            f'<label style="display:block;margin:.15em 0"><input type="checkbox" autocomplete="off" onchange="{html.escape(FLIP)}"> '
            f"{html.escape(name)}: {html.escape(off)} <strong>→ {html.escape(on)}</strong></label>"
            for name, (off, on) in self.words.items()
            if name in self.switches
        )
        row = "".join(map(self._thumb, self.ranked))
        return (
            f'<figure class="privlab-switches" style="{PLAIN};max-width:44em">'
            f'<fieldset style="border:1px solid currentColor;padding:.3em .8em;margin:0"><legend>switches</legend>{boxes}</fieldset>'
            f'<div aria-live="polite" style="margin-top:.6em">{"".join(map(self._setting, self.found))}</div>'
            f'<p style="margin:.8em 0 .3em">all {len(self.found)} settings, the lowest SSIM on the left; yours is framed</p>'
            f'<div style="display:flex;flex-wrap:wrap;gap:5px">{row}</div></figure>'
        )

    @cached_property
    def layers(self) -> dict[Setting, dict[str, list[str]]]:
        """Setting -> the stem and the first block of the first stage, in words."""
        built = {one: models.morph.build(self.step, **SMALL, **self.changes(one)) for one in self.found}
        places = {"the stem": (-1, 0), "a block": (0, 0)}
        return {
            one: {name: models.morph.outline(net, *at) for name, at in places.items()} for one, net in built.items()
        }

    def _thumb(self, setting: Setting) -> str:
        look = "" if any(setting) else MARKED
        shown = image(self.found[setting], THUMB, f"{self.said(setting)}: SSIM {self.ssim[setting]:.2f}.")
        return f'<div><div data-thumb="{_key(setting)}" style="{look}">{shown}</div></div>'

    def _setting(self, setting: Setting) -> str:
        off = self.layers[(0,) * len(setting)]
        parts = {name: (off[name], layers) for name, layers in self.layers[setting].items()}
        place = self.ranked[::-1].index(setting) + 1
        bars = [
            bar("SSIM", self.ssim[setting], 1.0, f"{self.ssim[setting]:.2f}"),
            f'<p style="margin:.4em 0">number {place} of {len(self.found)}, the largest leak being number 1</p>',
        ]
        score = f"SSIM {self.ssim[setting]:.2f}, {self.psnr[setting]:.1f} dB"
        shown = panel(stack(parts), self.found[setting], self.truth, score, bars)
        return f'<div data-setting="{_key(setting)}"{" hidden" * any(setting)}>{shown}</div>'


def _key(setting: Setting) -> str:
    return "".join(map(str, setting))
