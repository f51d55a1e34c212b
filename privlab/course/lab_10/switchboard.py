"""Switches between a ResNet's way and a ConvNeXt's: the network that they make, and what a search found behind it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any

from IPython.display import HTML
from torch import Tensor

from privlab import metrics, models
from privlab.notebook.explore import Explorer
from privlab.notebook.network_panel import bar, panel, stack, thumbs

PLACES = {"the stem": (-1, 0), "a block": (0, 0)}
Setting = tuple[int, ...]  # a 0 or a 1 for each switch


class Switchboard(Explorer):
    """The switches.  ssim: how near each image comes to the photograph, by setting; `ranked` has the lowest first."""

    def __init__(
        self,
        step: int,
        switches: Mapping[str, Sequence[Mapping[str, Any]]],
        words: Mapping[str, tuple[str, str]],
        found: Mapping[Setting, Tensor],
        truth: Tensor,
    ) -> None:
        """step: of the morph, 1 to 14, whose design is switched.  switches: name -> the changes when it is off, and when it is on.

        words: name -> what it is then, in words.  found: setting -> image, (1, 3, height, width) in [0, 1].  truth: the photograph.
        """
        self.step, self.switches, self.words, self.truth = step, switches, words, truth.cpu()
        self.ssim = {one: metrics.ssim(image.cpu(), self.truth).item() for one, image in found.items()}
        self.ranked = sorted(found, key=self.ssim.__getitem__)
        self.found = {one: found[one].cpu() for one in self.ranked}
        self.layers = cache(self._layers)
        labels = [f"{name}: {off} → {on}" for name, (off, on) in words.items()]
        ticks: dict[str, tuple[Hashable, ...]] = dict.fromkeys(labels, (False, True))
        super().__init__(self._setting, ticks, dict.fromkeys(labels, False), thumbs(self.found.values()))

    @property
    def effects(self) -> dict[str, float]:
        """Name -> main effect of the switch on the PSNR, in dB: the mean where it is on minus the mean where it is off."""
        sides = {
            name: [[self._psnr(one) for one in self.found if one[place] == on] for on in (0, 1)]
            for place, name in enumerate(self.switches)
        }
        return {name: sum(on) / len(on) - sum(off) / len(off) for name, (off, on) in sides.items()}

    def said(self, setting: Setting) -> str:
        """A setting in words."""
        return ", ".join(self.words[name][on] for name, on in zip(self.switches, setting, strict=True))

    def _psnr(self, setting: Setting) -> float:
        return metrics.psnr(self.found[setting], self.truth).item()

    def _layers(self, setting: Setting) -> dict[str, list[str]]:
        """The stem and the first block of the first stage, in words."""
        changes = {k: v for ways, on in zip(self.switches.values(), setting, strict=True) for k, v in ways[on].items()}
        net = models.morph.build(self.step, width=0.25, depths=(1, 1, 1, 1), **changes)
        return {name: models.morph.outline(net, *place) for name, place in PLACES.items()}

    def _setting(self, **ticked: bool) -> HTML:
        setting = tuple(map(int, ticked.values()))
        off = self.layers((0,) * len(setting))
        parts = {name: (off[name], layers) for name, layers in self.layers(setting).items()}
        place = self.ranked.index(setting) + 1
        bars = [
            bar("SSIM", self.ssim[setting], 1.0, f"{self.ssim[setting]:.2f}"),
            f"<p>number {place} of {len(self.ranked)} from the left, where the smallest leak is</p>",
        ]
        score = f"SSIM {self.ssim[setting]:.2f}, {self._psnr(setting):.1f} dB"
        return panel(place, len(self.found), self.found[setting], self.truth, score, stack(parts), bars)
